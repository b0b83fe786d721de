//! Stretches of recorded episodes that meet wanted states.

use std::collections::{HashSet, VecDeque};

use steplake_lake::{EpisodeStep, LakeError, PATH_STEPS_MAX, Snapshot, Steps};
use steplake_model::{ActionIndex, EpisodeId, StateId};

/// The step at which a stretch begins: its episode and its index.
pub(super) type Beginning = (EpisodeId, u32);

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
    steps: Box<dyn Iterator<Item = Result<Steps, LakeError>> + Send + 'a>,
    /// The states that no stretch so far has met.
    wanted: HashSet<StateId>,
    /// The beginnings of stretches that were tried in vain.
    avoided: &'a HashSet<Beginning>,
    open: Option<Stretch>,
    ready: VecDeque<Stretch>,
}

impl<'a> Stretches<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        wanted: HashSet<StateId>,
        avoided: &'a HashSet<Beginning>,
    ) -> Self {
        let steps = Box::new(snapshot.steps());
        Self { steps, wanted, avoided, open: None, ready: VecDeque::new() }
    }

    fn step(&mut self, step: &EpisodeStep<'_>) {
        let (place, state, keyframe) = ((step.episode, step.index), step.state, step.keyframe);
        let (Some(state), Some(before), Some(action)) = (state, step.from, step.action) else {
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
                Some(Ok(steps)) => steps.iter().for_each(|step| self.step(&step)),
                Some(Err(error)) => return Some(Err(error)),
                None if self.open.is_none() => return None,
                None => self.close(),
            }
        }
    }
}
