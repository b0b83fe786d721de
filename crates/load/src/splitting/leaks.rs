//! What the rows of one part of a split give away about those of another.

use crate::dataset::TrainingDataset;

/// What rows of one part give away about those of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Leaks {
    /// The states that test rows name.
    pub test_states: usize,
    /// Those of them that training rows name too.
    pub shared_states: usize,
    /// Test rows.
    pub test_rows: usize,
    /// Those of them whose state a training row names.
    pub rows_of_shared_states: usize,
    /// Those of them whose next state a training row names.
    pub rows_to_shared_states: usize,
}

impl Leaks {
    /// Compares two parts of rows of one snapshot.
    pub fn of(train: &TrainingDataset, test: &TrainingDataset) -> Self {
        let all = |rows: &TrainingDataset| rows.states(&rows.all_places().collect::<Vec<_>>());
        Self::between(&all(train), &all(test))
    }

    /// Compares rows, given by the numbers of their states and of the states that they lead to.
    pub(crate) fn between(train: &(Vec<u32>, Vec<u32>), test: &(Vec<u32>, Vec<u32>)) -> Self {
        let all = || [train, test].into_iter().flat_map(|(states, next)| states.iter().chain(next));
        let mut is_trained = vec![false; all().max().map_or(0, |&last| last as usize + 1)];
        for &state in train.0.iter().chain(&train.1) {
            is_trained[state as usize] = true;
        }
        let trained =
            |states: &[u32]| states.iter().filter(|&&state| is_trained[state as usize]).count();
        let (states, next) = test;
        let mut named = [&states[..], next].concat();
        named.sort_unstable();
        named.dedup();
        Self {
            test_states: named.len(),
            shared_states: trained(&named),
            test_rows: states.len(),
            rows_of_shared_states: trained(states),
            rows_to_shared_states: trained(next),
        }
    }

    /// Whether no state of a test row is one of a training row.
    pub fn none(&self) -> bool {
        self.shared_states == 0
    }
}
