//! Actions that set options of LLVM's command line, beside worker processes and `opt`.

use std::path::{Path, PathBuf};

use steplake::datasets::{DatasetFolders, Datasets};
use steplake::env::llvm::LlvmEnvironment;
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::env::{Environment, Session, Start, Watch};
use steplake::model::{
    ActionIndex, ActionSpace, Benchmark, EnvironmentSpec, Outcome, Provenance, StateId, Value,
    split_option,
};

use crate::fixtures::programs::{self, InTime as _};

const SPACE: &str = "llvm22-param-v0";

/// Leads to states in which options make a difference.
const FIRST: [&str; 4] = ["sroa", "simplifycfg", "loop-simplify", "loop-rotate"];

/// Options of passes that lead to the same state in `opt`. `opt` reads use-lists in another order
/// than the canonical one, so passes that follow it, such as `indvars` and the specialisation of
/// functions in `ipsccp`, lead to other states there, with and without their options.
const AS_IN_OPT: [&str; 6] = [
    "force-vector-width",
    "inline-threshold",
    "jump-threading-threshold",
    "slp-threshold",
    "unroll-count",
    "unswitch-threshold",
];

pub(crate) fn keyed_hash() -> Benchmark {
    let cache = tempfile::tempdir().unwrap();
    let (cache, apt_sources) = (cache.path().into(), cache.path().into());
    let datasets = Datasets::new(&DatasetFolders { cache, apt_sources, mirrors: Vec::new() });
    datasets.benchmark(&"benchmark://steplake-v0/keyed_hash".parse().unwrap()).unwrap()
}

fn spec() -> EnvironmentSpec {
    LlvmEnvironment::new().spec().clone()
}

/// The actions that set an option, each with the one that runs the same passes without.
fn pairs(space: &ActionSpace) -> Vec<(ActionIndex, ActionIndex)> {
    let find = |pipeline: &str| {
        let place = space.actions.iter().position(|action| action.pipeline == pipeline);
        let place = place.unwrap_or_else(|| panic!("{pipeline} is no action"));
        ActionIndex(u32::try_from(place).unwrap())
    };
    let pipelines = space.actions.iter().map(|action| action.pipeline.as_str());
    let split = pipelines.map(|pipeline| (pipeline, split_option(pipeline)));
    let with_option = split.filter(|(_, (option, _))| option.is_some());
    with_option.map(|(pipeline, (_, passes))| (find(pipeline), find(passes))).collect()
}

fn begin(session: &mut dyn Session, benchmark: &Benchmark) -> StateId {
    let watch = Watch::default();
    let start = Start { benchmark, action_space: SPACE, baselines: None, watch: &watch };
    session.start(&start).unwrap().state
}

fn apply(session: &mut dyn Session, action: ActionIndex) -> StateId {
    match session.apply(action).unwrap().outcome {
        Outcome::State { id, .. } => id,
        Outcome::Crashed(failure) => panic!("{failure:?}"),
    }
}

/// Starts the program, applies [`FIRST`] and then an action.
fn play(session: &mut dyn Session, program: &Benchmark, action: ActionIndex) -> StateId {
    begin(session, program);
    for name in FIRST {
        let action = spec().action_space(SPACE).unwrap().index_of(name).unwrap();
        apply(session, action);
    }
    apply(session, action)
}

#[test]
fn after_an_option_a_pass_does_what_it_does_in_a_fresh_process() {
    let spec = spec();
    let config = WorkerConfig::new(PathBuf::from(env!("CARGO_BIN_EXE_steplake")));
    let workers = WorkerEnvironment::new(spec.clone(), config);
    let (program, mut used) = (keyed_hash(), workers.session().unwrap());
    let mut differing = 0;
    for (with, without) in pairs(spec.action_space(SPACE).unwrap()) {
        let changed = play(used.as_mut(), &program, with);
        let again = play(used.as_mut(), &program, without);
        let fresh = play(workers.session().unwrap().as_mut(), &program, without);
        assert_eq!(again, fresh, "after action {}", with.0);
        differing += u32::from(changed != fresh);
    }
    assert!(differing > 10, "options make a difference: {differing}");
}

#[test]
fn an_option_does_what_it_does_on_the_command_line_of_opt() {
    let environment = LlvmEnvironment::new();
    let spec = environment.spec();
    let space = spec.action_space(SPACE).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [input, output] = ["input.bc", "output.bc"].map(|name| folder.path().join(name));
    let program = keyed_hash();
    let mut session = environment.session().unwrap();
    begin(session.as_mut(), &program);
    for name in FIRST {
        apply(session.as_mut(), space.index_of(name).unwrap());
    }
    let bitcode = spec.observation_index("Bitcode").unwrap();
    let Value::Bytes(before) = session.observe(bitcode).unwrap() else { panic!("it is bytes") };
    std::fs::write(&input, before).unwrap();
    for (with, _) in pairs(space) {
        let (option, passes) = split_option(&space.get(with).unwrap().pipeline);
        if !AS_IN_OPT.iter().any(|name| option.unwrap().starts_with(name)) {
            continue;
        }
        let status = programs::program("opt-22")
            .args([format!("-passes={passes}"), format!("-{}", option.unwrap())])
            .args([input.as_path(), Path::new("-o"), output.as_path()])
            .status_in_time();
        assert!(status.success());
        let uri = "file:///output.bc".parse().unwrap();
        let program = std::fs::read(&output).unwrap().into();
        let theirs = Benchmark { uri, program, provenance: Provenance::default(), execution: None };
        let theirs = begin(environment.session().unwrap().as_mut(), &theirs);
        let ours = apply(session.fork().unwrap().as_mut(), with);
        assert_eq!(ours, theirs, "{option:?}");
    }
}
