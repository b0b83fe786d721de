//! Limits of workers: those of the machine and of the user's shell decide nothing, ours do.

use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use steplake::env::toy::{self, Harm, Only, Plant, ToyEnvironment};
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::env::{Environment, Session, SessionError, Start, Watch};
use steplake::model::{ActionIndex, Benchmark, Failure, FailureKind, Outcome};

use crate::env::worker::workers_with;
use crate::fixtures::programs::until;
use crate::record::windows::{arm, is_spent, plant};

const URI: &str = "generator://toy-v0/1";

/// Workers whose steps may take a second.
fn config() -> WorkerConfig {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_steplake"));
    WorkerConfig { step_cpu_max: Duration::from_secs(1), ..WorkerConfig::new(program) }
}

fn session(config: WorkerConfig) -> Box<dyn Session> {
    let spec = ToyEnvironment::default().spec().clone();
    WorkerEnvironment::new(spec, config).session().unwrap()
}

/// Does its harm in the first state, when it is doubled.
fn harmful(harm: Harm) -> Benchmark {
    planted(plant(harm, "double", 1, Only::Ever))
}

fn planted(plant: Plant) -> Benchmark {
    toy::planted(URI, 1000, 8, plant)
}

fn start(session: &mut dyn Session, benchmark: &Benchmark) -> Result<(), SessionError> {
    let watch = Watch::default();
    let start = Start { benchmark, action_space: toy::NAME, baselines: None, watch: &watch };
    session.start(&start).map(drop)
}

const INCREMENT: ActionIndex = ActionIndex(0);
const DOUBLE: ActionIndex = ActionIndex(1);
/// An action that is known to fail, so that its step is sent at once.
const INVERT: ActionIndex = ActionIndex(7);

/// How doubling fails after an increment.
fn failure(config: WorkerConfig, harm: Harm) -> Failure {
    let mut session = session(config);
    start(session.as_mut(), &harmful(harm)).unwrap();
    session.apply(INCREMENT).unwrap();
    match session.apply(DOUBLE).unwrap().outcome {
        Outcome::Crashed(failure) => failure,
        Outcome::State { .. } => panic!("{harm:?} was to fail"),
    }
}

/// A program that does something, and then becomes the worker.
pub(crate) fn script(folder: &Path, lines: &str) -> PathBuf {
    let file = folder.join("worker.sh");
    let binary = env!("CARGO_BIN_EXE_steplake");
    std::fs::write(&file, format!("#!/bin/sh\n{lines}\nexec {binary} \"$@\"\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[test]
fn a_step_that_computes_or_sleeps_too_long_is_a_time_out() {
    let place = format!("in the action, step 2 on {URI}");
    for (harm, limit) in
        [(Harm::Hangs, "more than 1 s of CPU time"), (Harm::Sleeps, "no answer in 10 s")]
    {
        let detail = format!("{limit} {place}");
        assert_eq!(failure(config(), harm), Failure { kind: FailureKind::TimeOut, detail });
    }
}

#[test]
fn limits_on_the_clock_follow_that_on_cpu_time() {
    let config = config();
    let of =
        |seconds| WorkerConfig { step_cpu_max: Duration::from_secs(seconds), ..config.clone() };
    assert_eq!(of(1).step_wall_max(), Duration::from_secs(10));
    assert_eq!(of(20).step_wall_max(), Duration::from_mins(2));
    assert_eq!(of(200).step_wall_max(), Duration::from_mins(20));
    assert_eq!(of(20).start_cpu_max(), Duration::from_secs(100));
    assert_eq!(of(20).start_wall_max(), Duration::from_mins(10));
}

#[test]
fn cpu_time_counts_while_nobody_waits_for_the_worker() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("now");
    arm(&file);
    let memory_bytes_max = (4 << 30) + 12_288;
    let mut session = session(WorkerConfig { memory_bytes_max, ..config() });
    let plant = plant(Harm::Hangs, "double", 1, Only::Once(file.clone()));
    start(session.as_mut(), &planted(plant)).unwrap();
    let mut steps = 0;
    session
        .multistep(&[INVERT, DOUBLE], &mut |_, _| {
            if steps == 0 {
                // The worker is at the next action by now. It ends by itself: this thread has its
                // process.
                until("the worker ends", || workers_with(memory_bytes_max).is_empty());
            }
            steps += 1;
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    assert_eq!(steps, 2, "the second worker got through");
    assert!(is_spent(&file));
}

#[test]
fn a_check_has_the_time_of_a_step_whether_it_is_of_a_window_or_of_one_action() {
    // The action and its check take more than a step may, but not each of them.
    for window_changes_max in [None, NonZeroU32::new(16)] {
        let mut session = session(WorkerConfig { window_changes_max, ..config() });
        start(session.as_mut(), &harmful(Harm::Plods)).unwrap();
        let outcome = session.apply(DOUBLE).unwrap().outcome;
        assert!(outcome.state().is_some(), "{outcome:?}");
    }
}

#[test]
fn a_panic_is_a_defect_and_no_outcome() {
    let mut session = session(config());
    start(session.as_mut(), &harmful(Harm::Panics)).unwrap();
    session.apply(INCREMENT).unwrap();
    let error = session.apply(DOUBLE).unwrap_err();
    assert!(matches!(error, SessionError::Defect(_)), "{error:?}");
    let said = error.to_string();
    assert!(said.starts_with("a worker panicked at crates/env/src/toy/planted.rs:"), "{said}");
    let place = format!(": as planted in the action, step 2 on {URI}: ");
    assert!(said.contains(&place) && said.ends_with("please report it"), "{said}");
}

#[test]
fn the_way_back_has_the_time_of_a_start_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("now");
    let memory_bytes_max = (4 << 30) + 16_384;
    let step_cpu_max = Duration::from_millis(100);
    let mut session = session(WorkerConfig { memory_bytes_max, step_cpu_max, ..config() });
    let plant = plant(Harm::Hangs, "double", 1, Only::While(file.clone()));
    start(session.as_mut(), &planted(plant)).unwrap();
    session.apply(DOUBLE).unwrap();
    std::fs::write(&file, "").unwrap();
    for pid in workers_with(memory_bytes_max) {
        kill(pid, Signal::SIGKILL).unwrap();
    }
    let error = session.apply(INCREMENT).unwrap_err();
    assert!(matches!(error, SessionError::Unrepeatable { .. }), "{error:?}");
    let said = format!("(more than 0.5 s of CPU time in the action, step 1 on {URI})");
    assert!(error.to_string().contains(&said), "{error}");
}

#[test]
fn how_deep_a_compiler_may_recurse_does_not_depend_on_the_users_limits() {
    let mut outcomes = Vec::new();
    for size in ["1024", "8192", "unlimited"] {
        let folder = tempfile::tempdir().unwrap();
        let program = script(folder.path(), &format!("ulimit -s {size} || exit 1"));
        let mut session = session(WorkerConfig { program, ..config() });
        start(session.as_mut(), &harmful(Harm::Recurses)).unwrap();
        outcomes.push(session.apply(DOUBLE).unwrap().outcome);
    }
    assert!(outcomes[0].state().is_some(), "{outcomes:?}");
    assert_eq!(outcomes[0], outcomes[1]);
    assert_eq!(outcomes[0], outcomes[2]);
}

#[test]
fn how_much_memory_a_compiler_may_take_does_not_depend_on_the_users_limits() {
    for (limit, mib) in [("-d", 300), ("-v", 1000)] {
        let folder = tempfile::tempdir().unwrap();
        let lines = format!("ulimit {limit} {} || exit 1", mib << 10);
        let program = script(folder.path(), &lines);
        let mut session = session(WorkerConfig { program, ..config() });
        match start(session.as_mut(), &harmful(Harm::Leaks)) {
            // Who may raise limits has ours.
            Ok(()) => {
                let outcome = session.apply(DOUBLE).unwrap().outcome;
                assert!(outcome.state().is_some(), "{limit}: {outcome:?}");
            }
            Err(error) => {
                assert!(matches!(error, SessionError::Unavailable { .. }), "{error:?}");
                let said = format!(
                    "(`ulimit {limit}`) is {mib} MiB here, and a worker has to be given 4096 MiB"
                );
                assert!(error.to_string().contains(&said), "{error}");
            }
        }
    }
}

#[test]
fn memory_that_the_machine_does_not_have_is_not_the_compilers_fault() {
    const MEMORY: u64 = 1 << 48;
    let folder = tempfile::tempdir().unwrap();
    // Each worker gets less than it is said to have, as on a machine that has less: a process takes
    // it away as soon as the worker has set its own limit.
    let line = format!(
        "while [ -e /proc/$$ ]; do\n\
         while read -r _ _ _ bytes _; do\n\
         if [ \"$bytes\" = {MEMORY} ]; then\n\
         exec prlimit --pid $$ --as=$((1600 << 20)) --data=$((1600 << 20)); fi\n\
         done < /proc/$$/limits\n\
         done 2>/dev/null &"
    );
    let program = script(folder.path(), &line);
    let mut session = session(WorkerConfig { program, memory_bytes_max: MEMORY, ..config() });
    start(session.as_mut(), &harmful(Harm::Leaks)).unwrap();
    // A fresh worker may play the steps again before its memory is taken. Then the next step fails.
    let error = (0..100_000).find_map(|_| session.apply(DOUBLE).err()).unwrap();
    assert!(matches!(error, SessionError::Machine(_)), "{error:?}");
    let said = "where this machine has no 268435456 MiB to give, in the action, step ";
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
fn what_earlier_programs_left_behind_does_not_count() {
    // Each doubling takes 384 MiB, and does not give them back.
    let benchmark = harmful(Harm::Leaks);
    let mut session = session(WorkerConfig { memory_bytes_max: 1600 << 20, ..config() });
    for _ in 0..4 {
        start(session.as_mut(), &benchmark).unwrap();
        for _ in 0..2 {
            assert!(session.apply(DOUBLE).unwrap().outcome.state().is_some());
        }
    }
    let config = WorkerConfig { memory_bytes_max: 2400 << 20, ..config() };
    let until_it_fails = |session: &mut dyn Session| -> Vec<Outcome> {
        start(session, &benchmark).unwrap();
        let steps = (0..12).map_while(|_| session.apply(DOUBLE).ok());
        steps.map(|step| step.outcome).collect()
    };
    let fresh = until_it_fails(self::session(config.clone()).as_mut());
    let Some(Outcome::Crashed(failure)) = fresh.last() else { panic!("{fresh:?}") };
    assert_eq!(failure.kind, FailureKind::OutOfMemory, "{failure:?}");
    // What one doubling leaves behind is too little to replace the worker, and too much for as many
    // more.
    let mut used = self::session(config);
    start(used.as_mut(), &benchmark).unwrap();
    used.apply(DOUBLE).unwrap();
    assert_eq!(until_it_fails(used.as_mut()), fresh);
}

#[test]
fn a_worker_that_prints_without_end_is_a_failure() {
    let failure = failure(config(), Harm::Prints);
    let detail = format!("SIGXFSZ in the action, step 2 on {URI}");
    assert_eq!(failure, Failure { kind: FailureKind::Crash, detail });
}

#[test]
fn signals_that_whoever_started_it_ignores_end_a_worker_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "trap '' XFSZ VTALRM || exit 1");
    for harm in [Harm::Prints, Harm::Hangs] {
        let usual = failure(config(), harm);
        assert_eq!(failure(WorkerConfig { program: program.clone(), ..config() }, harm), usual);
    }
}

#[test]
fn a_message_that_is_too_long_is_refused_before_it_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let program = script(folder.path(), "printf '\\377\\377\\377\\377' >&0");
    let mut session = session(WorkerConfig { program, ..config() });
    let error = start(session.as_mut(), &toy::benchmark(1)).unwrap_err().to_string();
    assert!(error.contains("a message of 4294967295 bytes; 268435456 are the most"), "{error}");
    let long = Benchmark { program: vec![b' '; 256 << 20].into(), ..toy::benchmark(1) };
    let mut session = self::session(config());
    let error = start(session.as_mut(), &long).unwrap_err();
    assert!(matches!(error, SessionError::BadProgram { .. }), "{error}");
}
