//! Questions on the command line, for any engine: arguments, answers and the shell.

pub mod arguments;
mod progress;
pub mod questions;
mod shell;
pub mod source;
pub(crate) mod whole_file;
