//! Rules of the planner, and what a plan may take.

pub(crate) mod computed_arguments;
pub(crate) mod distinct_projections;
pub(crate) mod expressions;
pub(crate) mod keys;
pub(crate) mod literals;
pub(crate) mod plan_size;
pub(crate) mod signatures;
pub(crate) mod yield_in_joins;
