//! The arguments of `sql` and `query`, and those that other commands share with them.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueHint};

use crate::Error;
use crate::query::{Format, TableLimits};

/// The snapshot that a command reads.
#[derive(Debug, Clone, Copy, Args)]
pub struct SnapshotArgs {
    /// Read what was sealed in snapshot N (`steplake snapshots` lists them). By default, read
    /// everything that is there now, including unsealed rows; for training, what is sealed now.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    pub snapshot: Option<i64>,
}

/// Reads a format by its word, and lists all of them.
fn formats() -> impl TypedValueParser<Value = Format> {
    let values = Format::ALL.map(|(_, word, what)| PossibleValue::new(word).help(what));
    PossibleValuesParser::new(values).try_map(|word| word.parse::<Format>())
}

/// Format and destination of rows.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// How to write the rows. By default, as the ending of the file of --output says (.csv, .json,
    /// .arrow, .feather, .ipc, .parquet), or else as a table.
    #[arg(long, value_parser = formats())]
    pub format: Option<Format>,

    /// The number of rows that a table shows; by default 1,000, or all with --output.
    #[arg(long, value_name = "N")]
    pub rows: Option<usize>,

    /// The file to write, instead of standard output.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

impl OutputArgs {
    /// Returns the format that was asked for, by its name or by the ending of the file.
    pub fn format(&self) -> Format {
        self.format.unwrap_or_else(|| of_file(self.output.as_deref()))
    }

    /// Refuses bytes for a terminal.
    ///
    /// # Errors
    ///
    /// If the rows would go to one in a binary format.
    pub(super) fn demand_readable(&self) -> Result<(), Error> {
        if self.output.is_some() { Ok(()) } else { demand_readable(self.format()) }
    }

    /// Returns the limits of a table: on a screen what a person can look through, in a file none.
    ///
    /// # Errors
    ///
    /// If `--rows` is given with a format other than a table.
    pub fn limits(&self) -> Result<TableLimits, Error> {
        if self.rows.is_some() && !self.format().is_for_people() {
            return Err(Error::usage("--rows is for tables: the other formats hold all rows"));
        }
        Ok(table_limits(self.rows, self.output.is_some()))
    }
}

/// Returns the format of answers that go to a file, or to standard output.
pub(super) fn of_file(file: Option<&Path>) -> Format {
    file.and_then(Format::of_ending).unwrap_or(Format::Table)
}

/// Refuses a binary format if standard output is a terminal, which would take it for commands.
///
/// # Errors
///
/// If it is one.
pub fn demand_readable(format: Format) -> Result<(), Error> {
    if !format.is_binary() || !std::io::stdout().is_terminal() {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{format} is not text, and standard output is a terminal: name a file with --output, or pipe it to a \
         program"
    )))
}

/// Returns the limits of a table of at most `rows`, if that was asked for.
pub(super) fn table_limits(rows: Option<usize>, to_file: bool) -> TableLimits {
    let limits = if to_file { TableLimits::NONE } else { TableLimits::SCREEN };
    TableLimits { rows_max: rows.or(limits.rows_max), ..limits }
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

The history is in $XDG_STATE_HOME/steplake/history (~/.local/state without it); $PAGER shows long
answers.";

/// The arguments of `sql` on every engine.
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

/// The arguments of `query` on every engine.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// The query's name; without one, the queries are listed with their parameters.
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

/// Parses `NAME=VALUE`, which follows `option`.
pub(super) fn named_value(option: &str, text: &str) -> Result<(String, String), Error> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Error::usage(format!("`{option}{text}` has no value: write {option}NAME=VALUE"))
    })?;
    Ok((name.to_owned(), value.to_owned()))
}
