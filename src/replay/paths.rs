//! Recorded ways to states: what it takes to make a state again whose IR is not stored.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Int16Type, Int32Type, Int64Type};

use crate::lake::decode::state_ids;
use crate::lake::{LakeError, ScanColumns, Segment, Snapshot, Table};
use crate::model::{ActionIndex, StateId};

/// Ways to one state that are remembered; shorter ones push longer ones out.
const TRAILS_MAX: usize = 4;

/// Changes of state along a way at most. Keyframes are never further apart; episodes without any
/// are cut short here.
pub const TRAIL_STEPS_MAX: usize = 1000;

/// What is read of a step.
const COLUMNS: [&str; 5] = ["episode_id", "step_index", "action", "state_id", "keyframe"];

/// A recorded way to a state, within one episode.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trail {
    /// The state that it begins in: the last keyframe, or the first state of an episode without
    /// one.
    pub start: StateId,
    /// Whether that state is a keyframe, so that the lake is to have its IR.
    pub from_keyframe: bool,
    /// The actions that changed the state, each with the state that it led to.
    pub steps: Vec<(ActionIndex, StateId)>,
}

impl Snapshot {
    /// Recorded ways to each of these states, those from keyframes first and of them the shortest,
    /// a few of each state at most. There is none to a state that no step led to, or only far away
    /// from the beginning of an episode without keyframes. Open episodes count: what was recorded
    /// of them did happen.
    ///
    /// Reads the keys of all steps, and all of the segments that hold a wanted state. Keeps one
    /// episode in memory at a time.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub fn trails(
        &self,
        wanted: &HashSet<StateId>,
    ) -> Result<HashMap<StateId, Vec<Trail>>, LakeError> {
        let keys: HashSet<i64> = wanted.iter().map(StateId::key).collect();
        let mut walk = Walk { wanted, found: HashMap::new(), at: None };
        for segment in self.segments(Table::Steps) {
            if self.has_any(segment, &keys)? {
                for batch in self.scan_segment(segment, ScanColumns::Named(&COLUMNS)) {
                    for step in steps(&batch?) {
                        walk.step(&step);
                    }
                }
            }
            walk.at = None;
        }
        let mut hot: Vec<Step> = self.hot(Table::Steps).iter().flat_map(steps).collect();
        hot.sort_unstable_by_key(|step| (step.episode, step.index));
        for step in &hot {
            walk.step(step);
        }
        Ok(walk.found)
    }

    /// Whether a segment of `steps` holds a state with one of these keys.
    fn has_any(&self, segment: &Segment, keys: &HashSet<i64>) -> Result<bool, LakeError> {
        for batch in self.scan_segment(segment, ScanColumns::Named(&["state_key"])) {
            let batch = batch?;
            let column = batch["state_key"].as_primitive::<Int64Type>();
            if column.iter().flatten().any(|key| keys.contains(&key)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A step, as far as it is of interest here.
struct Step {
    episode: i64,
    index: i32,
    action: Option<ActionIndex>,
    state: Option<StateId>,
    keyframe: bool,
}

fn steps(batch: &RecordBatch) -> impl Iterator<Item = Step> + '_ {
    let episodes = batch["episode_id"].as_primitive::<Int64Type>();
    let indexes = batch["step_index"].as_primitive::<Int32Type>();
    let actions = batch["action"].as_primitive::<Int16Type>();
    let keyframes = batch["keyframe"].as_boolean();
    state_ids(batch, "state_id").enumerate().map(|(row, state)| Step {
        episode: episodes.value(row),
        index: indexes.value(row),
        action: actions.is_valid(row).then(|| ActionIndex(actions.value(row).cast_unsigned())),
        state,
        keyframe: keyframes.value(row),
    })
}

/// Goes along steps in the order of their episodes.
struct Walk<'a> {
    wanted: &'a HashSet<StateId>,
    found: HashMap<StateId, Vec<Trail>>,
    at: Option<Place>,
}

/// Where it stands.
struct Place {
    episode: i64,
    state: StateId,
    /// The way here.
    trail: Trail,
}

impl Walk<'_> {
    fn step(&mut self, step: &Step) {
        let Some(state) = step.state else {
            self.at = None;
            return;
        };
        let begin = || Trail { start: state, from_keyframe: step.keyframe, steps: Vec::new() };
        let before = self.at.take().filter(|place| place.episode == step.episode);
        let place = match (before, step.action) {
            (Some(mut place), Some(action)) => {
                if place.state == state {
                    self.at = Some(place);
                    return;
                }
                place.trail.steps.push((action, state));
                place.state = state;
                place
            }
            _ if step.index == 0 || step.keyframe => {
                Place { episode: step.episode, state, trail: begin() }
            }
            // The beginning of the episode is not there, or too far away.
            _ => return,
        };
        self.note(state, &place.trail);
        if step.keyframe {
            self.at = Some(Place { trail: begin(), ..place });
        } else if place.trail.steps.len() < TRAIL_STEPS_MAX {
            self.at = Some(place);
        }
    }

    fn note(&mut self, state: StateId, trail: &Trail) {
        if !self.wanted.contains(&state) {
            return;
        }
        let known = self.found.entry(state).or_default();
        // A way whose start may not be stored comes last, however short it is.
        let cost = |trail: &Trail| (!trail.from_keyframe, trail.steps.len());
        let place = known.partition_point(|other| cost(other) <= cost(trail));
        if place < TRAILS_MAX && !known.contains(trail) {
            known.insert(place, trail.clone());
            known.truncate(TRAILS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u8) -> StateId {
        StateId([number; 20])
    }

    /// The ways to `wanted` in one episode of these states; those above 100 are keyframes of 100
    /// less.
    fn trails(wanted: u8, path: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let set = HashSet::from([state(wanted)]);
        let mut walk = Walk { wanted: &set, found: HashMap::new(), at: None };
        for (index, &number) in path.iter().enumerate() {
            let index = i32::try_from(index).unwrap();
            let action = (index > 0).then_some(ActionIndex(7));
            let state = Some(state(number % 100));
            walk.step(&Step { episode: 1, index, action, state, keyframe: number >= 100 });
        }
        let steps = |trail: &Trail| trail.steps.iter().map(|(_, state)| state.0[0]).collect();
        let found = walk.found.remove(&state(wanted)).unwrap_or_default();
        found.iter().map(|trail| (trail.start.0[0], steps(trail))).collect()
    }

    #[test]
    fn a_way_begins_at_the_last_keyframe_and_leaves_out_what_changed_nothing() {
        assert_eq!(trails(4, &[101, 2, 103, 3, 5, 5, 4, 4]), [(3, vec![5, 4])]);
        assert_eq!(trails(9, &[101, 2]), []);
    }

    #[test]
    fn a_keyframe_has_a_way_from_the_one_before() {
        assert_eq!(trails(3, &[101, 2, 103, 4]), [(1, vec![2, 3])]);
        assert_eq!(trails(1, &[101, 2]), [(1, vec![])]);
    }

    #[test]
    fn the_shortest_ways_come_first_and_are_few() {
        let found = trails(4, &[101, 2, 3, 4, 105, 4, 106, 2, 4, 107, 4, 108, 2, 3, 4, 109, 4]);
        assert_eq!(found, [(5, vec![4]), (7, vec![4]), (9, vec![4]), (6, vec![2, 4])]);
    }

    #[test]
    fn an_episode_without_keyframes_is_followed_from_its_beginning_and_not_for_ever() {
        assert_eq!(trails(3, &[1, 2, 3]), [(1, vec![2, 3])]);
        let long = [0, 1].repeat(TRAIL_STEPS_MAX);
        assert_eq!(trails(9, &[long.as_slice(), &[9]].concat()), []);
        assert_eq!(trails(9, &[long.as_slice(), &[102, 9]].concat()), [(2, vec![9])]);
    }
}
