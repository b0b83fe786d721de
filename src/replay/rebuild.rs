//! Rebuilding: the IR of states that are not stored, by replaying the recorded way from a stored
//! state.
//!
//! The result is proved: each step leads to the recorded state, and the id of every returned state
//! is computed once more from its bytes alone. If a way leads elsewhere this time, another recorded
//! way is tried; if none is left, the result is an error. A wrong text is never returned.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::sample::{ReplayError, begin, demand_same};
use crate::env::{Environment, Session, SessionError};
use crate::lake::{LakeError, Snapshot};
use crate::model::{ActionIndex, Outcome, StateId, Value};
use crate::replay::Trail;

/// The result for one state: its serialisation; `None`, if the lake was never meant to hold it; or
/// why it could not be rebuilt.
pub type Rebuilt = Result<Option<Vec<u8>>, Obstacle>;

/// Why a state could not be rebuilt; if several ways were tried, why the last one failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The lake has lost the state in which the way begins.
    #[error(
        "the IR of state {state} is rebuilt from that of keyframe {keyframe}, which is not in the lake: \
         `steplake verify` says what is damaged, and the table `losses` what repairs had to drop"
    )]
    MissingKeyframe {
        /// The state.
        state: StateId,
        /// The state that should be stored but is not.
        keyframe: StateId,
    },
    /// The replay diverged from the recorded steps.
    #[error(
        "the IR of state {state} cannot be rebuilt: on the recorded way from stored state {start}, {action} \
         led to {found} this time, and no other recorded way leads there either"
    )]
    Elsewhere {
        /// The state.
        state: StateId,
        /// The state in which the way begins.
        start: StateId,
        /// The point of divergence: an action, or the start itself.
        action: String,
        /// The result there: a state, or how the compiler failed.
        found: String,
    },
}

/// Why states were not rebuilt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// The lake cannot be read.
    #[error(transparent)]
    Store(#[from] LakeError),
    /// One of the states could not be rebuilt.
    #[error(transparent)]
    State(#[from] Obstacle),
    /// No replay is possible here.
    #[error("the IR of state {state} is not stored, and it cannot be rebuilt here")]
    Unavailable {
        /// One of the requested states.
        state: StateId,
        /// The reason.
        source: ReplayError,
    },
}

/// Provides the IR of any state, stored or not. Opens sessions on demand, one for each thread that
/// asks at the same time, and keeps them for later.
#[derive(Debug)]
pub struct Rebuilder {
    environment: Box<dyn Environment>,
    idle: Mutex<Idle>,
}

#[derive(Default)]
struct Idle(Vec<Box<dyn Session>>);

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Idle").field(&self.0.len()).finish()
    }
}

impl Rebuilder {
    /// Replays in `environment`. If a replay may crash, its sessions should be in worker processes.
    pub fn new(environment: Box<dyn Environment>) -> Self {
        Self { environment, idle: Mutex::default() }
    }

    /// Returns the serialisation of each state, stored or rebuilt, in the order of `states`; `None`
    /// if the lake was never meant to hold it. All are in memory at once: ask for a few dozen at a
    /// time.
    ///
    /// # Errors
    ///
    /// See [`RebuildError`]. If one state cannot be rebuilt, the call fails.
    pub fn ir(
        &self,
        snapshot: &Snapshot,
        states: &[StateId],
    ) -> Result<Vec<Option<Vec<u8>>>, RebuildError> {
        let mut found = snapshot.ir(states)?;
        let missing: Vec<usize> = (0..states.len()).filter(|&at| found[at].is_none()).collect();
        let wanted: Vec<StateId> = missing.iter().map(|&at| states[at]).collect();
        for (place, rebuilt) in missing.into_iter().zip(self.rebuild(snapshot, &wanted)?) {
            found[place] = rebuilt;
        }
        Ok(found)
    }

    /// Does the same as [`Rebuilder::ir`] for states that are known not to be stored.
    ///
    /// # Errors
    ///
    /// See [`RebuildError`]. If one state cannot be rebuilt, the call fails.
    pub fn rebuild(
        &self,
        snapshot: &Snapshot,
        states: &[StateId],
    ) -> Result<Vec<Option<Vec<u8>>>, RebuildError> {
        let Some(&state) = states.first() else { return Ok(Vec::new()) };
        let unavailable = |source| match source {
            ReplayError::Store(error) => RebuildError::Store(error),
            source => RebuildError::Unavailable { state, source },
        };
        let mut session = self.idle().0.pop();
        let rebuilt = rebuild(self.environment.as_ref(), &mut session, snapshot, states);
        self.idle().0.extend(session);
        let rebuilt = rebuilt.map_err(unavailable)?;
        rebuilt.into_iter().map(|state| Ok(state?)).collect()
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rebuilds states, in the order of `states`. Opens `session` when it is first needed.
///
/// # Errors
///
/// If the lake cannot be read, if the environment differs from the lake's or is not available, or
/// if a session fails in a way that is not the compiler's.
pub(super) fn rebuild(
    environment: &dyn Environment,
    session: &mut Option<Box<dyn Session>>,
    snapshot: &Snapshot,
    states: &[StateId],
) -> Result<Vec<Rebuilt>, ReplayError> {
    let trails = snapshot.trails(&states.iter().copied().collect())?;
    let mut results: HashMap<StateId, Rebuilt> = HashMap::new();
    let attempts = trails.values().map(Vec::len).max().unwrap_or(0);
    for attempt in 0..attempts {
        let mut by_start: BTreeMap<StateId, Vec<(&Trail, StateId)>> = BTreeMap::new();
        for (&state, trails) in trails.iter().filter(|(state, _)| !is_had(&results, **state)) {
            if let Some(trail) = trails.get(attempt) {
                by_start.entry(trail.start).or_default().push((trail, state));
            }
        }
        for (start, trails) in by_start {
            let Some(program) = snapshot.ir(&[start])?.pop().flatten() else {
                for (_, state) in trails.into_iter().filter(|(trail, _)| trail.from_keyframe) {
                    let missing = Obstacle::MissingKeyframe { state, keyframe: start };
                    results.entry(state).or_insert(Err(missing));
                }
                continue;
            };
            demand_same(environment, snapshot.identity())?;
            let session = if let Some(session) = session {
                session
            } else {
                session.insert(environment.session()?)
            };
            let mut guide = Guide { environment, session: session.as_mut(), snapshot, start };
            for leg in legs(trails) {
                guide.go(&program, &leg, &mut results)?;
            }
        }
    }
    // A state may be requested twice.
    Ok(states.iter().map(|state| results.get(state).cloned().unwrap_or(Ok(None))).collect())
}

fn is_had(results: &HashMap<StateId, Rebuilt>, state: StateId) -> bool {
    matches!(results.get(&state), Some(Ok(_)))
}

/// One replay, with the states on its way: after how many steps, and which.
#[derive(Debug, PartialEq, Eq)]
struct Leg<'a> {
    steps: &'a [(ActionIndex, StateId)],
    stops: Vec<(usize, StateId)>,
}

/// Combines trails into few replays: a trail that is a prefix of another needs no replay of its
/// own.
fn legs(mut trails: Vec<(&Trail, StateId)>) -> Vec<Leg<'_>> {
    trails.sort_unstable();
    let mut legs: Vec<Leg<'_>> = Vec::new();
    for (trail, state) in trails.into_iter().rev() {
        let stop = (trail.steps.len(), state);
        match legs.last_mut() {
            // In this order a trail directly follows those of which it is a prefix.
            Some(leg) if leg.steps.starts_with(&trail.steps) => leg.stops.push(stop),
            _ => legs.push(Leg { steps: &trail.steps, stops: vec![stop] }),
        }
    }
    for leg in &mut legs {
        leg.stops.reverse();
    }
    legs
}

/// Where a replay left the recorded way, and the result there.
#[derive(Debug, Clone)]
struct Astray {
    action: String,
    found: String,
}

/// Replays from one stored state.
struct Guide<'a> {
    environment: &'a dyn Environment,
    session: &'a mut dyn Session,
    snapshot: &'a Snapshot,
    start: StateId,
}

impl Guide<'_> {
    /// Replays one leg, and collects the states on its way.
    fn go(
        &mut self,
        program: &[u8],
        leg: &Leg<'_>,
        results: &mut HashMap<StateId, Rebuilt>,
    ) -> Result<(), SessionError> {
        let started = begin(self.environment, self.session, self.snapshot, self.start, program)?;
        let mut astray = left(&started, self.start)
            .map(|found| Astray { action: "its own start".into(), found });
        let mut done = 0;
        for &(length, state) in &leg.stops {
            if astray.is_none() {
                astray = self.walk(&leg.steps[done..length])?;
                done = length;
            }
            let result = match &astray {
                None => self.proved(state)?,
                Some(astray) => Err(astray.clone()),
            };
            let start = self.start;
            let result = result.map(Some).map_err(|Astray { action, found }| Obstacle::Elsewhere {
                state,
                start,
                action,
                found,
            });
            results.insert(state, result);
        }
        Ok(())
    }

    /// Replays steps as long as each leads to the recorded state.
    fn walk(&mut self, steps: &[(ActionIndex, StateId)]) -> Result<Option<Astray>, SessionError> {
        let actions: Vec<ActionIndex> = steps.iter().map(|&(action, _)| action).collect();
        let (mut ahead, mut astray) = (steps.iter(), None);
        self.session.multistep(&actions, &mut |step, _| {
            let Some(&(action, expected)) = ahead.next() else { return Ok(ControlFlow::Break(())) };
            let Some(found) = left(&step.outcome, expected) else {
                return Ok(ControlFlow::Continue(()));
            };
            let spec = self.snapshot.identity().action_space.actions.get(usize::from(action.0));
            let name =
                spec.map_or_else(|| format!("action {}", action.0), |spec| spec.name.clone());
            astray = Some(Astray { action: format!("`{name}`"), found });
            Ok(ControlFlow::Break(()))
        })?;
        Ok(astray)
    }

    /// Returns the serialisation of the current state, if its bytes have the id `state`.
    fn proved(&mut self, state: StateId) -> Result<Result<Vec<u8>, Astray>, SessionError> {
        let found = match self.session.observe(self.environment.spec().state_index())? {
            Value::Bytes(bytes) => match self.session.identify(&bytes) {
                Ok(id) if id == state => return Ok(Ok(bytes)),
                Ok(id) => format!("the bytes of state {id}"),
                Err(SessionError::BadProgram { detail, .. }) => {
                    format!("{} bytes that are no state ({detail})", bytes.len())
                }
                Err(error) => return Err(error),
            },
            _ => "something that is not bytes".to_owned(),
        };
        Ok(Err(Astray { action: "its last action".into(), found }))
    }
}

/// Describes the outcome if it is not the state `expected`.
fn left(outcome: &Outcome, expected: StateId) -> Option<String> {
    match outcome {
        Outcome::State { id, .. } => (*id != expected).then(|| format!("state {id}")),
        Outcome::Crashed(failure) => {
            Some(format!("a failure ({}: {})", failure.kind, failure.detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trail(steps: &[u8]) -> Trail {
        let steps = steps.iter().map(|&step| (ActionIndex(0), StateId([step; 20]))).collect();
        Trail { start: StateId([0; 20]), from_keyframe: true, steps }
    }

    #[test]
    fn ways_that_begin_alike_are_gone_once() {
        let paths: [&[u8]; 6] = [&[1, 2], &[3], &[1], &[1, 4, 5], &[1, 2, 6], &[]];
        let trails = paths.map(trail);
        let wanted = trails.iter().enumerate();
        let wanted = wanted.map(|(n, trail)| (trail, StateId([u8::try_from(n).unwrap(); 20])));
        let legs = legs(wanted.collect());
        let numbers = |leg: &Leg<'_>| -> Vec<(usize, u8)> {
            leg.stops.iter().map(|&(length, state)| (length, state.0[0])).collect()
        };
        assert_eq!(
            legs.iter().map(numbers).collect::<Vec<_>>(),
            [vec![(1, 1)], vec![(3, 3)], vec![(0, 5), (1, 2), (2, 0), (3, 4)]]
        );
    }
}
