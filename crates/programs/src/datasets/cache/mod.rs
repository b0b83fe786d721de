//! What can be made again, and is kept: programs, and their baselines.

pub(super) mod baselines;
pub(super) mod program_cache;
pub(super) mod stored;
