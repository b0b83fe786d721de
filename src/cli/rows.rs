//! `sql` and `query`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::BufWriter;
use std::sync::{Arc, OnceLock};

use super::args::{Cli, OutputArgs, QueryArgs, RowFormat, SnapshotArgs, SqlArgs};
use super::benchmarks::{environment, workers};
use super::failure::Failed;
use super::print;
use crate::model::StateId;
use crate::query::{
    Answer, Engine, EngineOptions, Format, IrRebuilder, IrRenderer, Query, QueryError, TableLimits,
    Topic, write,
};
use crate::record::rebuild::{RebuildError, Rebuilder};
use crate::store::{Lake, Snapshot};

pub(super) fn sql(cli: &Cli, args: &SqlArgs) -> Result<(), Failed> {
    answer(cli, &args.output, args.snapshot, async |engine| engine.sql(&args.sql).await)
}

pub(super) fn query(cli: &Cli, args: &QueryArgs) -> Result<(), Failed> {
    let Some(name) = args.name.as_ref().filter(|_| !args.list) else { return print(&list()) };
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
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let format = match output.format {
        RowFormat::Table => Format::Table,
        RowFormat::Csv => Format::Csv,
        RowFormat::Json => Format::Json,
        RowFormat::Arrow => Format::Arrow,
        RowFormat::Parquet => Format::Parquet,
    };
    runtime.block_on(async {
        let engine = engine(snapshot).await?;
        let answer = ask(&engine).await?;
        format.check(&answer.schema())?;
        let written = match &output.output {
            Some(path) => {
                let file = File::create(path).map_err(|error| {
                    Failed::usage(format!("{} cannot be written: {error}", path.display()))
                })?;
                write(answer, format, limits, BufWriter::new(file)).await?
            }
            None => match write(answer, format, limits, BufWriter::new(std::io::stdout())).await {
                Err(QueryError::Write(error))
                    if error.kind() == std::io::ErrorKind::BrokenPipe =>
                {
                    return Ok(());
                }
                written => written?,
            },
        };
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

/// What answers about `snapshot`, with the lake's own compiler at hand.
pub(super) async fn engine(snapshot: Snapshot) -> Result<Engine, QueryError> {
    let renderer = renderer(&snapshot.identity().environment);
    let rebuilder = Live::new(&snapshot.identity().environment);
    let options =
        EngineOptions { rebuilder: Some(Arc::new(rebuilder)), ..EngineOptions::default() };
    Engine::new(snapshot, renderer, &options).await
}

/// What a table shows: on a screen what one can look through, in a file all.
fn limits(output: &OutputArgs) -> Result<TableLimits, Failed> {
    if output.rows.is_some() && output.format != RowFormat::Table {
        return Err(Failed::usage("--rows is for tables: the other formats hold all rows"));
    }
    let limits = if output.output.is_some() { TableLimits::NONE } else { TableLimits::SCREEN };
    Ok(TableLimits { rows_max: output.rows.or(limits.rows_max), ..limits })
}

/// How the states of an environment are shown as text.
fn renderer(environment: &str) -> IrRenderer {
    if environment == crate::env::llvm::NAME {
        return Arc::new(|bitcode| {
            crate::env::llvm::disassemble(bitcode).map_err(|error| error.to_string())
        });
    }
    Arc::new(|bytes| Ok(String::from_utf8_lossy(bytes).into_owned()))
}

/// Rebuilds the states that a lake does not store, in worker processes; the environment is opened when the
/// first of them is asked for.
#[derive(Debug)]
struct Live {
    environment: String,
    rebuilder: OnceLock<Result<Rebuilder, String>>,
}

impl Live {
    fn new(environment: &str) -> Self {
        Self { environment: environment.to_owned(), rebuilder: OnceLock::new() }
    }

    fn open(&self) -> Result<Rebuilder, Failed> {
        Ok(Rebuilder::new(Box::new(workers(environment(&self.environment)?.as_ref())?)))
    }
}

impl IrRebuilder for Live {
    fn rebuild(
        &self,
        snapshot: &Snapshot,
        states: &[StateId],
    ) -> Result<Vec<Option<Vec<u8>>>, QueryError> {
        let opened = self.rebuilder.get_or_init(|| self.open().map_err(|error| error.to_string()));
        let rebuilder = opened.as_ref().map_err(|said| QueryError::NotRebuilt(said.clone()))?;
        rebuilder.rebuild(snapshot, states).map_err(|error| match error {
            RebuildError::Store(error) => QueryError::Store(error),
            other => QueryError::NotRebuilt(Failed::from(other).to_string()),
        })
    }
}
