//! Replaying: recorded transitions, run again in the live environment from their stored states.
//!
//! This is what makes a lake worth trusting: a transition that comes out otherwise is either an
//! action that depends on more than the state (its flags say so) or a defect.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int16Type;

use super::generate::Dice;
use super::rebuild::{Obstacle, Rebuilt, rebuild};
use crate::env::{Environment, Session, SessionError, Start, Started, Watch};
use crate::model::{ActionIndex, Baselines, Benchmark, BenchmarkUri, Outcome, Provenance, StateId};
use crate::store::{Identity, Snapshot, StoreError, Table};

/// A transition as it was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The state before.
    pub state: StateId,
    /// The action.
    pub action: ActionIndex,
    /// The state after.
    pub next: StateId,
}

/// A transition that came out otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The transition as it was recorded.
    pub edge: Edge,
    /// What came of it: another state, or how the compiler failed.
    pub found: Outcome,
}

/// What came of replaying.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// How many transitions were run again.
    pub replayed: usize,
    /// Those that came out otherwise, in the order in which they were drawn.
    pub disagreements: Vec<Disagreement>,
    /// How many of them began in a state whose IR had to be rebuilt first.
    pub rebuilt: usize,
    /// How many were drawn of which the lake has no IR, and was never to have any.
    pub without_ir: usize,
    /// States that should have been rebuilt and could not be: each once, with why.
    pub lost: Vec<Obstacle>,
}

/// Why replaying did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The lake cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A session failed in a way that is not the compiler's.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The live environment is another one than the lake's.
    #[error(
        "the lake was recorded with {lake}, and what is here is {here}: transitions of another compiler cannot be replayed"
    )]
    OtherEnvironment {
        /// The lake's environment and compiler.
        lake: String,
        /// Those that are here.
        here: String,
    },
}

/// Draws `count` transitions of the lake without repetition, all if it has fewer, in a random order
/// that `seed` fixes.
///
/// # Errors
///
/// What the store says.
pub fn draw(snapshot: &Snapshot, count: usize, seed: i64) -> Result<Vec<Edge>, StoreError> {
    let mut drawn: Vec<(u64, Edge)> = Vec::new();
    let mut dice = Dice::new(seed, 0);
    for batch in snapshot.scan_layers(Table::StateTransitions, &(i64::MIN..=i64::MAX))? {
        let batch = batch?;
        let column = |name| batch.column_by_name(name).expect("it was asked for");
        let (states, nexts) = (column("state_id"), column("next_state_id"));
        let actions = column("action").as_primitive::<Int16Type>();
        for row in 0..batch.num_rows() {
            let id =
                |column: &dyn Array| StateId::from_slice(column.as_fixed_size_binary().value(row));
            let action = ActionIndex(actions.value(row).cast_unsigned());
            let edge = Edge { state: id(states), action, next: id(nexts) };
            drawn.push((dice.draw(), edge));
        }
        // The smallest tickets win: a sample without repetition in one pass and bounded memory.
        if drawn.len() > count.saturating_mul(2).saturating_add(1 << 16) {
            drawn.sort_unstable_by_key(|&(ticket, _)| ticket);
            drawn.truncate(count);
        }
    }
    drawn.sort_unstable_by_key(|&(ticket, _)| ticket);
    drawn.truncate(count);
    Ok(drawn.into_iter().map(|(_, edge)| edge).collect())
}

/// Runs `edges` again on `jobs` sessions of `environment`. `progress` is called after each.
///
/// # Errors
///
/// See [`ReplayError`].
pub fn replay(
    environment: &dyn Environment,
    snapshot: &Snapshot,
    edges: &[Edge],
    jobs: usize,
    progress: &(dyn Fn() + Sync),
) -> Result<ReplayReport, ReplayError> {
    demand_same(environment, snapshot.identity())?;
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || -> Result<(), ReplayError> {
        let mut session = Some(environment.session()?);
        loop {
            let place = next.fetch_add(EDGES_AT_ONCE, Ordering::Relaxed);
            let Some(rest) = edges.get(place..).filter(|rest| !rest.is_empty()) else {
                return Ok(());
            };
            let some = &rest[..rest.len().min(EDGES_AT_ONCE)];
            for (edge, (beginning, rebuilt)) in
                (place..).zip(beginnings(environment, &mut session, snapshot, some)?)
            {
                let came_to = match beginning {
                    Err(obstacle) => CameTo::Lost(obstacle),
                    Ok(None) => CameTo::WithoutIr,
                    Ok(Some(program)) => {
                        let session = session.as_mut().expect("it was opened above").as_mut();
                        let edge = &edges[edge];
                        let outcome = run(environment, session, snapshot, edge, &program)?;
                        CameTo::Outcome { outcome, rebuilt }
                    }
                };
                found.lock().unwrap_or_else(PoisonError::into_inner).insert(edge, came_to);
                progress();
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(report(edges, found))
}

/// Transitions whose states are looked up together.
const EDGES_AT_ONCE: usize = 128;

/// What came of one transition.
enum CameTo {
    Outcome { outcome: Outcome, rebuilt: bool },
    WithoutIr,
    Lost(Obstacle),
}

/// The serialised states that transitions begin in, and whether each was rebuilt.
fn beginnings(
    environment: &dyn Environment,
    session: &mut Option<Box<dyn Session>>,
    snapshot: &Snapshot,
    edges: &[Edge],
) -> Result<Vec<(Rebuilt, bool)>, ReplayError> {
    let states: Vec<StateId> = edges.iter().map(|edge| edge.state).collect();
    let stored = snapshot.ir(&states)?;
    let missing = states.iter().zip(&stored).filter(|(_, stored)| stored.is_none());
    let missing: Vec<StateId> = missing.map(|(&state, _)| state).collect();
    let mut rebuilt = if missing.is_empty() {
        Vec::new().into_iter()
    } else {
        rebuild(environment, session, snapshot, &missing)?.into_iter()
    };
    let either = |stored: Option<Vec<u8>>| match stored {
        Some(program) => (Ok(Some(program)), false),
        None => (rebuilt.next().unwrap_or(Ok(None)), true),
    };
    Ok(stored.into_iter().map(either).collect())
}

fn report(edges: &[Edge], found: BTreeMap<usize, CameTo>) -> ReplayReport {
    let mut report = ReplayReport::default();
    for (place, came_to) in found {
        let edge = edges[place];
        match came_to {
            CameTo::WithoutIr => report.without_ir += 1,
            CameTo::Lost(obstacle) if report.lost.contains(&obstacle) => {}
            CameTo::Lost(obstacle) => report.lost.push(obstacle),
            CameTo::Outcome { outcome: found, rebuilt } => {
                report.replayed += 1;
                report.rebuilt += usize::from(rebuilt);
                if found.state() != Some(edge.next) {
                    report.disagreements.push(Disagreement { edge, found });
                }
            }
        }
    }
    report
}

/// Refuses an environment that is not the lake's.
///
/// # Errors
///
/// [`ReplayError::OtherEnvironment`].
pub fn demand_same(environment: &dyn Environment, identity: &Identity) -> Result<(), ReplayError> {
    let spec = environment.spec();
    if (spec.name, &spec.compiler) == (identity.environment.as_str(), &identity.compiler) {
        return Ok(());
    }
    Err(ReplayError::OtherEnvironment {
        lake: format!("{} ({})", identity.environment, identity.compiler),
        here: format!("{} ({})", spec.name, spec.compiler),
    })
}

/// Starts an episode in a stored state and applies the action.
fn run(
    environment: &dyn Environment,
    session: &mut dyn Session,
    snapshot: &Snapshot,
    edge: &Edge,
    state: &[u8],
) -> Result<Outcome, SessionError> {
    match begin(environment, session, snapshot, edge.state, state)? {
        Outcome::State { id, .. } if id == edge.state => Ok(session.apply(edge.action)?.outcome),
        // The state does not even come back as itself: that is what is to be reported.
        other => Ok(other),
    }
}

/// Starts an episode in a state, given its serialisation: the state that it begins in, which should
/// be the same one, or how the compiler failed over it.
pub(super) fn begin(
    environment: &dyn Environment,
    session: &mut dyn Session,
    snapshot: &Snapshot,
    state: StateId,
    serialised: &[u8],
) -> Result<Outcome, SessionError> {
    // Rewards do not matter here, and finding out the baselines would cost most of the time.
    let of_benchmark =
        environment.spec().observation_spaces.iter().filter(|space| space.of_benchmark);
    let baselines = Baselines(of_benchmark.map(|space| (space.name.to_owned(), 0)).collect());
    match start(session, snapshot.identity(), state, serialised, Some(&baselines)) {
        Err(SessionError::StartFailed { failure, .. }) => Ok(Outcome::Crashed(failure)),
        started => Ok(Outcome::State {
            id: started?.state,
            changed: true,
            end_of_episode: false,
            action_space_changed: false,
        }),
    }
}

/// Starts an episode in a state of a lake, given its serialisation.
pub(super) fn start(
    session: &mut dyn Session,
    lake: &Identity,
    state: StateId,
    serialised: &[u8],
    baselines: Option<&Baselines>,
) -> Result<Started, SessionError> {
    let uri: BenchmarkUri =
        format!("benchmark://state/{state}").parse().expect("digits make a path");
    let (program, provenance) = (serialised.into(), Provenance::default());
    session.start(&Start {
        benchmark: &Benchmark { uri, program, provenance },
        action_space: &lake.action_space.name,
        baselines,
        watch: &Watch::default(),
    })
}
