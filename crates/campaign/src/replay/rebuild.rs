//! Rebuilding: the IR of states that are not stored, by replaying the recorded path from a stored
//! state.
//!
//! The result is proved: each step leads to the recorded state, and the id of every returned state
//! is computed once more from its bytes alone. If a path leads elsewhere this time, another
//! recorded path is tried; if none is left, the result is an error. A wrong text is never returned.

use std::collections::{BTreeMap, HashMap};

use parking_lot::{Mutex, MutexGuard};

use super::stored_state::{ReplayError, begin, demand_same};
use super::walk::{Divergence, walk};
use steplake_env::{Environment, Session, SessionError};
use steplake_lake::ReplayPath;
use steplake_lake::{LakeError, Snapshot};
use steplake_model::{ActionIndex, Classified, ErrorKind, Remedy, StateId, Value};

/// The result for one state: its serialisation; `None`, if the lake was never meant to hold it; or
/// why it could not be rebuilt.
pub type Rebuilt = Result<Option<Vec<u8>>, RebuildObstacle>;

/// Why a state could not be rebuilt; if several paths were tried, why the last one failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildObstacle {
    /// The lake has lost the state in which the path begins.
    #[error(
        "the IR of state {state} is rebuilt from that of keyframe {keyframe}, which is not in the lake: \
         a verification says what is damaged, and the table `losses` what repairs had to drop"
    )]
    MissingKeyframe {
        /// The state.
        state: StateId,
        /// The state that should be stored but is not.
        keyframe: StateId,
    },
    /// The replay diverged from the recorded steps.
    #[error(
        "the IR of state {state} cannot be rebuilt: on the recorded path from stored state {start}, {action} \
         led to {found} this time, and no other recorded path leads there either"
    )]
    Elsewhere {
        /// The state.
        state: StateId,
        /// The state in which the path begins.
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
    #[error("{0}")]
    Store(#[from] LakeError),
    /// One of the states could not be rebuilt.
    #[error("{0}")]
    State(#[from] RebuildObstacle),
    /// No replay is possible here.
    #[error("the IR of state {state} is not stored, and it cannot be rebuilt here")]
    Unavailable {
        /// One of the requested states.
        state: StateId,
        /// The reason.
        source: ReplayError,
    },
}

impl Classified for RebuildError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Store(error) => error.classify(),
            _ => (ErrorKind::Lake, None),
        }
    }
}

/// Provides the IR of any state, stored or not. Opens sessions on demand, one for each thread that
/// asks at the same time, and keeps them for later.
pub struct Rebuilder {
    environment: Box<dyn Environment>,
    idle: Mutex<Vec<Box<dyn Session>>>,
}

impl std::fmt::Debug for Rebuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rebuilder").field("environment", &self.environment).finish_non_exhaustive()
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
        let mut session = self.idle().pop();
        let rebuilt = rebuild(self.environment.as_ref(), &mut session, snapshot, states);
        self.idle().extend(session);
        let rebuilt = rebuilt.map_err(unavailable)?;
        rebuilt.into_iter().map(|state| Ok(state?)).collect()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Box<dyn Session>>> {
        self.idle.lock()
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
    let paths = snapshot.replay_paths(&states.iter().copied().collect())?;
    let mut results: HashMap<StateId, Rebuilt> = HashMap::new();
    let attempts = paths.values().map(Vec::len).max().unwrap_or(0);
    for attempt in 0..attempts {
        let mut by_start: BTreeMap<StateId, Vec<(&ReplayPath, StateId)>> = BTreeMap::new();
        for (&state, paths) in paths.iter().filter(|(state, _)| !is_had(&results, **state)) {
            if let Some(path) = paths.get(attempt) {
                by_start.entry(path.start).or_default().push((path, state));
            }
        }
        for (start, paths) in by_start {
            let Some(program) = snapshot.ir(&[start])?.pop().flatten() else {
                for (_, state) in paths.into_iter().filter(|(path, _)| path.from_keyframe) {
                    let missing = RebuildObstacle::MissingKeyframe { state, keyframe: start };
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
            let mut replayer = Replayer { environment, session: session.as_mut(), snapshot, start };
            for batch in batches(paths) {
                replayer.go(&program, &batch, &mut results)?;
            }
        }
    }
    // A state may be requested twice.
    Ok(states.iter().map(|state| results.get(state).cloned().unwrap_or(Ok(None))).collect())
}

fn is_had(results: &HashMap<StateId, Rebuilt>, state: StateId) -> bool {
    matches!(results.get(&state), Some(Ok(_)))
}

/// One replay, with the states on its path: after how many steps, and which.
#[derive(Debug, PartialEq, Eq)]
struct ReplayBatch<'a> {
    steps: &'a [(ActionIndex, StateId)],
    stops: Vec<(usize, StateId)>,
}

/// Combines paths into few replays: a path that is a prefix of another needs no replay of its
/// own.
fn batches(mut paths: Vec<(&ReplayPath, StateId)>) -> Vec<ReplayBatch<'_>> {
    paths.sort_unstable();
    let mut batches: Vec<ReplayBatch<'_>> = Vec::new();
    for (path, state) in paths.into_iter().rev() {
        let stop = (path.steps.len(), state);
        match batches.last_mut() {
            // In this order a path directly follows those of which it is a prefix.
            Some(batch) if batch.steps.starts_with(&path.steps) => batch.stops.push(stop),
            _ => batches.push(ReplayBatch { steps: &path.steps, stops: vec![stop] }),
        }
    }
    for batch in &mut batches {
        batch.stops.reverse();
    }
    batches
}

/// Replays from one stored state.
struct Replayer<'a> {
    environment: &'a dyn Environment,
    session: &'a mut dyn Session,
    snapshot: &'a Snapshot,
    start: StateId,
}

impl Replayer<'_> {
    /// Replays one batch, and collects the states on its path.
    fn go(
        &mut self,
        program: &[u8],
        batch: &ReplayBatch<'_>,
        results: &mut HashMap<StateId, Rebuilt>,
    ) -> Result<(), SessionError> {
        let started = begin(self.environment, self.session, self.snapshot, self.start, program)?;
        let mut divergence = Divergence::of_start(&started, self.start);
        let mut done = 0;
        for &(length, state) in &batch.stops {
            if divergence.is_none() {
                let steps = &batch.steps[done..length];
                divergence = walk(self.session, self.snapshot.identity(), steps)?;
                done = length;
            }
            let result = match &divergence {
                None => self.proved(state)?,
                Some(divergence) => Err(divergence.clone()),
            };
            let start = self.start;
            let result = result.map(Some).map_err(|left| {
                let Divergence { action, found, .. } = left;
                RebuildObstacle::Elsewhere { state, start, action, found }
            });
            results.insert(state, result);
        }
        Ok(())
    }

    /// Returns the serialisation of the current state, if its bytes have the id `state`.
    fn proved(&mut self, state: StateId) -> Result<Result<Vec<u8>, Divergence>, SessionError> {
        let observed = match self.session.observe(self.environment.spec().state_index()) {
            Ok(observed) => observed,
            Err(error) => return Divergence::of_way_back(error).map(Err),
        };
        let found = match observed {
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
        let action = "its last action".to_owned();
        Ok(Err(Divergence { action, found, is_failure: false }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(steps: &[u8]) -> ReplayPath {
        let steps = steps.iter().map(|&step| (ActionIndex(0), StateId([step; 20]))).collect();
        ReplayPath { start: StateId([0; 20]), from_keyframe: true, steps }
    }

    #[test]
    fn paths_that_begin_alike_are_replayed_once() {
        let paths: [&[u8]; 6] = [&[1, 2], &[3], &[1], &[1, 4, 5], &[1, 2, 6], &[]];
        let paths = paths.map(path);
        let wanted = paths.iter().enumerate();
        let wanted = wanted.map(|(n, path)| (path, StateId([u8::try_from(n).unwrap(); 20])));
        let batches = batches(wanted.collect());
        let numbers = |batch: &ReplayBatch<'_>| -> Vec<(usize, u8)> {
            batch.stops.iter().map(|&(length, state)| (length, state.0[0])).collect()
        };
        assert_eq!(
            batches.iter().map(numbers).collect::<Vec<_>>(),
            [vec![(1, 1)], vec![(3, 3)], vec![(0, 5), (1, 2), (2, 0), (3, 4)]]
        );
    }
}
