//! Recorded paths to states, from which a state without stored IR is rebuilt.

use std::collections::{HashMap, HashSet};

use arrow::array::RecordBatch;

use super::{LakeError, ScanColumns, Segment, Snapshot, Table};
use crate::kernel::schema::decode::{StepColumns, state_keys};
use crate::kernel::schema::episode_steps::{EpisodeSteps, StepLink};
use steplake_model::{ActionIndex, StateId};

/// Most paths to one state that are kept, the shortest ones.
const PATHS_MAX: usize = 4;

/// Most changes of state along a path. Keyframes are never further apart; paths in episodes without
/// keyframes end here.
pub const PATH_STEPS_MAX: usize = 1000;

/// The columns that are read.
const COLUMNS: [&str; 5] = ["episode_id", "step_index", "action", "state_id", "keyframe"];

/// A recorded path to a state, within one episode.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplayPath {
    /// The state in which the path begins: the last keyframe, or the first state of an episode
    /// without one.
    pub start: StateId,
    /// Whether that state is a keyframe, whose IR the lake must have.
    pub from_keyframe: bool,
    /// The actions that changed the state, each with the state to which it led.
    pub steps: Vec<(ActionIndex, StateId)>,
}

impl Snapshot {
    /// Returns a few recorded paths to each of these states: first those from keyframes, and of
    /// these the shortest first. A state has no path if no step led to it, or only a step far from
    /// the beginning of an episode without keyframes. Open episodes count, since their steps did
    /// happen.
    ///
    /// Reads the keys of all steps, and the segments with a wanted state completely. Keeps one
    /// episode in memory at a time.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub fn replay_paths(
        &self,
        wanted: &HashSet<StateId>,
    ) -> Result<HashMap<StateId, Vec<ReplayPath>>, LakeError> {
        let keys: HashSet<i64> = wanted.iter().map(StateId::key).collect();
        let columns = ScanColumns::Named(&COLUMNS);
        let mut search = PathSearch::new(wanted);
        for segment in self.segments(Table::Steps) {
            if self.has_any(segment, &keys)? {
                for batch in self.scan_segment(segment, columns) {
                    search.batch(&batch?);
                }
            }
        }
        self.hot_steps(columns).for_each(|batch| search.batch(&batch));
        Ok(search.found)
    }

    /// Returns whether a segment of `steps` holds a state with one of these keys.
    fn has_any(&self, segment: &Segment, keys: &HashSet<i64>) -> Result<bool, LakeError> {
        for batch in self.scan_segment(segment, ScanColumns::Named(&["state_key"])) {
            if state_keys(&batch?).iter().flatten().any(|key| keys.contains(&key)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A search for the recorded paths to wanted states.
struct PathSearch<'a> {
    wanted: &'a HashSet<StateId>,
    found: HashMap<StateId, Vec<ReplayPath>>,
    walk: EpisodeSteps<StateId>,
    /// The path to the last step; `None` if its beginning is missing or too far away.
    path: Option<ReplayPath>,
}

impl<'a> PathSearch<'a> {
    fn new(wanted: &'a HashSet<StateId>) -> Self {
        Self { wanted, found: HashMap::new(), walk: EpisodeSteps::default(), path: None }
    }

    fn batch(&mut self, batch: &RecordBatch) {
        let steps = StepColumns::of(batch);
        let (actions, states, keyframes) = (steps.actions(), steps.states(), steps.keyframes());
        for row in 0..steps.rows() {
            let (index, state) = (steps.indexes[row], states.get(row));
            let link = self.walk.advance(steps.episodes[row], index, state);
            let path = self.path.take();
            if let Some(state) = state {
                let from = match (link, actions.get(row)) {
                    (StepLink::Next(from), Some(action)) => path.map(|path| (path, from, action)),
                    _ => None,
                };
                self.step(from, state, index == 0, keyframes.value(row));
            }
        }
    }

    /// Visits a step to `state`. `from` is the path to the step before, the state there, and the
    /// action.
    fn step(
        &mut self,
        from: Option<(ReplayPath, StateId, ActionIndex)>,
        state: StateId,
        is_first: bool,
        keyframe: bool,
    ) {
        let begin = || ReplayPath { start: state, from_keyframe: keyframe, steps: Vec::new() };
        let path = match from {
            Some((path, from, _)) if from == state => {
                self.path = Some(path);
                return;
            }
            Some((mut path, _, action)) => {
                path.steps.push((action, state));
                path
            }
            None if is_first || keyframe => begin(),
            None => return,
        };
        self.note(state, &path);
        if keyframe {
            self.path = Some(begin());
        } else if path.steps.len() < PATH_STEPS_MAX {
            self.path = Some(path);
        }
    }

    fn note(&mut self, state: StateId, path: &ReplayPath) {
        if !self.wanted.contains(&state) {
            return;
        }
        let known = self.found.entry(state).or_default();
        // A path whose start may not be stored comes last, however short it is.
        let cost = |path: &ReplayPath| (!path.from_keyframe, path.steps.len());
        let place = known.partition_point(|other| cost(other) <= cost(path));
        if place < PATHS_MAX && !known.contains(path) {
            known.insert(place, path.clone());
            known.truncate(PATHS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u8) -> StateId {
        StateId([number; 20])
    }

    /// The paths to `wanted` in one episode of these states; those above 100 are keyframes of 100
    /// less.
    fn paths(wanted: u8, states: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let set = HashSet::from([state(wanted)]);
        let mut search = PathSearch::new(&set);
        let mut before = None;
        for (index, &number) in states.iter().enumerate() {
            let state = state(number % 100);
            let from = search.path.take().zip(before);
            let from = from.map(|(path, before)| (path, before, ActionIndex(7)));
            search.step(from, state, index == 0, number >= 100);
            before = Some(state);
        }
        let steps = |path: &ReplayPath| path.steps.iter().map(|(_, state)| state.0[0]).collect();
        let found = search.found.remove(&state(wanted)).unwrap_or_default();
        found.iter().map(|path| (path.start.0[0], steps(path))).collect()
    }

    #[test]
    fn a_path_begins_at_the_last_keyframe_and_leaves_out_what_changed_nothing() {
        assert_eq!(paths(4, &[101, 2, 103, 3, 5, 5, 4, 4]), [(3, vec![5, 4])]);
        assert_eq!(paths(9, &[101, 2]), []);
    }

    #[test]
    fn a_keyframe_has_a_path_from_the_one_before() {
        assert_eq!(paths(3, &[101, 2, 103, 4]), [(1, vec![2, 3])]);
        assert_eq!(paths(1, &[101, 2]), [(1, vec![])]);
    }

    #[test]
    fn the_shortest_paths_come_first_and_are_few() {
        let found = paths(4, &[101, 2, 3, 4, 105, 4, 106, 2, 4, 107, 4, 108, 2, 3, 4, 109, 4]);
        assert_eq!(found, [(5, vec![4]), (7, vec![4]), (9, vec![4]), (6, vec![2, 4])]);
    }

    #[test]
    fn an_episode_without_keyframes_is_followed_from_its_beginning_and_not_for_ever() {
        assert_eq!(paths(3, &[1, 2, 3]), [(1, vec![2, 3])]);
        let long = [0, 1].repeat(PATH_STEPS_MAX);
        assert_eq!(paths(9, &[long.as_slice(), &[9]].concat()), []);
        assert_eq!(paths(9, &[long.as_slice(), &[102, 9]].concat()), [(2, vec![9])]);
    }
}
