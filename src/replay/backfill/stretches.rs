//! Stretches of recorded episodes that meet wanted states.

use std::collections::{HashSet, VecDeque};

use arrow::array::RecordBatch;

use crate::lake::decode::StepColumns;
use crate::lake::episode_steps::{EpisodeSteps, Link};
use crate::lake::{Batches, LakeError, ScanColumns, Snapshot};
use crate::model::{ActionIndex, StateId};
use crate::replay::PATH_STEPS_MAX;

/// The columns that are read.
const COLUMNS: [&str; 5] = ["episode_id", "step_index", "action", "state_id", "keyframe"];

/// The step at which a stretch begins: its episode and its index.
pub(super) type Beginning = (i64, i32);

/// A part of a recorded episode: from a keyframe, or the beginning of an episode without one, to
/// the last wanted state before the next keyframe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stretch {
    /// `None` for a stretch of no episode: a single state.
    pub(super) beginning: Option<Beginning>,
    /// The state in which it begins.
    pub(super) start: StateId,
    /// The actions that changed the state, each with the state to which it led.
    pub(super) steps: Vec<(ActionIndex, StateId)>,
    /// The wanted states that it meets, and after how many steps, in ascending order.
    pub(super) stops: Vec<(usize, StateId)>,
}

impl Stretch {
    /// A stretch that begins and ends in a state.
    pub(super) fn single(state: StateId) -> Self {
        Self { beginning: None, start: state, steps: Vec::new(), stops: vec![(0, state)] }
    }
}

/// The stretches that together meet the wanted states, read from the steps one after another. A
/// state is met once, on the first stretch that leads to it; a keyframe, where it begins one.
///
/// Keeps one episode in memory at a time.
pub(super) struct Stretches<'a> {
    steps: Batches<'a>,
    /// The states that no stretch so far has met.
    wanted: HashSet<StateId>,
    /// The beginnings of stretches that were tried in vain.
    avoided: &'a HashSet<Beginning>,
    walk: EpisodeSteps<StateId>,
    open: Option<Stretch>,
    ready: VecDeque<Stretch>,
}

impl<'a> Stretches<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        wanted: HashSet<StateId>,
        avoided: &'a HashSet<Beginning>,
    ) -> Self {
        let steps = Box::new(snapshot.steps(ScanColumns::Named(&COLUMNS)));
        let walk = EpisodeSteps::default();
        Self { steps, wanted, avoided, walk, open: None, ready: VecDeque::new() }
    }

    fn batch(&mut self, batch: &RecordBatch) {
        let steps = StepColumns::of(batch);
        let (actions, states, keyframes) = (steps.actions(), steps.states(), steps.keyframes());
        for row in 0..steps.rows() {
            let place = (steps.episodes[row], steps.indexes[row]);
            let state = states.get(row);
            let link = self.walk.advance(place.0, place.1, state);
            let from = match (link, actions.get(row)) {
                (Link::Next(from), Some(action)) => Some((from, action)),
                _ => None,
            };
            self.step(place, from, state, keyframes.value(row));
        }
    }

    /// Visits a step to `state`. `from` is the state before it, and the action.
    fn step(
        &mut self,
        place: Beginning,
        from: Option<(StateId, ActionIndex)>,
        state: Option<StateId>,
        keyframe: bool,
    ) {
        let (Some(state), Some((before, action))) = (state, from) else {
            self.close();
            if let Some(state) = state.filter(|_| keyframe || place.1 == 0) {
                self.begin(place, state);
            }
            return;
        };
        if before == state {
            return;
        }
        // If the keyframe itself is of no use, the state is met on the way from the one before.
        let is_met = !keyframe || self.avoided.contains(&place);
        if let Some(stretch) = &mut self.open {
            stretch.steps.push((action, state));
            let is_useful = stretch.beginning.is_some_and(|place| !self.avoided.contains(&place));
            if is_met && is_useful && self.wanted.remove(&state) {
                stretch.stops.push((stretch.steps.len(), state));
            }
        }
        if keyframe && !self.avoided.contains(&place) {
            self.close();
            self.begin(place, state);
        } else if self.open.as_ref().is_some_and(|open| open.steps.len() >= PATH_STEPS_MAX) {
            self.close();
        }
    }

    fn begin(&mut self, place: Beginning, state: StateId) {
        let is_met = !self.avoided.contains(&place) && self.wanted.remove(&state);
        let stops = is_met.then_some((0, state)).into_iter().collect();
        let (beginning, steps) = (Some(place), Vec::new());
        self.open = Some(Stretch { beginning, start: state, steps, stops });
    }

    fn close(&mut self) {
        let Some(mut stretch) = self.open.take() else { return };
        if let Some(&(last, _)) = stretch.stops.last() {
            stretch.steps.truncate(last);
            self.ready.push_back(stretch);
        }
    }
}

impl Iterator for Stretches<'_> {
    type Item = Result<Stretch, LakeError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(stretch) = self.ready.pop_front() {
                return Some(Ok(stretch));
            }
            if self.wanted.is_empty() && self.open.is_none() {
                return None;
            }
            match self.steps.next() {
                Some(Ok(batch)) => self.batch(&batch),
                Some(Err(error)) => return Some(Err(error)),
                None if self.open.is_none() => return None,
                None => self.close(),
            }
        }
    }
}
