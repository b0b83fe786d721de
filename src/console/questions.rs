//! `sql` and `query`, for any engine.

use std::fmt::Write as _;
use std::io::BufWriter;

use super::arguments::{OutputArgs, QueryArgs, SnapshotArgs, SqlArgs};
use super::progress::{AfterSpinner, Spinner};
use super::runtime::{on_deep_stack, runtime};
use super::shell;
use super::source::{self, EngineSource};
use super::whole_file::WholeFile;
use crate::assembly::failure::CommandError;
use crate::assembly::output::print;
use crate::lake::Lake;
use crate::query::{Answer, Engine, Format, Query, QueryError, Topic, write};

/// `sql`: answers a question, or the statements of a file or of standard input, or opens a shell on
/// a terminal.
///
/// # Errors
///
/// If there is no answer, or it cannot be written. The file of `--output` is then unchanged, or has
/// the answers before the first error.
pub fn sql(source: &EngineSource<'_>, args: &SqlArgs) -> Result<(), CommandError> {
    on_deep_stack(|| {
        let Some(sql) = &args.sql else { return shell::run(source, args) };
        answer(source, &args.output, args.snapshot, async |engine| engine.sql(sql).await)
    })
}

/// `query`: answers a named query, or lists the queries.
///
/// # Errors
///
/// Those of [`sql`].
pub fn query(source: &EngineSource<'_>, args: &QueryArgs) -> Result<(), CommandError> {
    let Some(name) = args.name.as_ref().filter(|_| !args.list) else { return print(&list()) };
    let mut values = Vec::new();
    for text in &args.params {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            CommandError::usage(format!("`--param {text}` has no value: write --param NAME=VALUE"))
        })?;
        values.push((name.to_owned(), value.to_owned()));
    }
    on_deep_stack(|| {
        answer(source, &args.output, args.snapshot, async |engine| {
            engine.named(name, &values).await
        })
    })
}

/// Lists the queries by topic, each with its parameters.
fn list() -> String {
    let mut text = String::new();
    for topic in Topic::ALL {
        let blank = if text.is_empty() { "" } else { "\n" };
        writeln!(text, "{blank}{}", topic.title()).expect("a string takes it");
        for query in Query::list().iter().filter(|query| query.topic() == topic) {
            writeln!(text, "  {:<20} {}", query.name(), query.title()).expect("a string takes it");
            for parameter in query.parameters() {
                writeln!(text, "  {:<20}   {parameter}: {}", "", parameter.description)
                    .expect("a string takes it");
            }
        }
    }
    text
}

/// Asks a question and writes the answer to its destination.
///
/// # Errors
///
/// Those of [`sql`].
pub fn answer(
    source: &EngineSource<'_>,
    output: &OutputArgs,
    snapshot: SnapshotArgs,
    ask: impl AsyncFnOnce(&Engine) -> Result<Answer, QueryError>,
) -> Result<(), CommandError> {
    let limits = output.limits()?;
    let snapshot = source::snapshot(&Lake::open(source.lake)?, snapshot)?;
    let runtime = runtime()?;
    let format = Format::from(output.format);
    runtime.block_on(async {
        let engine = (source.open)(snapshot).await?;
        let spinner = Spinner::start(source.is_quiet);
        let answer = ask(&engine).await?;
        spinner.follow(answer.progress());
        format.check(&answer.schema())?;
        let written = if let Some(path) = &output.output {
            let mut file = WholeFile::create(path)?;
            let written = write(answer, format, limits, &mut file).await?;
            file.finish()?;
            written
        } else {
            let out = AfterSpinner { out: std::io::stdout(), spinner: spinner.clone() };
            match write(answer, format, limits, BufWriter::new(out)).await {
                Err(QueryError::Write(error))
                    if error.kind() == std::io::ErrorKind::BrokenPipe =>
                {
                    return Ok(());
                }
                written => written?,
            }
        };
        spinner.end();
        if written.cut && output.rows.is_none() {
            tracing::warn!(
                "the table shows only the first {} rows: --rows shows more; --output FILE and the formats \
                 csv, json, arrow and parquet have all",
                written.rows
            );
        }
        Ok(())
    })
}
