//! `--engine`: runs queries on a cluster, with a program of its own.

use std::ffi::OsString;

use clap::{Args, ValueEnum as _};

use super::args::{Cli, OutputArgs, QueryCommand, SnapshotArgs, SqlCommand};
use super::companions::{Companion, become_one};
use super::failure::Failed;

const SCHEME: &str = "ballista://";

/// Where a question is answered.
#[derive(Debug, Args)]
pub(super) struct EngineArgs {
    /// Ask on a Ballista cluster instead of in this process (see docs/CLUSTER.md).
    #[arg(long, value_name = "ballista://HOST:PORT", value_parser = scheduler)]
    pub(super) engine: Option<String>,
}

/// Returns the address of the scheduler.
fn scheduler(url: &str) -> Result<String, String> {
    match url.strip_prefix(SCHEME) {
        Some(address) if address.contains(':') => Ok(address.to_owned()),
        _ => Err(format!("write {SCHEME}HOST:PORT, the address of a scheduler")),
    }
}

/// Becomes the program that asks a cluster; returns if no cluster is wanted.
pub(super) fn sql(cli: &Cli, command: &SqlCommand) -> Result<(), Failed> {
    let asked = &command.asked;
    let mut options = output(&asked.output, asked.snapshot);
    if let Some(path) = &asked.file {
        options.extend(["--file".into(), path.into()]);
    }
    ask(cli, &command.elsewhere, "sql", &options, asked.sql.as_deref())
}

/// Does the same as [`sql`] for a named query.
pub(super) fn query(cli: &Cli, command: &QueryCommand) -> Result<(), Failed> {
    let asked = &command.asked;
    let mut options = output(&asked.output, asked.snapshot);
    if asked.list {
        options.push("--list".into());
    }
    for text in &asked.params {
        options.extend(["--param".into(), text.into()]);
    }
    ask(cli, &command.elsewhere, "query", &options, asked.name.as_deref())
}

/// Becomes the program with these options; the question comes last.
fn ask(
    cli: &Cli,
    engine: &EngineArgs,
    command: &str,
    options: &[OsString],
    asked: Option<&str>,
) -> Result<(), Failed> {
    let Some(scheduler) = &engine.engine else { return Ok(()) };
    let mut arguments: Vec<OsString> = vec!["--scheduler".into(), scheduler.into()];
    arguments.extend_from_slice(options);
    if let Some(asked) = asked {
        // The question may begin with a hyphen.
        arguments.extend(["--".into(), asked.into()]);
    }
    Err(become_one(cli, Companion::Cluster, Some(command), &arguments))
}

/// Passes on the output options; the other program also rejects senseless ones.
fn output(output: &OutputArgs, snapshot: SnapshotArgs) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::new();
    if let Some(format) = output.format.to_possible_value() {
        arguments.extend(["--format".into(), format.get_name().into()]);
    }
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
