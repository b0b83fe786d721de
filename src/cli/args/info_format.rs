//! How a description is printed.

use clap::ValueEnum;

/// Output formats of `info` and `env describe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum InfoFormat {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}
