//! Rebuilding: the IR of states that are not stored, by replaying the recorded way from one that
//! is.
//!
//! What comes out is proved: each step leads to the state that was recorded, and the id of what is
//! handed out is found once more, from its bytes alone. A way that leads elsewhere this time gives
//! way to another recorded one, and in the end to an error; a wrong text is never given.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

use super::replay::{ReplayError, begin, demand_same};
use crate::env::{Environment, Session, SessionError};
use crate::model::{ActionIndex, Outcome, StateId, Value};
use crate::store::{Snapshot, StoreError, Trail};

/// What became of a state: its serialisation; nothing, where the lake was never to hold it; or what
/// stood in the way.
pub type Rebuilt = Result<Option<Vec<u8>>, Obstacle>;

/// Why a state could not be rebuilt. Of several ways, the last one that was tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The lake has lost the state that the way begins in.
    #[error(
        "the IR of state {state} is rebuilt from that of keyframe {keyframe}, which is not in the lake: \
         `steplake verify` says what is damaged, and the table `losses` what repairs had to drop"
    )]
    MissingKeyframe {
        /// The state.
        state: StateId,
        /// The state that is not stored and should be.
        keyframe: StateId,
    },
    /// The replay went another way than what was recorded.
    #[error(
        "the IR of state {state} cannot be rebuilt: on the recorded way from stored state {start}, {action} \
         led to {found} this time, and no other recorded way leads there either"
    )]
    Elsewhere {
        /// The state.
        state: StateId,
        /// The state that the way begins in.
        start: StateId,
        /// Where the way was left: an action, or the start itself.
        action: String,
        /// What came instead: a state, or how the compiler failed.
        found: String,
    },
}

/// Why states are not rebuilt.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// The lake cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// One of the states cannot be had.
    #[error(transparent)]
    State(#[from] Obstacle),
    /// No replay can be done here.
    #[error("the IR of state {state} is not stored, and it cannot be rebuilt here")]
    Unavailable {
        /// One of the states that were asked for.
        state: StateId,
        /// What keeps it from being done.
        source: ReplayError,
    },
}

/// Gives the IR of any state, stored or not. Opens sessions as they are needed, one for each thread
/// that asks at the same time, and keeps them for later.
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
    /// Replays in `environment`: let its sessions be in worker processes where a replay may crash.
    pub fn new(environment: Box<dyn Environment>) -> Self {
        Self { environment, idle: Mutex::default() }
    }

    /// The serialisation of each state, in the order asked for, stored or rebuilt; none where the
    /// lake was never to hold it. All are in memory at once: ask for a few dozen at a time.
    ///
    /// # Errors
    ///
    /// See [`RebuildError`]. One state that cannot be had fails all.
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

    /// The same of states that are known not to be stored.
    ///
    /// # Errors
    ///
    /// See [`RebuildError`]. One state that cannot be had fails all.
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

/// Rebuilds states, in the order asked for. `session` is opened when it is first needed.
///
/// # Errors
///
/// When the lake cannot be read, when the environment is another one than the lake's or cannot be
/// had, and when a session fails in a way that is not the compiler's.
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
    // A state may be asked for twice.
    Ok(states.iter().map(|state| results.get(state).cloned().unwrap_or(Ok(None))).collect())
}

fn is_had(results: &HashMap<StateId, Rebuilt>, state: StateId) -> bool {
    matches!(results.get(&state), Some(Ok(_)))
}

/// One replay, and the states that lie on its way: after how many steps, and which.
#[derive(Debug, PartialEq, Eq)]
struct Leg<'a> {
    steps: &'a [(ActionIndex, StateId)],
    stops: Vec<(usize, StateId)>,
}

/// As few replays as it takes: a trail that is the beginning of another needs none of its own.
fn legs(mut trails: Vec<(&Trail, StateId)>) -> Vec<Leg<'_>> {
    trails.sort_unstable();
    let mut legs: Vec<Leg<'_>> = Vec::new();
    for (trail, state) in trails.into_iter().rev() {
        let stop = (trail.steps.len(), state);
        match legs.last_mut() {
            // In this order a trail comes right after those that it is the beginning of.
            Some(leg) if leg.steps.starts_with(&trail.steps) => leg.stops.push(stop),
            _ => legs.push(Leg { steps: &trail.steps, stops: vec![stop] }),
        }
    }
    for leg in &mut legs {
        leg.stops.reverse();
    }
    legs
}

/// Where a replay left the recorded way, and what came instead.
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
    /// Goes one leg, and takes down the states on its way.
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

    /// Replays steps as far as each leads where it led before.
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

    /// The serialisation of the present state, if it is what its name says.
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

/// What was come to instead of `expected`, if it is something else.
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
