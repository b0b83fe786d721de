//! Checks what neither the compiler, clippy nor cargo-deny can say: names, habits of tests, lines,
//! links of the documentation, features of shared crates.
//!
//! Every check is a function from a text to its problems, tried on bad texts beside it, and then
//! run over the tree. A problem is one line that says where, what, and what to do.

#[path = "tidy/tree.rs"]
mod tree;

#[path = "tidy/habits.rs"]
mod habits;

#[path = "tidy/documents.rs"]
mod documents;

#[path = "tidy/features.rs"]
mod features;

#[path = "tidy/lines.rs"]
mod lines;
