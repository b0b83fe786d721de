//! Matrices of numbers that lie in files of the cache and are mapped into memory.

pub(crate) mod mapped;
pub(crate) mod matrix;
pub(crate) mod matrix_builder;
pub(crate) mod matrix_cache;
pub(crate) mod number_kind;
pub(crate) mod numbers;
