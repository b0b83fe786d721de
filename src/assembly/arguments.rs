//! Arguments that several programs take.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueHint};

/// The arguments of every command.
#[derive(Debug, Args)]
pub struct GlobalArgs {
    /// The folder of the lake.
    #[arg(
        long,
        global = true,
        env = "STEPLAKE_LAKE",
        default_value = "./lake",
        value_hint = ValueHint::DirPath,
    )]
    pub lake: PathBuf,

    /// Log more to standard error: -v what is done, -vv every detail.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,

    /// Show no progress.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}
