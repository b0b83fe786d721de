//! Checks what the compiler does not: layering, circles of imports, sizes, names, lines, links of
//! the documentation, features of shared crates.
//!
//! Every check is a function from a text to its problems, tried on bad texts beside it, and then
//! run over the tree. A problem is one line that says where, what, and what to do.

#[path = "tidy/tree.rs"]
mod tree;

#[path = "tidy/lexer.rs"]
mod lexer;

#[path = "tidy/scopes.rs"]
mod scopes;

#[path = "tidy/imports.rs"]
mod imports;

#[path = "tidy/made_up.rs"]
mod made_up;

#[path = "tidy/layering.rs"]
mod layering;

#[path = "tidy/knots.rs"]
mod knots;

#[path = "tidy/habits.rs"]
mod habits;

#[path = "tidy/documents.rs"]
mod documents;

#[path = "tidy/features.rs"]
mod features;

#[path = "tidy/lines.rs"]
mod lines;
