//! `sql` and `query`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use super::args::{Cli, OutputArgs, QueryArgs, RowFormat, SnapshotArgs, SqlArgs};
use super::failure::Failed;
use super::watch::{Watch, Watched};
use super::{elsewhere, ir, print, shell};
use crate::query::{
    Answer, Engine, EngineOptions, Format, Query, QueryError, TableLimits, Topic, write,
};
use crate::store::{Lake, Snapshot};

pub(super) fn sql(cli: &Cli, args: &SqlArgs) -> Result<(), Failed> {
    let options = elsewhere::output(&args.output, args.snapshot);
    let Some(sql) = &args.sql else {
        if args.elsewhere.engine.is_some() {
            return Err(Failed::usage(
                "--engine wants a question: the shell works in this process",
            ));
        }
        return shell::run(cli, args);
    };
    elsewhere::ask(cli, &args.elsewhere, "sql", &options, Some(sql))?;
    answer(cli, &args.output, args.snapshot, async |engine| engine.sql(sql).await)
}

pub(super) fn query(cli: &Cli, args: &QueryArgs) -> Result<(), Failed> {
    let Some(name) = args.name.as_ref().filter(|_| !args.list) else { return print(&list()) };
    let mut options = elsewhere::output(&args.output, args.snapshot);
    for text in &args.params {
        options.extend(["--param".into(), text.into()]);
    }
    elsewhere::ask(cli, &args.elsewhere, "query", &options, Some(name))?;
    let mut values = Vec::new();
    for text in &args.params {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failed::usage(format!("`--param {text}` has no value: write --param NAME=VALUE"))
        })?;
        values.push((name.to_owned(), value.to_owned()));
    }
    answer(cli, &args.output, args.snapshot, async |engine| engine.named(name, &values).await)
}

/// The queries by topic, each with what it takes.
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

/// Asks and writes the answer where it belongs.
pub(super) fn answer(
    cli: &Cli,
    output: &OutputArgs,
    snapshot: SnapshotArgs,
    ask: impl AsyncFnOnce(&Engine) -> Result<Answer, QueryError>,
) -> Result<(), Failed> {
    let limits = limits(output)?;
    let snapshot = super::snapshot(&Lake::open(&cli.lake)?, snapshot)?;
    let runtime = super::threads()?;
    let format = Format::from(output.format);
    runtime.block_on(async {
        let engine = engine(snapshot).await?;
        let watch = Watch::begin(cli);
        let answer = ask(&engine).await?;
        watch.of(answer.progress());
        format.check(&answer.schema())?;
        let written = if let Some(path) = &output.output {
            write(answer, format, limits, BufWriter::new(create(path)?)).await?
        } else {
            let out = Watched { out: std::io::stdout(), watch: watch.clone() };
            match write(answer, format, limits, BufWriter::new(out)).await {
                Err(QueryError::Write(error))
                    if error.kind() == std::io::ErrorKind::BrokenPipe =>
                {
                    return Ok(());
                }
                written => written?,
            }
        };
        watch.end();
        if written.cut && output.rows.is_none() {
            tracing::warn!(
                "the table shows only the first {} rows: --rows shows more; --output FILE has all, and so \
                 have csv, json, arrow and parquet",
                written.rows
            );
        }
        Ok(())
    })
}

/// An engine over a snapshot, which shows and rebuilds states of the lake's environment.
pub(super) async fn engine(snapshot: Snapshot) -> Result<Engine, QueryError> {
    let environment = &snapshot.identity().environment;
    let renderer = ir::renderer(environment);
    let rebuilder = Some(ir::rebuilder(environment));
    let options = EngineOptions { rebuilder, ..EngineOptions::default() };
    Engine::new(snapshot, renderer, &options).await
}

impl From<RowFormat> for Format {
    fn from(format: RowFormat) -> Self {
        match format {
            RowFormat::Table => Self::Table,
            RowFormat::Expanded => Self::Expanded,
            RowFormat::Csv => Self::Csv,
            RowFormat::Json => Self::Json,
            RowFormat::Arrow => Self::Arrow,
            RowFormat::Parquet => Self::Parquet,
        }
    }
}

/// The file that answers are to be written to.
pub(super) fn create(path: &Path) -> Result<File, Failed> {
    File::create(path)
        .map_err(|error| Failed::usage(format!("{} cannot be written: {error}", path.display())))
}

/// What a table shows: on a screen what one can look through, in a file all.
pub(super) fn limits(output: &OutputArgs) -> Result<TableLimits, Failed> {
    if output.rows.is_some() && !Format::from(output.format).is_for_people() {
        return Err(Failed::usage("--rows is for tables: the other formats hold all rows"));
    }
    let limits = if output.output.is_some() { TableLimits::NONE } else { TableLimits::SCREEN };
    Ok(TableLimits { rows_max: output.rows.or(limits.rows_max), ..limits })
}
