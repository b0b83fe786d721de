//! Actions that are announced to a worker, and interrupts of one.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use steplake::env::llvm::LlvmEnvironment;
use steplake::env::toy::{self, Harm, Only, ToyEnvironment};
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::env::{Environment, Session, SessionError, Start, Watch};
use steplake::model::{ActionIndex, Benchmark, ObservationIndex, StateId, Value};
use steplake::sandbox::Interrupt;

use crate::env::llvm_options::keyed_hash;
use crate::env::worker::workers_with;
use crate::fixtures::programs::until;
use crate::record::windows::{arm, is_spent, plant};

fn config() -> WorkerConfig {
    WorkerConfig::new(PathBuf::from(env!("CARGO_BIN_EXE_steplake")))
}

fn session(config: WorkerConfig) -> Box<dyn Session> {
    let spec = ToyEnvironment::default().spec().clone();
    WorkerEnvironment::new(spec, config).session().unwrap()
}

fn start(session: &mut dyn Session, benchmark: &Benchmark) -> StateId {
    let watch = Watch::default();
    let start = Start { benchmark, action_space: toy::NAME, baselines: None, watch: &watch };
    session.start(&start).unwrap().state
}

fn play(session: &mut dyn Session, actions: &[ActionIndex]) -> Vec<Option<StateId>> {
    let mut states = Vec::new();
    let played = session.multistep(actions, &mut |step, _| {
        states.push(step.outcome.state());
        Ok(ControlFlow::Continue(()))
    });
    played.unwrap();
    states
}

/// A program whose first state takes part in something once, when it is doubled.
fn planted(folder: &tempfile::TempDir, harm: Harm) -> (Benchmark, PathBuf) {
    let file = folder.path().join("once");
    arm(&file);
    let plant = plant(harm, "double", 1, Only::Once(file.clone()));
    (toy::planted(URI, 1000, 8, plant), file)
}

const URI: &str = "generator://toy-v0/1";
const INCREMENT: ActionIndex = ActionIndex(0);
const DOUBLE: ActionIndex = ActionIndex(1);

#[test]
fn a_worker_begins_with_announced_actions_before_anybody_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (benchmark, file) = planted(&folder, Harm::Recurses);
    let mut session = session(config());
    start(session.as_mut(), &benchmark);
    session.announce(&[DOUBLE]);
    until("the worker begins", || is_spent(&file));
    assert_eq!(play(session.as_mut(), &[DOUBLE]).len(), 1);
}

/// Whatever follows an announcement, the session does what one without announcements does.
#[test]
fn an_announcement_changes_no_answer() {
    let benchmark = toy::benchmark(3);
    for seed in 0..20_u64 {
        let mut number = seed;
        let mut below = |count: u64| {
            number = u64::wrapping_add(number.wrapping_mul(6_364_136_223_846_793_005), 1);
            u32::try_from((number >> 33) % count).unwrap()
        };
        let mut there = session(config());
        let mut here = ToyEnvironment::default().session().unwrap();
        assert_eq!(start(here.as_mut(), &benchmark), start(there.as_mut(), &benchmark));
        for _ in 0..12 {
            let actions: Vec<_> = (0..=below(3)).map(|_| ActionIndex(below(7))).collect();
            there.announce(&actions);
            let others = [ActionIndex(below(7))];
            match below(7) {
                0 => {
                    let space = ObservationIndex(4);
                    assert_eq!(here.observe(space).unwrap(), there.observe(space).unwrap());
                }
                1 => {
                    assert_eq!(start(here.as_mut(), &benchmark), start(there.as_mut(), &benchmark));
                }
                2 => {
                    let (mut of_here, mut of_there) = (here.fork().unwrap(), there.fork().unwrap());
                    of_there.announce(&others);
                    assert_eq!(play(of_here.as_mut(), &others), play(of_there.as_mut(), &others));
                }
                3 => assert_eq!(play(here.as_mut(), &others), play(there.as_mut(), &others)),
                4 => there.announce(&others),
                _ => assert_eq!(play(here.as_mut(), &actions), play(there.as_mut(), &actions)),
            }
        }
    }
}

#[test]
fn an_interrupt_ends_a_step_and_leaves_the_state_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let (benchmark, file) = planted(&folder, Harm::Hangs);
    let was_raised = AtomicBool::new(false);
    let interrupt =
        Interrupt::new(move || is_spent(&file) && !was_raised.swap(true, Ordering::Relaxed));
    let mut session = session(WorkerConfig { interrupt, ..config() });
    start(session.as_mut(), &benchmark);
    let before = session.apply(INCREMENT).unwrap().outcome.state();
    assert!(matches!(session.apply(DOUBLE), Err(SessionError::Interrupted)));
    // The plant is spent, so this time the action comes to its end.
    let mut calm = ToyEnvironment::default().session().unwrap();
    start(calm.as_mut(), &benchmark);
    assert_eq!(before, calm.apply(INCREMENT).unwrap().outcome.state());
    let (wanted, found) = (calm.apply(DOUBLE).unwrap(), session.apply(DOUBLE).unwrap());
    assert_eq!(found.outcome, wanted.outcome);
}

/// A session whose step is interrupted by something that uses its fork: the fork waits for nobody.
#[test]
fn an_interrupt_may_not_use_the_compiler_that_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (benchmark, file) = planted(&folder, Harm::Hangs);
    let fork: Arc<Mutex<Option<Box<dyn Session>>>> = Arc::default();
    let (used, answers) = (Arc::clone(&fork), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&answers);
    let interrupt = Interrupt::new(move || {
        if let Some(mut fork) = used.lock().unwrap().take() {
            let mut noted = noted.lock().unwrap();
            noted.push(fork.observe(ObservationIndex(4)).map(drop));
            noted.push(fork.apply(INCREMENT).map(drop));
            noted.push(fork.fork().map(drop));
            fork.announce(&[INCREMENT]);
            return is_spent(&file);
        }
        false
    });
    let mut session = session(WorkerConfig { interrupt, ..config() });
    start(session.as_mut(), &benchmark);
    *fork.lock().unwrap() = Some(session.fork().unwrap());
    assert!(matches!(session.apply(DOUBLE), Err(SessionError::Interrupted)));
    let answers = std::mem::take(&mut *answers.lock().unwrap());
    assert_eq!(answers.len(), 3);
    for answer in answers {
        assert!(matches!(answer, Err(SessionError::Broken(_))), "{answer:?}");
    }
    assert_eq!(play(session.as_mut(), &[DOUBLE]).len(), 1);
}

/// How a worker dies is heard of, also if nobody waited for it then.
#[test]
fn the_death_of_a_worker_is_judged_as_without_an_announcement() {
    let folder = tempfile::tempdir().unwrap();
    for (number, harm) in [Harm::Aborts, Harm::Panics, Harm::Killed].into_iter().enumerate() {
        for only in [Only::Ever, Only::Once(PathBuf::new())] {
            let mut told = Vec::new();
            for is_announced in [false, true] {
                let file = folder.path().join("once");
                arm(&file);
                let only = if only == Only::Ever { Only::Ever } else { Only::Once(file) };
                let benchmark = toy::planted(URI, 1000, 8, plant(harm, "double", 1, only));
                // A number by which this test knows its own workers.
                let memory_bytes_max = (4 << 30) + 4096 * (100 + number as u64);
                let config = WorkerConfig { memory_bytes_max, ..config() };
                let spec = ToyEnvironment::default().spec().clone();
                let environment = WorkerEnvironment::new(spec, config);
                let mut session = environment.session().unwrap();
                start(session.as_mut(), &benchmark);
                if is_announced {
                    session.announce(&[DOUBLE]);
                    until("the worker ends", || workers_with(memory_bytes_max).is_empty());
                }
                let step = session.apply(DOUBLE);
                let step = step.map(|step| step.outcome).map_err(|error| error.to_string());
                told.push((format!("{step:?}"), environment.repeated_windows()));
            }
            assert_eq!(told[0], told[1], "{harm:?} {only:?}");
        }
    }
}

/// A recorder has written a step by the time the interrupt is heard.
#[test]
fn a_step_that_was_visited_is_taken_whatever_the_interrupt_says() {
    let is_visited = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_visited);
    let interrupt = Interrupt::new(move || seen.swap(false, Ordering::Relaxed));
    let environment = LlvmEnvironment::new();
    let spec = environment.spec().clone();
    let action = spec.action_spaces[0].index_of("mem2reg").unwrap();
    // More than is read at once, so that the end of the request is read after the step.
    let texts = [spec.observation_index("Ir").unwrap(); 16];
    let watch = Watch { spaces: texts.to_vec(), ..Watch::default() };
    let workers = WorkerEnvironment::new(spec.clone(), WorkerConfig { interrupt, ..config() });
    let mut session = workers.session().unwrap();
    let benchmark = keyed_hash();
    let action_space = &spec.action_spaces[0].name;
    let start = Start { benchmark: &benchmark, action_space, baselines: None, watch: &watch };
    session.start(&start).unwrap();
    let mut bytes = 0;
    let played = session.multistep(&[action], &mut |_, observe| {
        for space in texts {
            let Value::Text(text) = observe(space)? else { panic!("it is text") };
            bytes += text.len();
        }
        is_visited.store(true, Ordering::Relaxed);
        // Longer than the time between two questions.
        let visited = Instant::now();
        until("time has passed", || visited.elapsed() >= Duration::from_millis(300));
        Ok(ControlFlow::Continue(()))
    });
    played.unwrap();
    assert!(bytes > 256 << 10, "{bytes} bytes come in one read");
    // It is heard by a later call.
    let heard = loop {
        if let Err(error) = session.apply(action) {
            break error;
        }
    };
    assert!(matches!(heard, SessionError::Interrupted), "{heard}");
}
