//! Sessions in worker processes: the same answers as in this process, and data instead of damage
//! when a worker dies.

use std::fs::Permissions;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::env::{Environment, Session, SessionError, Start, Watch};
use steplake::model::{
    ActionIndex, Benchmark, FailureKind, ObservationIndex, Outcome, StateId, Step,
};

fn config() -> WorkerConfig {
    WorkerConfig::new(PathBuf::from(env!("CARGO_BIN_EXE_steplake")))
}

fn workers() -> WorkerEnvironment {
    WorkerEnvironment::new(ToyEnvironment::default().spec().clone(), config())
}

fn start(session: &mut dyn Session, benchmark: &Benchmark) -> StateId {
    let watch = Watch {
        spaces: vec![ObservationIndex(0), ObservationIndex(2)],
        recording: 1,
        ..Watch::default()
    };
    let start = Start { benchmark, action_space: toy::NAME, baselines: None, watch: &watch };
    session.start(&start).unwrap().state
}

fn actions() -> Vec<ActionIndex> {
    (0..200).map(|step| ActionIndex(step * 5 % 7)).collect()
}

/// The steps of a batch without their measured times, and the watched values that came along.
fn play(session: &mut dyn Session, actions: &[ActionIndex]) -> Vec<Step> {
    let mut steps = Vec::new();
    session
        .multistep(actions, &mut |step, _| {
            steps.push(Step { wall_time: Duration::ZERO, ..step });
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    steps
}

/// The workers that were given so many bytes of memory: a number by which a test knows its own.
pub(crate) fn workers_with(memory_bytes: u64) -> Vec<Pid> {
    let word = memory_bytes.to_string();
    let file = |pid: &i32, name| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_memory = |line: &str| line.starts_with("Max address space") && line.contains(&word);
    let has = |pid: &i32| file(pid, "limits").is_ok_and(|limits| limits.lines().any(is_memory));
    // One that has ended has no words any more.
    let lives = |pid: &i32| file(pid, "cmdline").is_ok_and(|words| !words.is_empty());
    pids.filter(|pid| has(pid) && lives(pid)).map(Pid::from_raw).collect()
}

#[test]
fn a_worker_gives_the_same_steps_as_a_session_in_this_process() {
    let benchmark = toy::benchmark(3);
    let mut here = ToyEnvironment::default().session().unwrap();
    let mut there = workers().session().unwrap();
    assert_eq!(start(here.as_mut(), &benchmark), start(there.as_mut(), &benchmark));
    assert_eq!(play(here.as_mut(), &actions()), play(there.as_mut(), &actions()));
    for space in 0..5 {
        let space = ObservationIndex(space);
        assert_eq!(here.observe(space).unwrap(), there.observe(space).unwrap());
    }
    assert!(matches!(there.observe(ObservationIndex(99)), Err(SessionError::UnknownSpace { .. })));
    let error = there.apply(ActionIndex(999)).unwrap_err();
    assert_eq!(error.to_string(), "there is no action 999 in `toy-v0`, which has 8 actions");
    let step = |session: &mut Box<dyn Session>| session.apply(ActionIndex(1)).unwrap().outcome;
    assert_eq!(step(&mut here), step(&mut there));
}

#[test]
fn watched_values_come_along_with_new_states() {
    let benchmark = toy::program("generator://toy-v0/9", 64, 5);
    let mut session = workers().session().unwrap();
    let initial = start(session.as_mut(), &benchmark);
    for space in [0, 2] {
        session.observe(ObservationIndex(space)).unwrap();
    }
    let mut seen = std::collections::HashSet::from([Some(initial)]);
    session
        .multistep(&actions(), &mut |step, observe| {
            if seen.insert(step.outcome.state()) {
                observe(ObservationIndex(0))?;
                observe(ObservationIndex(2))?;
                assert!(observe(ObservationIndex(1)).is_err(), "nobody watches it");
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    assert!(seen.len() > 5);
}

#[test]
fn a_failing_action_is_an_outcome_and_the_session_starts_again() {
    let benchmark = toy::program("generator://toy-v0/9", 1000, 250);
    let mut session = workers().session().unwrap();
    start(session.as_mut(), &benchmark);
    let steps = play(session.as_mut(), &[ActionIndex(7), ActionIndex(0)]);
    assert_eq!(steps.len(), 1);
    assert!(matches!(&steps[0].outcome, Outcome::Crashed(f) if f.kind == FailureKind::Crash));
    assert!(matches!(session.apply(ActionIndex(0)), Err(SessionError::NoEpisode)));
    start(session.as_mut(), &benchmark);
    assert!(session.apply(ActionIndex(0)).is_ok());
}

#[test]
fn sessions_of_a_killed_worker_are_brought_back() {
    let benchmark = toy::benchmark(4);
    let mut here = ToyEnvironment::default().session().unwrap();
    let memory_bytes_max = (4 << 30) + 4096;
    let config = WorkerConfig { memory_bytes_max, ..config() };
    let environment = WorkerEnvironment::new(ToyEnvironment::default().spec().clone(), config);
    let mut there = environment.session().unwrap();
    for session in [&mut here, &mut there] {
        start(session.as_mut(), &benchmark);
        play(session.as_mut(), &actions());
    }
    let mut fork = there.fork().unwrap();
    fork.apply(ActionIndex(1)).unwrap();
    let pids = workers_with(memory_bytes_max);
    assert_eq!(pids.len(), 1, "a fork shares the worker");
    kill(pids[0], Signal::SIGKILL).unwrap();
    let outcome = |session: &mut Box<dyn Session>| session.apply(ActionIndex(2)).unwrap().outcome;
    let wanted = outcome(&mut here);
    assert_eq!(outcome(&mut there), wanted);
    let mut here_fork = ToyEnvironment::default().session().unwrap();
    start(here_fork.as_mut(), &benchmark);
    play(here_fork.as_mut(), &actions());
    here_fork.apply(ActionIndex(1)).unwrap();
    assert_eq!(outcome(&mut fork), outcome(&mut here_fork));
}

#[test]
fn a_worker_is_confined() {
    let memory_bytes_max = (4 << 30) + 8192;
    let config = WorkerConfig { memory_bytes_max, ..config() };
    let environment = WorkerEnvironment::new(ToyEnvironment::default().spec().clone(), config);
    let mut session = environment.session().unwrap();
    start(session.as_mut(), &toy::benchmark(4));
    let pids = workers_with(memory_bytes_max);
    assert_eq!(pids.len(), 1);
    let about = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", pids[0])).unwrap();
    let limits = about("limits");
    let limit = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(limit("Max open files"), ["0", "0"]);
    assert_eq!(limit("Max core file size"), ["0", "0"]);
    assert_ne!(limit("Max file size"), ["unlimited", "unlimited"]);
    // Landlock asks for it.
    let status = about("status");
    assert!(status.lines().any(|line| line == "NoNewPrivs:\t1"), "{status}");
}

#[test]
fn a_program_that_is_none_is_an_error_from_the_worker_too() {
    let mut benchmark = toy::benchmark(1);
    benchmark.program = b"nonsense".as_slice().into();
    let mut session = workers().session().unwrap();
    let watch = Watch::default();
    let bad =
        Start { benchmark: &benchmark, action_space: toy::NAME, baselines: None, watch: &watch };
    let error = session.start(&bad).unwrap_err().to_string();
    assert!(error.starts_with("the program of generator://toy-v0/1 cannot be read"), "{error}");
    let unknown =
        Start { benchmark: &toy::benchmark(1), action_space: "x", baselines: None, watch: &watch };
    assert!(matches!(session.start(&unknown), Err(SessionError::UnknownSpace { .. })));
}

#[test]
fn a_worker_that_cannot_be_started_says_so() {
    let config = WorkerConfig::new(PathBuf::from("/nonexistent/steplake"));
    let environment = WorkerEnvironment::new(ToyEnvironment::default().spec().clone(), config);
    let mut session = environment.session().unwrap();
    let benchmark = toy::benchmark(1);
    let watch = Watch::default();
    let start =
        Start { benchmark: &benchmark, action_space: toy::NAME, baselines: None, watch: &watch };
    let error = session.start(&start).unwrap_err().to_string();
    assert!(error.contains("its worker did not come up"), "{error}");
}

#[test]
fn a_worker_of_another_build_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("worker");
    // Its first frame: a length, the first kind of reply, and the length of what it says.
    let script = "#!/bin/sh\nprintf '\\014\\0\\0\\0\\0\\012steplake 9' >&0\nexec sleep 60 <&-\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let spec = ToyEnvironment::default().spec().clone();
    let environment = WorkerEnvironment::new(spec, WorkerConfig::new(program));
    let error = environment.session().unwrap().identify(b"toy 1 0").unwrap_err().to_string();
    assert!(error.contains("worker is steplake 9, and this is steplake 0."), "{error}");
    assert!(error.contains("install both from one build"), "{error}");
}

#[test]
fn a_state_as_text_is_the_same_from_a_worker() {
    let benchmark = toy::benchmark(4);
    let mut here = ToyEnvironment::default().session().unwrap();
    let mut there = workers().session().unwrap();
    assert_eq!(there.text(&benchmark.program).unwrap(), here.text(&benchmark.program).unwrap());
    assert!(there.text(&benchmark.program).unwrap().starts_with("toy "));
}
