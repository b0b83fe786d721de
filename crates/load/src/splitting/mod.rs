//! Splits of rows into training, validation and test: what is wanted and reported (`parts`), made
//! without leaks (`splits`), or given (`given_split`).

pub(crate) mod given_split;
pub(crate) mod leaks;
pub(crate) mod parts;
pub(crate) mod splits;
