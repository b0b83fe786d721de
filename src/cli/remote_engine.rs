//! `--engine`: `sql` and `query` on a cluster, in the program `steplake-cluster`.

use std::ffi::OsString;

use super::args::{EngineArgs, QueryCommand, SqlCommand};
use super::companions::exec_companion;
use crate::Error;
use crate::console::arguments::{OutputArgs, SnapshotArgs};
use steplake_terminal::arguments::GlobalArgs;

/// Executes `steplake-cluster` if the user named a cluster, else returns.
pub(super) fn sql(global: &GlobalArgs, command: &SqlCommand) -> Result<(), Error> {
    let asked = &command.asked;
    let mut options = output(&asked.output, asked.snapshot);
    if let Some(path) = &asked.file {
        options.extend(["--file".into(), path.into()]);
    }
    exec_if_named(global, &command.engine, "sql", &options, asked.sql.as_deref())
}

/// [`sql`] for a named query.
pub(super) fn query(global: &GlobalArgs, command: &QueryCommand) -> Result<(), Error> {
    let asked = &command.asked;
    let mut options = output(&asked.output, asked.snapshot);
    if asked.list {
        options.push("--list".into());
    }
    for text in &asked.params {
        options.extend(["--param".into(), text.into()]);
    }
    exec_if_named(global, &command.engine, "query", &options, asked.name.as_deref())
}

/// Executes the program with these options; the question comes last.
fn exec_if_named(
    global: &GlobalArgs,
    engine: &EngineArgs,
    command: &str,
    options: &[OsString],
    asked: Option<&str>,
) -> Result<(), Error> {
    let Some(scheduler) = &engine.engine else { return Ok(()) };
    let mut arguments: Vec<OsString> = vec!["--scheduler".into(), scheduler.into()];
    arguments.extend_from_slice(options);
    if let Some(asked) = asked {
        // The question may begin with a hyphen.
        arguments.extend(["--".into(), asked.into()]);
    }
    Err(exec_companion(global, true, "steplake-cluster", Some(command), &arguments))
}

/// Returns the options for the output as arguments. The other program checks them.
fn output(output: &OutputArgs, snapshot: SnapshotArgs) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--format".into(), output.format().to_string().into()];
    if let Some(rows) = output.rows {
        arguments.extend(["--rows".into(), rows.to_string().into()]);
    }
    if let Some(path) = &output.output {
        arguments.extend(["--output".into(), path.into()]);
    }
    if let Some(number) = snapshot.snapshot {
        arguments.extend(["--snapshot".into(), number.to_string().into()]);
    }
    arguments
}
