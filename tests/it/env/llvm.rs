//! The LLVM environment on real programs.

use std::io::{BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use sha1::{Digest, Sha1};
use steplake::datasets::{DatasetFolders, Datasets};
use steplake::env::llvm::probe::{ProbeOptions, pipelines, probe};
use steplake::env::llvm::{LlvmEnvironment, assemble};
use steplake::env::{Environment, Session, SessionError, Start, Started, Watch};
use steplake::ir::exported;
use steplake::model::{
    ActionIndex, Baselines, Benchmark, FailureKind, Outcome, Provenance, StateId, Step, Value,
};

use crate::fixtures::programs::{self, InTime as _, end_of, line_of};

const SPACE: &str = "llvm22-v1";

/// Two of the project's own programs.
fn programs() -> Vec<Benchmark> {
    let cache = tempfile::tempdir().unwrap();
    let settings = DatasetFolders {
        cache: cache.path().into(),
        apt_sources: cache.path().into(),
        mirrors: Vec::new(),
    };
    let datasets = Datasets::new(&settings);
    ["benchmark://steplake-v0/shortest_paths", "benchmark://steplake-v0/keyed_hash"]
        .map(|uri| datasets.benchmark(&uri.parse().unwrap()).unwrap())
        .into()
}

fn benchmark(program: &[u8]) -> Benchmark {
    let uri = "file:///program.bc".parse().unwrap();
    Benchmark { uri, program: program.into(), provenance: Provenance::default(), execution: None }
}

fn small() -> Benchmark {
    let text = b"define i32 @twice(i32 %n) {
        %slot = alloca i32
        store i32 %n, ptr %slot
        %value = load i32, ptr %slot
        %sum = add i32 %value, %value
        ret i32 %sum
    }";
    benchmark(&assemble(text).unwrap())
}

fn try_begin(
    session: &mut dyn Session,
    benchmark: &Benchmark,
    action_space: &str,
) -> Result<Started, SessionError> {
    let watch = Watch::default();
    session.start(&Start { benchmark, action_space, baselines: None, watch: &watch })
}

fn begin(session: &mut dyn Session, benchmark: &Benchmark) -> Started {
    try_begin(session, benchmark, SPACE).unwrap()
}

fn observe(environment: &LlvmEnvironment, session: &mut dyn Session, space: &str) -> Value {
    session.observe(environment.spec().observation_index(space).unwrap()).unwrap()
}

fn bitcode(environment: &LlvmEnvironment, session: &mut dyn Session) -> Vec<u8> {
    match observe(environment, session, "Bitcode") {
        Value::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

fn count(environment: &LlvmEnvironment, session: &mut dyn Session, space: &str) -> i64 {
    match observe(environment, session, space) {
        Value::Int(count) => count,
        other => panic!("{other:?}"),
    }
}

fn action(environment: &LlvmEnvironment, name: &str) -> ActionIndex {
    environment.spec().action_space(SPACE).unwrap().index_of(name).unwrap()
}

fn state(step: &Step) -> (StateId, bool) {
    match step.outcome {
        Outcome::State { id, changed, .. } => (id, changed),
        Outcome::Crashed(ref failure) => panic!("{failure:?}"),
    }
}

/// Actions that each do something to most programs.
const BUSY: [&str; 8] = [
    "sroa",
    "instcombine",
    "simplifycfg",
    "loop-rotate",
    "gvn",
    "inline",
    "loop-unroll",
    "globalopt",
];

/// Rewards to be compared: those that are not computed are NaN, which equals nothing.
fn bits(rewards: &[f64]) -> Vec<u64> {
    rewards.iter().map(|reward| reward.to_bits()).collect()
}

#[test]
fn the_environment_says_what_it_is() {
    let environment = LlvmEnvironment::new();
    let spec = environment.spec();
    assert!(spec.compiler.starts_with("LLVM 22."), "{}", spec.compiler);
    assert_eq!((spec.name.as_ref(), spec.target.as_str()), ("llvm-v0", "x86_64-pc-linux-gnu"));
    let spaces: Vec<_> = spec.action_spaces.iter().map(|space| space.name.as_str()).collect();
    let others = ["all-v0", "param-v0", "pipelines-v0", "v0"].map(|name| format!("llvm22-{name}"));
    let [all, parameters, pipelines, first] = others.each_ref().map(String::as_str);
    assert_eq!(spaces, [SPACE, all, "compilergym-v0", parameters, pipelines, first]);
    let rewards: Vec<&str> = spec.reward_spaces.iter().map(|space| space.name.as_ref()).collect();
    let counts = ["", "Norm", "O3", "Oz"].map(|scale| format!("IrInstructionCount{scale}"));
    let sizes = ["Bytes", "Norm", "O3", "Oz"].map(|scale| format!("ObjectTextSize{scale}"));
    assert_eq!(rewards, [counts, sizes].concat());
}

#[test]
fn a_state_proves_itself_and_is_a_program() {
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    let mut second = environment.session().unwrap();
    for program in programs() {
        let mut id = begin(session.as_mut(), &program).state;
        for name in BUSY {
            let bytes = bitcode(&environment, session.as_mut());
            assert_eq!(second.identify(&bytes).unwrap(), id);
            let Value::Bytes(stored) = observe(&environment, session.as_mut(), "State") else {
                panic!("a state is bytes");
            };
            assert_eq!(second.identify(&stored).unwrap(), id);
            let sha1 = StateId(Sha1::digest(&stored).into()).to_string();
            assert_eq!(observe(&environment, session.as_mut(), "IrSha1"), Value::Text(sha1));
            assert_eq!(begin(second.as_mut(), &benchmark(&bytes)).state, id, "before {name}");
            let step = session.apply(action(&environment, name)).unwrap();
            let replayed = second.apply(action(&environment, name)).unwrap();
            assert_eq!(state(&step), state(&replayed), "{name}");
            id = state(&step).0;
        }
    }
}

#[test]
fn rewards_add_up_to_what_was_saved() {
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    for program in programs() {
        let Baselines(baselines) = begin(session.as_mut(), &program).baselines;
        let names = ["O0", "O3", "Oz"].map(|level| format!("IrInstructionCount{level}"));
        assert_eq!(
            baselines.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            Vec::from_iter(&names)
        );
        let [o0, o3, oz] = [0, 1, 2].map(|place| baselines[place].1);
        for (name, cost) in &baselines {
            assert_eq!(count(&environment, session.as_mut(), name), *cost);
        }
        let mut sums = [0.0; 4];
        for name in BUSY {
            let step = session.apply(action(&environment, name)).unwrap();
            for (sum, reward) in sums.iter_mut().zip(&step.rewards) {
                *sum += reward;
            }
            let Value::IntVector(counts) = observe(&environment, session.as_mut(), "InstCount")
            else {
                panic!("InstCount is a vector");
            };
            let now = count(&environment, session.as_mut(), "IrInstructionCount");
            assert_eq!(i64::from(counts[0]), now);
        }
        let now = count(&environment, session.as_mut(), "IrInstructionCount");
        let saved = f64::from(i32::try_from(o0 - now).unwrap());
        let by = |whole: i64| saved / f64::from(i32::try_from(whole.max(1)).unwrap());
        for (sum, whole) in sums.into_iter().zip([1, o0, o0 - o3, o0 - oz]) {
            assert!((sum - by(whole)).abs() < 1e-9 * saved.abs().max(1.0), "{sum} {whole}");
        }
    }
}

/// Passes see the order of use-lists, which a stored state does not have.
#[test]
fn opt_does_to_an_exported_state_what_the_action_does() {
    let environment = LlvmEnvironment::new();
    let folder = tempfile::tempdir().unwrap();
    let [input, output] = ["input.bc", "output.bc"].map(|name| folder.path().join(name));
    let space = &environment.spec().action_spaces[0];
    let (mut compared, mut ordered) = (0, 0);
    for program in programs() {
        let mut session = environment.session().unwrap();
        begin(session.as_mut(), &program);
        for round in 0..24 {
            let index = space.index_of(BUSY[round * 5 % BUSY.len()]).unwrap();
            if round % 2 == 0 {
                std::fs::write(&input, bitcode(&environment, session.as_mut())).unwrap();
            } else {
                let text = exported(&environment, session.as_mut()).unwrap();
                ordered += usize::from(text.contains("uselistorder"));
                let stored = session.observe(environment.spec().state_index()).unwrap();
                let Value::Bytes(stored) = stored else { panic!("{stored:?}") };
                assert!(!session.text(&stored).unwrap().contains("uselistorder"));
                std::fs::write(&input, text).unwrap();
            }
            let (led_to, changed) = state(&session.apply(index).unwrap());
            if !changed {
                continue;
            }
            let status = programs::program("opt-22")
                .arg(format!("-passes={}", space.actions[index.place()].pipeline))
                .args([&input, Path::new("-o"), &output])
                .status_in_time();
            assert!(status.success());
            let mut other = environment.session().unwrap();
            let theirs = begin(other.as_mut(), &benchmark(&std::fs::read(&output).unwrap())).state;
            assert_eq!(theirs, led_to, "round {round} of {}", program.uri);
            compared += 1;
        }
    }
    assert!(compared > 12, "only {compared} steps changed something");
    assert_eq!(ordered, 24, "each text has the order");
}

#[test]
fn the_baselines_are_those_of_opt() {
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let optimise = |program: &Path, level: &str| {
        let output = folder.path().join("optimised.bc");
        let status = programs::program("opt-22")
            .arg(format!("-passes=default<{level}>"))
            .args([program, Path::new("-o"), &output])
            .status_in_time();
        assert!(status.success());
        std::fs::read(output).unwrap()
    };
    for program in programs() {
        let file = folder.path().join("program.bc");
        std::fs::write(&file, &program.program).unwrap();
        let baselines = begin(session.as_mut(), &program).baselines;
        for level in ["O3", "Oz"] {
            begin(session.as_mut(), &benchmark(&optimise(&file, level)));
            let theirs = count(&environment, session.as_mut(), "IrInstructionCount");
            let ours = baselines.get(&format!("IrInstructionCount{level}"));
            assert_eq!(ours, Some(theirs), "{level} of {}", program.uri);
        }
    }
}

#[test]
fn a_fork_goes_its_own_way() {
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    let program = &programs()[0];
    begin(session.as_mut(), program);
    session.apply(action(&environment, "sroa")).unwrap();
    let before = bitcode(&environment, session.as_mut());
    let mut fork = session.fork().unwrap();
    assert_eq!(bitcode(&environment, fork.as_mut()), before);
    let steps = |session: &mut dyn Session| -> Vec<_> {
        let apply = |name: &&str| session.apply(action(&environment, name)).unwrap();
        BUSY.iter().map(apply).map(|step| (state(&step), bits(&step.rewards))).collect()
    };
    let forked = steps(fork.as_mut());
    assert_eq!(bitcode(&environment, session.as_mut()), before);
    drop(fork);
    assert_eq!(steps(session.as_mut()), forked);
}

#[test]
fn an_action_that_does_nothing_leaves_everything_as_it_is() {
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    let program = small();
    let id = try_begin(session.as_mut(), &program, "compilergym-v0").unwrap().state;
    let space = environment.spec().action_space("compilergym-v0").unwrap();
    for name in ["-barrier", "-die", "-strip-dead-prototypes", "-loop-unroll"] {
        let step = session.apply(space.index_of(name).unwrap()).unwrap();
        // The rewards of code size are on request.
        let rewards = [[0.0; 4], [f64::NAN; 4]].concat();
        assert_eq!((state(&step), bits(&step.rewards)), ((id, false), bits(&rewards)), "{name}");
    }
    let step = session.apply(space.index_of("-mem2reg").unwrap()).unwrap();
    assert!(state(&step).1);
    assert_eq!(step.rewards[..2], [3.0, 0.6]);
}

#[test]
fn every_action_that_never_crashed_runs() {
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    let program = small();
    for space in &environment.spec().action_spaces {
        for (index, action) in (0..).zip(&space.actions) {
            if !action.flags.crashes {
                try_begin(session.as_mut(), &program, &space.name).unwrap();
                state(&session.apply(ActionIndex(index)).unwrap());
            }
        }
    }
}

#[test]
fn what_cannot_be_is_refused_and_leaves_the_state() {
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    let none = session.apply(ActionIndex(0)).unwrap_err();
    assert!(matches!(none, SessionError::NoEpisode));
    let error = try_begin(session.as_mut(), &small(), "llvm21-v0").unwrap_err();
    assert!(matches!(error, SessionError::UnknownSpace { name, .. } if name == "llvm21-v0"));
    for bytes in [&b""[..], b"int main;", &small().program[..100]] {
        let error = try_begin(session.as_mut(), &benchmark(bytes), SPACE).unwrap_err();
        let SessionError::BadProgram { uri, detail } = error else { panic!("{error}") };
        assert_eq!(uri, "file:///program.bc");
        assert!(!detail.is_empty() && detail.lines().count() == 1, "{detail:?}");
    }
    let id = begin(session.as_mut(), &small()).state;
    let error = session.apply(ActionIndex(9999)).unwrap_err();
    assert!(matches!(error, SessionError::InvalidAction { index: 9999, .. }));
    let bytes = bitcode(&environment, session.as_mut());
    assert_eq!(session.identify(&bytes).unwrap(), id);
}

#[test]
fn a_batch_is_its_steps_one_after_another() {
    let environment = LlvmEnvironment::new();
    let [mut one, mut batch] = [(); 2].map(|()| environment.session().unwrap());
    let program = &programs()[1];
    begin(one.as_mut(), program);
    begin(batch.as_mut(), program);
    let actions: Vec<_> = BUSY.iter().map(|name| action(&environment, name)).collect();
    let space = environment.spec().observation_index("Autophase").unwrap();
    let mut seen = Vec::new();
    let mut visit = |step: Step, observe: &mut steplake::env::Observe<'_>| {
        seen.push((state(&step), bits(&step.rewards), observe(space)?));
        Ok(std::ops::ControlFlow::Continue(()))
    };
    batch.multistep(&actions, &mut visit).unwrap();
    for (action, seen) in actions.into_iter().zip(seen) {
        let step = one.apply(action).unwrap();
        let found = (state(&step), bits(&step.rewards), one.observe(space).unwrap());
        assert_eq!(found, seen);
    }
}

#[test]
fn a_state_that_a_later_action_mends_is_found_to_be_broken() {
    // `loop-fusion` puts one phi node before the other that it needs, and `instsimplify` then drops
    // both.
    let program = b"define i8 @chained() {
        br label %one
      one:
        br i1 false, label %one, label %between
      between:
        %first = phi i8 [ 0, %one ]
        br label %two
      two:
        br i1 false, label %two, label %end
      end:
        %second = phi i8 [ %first, %two ]
        ret i8 %second
    }";
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    begin(session.as_mut(), &benchmark(&assemble(program).unwrap()));
    let step = session.apply_unchecked(action(&environment, "loop-fusion")).unwrap();
    let Outcome::Crashed(failure) = step.outcome else { panic!("{step:?}") };
    assert_eq!(failure.kind, FailureKind::Verifier, "{}", failure.detail);
}

#[test]
fn what_runs_the_actions_of_a_probe_is_confined() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.bc");
    std::fs::write(&path, small().program).unwrap();
    let mut child = programs::program(env!("CARGO_BIN_EXE_steplake"))
        .arg("probe-child")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut tasks = child.stdin.take().unwrap();
    writeln!(tasks, r#"{{"program": {path:?}, "shuffle": 1, "actions": []}}"#).unwrap();
    let answers = BufReader::new(child.stdout.take().unwrap());
    let (answer, _answers) = line_of(answers, "the answer of the probe");
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    assert_eq!(answer, "\"End\"\n");
    // Landlock and seccomp ask for it.
    assert!(status.lines().any(|line| line == "NoNewPrivs:\t1"), "{status}");
    drop(tasks);
    assert!(end_of(&mut child, "the probe").success());
}

#[test]
fn a_probe_finds_what_kills_and_survives_it() {
    let environment = LlvmEnvironment::new();
    let cache = tempfile::tempdir().unwrap();
    let settings = DatasetFolders {
        cache: cache.path().into(),
        apt_sources: cache.path().into(),
        mirrors: Vec::new(),
    };
    let vectors = "generator://llvm-stress-v0/1".parse().unwrap();
    let vectors = Datasets::new(&settings).benchmark(&vectors).unwrap();
    let options = ProbeOptions {
        program: env!("CARGO_BIN_EXE_steplake").into(),
        arguments: vec!["probe-child".into()],
        benchmarks: vec![small(), vectors],
        pipelines: pipelines(&environment.spec().action_spaces),
        rounds: 1,
        seed: 7,
        jobs: 2,
    };
    let report = probe(&options, &|_, _| {}).unwrap();
    // It wants what only the code generator sets up.
    let deadly = &report.findings["function(codegenprepare)"];
    assert!(deadly.crashes == 2 && deadly.flags().crashes, "{deadly:?}");
    for action in &environment.spec().action_space(SPACE).unwrap().actions {
        let finding = &report.findings[&action.pipeline];
        let flags = finding.flags();
        assert!(finding.steps > 0, "{} did not run", action.name);
        assert!(flags.replayable && !flags.crashes, "{} (seed 7): {finding:?}", action.name);
    }
}

#[test]
fn a_probe_finds_what_goes_by_the_order_of_constants_in_the_heap() {
    let program = assemble(include_bytes!("../../data/determinism/constants_compared.ll")).unwrap();
    let options = ProbeOptions {
        program: env!("CARGO_BIN_EXE_steplake").into(),
        arguments: vec!["probe-child".into()],
        benchmarks: vec![benchmark(&program)],
        pipelines: ["function(newgvn)", "function(gvn)"].map(str::to_owned).into(),
        rounds: 8,
        seed: 1,
        jobs: 1,
    };
    let report = probe(&options, &|_, _| {}).unwrap();
    let replayable = |pipeline: &str| report.findings[pipeline].flags().replayable;
    assert!(replayable("function(gvn)"), "{report:?}");
    assert!(!replayable("function(newgvn)"), "{report:?}");
}
