//! Replaying: runs recorded transitions again in the live environment, from their stored states.
//!
//! This makes a lake worth trusting: a transition with another result reveals an action that
//! depends on more than the state (its flags say so), or a defect.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::rebuild::{RebuildObstacle, Rebuilt, rebuild};
use super::stored_state::{ReplayError, begin, demand_same};
use steplake_env::{Environment, Session, SessionError};
pub use steplake_lake::Transition;
use steplake_lake::progress::{Thread, in_threads};
use steplake_lake::{LakeError, OnProgress, Snapshot};
use steplake_model::{ActionSpec, Dice, Outcome, StateId};

/// A transition with another result than recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disagreement {
    /// The recorded transition.
    pub transition: Transition,
    /// The result of the replay: another state, or how the compiler failed.
    pub found: Outcome,
}

/// The result of replaying.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Number of transitions that were run again.
    pub replayed: usize,
    /// Transitions with another result, in the order in which they were drawn.
    pub disagreements: Vec<Disagreement>,
    /// Number of replayed transitions that begin in a state whose IR had to be rebuilt.
    pub rebuilt: usize,
    /// Number of drawn transitions of which the lake has no IR, and was never meant to have any.
    pub without_ir: usize,
    /// States that should have been rebuilt and could not be: each once, with the reason.
    pub lost: Vec<RebuildObstacle>,
}

/// Draws `count` transitions of the lake without repetition (all, if it has fewer), in a random
/// order fixed by `seed`.
///
/// # Errors
///
/// Those of the store.
pub fn draw(snapshot: &Snapshot, count: usize, seed: i64) -> Result<Vec<Transition>, LakeError> {
    let mut drawn: Vec<(u64, Transition)> = Vec::new();
    let mut dice = Dice::new(seed, 0);
    for transition in snapshot.transitions()? {
        drawn.push((dice.draw(), transition?));
        // The smallest tickets win: a sample without repetition in one pass and bounded memory.
        if drawn.len() > count.saturating_mul(2).saturating_add(1 << 16) {
            drawn.sort_unstable_by_key(|&(ticket, _)| ticket);
            drawn.truncate(count);
        }
    }
    drawn.sort_unstable_by_key(|&(ticket, _)| ticket);
    drawn.truncate(count);
    Ok(drawn.into_iter().map(|(_, transition)| transition).collect())
}

/// Runs `transitions` again on `jobs` sessions of `environment`. Calls `progress` with the number
/// of those that are done and of all. After a break, those that are under way are still done.
///
/// # Errors
///
/// See [`ReplayError`]; [`LakeError::Interrupted`] after a break.
pub fn replay(
    environment: &dyn Environment,
    snapshot: &Snapshot,
    transitions: &[Transition],
    jobs: usize,
    progress: &mut OnProgress<'_>,
) -> Result<ReplayReport, ReplayError> {
    demand_same(environment, snapshot.identity())?;
    played_again(environment, snapshot, transitions, Missing::Rebuild, jobs, progress)
}

/// Runs those of `transitions` again whose action means the same in `environment`, which may have
/// another build of the compiler: so it shows whether two contexts agree. Only states whose IR is
/// stored are played from, since the path to another state would be played by that other build.
///
/// # Errors
///
/// [`ReplayError::OtherEnvironment`] if the environment, the scheme of the ids of states or the
/// action space is another one, and those of [`replay`].
pub fn replay_elsewhere(
    environment: &dyn Environment,
    snapshot: &Snapshot,
    transitions: &[Transition],
    jobs: usize,
    progress: &mut OnProgress<'_>,
) -> Result<ReplayReport, ReplayError> {
    let (lake, spec) = (snapshot.identity(), environment.spec());
    let space = spec.action_space(&lake.action_space.name);
    let is_comparable = lake.environment == spec.name && lake.state_scheme == spec.state_scheme;
    let Some(here) = space.filter(|_| is_comparable) else {
        return Err(ReplayError::other_environment(environment, lake));
    };
    let means_the_same = |transition: &&Transition| {
        let meaning = |action: &ActionSpec| (action.pipeline.clone(), action.parameters.clone());
        let there = lake.action_space.get(transition.action).map(meaning);
        there.is_some() && there == here.get(transition.action).map(meaning)
    };
    let known: Vec<Transition> = transitions.iter().filter(means_the_same).copied().collect();
    played_again(environment, snapshot, &known, Missing::LeaveOut, jobs, progress)
}

/// What to do about a state whose IR is not stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Rebuild,
    LeaveOut,
}

fn played_again(
    environment: &dyn Environment,
    snapshot: &Snapshot,
    transitions: &[Transition],
    missing: Missing,
    jobs: usize,
    progress: &mut OnProgress<'_>,
) -> Result<ReplayReport, ReplayError> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = |(), thread: &Thread<'_>| -> Result<(), ReplayError> {
        let mut session = Some(environment.session()?);
        loop {
            let place = next.fetch_add(TRANSITIONS_AT_ONCE, Ordering::Relaxed);
            let Some(rest) = transitions.get(place..).filter(|rest| !rest.is_empty()) else {
                return Ok(());
            };
            let some = &rest[..rest.len().min(TRANSITIONS_AT_ONCE)];
            for (at, (beginning, rebuilt)) in
                (place..).zip(beginnings(environment, &mut session, snapshot, some, missing)?)
            {
                thread.demand_go_on()?;
                let run = |program: Vec<u8>| {
                    let session = session.as_mut().expect("it was opened above").as_mut();
                    let outcome = run(environment, session, snapshot, &transitions[at], &program)?;
                    Ok::<_, SessionError>((outcome, rebuilt))
                };
                let replayed: ReplayedTransition = match beginning {
                    Err(obstacle) => Err(obstacle),
                    Ok(program) => Ok(program.map(run).transpose()?),
                };
                found.lock().insert(at, replayed);
                thread.did(1);
            }
        }
    };
    let (mut done, all) = (0, transitions.len() as u64);
    in_threads(vec![(); jobs.max(1)], work, &mut |more| {
        done += more;
        progress(done, all)
    })?;
    let found = found.into_inner();
    Ok(report(transitions, found))
}

/// Number of transitions whose states are looked up together.
const TRANSITIONS_AT_ONCE: usize = 128;

/// The outcome of one transition and whether the state before it was rebuilt; `None` if the lake
/// was never meant to have that state.
type ReplayedTransition = Result<Option<(Outcome, bool)>, RebuildObstacle>;

/// Returns the serialised states in which transitions begin, and whether each was rebuilt.
fn beginnings(
    environment: &dyn Environment,
    session: &mut Option<Box<dyn Session>>,
    snapshot: &Snapshot,
    transitions: &[Transition],
    missing: Missing,
) -> Result<Vec<(Rebuilt, bool)>, ReplayError> {
    let states: Vec<StateId> = transitions.iter().map(|transition| transition.state).collect();
    let stored = snapshot.ir(&states)?;
    if missing == Missing::LeaveOut {
        return Ok(stored.into_iter().map(|stored| (Ok(stored), false)).collect());
    }
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

fn report(transitions: &[Transition], found: BTreeMap<usize, ReplayedTransition>) -> ReplayReport {
    let mut report = ReplayReport::default();
    for (place, replayed) in found {
        let transition = transitions[place];
        match replayed {
            Ok(None) => report.without_ir += 1,
            Err(obstacle) if report.lost.contains(&obstacle) => {}
            Err(obstacle) => report.lost.push(obstacle),
            Ok(Some((found, rebuilt))) => {
                report.replayed += 1;
                report.rebuilt += usize::from(rebuilt);
                if found.state() != Some(transition.next) {
                    report.disagreements.push(Disagreement { transition, found });
                }
            }
        }
    }
    report
}

/// Starts an episode in a stored state and applies the action.
fn run(
    environment: &dyn Environment,
    session: &mut dyn Session,
    snapshot: &Snapshot,
    transition: &Transition,
    state: &[u8],
) -> Result<Outcome, SessionError> {
    match begin(environment, session, snapshot, transition.state, state)? {
        Outcome::State { id, .. } if id == transition.state => {
            Ok(session.apply(transition.action)?.outcome)
        }
        // The state does not even come back as itself: report that.
        other => Ok(other),
    }
}
