//! What settled episodes tell those that are played after them.

use std::collections::{BTreeMap, HashMap};

use super::plan::Plan;
use crate::model::BenchmarkUri;

/// What the settled episodes of each benchmark tell, by their ordinals. A search hears of those
/// before the episode that it is about to play, so it plays one that was lost as it did then.
#[derive(Debug)]
pub(super) struct Past<T>(HashMap<BenchmarkUri, BTreeMap<u32, T>>);

impl<T> Default for Past<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Past<T> {
    /// Adds what an episode tells.
    pub(super) fn add(&mut self, plan: &Plan, ordinal: u32, told: T) {
        self.0.entry(plan.benchmark(ordinal).clone()).or_default().insert(ordinal, told);
    }

    /// What an episode tells so far.
    pub(super) fn of(&mut self, plan: &Plan, ordinal: u32) -> &mut T
    where
        T: Default,
    {
        self.0.entry(plan.benchmark(ordinal).clone()).or_default().entry(ordinal).or_default()
    }

    /// Takes what the episodes of a benchmark before `ordinal` tell, with their ordinals, in their
    /// order.
    pub(super) fn take_before(&mut self, uri: &BenchmarkUri, ordinal: u32) -> BTreeMap<u32, T> {
        let Some(told) = self.0.get_mut(uri) else { return BTreeMap::new() };
        let later = told.split_off(&ordinal);
        std::mem::replace(told, later)
    }
}
