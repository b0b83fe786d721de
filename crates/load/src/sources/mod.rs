//! What rows there are to load, and what belongs to them.

pub(crate) mod graphs;
pub(crate) mod n_step;
pub(crate) mod rows;
pub(crate) mod sealed_rows;
pub(crate) mod sequences;
pub(crate) mod source;
pub(crate) mod states;
