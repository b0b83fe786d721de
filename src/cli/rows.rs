//! `sql` and `query`, for any engine.

use std::fmt;
use std::fmt::Write as _;
use std::io::BufWriter;
use std::num::NonZeroUsize;
use std::path::Path;

use futures::future::BoxFuture;

use super::args::{OutputArgs, QueryArgs, RoomArgs, RowFormat, SnapshotArgs, SqlArgs};
use super::failure::Failed;
use super::watch::{Watch, Watched};
use super::whole_file::WholeFile;
use super::{ir, print, shell};
use crate::lake::{Lake, Snapshot};
use crate::query::{
    Answer, Engine, EngineOptions, Format, Query, QueryError, SpillSpace, TableLimits, Topic, write,
};

/// An engine that is being opened.
pub type Opening = BoxFuture<'static, Result<Engine, QueryError>>;

/// Opens an engine over a snapshot.
pub type OpenEngine = dyn Fn(Snapshot) -> Opening + Send + Sync;

/// The target of questions.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// The folder of the lake.
    pub lake: &'a Path,
    /// Whether to show no progress.
    pub is_quiet: bool,
    /// Opens an engine over a snapshot of the lake.
    pub open: &'a OpenEngine,
}

impl fmt::Debug for Asking<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("lake", &self.lake).finish_non_exhaustive()
    }
}

/// `sql`: answers a question, else the statements of a file or of standard input; on a terminal,
/// opens a shell.
///
/// # Errors
///
/// Whatever prevents an answer, or its output. An `--output` file is then unchanged, or has the
/// answers before the first failure.
pub fn sql(asking: &Asking<'_>, args: &SqlArgs) -> Result<(), Failed> {
    super::deeply(|| {
        let Some(sql) = &args.sql else { return shell::run(asking, args) };
        answer(asking, &args.output, args.snapshot, async |engine| engine.sql(sql).await)
    })
}

/// `query`: answers a named query, or lists the queries.
///
/// # Errors
///
/// Those of [`sql`].
pub fn query(asking: &Asking<'_>, args: &QueryArgs) -> Result<(), Failed> {
    let Some(name) = args.name.as_ref().filter(|_| !args.list) else { return print(&list()) };
    let mut values = Vec::new();
    for text in &args.params {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failed::usage(format!("`--param {text}` has no value: write --param NAME=VALUE"))
        })?;
        values.push((name.to_owned(), value.to_owned()));
    }
    super::deeply(|| {
        answer(asking, &args.output, args.snapshot, async |engine| {
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
pub(super) fn answer(
    asking: &Asking<'_>,
    output: &OutputArgs,
    snapshot: SnapshotArgs,
    ask: impl AsyncFnOnce(&Engine) -> Result<Answer, QueryError>,
) -> Result<(), Failed> {
    let limits = limits(output)?;
    let snapshot = super::snapshot(&Lake::open(asking.lake)?, snapshot)?;
    let runtime = super::threads()?;
    let format = Format::from(output.format);
    runtime.block_on(async {
        let engine = (asking.open)(snapshot).await?;
        let watch = Watch::begin(asking.is_quiet);
        let answer = ask(&engine).await?;
        watch.of(answer.progress());
        format.check(&answer.schema())?;
        let written = if let Some(path) = &output.output {
            let mut file = WholeFile::create(path)?;
            let written = write(answer, format, limits, &mut file).await?;
            file.finish()?;
            written
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

/// Opens engines in this process, which may use so much.
pub(super) fn opening(room: RoomArgs) -> impl Fn(Snapshot) -> Opening + Send + Sync {
    move |snapshot| Box::pin(engine(snapshot, room))
}

/// Opens an engine over a snapshot, which shows and rebuilds states of the lake's environment.
pub(super) async fn engine(snapshot: Snapshot, room: RoomArgs) -> Result<Engine, QueryError> {
    let environment = &snapshot.identity().environment;
    let renderer = ir::renderer(environment);
    let rebuilder = Some(ir::rebuilder(environment));
    let spill = room.spill.map(|bytes| SpillSpace::of(bytes.0)).unwrap_or_default();
    let memory = room.memory.and_then(|bytes| usize::try_from(bytes.0).ok());
    let memory_bytes_max =
        memory.map(|bytes| NonZeroUsize::new(bytes).unwrap_or(NonZeroUsize::MIN));
    let options = EngineOptions { memory_bytes_max, spill, rebuilder, ..EngineOptions::default() };
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

/// Returns the limits of a table: on a screen what a person can look through, in a file none.
pub(super) fn limits(output: &OutputArgs) -> Result<TableLimits, Failed> {
    if output.rows.is_some() && !Format::from(output.format).is_for_people() {
        return Err(Failed::usage("--rows is for tables: the other formats hold all rows"));
    }
    let limits = if output.output.is_some() { TableLimits::NONE } else { TableLimits::SCREEN };
    Ok(TableLimits { rows_max: output.rows.or(limits.rows_max), ..limits })
}
