//! GCC fails on what a run records: with its kind and first line, these are failures of steps and
//! of starts, and no nulls that say nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steplake::dedup::{DedupOptions, dedup};
use steplake::env::gcc::GccEnvironment;
use steplake::env::{Environment, Session, SessionError, Start, Watch};
use steplake::lake::{Lake, Table, to_the_end};
use steplake::model::{Benchmark, Outcome, Provenance, Step};
use steplake::record::{Recording, RecordingOptions, SpaceChoice, identity};
use steplake::replay::cached::{CachedEnvironment, CachedOptions};

use crate::fixtures::programs::{self, InTime as _};
use crate::fixtures::support::{assert_same, rows, run};

const SOURCE: &str = "# 1 \"sum.c\"\nint sum(int x) { return x + x; }\n";

/// How a compiler fails at some of its levels: at most once a second of CPU time is used.
const FAILS: &str = r#"case "$*" in
*" -O1"*) echo 'sum.c:2:1: internal compiler error: in f, at g.cc:7' >&2; exit 4;;
*" -O2"*) echo 'cc1: error: there is no -O2 today' >&2; exit 1;;
*" -O3"*) while :; do :; done;;
*" -Og"*) kill -SEGV $$;;
esac
case "$*" in
*" -Os"*) printf '\tno_such_instruction\n' >program.s; exit 0;;
esac"#;

/// Puts a GCC into a folder whose `cc1` begins with this text, and returns its driver.
fn put_compiler(folder: &Path, text: &str) -> PathBuf {
    let cc1 = programs::program("gcc").arg("-print-prog-name=cc1").output_in_time().stdout;
    let cc1 = String::from_utf8(cc1).unwrap();
    let put = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text} \"$@\"\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    put("cc1", format!("case \"$*\" in *--help*) ;; *)\n{text}\n;; esac\nexec {}", cc1.trim()));
    put("gcc", format!("exec gcc -B{}/", folder.display()))
}

fn answer(lake: &Path, sql: &str) -> String {
    run(lake, &["sql", sql, "--format", "csv"]).lines().skip(1).collect::<Vec<_>>().join("\n")
}

/// A search begins with the levels of optimisation: each is an episode that begins in its state.
#[test]
fn starts_on_which_the_compiler_fails_are_counted_and_have_rows() {
    let folder = tempfile::tempdir().unwrap();
    let driver = put_compiler(folder.path(), FAILS);
    let program = folder.path().join("sum.i");
    std::fs::write(&program, SOURCE).unwrap();
    let env = format!("gcc-v0/{}", driver.display());
    let uri = format!("file://{}", program.display());
    let search = |lake: &Path, more: &[&str]| {
        let what = ["generate", "--env", &env, "--benchmark", &uri, "--policy", "hill-climbing"];
        let plan = ["--objective", "obj_size", "--episodes", "9", "--step-cpu-seconds", "1"];
        run(lake, &[&what[..], &plan, &["--observe", "choices"], more].concat())
    };
    let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
    let said = search(&one, &["--jobs", "1"]);
    let counts =
        "9 episodes, 5 failures of the compiler (2 crash, 1 time-out, 1 rejected, 1 assembler)";
    assert!(said.contains(counts), "{said}");
    search(&two, &["--jobs", "2"]);
    assert_same(&one, &two);
    run(&one, &["seal"]);
    let said = run(&one, &["dedup"]);
    assert!(said.contains("5 failures"), "{said}");
    let failures = "SELECT kind, detail, action IS NULL AS is_start, count FROM failures \
                    ORDER BY kind, detail";
    let wanted = "assembler,program.s:1: Error: no such instruction: `no_such_instruction',true,1\n\
                  crash,SIGSEGV,true,1\n\
                  crash,\"sum.c:2:1: internal compiler error: in f, at g.cc:7\",true,1\n\
                  rejected,cc1: error: there is no -O2 today,true,1\n\
                  time-out,more than 1 s of CPU time,true,1";
    let found = answer(&one, failures).replace('`', "'");
    let wanted = wanted.replace('`', "'");
    let unquoted = |text: &str| text.replace('"', "");
    assert_eq!(unquoted(&found), unquoted(&wanted));
    // The state of each is there, with its options and without a size.
    let null = "SELECT count(*), count(obj_size), count(choices) FROM observations \
                WHERE state_id IN (SELECT state_id FROM failures)";
    assert_eq!(answer(&one, null), "5,0,5");
    let other = "SELECT count(*) FROM observations WHERE obj_size IS NULL \
                 AND state_id NOT IN (SELECT state_id FROM failures)";
    assert_eq!(answer(&one, other), "0");
    let names = "SELECT count(action_name(action)) FROM failures";
    assert_eq!(answer(&one, names), "0");
    run(&one, &["verify"]);
    // Counted anew, the layers are the same.
    let before = rows(&one, Table::Failures);
    run(&one, &["dedup", "--full"]);
    assert_eq!(rows(&one, Table::Failures), before);
}

/// A recorded session of this machine's GCC, and the lake that it leaves.
fn recorded(
    observed: &[&str],
    rewards: &[&str],
    play: impl FnOnce(&GccEnvironment, &mut dyn Session),
) -> (tempfile::TempDir, Lake) {
    let folder = tempfile::tempdir().unwrap();
    let environment = GccEnvironment::open("").unwrap();
    let spec = environment.spec();
    let [observed, rewards] = [observed, rewards]
        .map(|names| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    let choice = SpaceChoice { observations: Some(&observed), rewards: Some(&rewards) };
    let identity = identity(spec, &spec.action_spaces[0], &choice).unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity).unwrap();
    record(&lake, &environment, play);
    (folder, lake)
}

/// Records a session into a lake.
fn record(
    lake: &Lake,
    environment: &GccEnvironment,
    play: impl FnOnce(&GccEnvironment, &mut dyn Session),
) {
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let identity = lake.identity();
    let observed = identity.observations.iter().map(|space| space.name.clone()).collect();
    let rewards = identity.rewards.iter().map(|space| space.name.clone()).collect();
    let options = RecordingOptions {
        observations: Some(observed),
        rewards: Some(rewards),
        ..RecordingOptions::default()
    };
    let recording = Recording::begin(writer, environment.spec(), run, &options).unwrap();
    let mut session = recording.recorder(environment.session().unwrap());
    play(environment, &mut session);
    drop(session);
    let mut writer = recording.close().unwrap();
    writer.finish_run(run).unwrap();
    writer.seal().unwrap();
    drop(writer);
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
}

fn start(
    of: &GccEnvironment,
    session: &mut dyn Session,
    program: &str,
) -> Result<(), SessionError> {
    start_as(of, session, ("sum", program))
}

fn start_as(
    of: &GccEnvironment,
    session: &mut dyn Session,
    (name, program): (&str, &str),
) -> Result<(), SessionError> {
    let benchmark = Benchmark {
        uri: format!("benchmark://user-v0/{name}").parse().unwrap(),
        program: program.as_bytes().into(),
        provenance: Provenance::default(),
        execution: None,
    };
    let (action_space, watch) = (&*of.spec().action_spaces[0].name, Watch::default());
    let start = Start { benchmark: &benchmark, action_space, baselines: None, watch: &watch };
    session.start(&start).map(drop)
}

fn apply(of: &GccEnvironment, session: &mut dyn Session, action: &str) -> Step {
    session.apply(of.spec().action_spaces[0].index_of(action).unwrap()).unwrap()
}

const REFUSED: &str =
    "cc1: error: section anchors must be disabled when toplevel reorder is disabled";

#[test]
fn a_step_to_a_state_on_which_the_compiler_fails_has_failed() {
    let rewarded = &["obj_size", "obj_size_Os"][..];
    for (observed, rewards) in [(&["obj_size"][..], &[][..]), (&["choices"][..], rewarded)] {
        let (_folder, lake) = recorded(observed, rewards, |of, session| {
            start(of, session, SOURCE).unwrap();
            apply(of, session, "-fsection-anchors");
            let step = apply(of, session, "-fno-toplevel-reorder");
            let Outcome::Crashed(failure) = &step.outcome else { panic!("{step:?}") };
            assert_eq!(failure.to_string(), format!("rejected: {REFUSED}"));
            assert!(step.rewards.iter().all(|reward| reward.is_nan()));
            // The episode is over.
            let index = of.spec().action_spaces[0].index_of("-O2").unwrap();
            assert!(matches!(session.apply(index), Err(SessionError::NoEpisode)));
            start(of, session, SOURCE).unwrap();
            apply(of, session, "-O2");
        });
        let asked = |sql: &str| answer(lake.path(), sql);
        let failures = "SELECT action_name(f.action), kind, detail, count, choices_before \
                        FROM failures AS f JOIN (SELECT DISTINCT state_id, 1 AS choices_before \
                        FROM observations) USING (state_id)";
        assert_eq!(asked(failures), format!("-fno-toplevel-reorder,rejected,{REFUSED},1,1"));
        let outcomes = "SELECT steps, outcome, detail FROM episodes ORDER BY episode_id";
        assert_eq!(asked(outcomes), format!("2,rejected,{REFUSED}\n1,complete,"));
        assert_eq!(asked("SELECT count(*) FROM state_transitions"), "2");
        assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
    }
}

#[test]
fn a_program_on_which_the_compiler_fails_does_not_start() {
    let wrong = "int f(void) { return nothing; }\n";
    let (_folder, lake) = recorded(&["obj_size"], &["obj_size_Os"], |of, session| {
        let error = start(of, session, wrong).unwrap_err();
        let SessionError::StartFailed { failure, .. } = &error else { panic!("{error}") };
        assert!(failure.to_string().starts_with("rejected: "), "{failure}");
        let index = of.spec().action_spaces[0].index_of("-O2").unwrap();
        assert!(matches!(session.apply(index), Err(SessionError::NoEpisode)));
    });
    let failed = "SELECT e.steps, e.outcome, f.kind, f.action IS NULL AS is_start \
                  FROM episodes AS e JOIN failures AS f ON f.first_episode_id = e.episode_id";
    assert_eq!(answer(lake.path(), failed), "0,rejected,rejected,true");
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());

    // Nor does it from the lake, which has its first state.
    assert_eq!(answer(lake.path(), "SELECT count(initial_state_id) FROM benchmarks"), "1");
    let (gcc, snapshot) = (GccEnvironment::open("").unwrap(), Arc::new(lake.snapshot().unwrap()));
    let cached = CachedEnvironment::open(snapshot, gcc.spec(), CachedOptions::default()).unwrap();
    let mut session = cached.session().unwrap();
    for program in [wrong, ""] {
        let error = start(&gcc, session.as_mut(), program).unwrap_err();
        let SessionError::StartFailed { failure, .. } = &error else { panic!("{error}") };
        assert!(failure.to_string().starts_with("rejected: "), "{failure}");
    }
}

/// The lake has the state already, with null for its size.
#[test]
fn a_step_to_the_state_of_a_failed_start_has_failed() {
    let (_folder, lake) = recorded(&["obj_size"], &[], |of, session| {
        let state = format!("// gcc-v0 state 1: -fsection-anchors -fno-toplevel-reorder\n{SOURCE}");
        let error = start_as(of, session, ("state", &state)).unwrap_err();
        let SessionError::StartFailed { failure, .. } = &error else { panic!("{error}") };
        assert_eq!(failure.to_string(), format!("rejected: {REFUSED}"));
        start(of, session, SOURCE).unwrap();
        apply(of, session, "-fsection-anchors");
        let step = apply(of, session, "-fno-toplevel-reorder");
        let Outcome::Crashed(failure) = &step.outcome else { panic!("{step:?}") };
        assert_eq!(failure.to_string(), format!("rejected: {REFUSED}"));
    });
    let failures = "SELECT count(*), count(action) FROM failures";
    assert_eq!(answer(lake.path(), failures), "2,1");
    assert_eq!(answer(lake.path(), "SELECT count(*) FROM state_transitions"), "1");
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}

/// The lake has null, and not how the compiler failed.
#[test]
fn a_step_of_a_later_run_to_the_state_of_a_failed_start_has_failed() {
    let (_folder, lake) = recorded(&["obj_size"], &[], |of, session| {
        let state = format!("// gcc-v0 state 1: -fsection-anchors -fno-toplevel-reorder\n{SOURCE}");
        start_as(of, session, ("state", &state)).unwrap_err();
    });
    for _run in 0..2 {
        record(&lake, &GccEnvironment::open("").unwrap(), |of, session| {
            start(of, session, SOURCE).unwrap();
            apply(of, session, "-fsection-anchors");
            let step = apply(of, session, "-fno-toplevel-reorder");
            let Outcome::Crashed(failure) = &step.outcome else { panic!("{step:?}") };
            assert_eq!(failure.to_string(), format!("rejected: {REFUSED}"));
        });
    }
    let failed_steps = "SELECT sum(count) FROM failures WHERE action IS NOT NULL";
    assert_eq!(answer(lake.path(), failed_steps), "2");
    assert_eq!(answer(lake.path(), "SELECT count(*) FROM state_transitions"), "1");
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}

/// Nobody asked the compiler for anything.
#[test]
fn a_walk_that_records_choices_alone_goes_through_such_states() {
    let (_folder, lake) = recorded(&["choices"], &[], |of, session| {
        start(of, session, SOURCE).unwrap();
        for action in ["-fsection-anchors", "-fno-toplevel-reorder", "-O2"] {
            assert!(apply(of, session, action).outcome.state().is_some(), "{action}");
        }
    });
    assert_eq!(answer(lake.path(), "SELECT count(*) FROM state_transitions"), "3");
    assert_eq!(answer(lake.path(), "SELECT count(*) FROM failures"), "0");
}
