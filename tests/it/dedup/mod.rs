//! Dedup and the derived tables.

mod against_a_model;
mod interrupted;
pub(crate) mod layers;
mod not_yet_derived;
