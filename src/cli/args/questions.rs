//! The arguments of `sql` and `query`, and those shared by other commands that print rows. The
//! public ones are also parsed by a program that answers elsewhere.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::cli::dedup::Bytes;
use crate::cli::elsewhere::EngineArgs;

/// The snapshot that a command reads.
#[derive(Debug, Clone, Copy, Args)]
pub struct SnapshotArgs {
    /// Read what was sealed in snapshot N (`steplake snapshots` lists them). By default, read
    /// everything that is there now, including unsealed rows.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub snapshot: Option<i64>,
}

/// Output formats for rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// A table for people.
    Table,
    /// One line for each value, uncut, for people.
    Expanded,
    /// Comma-separated values with a header.
    Csv,
    /// One array of objects; binary values as hexadecimal digits.
    Json,
    /// An Arrow IPC file.
    Arrow,
    /// A Parquet file.
    Parquet,
}

/// Format and destination of rows.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// How to print the rows.
    #[arg(long, value_enum, default_value_t = RowFormat::Table)]
    pub format: RowFormat,

    /// The number of rows that a table shows; by default 1,000, or all with --output.
    #[arg(long, value_name = "N")]
    pub rows: Option<usize>,

    /// The file to write, instead of standard output.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// What questions may use in this process.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(in crate::cli) struct RoomArgs {
    /// The memory for sorts, joins and groups, e.g. 512M or 2G; what does not fit goes to temporary
    /// files where it can. By default as much as there is.
    #[arg(long, conflicts_with = "engine", value_name = "BYTES")]
    pub(in crate::cli) memory: Option<Bytes>,

    /// The disk space for these temporary files, in $TMPDIR or /tmp. By default a quarter of what
    /// is free there, at most 64G.
    #[arg(long, conflicts_with = "engine", value_name = "BYTES")]
    pub(in crate::cli) spill: Option<Bytes>,
}

/// The end of the help of `sql`.
pub const SQL_HELP: &str = "\
In the shell a statement ends with a semicolon; commands begin with a backslash:
  SELECT action_name(action), count(*) FROM steps
    GROUP BY 1 ORDER BY 2 DESC LIMIT 5;
  \\d steps                    the columns of a table and what they mean
  \\df state                   functions
  \\query noop_rate tries=5    a named query (\\l lists them)
  \\x                          one line for each value
  \\o best.csv                 answers go to a file
  \\?                          all commands

Statements from a file or a pipe:
  steplake sql -f questions.sql
  echo 'SELECT count(*) FROM steps; SELECT count(*) FROM ir;' | steplake sql --format csv

The history is in $XDG_STATE_HOME/steplake/history (~/.local/state without it); $PAGER shows long answers.";

/// The arguments of `sql`, wherever it is answered.
#[derive(Debug, Args)]
pub struct SqlArgs {
    /// The question, e.g. "SELECT count(*) FROM steps".
    pub sql: Option<String>,

    /// Answer the statements of a file, up to the first that fails.
    #[arg(long, short, conflicts_with = "sql", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,

    /// The snapshot to read.
    #[command(flatten)]
    pub snapshot: SnapshotArgs,

    /// The format and destination of the answer.
    #[command(flatten)]
    pub output: OutputArgs,
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
    pub(in crate::cli) room: RoomArgs,

    #[command(flatten)]
    pub(in crate::cli) elsewhere: EngineArgs,
}

/// The arguments of `query`, wherever it is answered.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// The query's name.
    #[arg(required_unless_present = "list")]
    pub name: Option<String>,

    /// A value for a parameter of the query.
    #[arg(long = "param", short, value_name = "NAME=VALUE")]
    pub params: Vec<String>,

    /// List the queries and their parameters.
    #[arg(long)]
    pub list: bool,

    /// The snapshot to read.
    #[command(flatten)]
    pub snapshot: SnapshotArgs,

    /// The format and destination of the answer.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Ask one of the named queries.
#[derive(Debug, Args)]
pub(in crate::cli) struct QueryCommand {
    #[command(flatten)]
    pub(in crate::cli) asked: QueryArgs,

    #[command(flatten)]
    pub(in crate::cli) room: RoomArgs,

    #[command(flatten)]
    pub(in crate::cli) elsewhere: EngineArgs,
}
