//! Dedup and the derived tables.

mod against_a_model;
mod counted;
mod interrupted;
mod layers;
mod not_yet_derived;
