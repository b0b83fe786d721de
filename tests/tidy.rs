//! Checks what the compiler does not: layering, sizes, names, links of the documentation.
//!
//! Every check is a function from a text to its problems, tried on bad texts beside it, and then
//! run over the tree. A problem is one line that says where, what, and what to do.

#[path = "tidy/tree.rs"]
mod tree;

#[path = "tidy/lexer.rs"]
mod lexer;

#[path = "tidy/layering.rs"]
mod layering;

#[path = "tidy/habits.rs"]
mod habits;

#[path = "tidy/documents.rs"]
mod documents;
