//! `sql` and `query`, for any engine.

use std::fmt::Write as _;
use std::io::BufWriter;

use super::arguments::{OutputArgs, QueryArgs, SnapshotArgs, SqlArgs, named_value};
use super::progress::{AfterSpinner, Spinner, until_closed, write_answer};
use super::shell;
use super::source::{self, EngineSource};
use super::whole_file::WholeFile;
use crate::Error;
use crate::lake::Lake;
use crate::query::{Answer, Engine, NamedQuery, QueryError, Topic};
use crate::runtime::{on_deep_stack, runtime};
use steplake_terminal::output::print;

/// `sql`: answers a question, or the statements of a file or of standard input, or opens a shell on
/// a terminal.
///
/// # Errors
///
/// If there is no answer, or it cannot be written. The file of `--output` is then unchanged, or has
/// the answers before the first error.
pub fn sql(source: &EngineSource<'_>, args: &SqlArgs) -> Result<(), Error> {
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
pub fn query(source: &EngineSource<'_>, args: &QueryArgs) -> Result<(), Error> {
    let Some(name) = args.name.as_ref().filter(|_| !args.list) else { return print(&list()) };
    let values = args.params.iter().map(|text| named_value("--param ", text));
    let values: Vec<_> = values.collect::<Result<_, _>>()?;
    on_deep_stack(|| {
        answer(source, &args.output, args.snapshot, async |engine| {
            engine.named(name, &values).await
        })
    })
}

/// Lists the queries by topic, each with its parameters.
fn list() -> String {
    let mut text = String::new();
    for (topic, title) in Topic::ALL {
        let blank = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{blank}{title}");
        for query in NamedQuery::list().iter().filter(|query| query.topic == topic) {
            let _ = writeln!(text, "  {:<20} {}", query.name, query.title);
            for parameter in &query.parameters {
                let _ = writeln!(text, "  {:<20}   {parameter}: {}", "", parameter.description);
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
) -> Result<(), Error> {
    let (limits, format) = (output.limits()?, output.format());
    output.demand_readable()?;
    let snapshot = source::snapshot(&Lake::open(source.lake)?, snapshot)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let engine = (source.open)(snapshot).await?;
        let spinner = Spinner::start(source.is_quiet);
        let answer = ask(&engine).await?;
        let written = if let Some(path) = &output.output {
            // A format that cannot hold the answer leaves no file.
            format.check(&answer.schema())?;
            let mut file = WholeFile::create(path)?;
            let written = write_answer(answer, format, limits, &mut file, &spinner).await?;
            file.finish()?;
            Some(written)
        } else {
            let out = AfterSpinner { out: std::io::stdout(), spinner: spinner.clone() };
            let out = BufWriter::new(out);
            until_closed(write_answer(answer, format, limits, out, &spinner).await)?
        };
        spinner.end();
        if let Some(written) = written.filter(|written| written.cut && output.rows.is_none()) {
            tracing::warn!(
                "the table shows only the first {} rows: --rows shows more; --output FILE and the formats \
                 csv, json, arrow and parquet have all",
                written.rows
            );
        }
        Ok(())
    })
}
