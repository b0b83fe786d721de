//! The arguments of `import`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::info_format::InfoFormat;
use crate::environments::imports::{COMPILER, TARGET};

/// Import logs of CompilerGym's `SynchronousSqliteLogger` into a lake.
///
/// The lake that --lake names is made, or was made by another import. It has the environment
/// compilergym-llvm-v0, so it is never mixed with what `generate` records. Each row of a log is
/// taken once, however many logs have it: a log that has grown can be imported again. A log is
/// imported whole or not at all, and the lake is deduplicated. What cannot be taken is counted.
#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// The databases.
    #[arg(required = true, value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub(in crate::cli) logs: Vec<PathBuf>,

    /// The compiler that the sessions had; a log does not say.
    #[arg(long, default_value = COMPILER, value_name = "NAME")]
    pub(in crate::cli) compiler: String,

    /// The target that it compiled for.
    #[arg(long, default_value = TARGET, value_name = "TRIPLE")]
    pub(in crate::cli) target: String,

    /// How to print the result.
    #[arg(long, value_enum, default_value_t = InfoFormat::Text)]
    pub(in crate::cli) format: InfoFormat,
}
