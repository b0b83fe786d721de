//! Equal steps, counted.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::inputs::EdgeStep;
use crate::model::StateId;

/// Memory that an edge takes, but for its rewards: an entry of the map, which may be half empty,
/// and its place in the order.
pub(super) const BYTES_PER_EDGE: u64 = 200;

/// What an edge is: a step's state before, action and state after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) from: StateId,
    pub(super) action: i16,
    pub(super) to: Option<StateId>,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // State ids are hashes already.
        let to = self.to.map_or(0, |to| to.key());
        state.write_i64(self.from.key() ^ to.rotate_left(23) ^ (i64::from(self.action) << 40));
    }
}

/// Spreads what [`Key`] writes over all bits.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a key writes one number");
    }

    fn write_i64(&mut self, number: i64) {
        let spread = number.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

/// What is known of the steps that are one edge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tally {
    /// How many there are.
    pub(super) count: i64,
    /// Their time.
    pub(super) wall_time_us: i64,
    /// The first of them: episode and index.
    pub(super) first: (i64, i32),
    place: usize,
}

/// The edges of a pass.
#[derive(Debug)]
pub(super) struct Edges {
    tallies: HashMap<Key, Tally, BuildHasherDefault<Spread>>,
    rewards: Vec<f64>,
    width: usize,
    steps: u64,
}

impl Edges {
    /// No edges yet; each will have so many rewards.
    pub(super) fn new(width: usize) -> Self {
        Self { tallies: HashMap::default(), rewards: Vec::new(), width, steps: 0 }
    }

    /// Counts a step.
    pub(super) fn add(&mut self, step: &EdgeStep<'_>) {
        self.steps += 1;
        let place = self.tallies.len();
        let (key, first) =
            (Key { from: step.from, action: step.action, to: step.to }, (step.episode, step.index));
        let tally =
            self.tallies.entry(key).or_insert(Tally { count: 0, wall_time_us: 0, first, place });
        tally.count += 1;
        tally.wall_time_us = tally.wall_time_us.saturating_add(step.wall_time_us);
        if tally.count == 1 {
            self.rewards.extend(step.rewards());
        } else if first < tally.first {
            tally.first = first;
            let start = tally.place * self.width;
            for (kept, reward) in
                self.rewards[start..start + self.width].iter_mut().zip(step.rewards())
            {
                *kept = reward;
            }
        }
    }

    /// Steps that were counted.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// The rewards of the first step of an edge, NaN for none.
    pub(super) fn rewards(&self, tally: &Tally) -> &[f64] {
        &self.rewards[tally.place * self.width..][..self.width]
    }

    /// The edges by state before, in the order of `state_key`, then action, then state after;
    /// failures come first.
    pub(super) fn sorted(&self) -> Vec<(&Key, &Tally)> {
        let mut edges = self.tallies.iter().collect::<Vec<_>>();
        edges.sort_unstable_by_key(|(key, _)| (key.from.key(), key.from, key.action, key.to));
        edges
    }
}
