//! Lakes: questions to them, their answers, their rows for training, and their upkeep.

pub(crate) mod answer;
pub(crate) mod batches;
pub(crate) mod dataset;
pub(crate) mod engines;
pub(crate) mod lake;
pub(crate) mod listed;
pub(crate) mod parameters;
pub(crate) mod rows;
pub(crate) mod states;
pub(crate) mod stream;
pub(crate) mod upkeep;
