//! Where programs come from, and what they do when they run.

#![forbid(unsafe_code)]

// Sources of programs.
pub mod datasets;

// Programs linked and run, and what they have to do.
pub mod execution;
