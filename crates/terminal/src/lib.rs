//! What programs share on the command line: arguments, messages, progress, signals, exit codes.

#![forbid(unsafe_code)]

pub mod arguments;
pub mod exit;
pub mod messages;
pub mod open_files;
pub mod output;
pub mod signals;
