//! The rows of an epoch in their order, in batches.

pub(crate) mod batches;
pub(crate) mod permutation;
pub(crate) mod plan;
pub(crate) mod stream;
