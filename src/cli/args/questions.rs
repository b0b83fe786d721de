//! The arguments of `sql` and `query` that only this program takes.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::console::arguments::{QueryArgs, SQL_HELP, SqlArgs};
use steplake_terminal::arguments::Bytes;

const SCHEME: &str = "ballista://";

/// The engine that answers.
#[derive(Debug, Args)]
pub(in crate::cli) struct EngineArgs {
    /// Answer on a Ballista cluster instead of in this process (see docs/CLUSTER.md).
    #[arg(long, value_name = "ballista://HOST:PORT", value_parser = scheduler)]
    pub(in crate::cli) engine: Option<String>,
}

/// Returns the address of the scheduler.
fn scheduler(url: &str) -> Result<String, String> {
    match url.strip_prefix(SCHEME) {
        Some(address) if address.contains(':') => Ok(address.to_owned()),
        _ => Err(format!("write {SCHEME}HOST:PORT, the address of a scheduler")),
    }
}

/// The memory and disk space that an engine of this process may use.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(in crate::cli) struct LimitArgs {
    /// The memory for sorts, joins and groups, e.g. 512M or 2G; what does not fit goes to temporary
    /// files where it can. By default as much as there is.
    #[arg(long, conflicts_with = "engine", value_name = "BYTES")]
    pub(in crate::cli) memory: Option<Bytes>,

    /// The disk space for these temporary files, in $TMPDIR or /tmp. By default a quarter of what
    /// is free there, at most 64G.
    #[arg(long, conflicts_with = "engine", value_name = "BYTES")]
    pub(in crate::cli) spill: Option<Bytes>,
}

/// Ask the lake in SQL: one question, a file of them, or a shell.
///
/// Without a question, on a terminal, a shell opens: it keeps a history, completes names on Tab and
/// shows long answers in a pager; Ctrl-C ends a question, not the shell. `\?` lists its commands.
/// If standard input is not a terminal, the statements there are answered in turn, up to the first
/// that fails.
#[derive(Debug, Args)]
#[command(after_help = SQL_HELP)]
pub(in crate::cli) struct SqlCommand {
    /// The folder of the lake. With NAME=FOLDER, given once or more, one statement can read several
    /// lakes: `NAME.steps` is a table of the lake NAME.
    // Takes the place of the global argument of this id, which can be given only once.
    #[arg(id = "lake", long = "lake", value_name = "[NAME=]FOLDER", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) lakes: Vec<PathBuf>,

    #[command(flatten)]
    pub(in crate::cli) asked: SqlArgs,

    #[command(flatten)]
    pub(in crate::cli) limits: LimitArgs,

    #[command(flatten)]
    pub(in crate::cli) engine: EngineArgs,
}

/// Ask one of the named queries.
#[derive(Debug, Args)]
pub(in crate::cli) struct QueryCommand {
    #[command(flatten)]
    pub(in crate::cli) asked: QueryArgs,

    #[command(flatten)]
    pub(in crate::cli) limits: LimitArgs,

    #[command(flatten)]
    pub(in crate::cli) engine: EngineArgs,
}

#[cfg(test)]
mod tests {
    use super::scheduler;

    #[test]
    fn an_engine_is_a_url() {
        assert_eq!(scheduler("ballista://host:1"), Ok("host:1".to_owned()));
        for url in ["", "host:1", "http://host:1", "ballista://host"] {
            assert!(scheduler(url).unwrap_err().contains("ballista://"), "{url}");
        }
    }
}
