//! Recomputing: has the compiler check what a lake says of its states and programs.
//!
//! The store can prove by itself that the bytes of a stored state are those that were written. Only
//! the environment can tell whether they are the state with that id, and whether a program costs
//! what its row says.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use parking_lot::Mutex;

use super::stored_state::{ReplayError, demand_same, start};
use steplake_env::{Environment, Session, SessionError};
use steplake_lake::progress::{ASK_INTERVAL, Thread, demand, in_threads};
use steplake_lake::upkeep::{Finding, StoredState};
use steplake_lake::{Identity, LakeError, OnProgress, REPORT, RecordedBenchmark, Snapshot};
use steplake_model::{Baselines, Dice, StateId, Value};

/// Most states that wait for each session.
const STATES_WAITING: usize = 2;

/// The result of recomputing the ids of stored states.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ids {
    /// Number of states whose ids were recomputed.
    pub compared: u64,
    /// States with another id: the first of each file, and how many more.
    pub findings: Vec<Finding>,
    /// Why the compiler is not available. Then some or all ids were not recomputed.
    pub unavailable: Option<String>,
}

/// Recomputes the ids of the states that `read` passes to its argument, on `jobs` sessions, while
/// `read` goes on. Calls `progress` with the number of ids recomputed and of states passed on.
/// After a break, `read` is told to stop, and the ids that are just being recomputed are still
/// done.
///
/// # Errors
///
/// If a session fails in a way that is neither the compiler's nor a lack of the compiler;
/// [`LakeError::Interrupted`] after a break of `progress`.
pub fn ids<R>(
    environment: &dyn Environment,
    jobs: usize,
    progress: &mut OnProgress<'_>,
    read: impl FnOnce(&mut dyn FnMut(StoredState) -> ControlFlow<()>) -> R,
) -> Result<(R, Ids), ReplayError> {
    let jobs = jobs.max(1);
    let (sender, states) = channel();
    let (took, taken) = channel();
    let (states, is_stopped) = (Arc::new(Mutex::new(states)), AtomicBool::new(false));
    let (compared, wrong) = (Mutex::new(Ids::default()), Mutex::new(ContradictingStates::new()));
    let (mut passed, mut goes_on) = (0, ControlFlow::Continue(()));
    let mut ask = |passed| {
        if goes_on.is_continue() {
            goes_on = progress(compared.lock().compared, passed);
            is_stopped.fetch_or(goes_on.is_break(), Ordering::Relaxed);
        }
        goes_on
    };
    let read = std::thread::scope(|scope| {
        let begin = |_| {
            let queue = Queue { states: Arc::clone(&states), took: took.clone() };
            let (is_stopped, compared, wrong) = (&is_stopped, &compared, &wrong);
            scope.spawn(move || compare(environment, &queue, is_stopped, compared, wrong))
        };
        let workers: Vec<_> = (0..jobs).map(begin).collect();
        // The last session to end drops the receiver, so that the reader does not wait for it.
        drop((states, took));
        let mut waiting = 0;
        let read = read(&mut |stored| {
            // Without sessions nobody takes it.
            let _ = sender.send(stored);
            (passed, waiting) = (passed + 1, waiting + 1);
            loop {
                ask(passed)?;
                waiting -= taken.try_iter().count();
                if waiting <= jobs * STATES_WAITING {
                    return ControlFlow::Continue(());
                }
                match taken.recv_timeout(ASK_INTERVAL) {
                    Ok(()) => waiting -= 1,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return ControlFlow::Continue(()),
                }
            }
        });
        drop(sender);
        while taken.recv_timeout(ASK_INTERVAL) != Err(RecvTimeoutError::Disconnected) {
            // A break has been noted for the sessions.
            let _ = ask(passed);
        }
        for worker in workers {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok::<_, SessionError>(read)
    })?;
    demand(goes_on)?;
    let mut ids = compared.into_inner();
    let wrong = wrong.into_inner();
    let wrong = wrong.into_iter();
    let wrong = wrong
        .map(|((path, _), (what, count))| Finding::of(path, format!("{what}: {REPORT}"), count));
    ids.findings.extend(wrong);
    Ok((read, ids))
}

/// States that contradict their ids, by file and by whether they are states at all: what is wrong
/// with the smallest one, and their number.
type ContradictingStates = BTreeMap<(PathBuf, bool), (String, u64)>;

/// States to take, and where to say that one was taken.
struct Queue {
    states: Arc<Mutex<Receiver<StoredState>>>,
    took: Sender<()>,
}

/// Takes states until there are no more, there is no compiler, or the work is stopped.
fn compare(
    environment: &dyn Environment,
    queue: &Queue,
    is_stopped: &AtomicBool,
    compared: &Mutex<Ids>,
    wrong: &Mutex<ContradictingStates>,
) -> Result<(), SessionError> {
    let mut session = None;
    loop {
        let next = queue.states.lock().recv();
        let Ok(StoredState { path, state, bitcode }) = next else { return Ok(()) };
        if is_stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        // The reader may be done.
        let _ = queue.took.send(());
        let found = match &mut session {
            Some(session) => identified(session, &bitcode),
            None => environment
                .session()
                .and_then(|opened| identified(session.insert(opened), &bitcode)),
        };
        if let Err(SessionError::Unavailable { detail, .. }) = found {
            compared.lock().unavailable.get_or_insert(detail);
            return Ok(());
        }
        let found = found?;
        compared.lock().compared += 1;
        let is_no_state = found.is_err();
        let found = match found {
            Ok(found) if found == state => continue,
            Ok(found) => format!("state {found}"),
            Err(detail) => format!("no state ({detail})"),
        };
        let what = format!("what is stored as state {state} is {found}");
        let mut wrong = wrong.lock();
        let (smallest, count) =
            wrong.entry((path, is_no_state)).or_insert_with(|| (what.clone(), 0));
        // The order of these texts is that of the states.
        *smallest = what.min(std::mem::take(smallest));
        *count += 1;
    }
}

/// Returns the id of the state with these bytes, or why they are no state.
fn identified(
    session: &mut Box<dyn Session>,
    bitcode: &[u8],
) -> Result<Result<StateId, String>, SessionError> {
    let mut is_second = false;
    loop {
        match session.identify(bitcode) {
            Ok(id) => return Ok(Ok(id)),
            // The worker may have died of something else; a second, fresh worker tells.
            Err(SessionError::Worker(_)) if !is_second => is_second = true,
            Err(SessionError::BadProgram { detail, .. } | SessionError::Worker(detail)) => {
                return Ok(Err(detail));
            }
            Err(error) => return Err(error),
        }
    }
}

/// The result of recomputing the baselines of programs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BaselineReport {
    /// Number of programs with baselines in the lake.
    pub programs: usize,
    /// Number of programs whose baselines were recomputed.
    pub compared: usize,
    /// Number of programs that were skipped, since the lake has no IR of their first states.
    pub without_ir: usize,
    /// The compared programs with different baselines: one line each.
    pub differing: Vec<String>,
}

/// A program and its recorded baselines.
struct RecordedBaselines {
    uri: String,
    initial_state: StateId,
    baselines: Baselines,
}

/// Recomputes the baselines of `count` programs, or of all if there are fewer, on `jobs` sessions,
/// from their first states in the lake. `seed` fixes which programs. Calls `progress` with the
/// number of programs that are done and of those to do; after a break, those that are under way are
/// still done.
///
/// # Errors
///
/// See [`ReplayError`]; [`LakeError::Interrupted`] after a break.
pub fn baselines(
    environment: &dyn Environment,
    snapshot: &Snapshot,
    count: usize,
    seed: i64,
    jobs: usize,
    progress: &mut OnProgress<'_>,
) -> Result<BaselineReport, ReplayError> {
    demand_same(environment, snapshot.identity())?;
    let drawn = drawn(snapshot, seed)?;
    let mut report = BaselineReport { programs: drawn.len(), ..BaselineReport::default() };
    let (mut drawn, mut sample) = (drawn.into_iter().peekable(), Vec::new());
    // Looks up all missing states at once: a lookup costs as much for many states as for one, if
    // they lie together.
    while sample.len() < count && drawn.peek().is_some() {
        let next: Vec<RecordedBaselines> = drawn.by_ref().take(count - sample.len()).collect();
        let states: Vec<StateId> = next.iter().map(|measured| measured.initial_state).collect();
        for (measured, bitcode) in next.into_iter().zip(snapshot.ir(&states)?) {
            match bitcode {
                Some(bitcode) => sample.push((measured, bitcode)),
                None => report.without_ir += 1,
            }
        }
    }
    report.compared = sample.len();
    let share = sample.len().div_ceil(jobs.max(1)).max(1);
    let lake = snapshot.identity();
    let measure = |share: &[(RecordedBaselines, Vec<u8>)], thread: &Thread<'_>| {
        let mut session = environment.session()?;
        let mut differing = Vec::new();
        for (measured, bitcode) in share {
            thread.demand_go_on()?;
            let found = difference(session.as_mut(), environment, lake, measured, bitcode)?;
            differing.extend(found);
            thread.did(1);
        }
        Ok::<_, ReplayError>(differing)
    };
    let (mut done, all) = (0, sample.len() as u64);
    let differing = in_threads(sample.chunks(share), measure, &mut |more| {
        done += more;
        progress(done, all)
    })?;
    report.differing = differing.concat();
    Ok(report)
}

/// Returns the programs with baselines, in a random order fixed by `seed`.
fn drawn(snapshot: &Snapshot, seed: i64) -> Result<Vec<RecordedBaselines>, LakeError> {
    let mut programs = Vec::new();
    for benchmark in snapshot.benchmarks() {
        let RecordedBenchmark { uri, known, .. } = benchmark?;
        // A repair may have lost the baselines; those on request may never have been measured.
        if let (Some(initial_state), false) = (known.initial_state, known.baselines.0.is_empty()) {
            programs.push(RecordedBaselines { uri, initial_state, baselines: known.baselines });
        }
    }
    programs.sort_unstable_by(|one, other| one.uri.cmp(&other.uri));
    let mut dice = Dice::new(seed, 0);
    let mut drawn = programs.into_iter().map(|program| (dice.draw(), program)).collect::<Vec<_>>();
    drawn.sort_by_key(|&(ticket, _)| ticket);
    Ok(drawn.into_iter().map(|(_, program)| program).collect())
}

/// Describes a program's current baselines if they differ from those in the lake.
fn difference(
    session: &mut dyn Session,
    environment: &dyn Environment,
    lake: &Identity,
    measured: &RecordedBaselines,
    bitcode: &[u8],
) -> Result<Option<String>, SessionError> {
    let RecordedBaselines { uri, initial_state, baselines } = measured;
    let mut found = match start(session, lake, *initial_state, bitcode, None) {
        Ok(started) => started.baselines,
        Err(SessionError::StartFailed { failure, .. }) => {
            let said = format!("{uri}: the compiler failed over it this time");
            return Ok(Some(format!("{said} ({}: {})", failure.kind, failure.detail)));
        }
        Err(SessionError::BadProgram { detail, .. }) => {
            return Ok(Some(format!("{uri}: its first state cannot be read ({detail})")));
        }
        Err(error) => return Err(error),
    };
    for (name, _) in &baselines.0 {
        if found.get(name).is_some() {
            continue;
        }
        let Some(space) = environment.spec().observation_index(name) else { continue };
        match session.observe(space) {
            Ok(Value::Int(cost)) => found.0.push((name.clone(), cost)),
            Ok(_) | Err(SessionError::Unobservable(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let differ = baselines.0.iter().filter_map(|(name, stored)| {
        let found = found.get(name);
        let here = found.map_or("nothing".to_owned(), |found| found.to_string());
        (found != Some(*stored)).then(|| format!("{name} is {stored} in the lake and {here} here"))
    });
    let differ = differ.collect::<Vec<_>>().join(", ");
    Ok((!differ.is_empty()).then(|| format!("{uri}: {differ}")))
}
