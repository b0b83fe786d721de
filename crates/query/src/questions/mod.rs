//! What is asked: statements that only read, with their parameters, and queries with a name.

pub(crate) mod lookup;
pub(crate) mod named;
pub(crate) mod nesting;
pub(crate) mod parameters;
pub(crate) mod parts;
pub(crate) mod prepared;
pub(crate) mod statements;
