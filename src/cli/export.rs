//! `export`.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};

use super::args::LimitArgs;
use super::local_engine;
use super::training::{self, TrainingArgs};
use crate::Error;
use crate::console::arguments::{OutputArgs, SnapshotArgs};
use crate::console::whole_file::WholeFile;
use crate::console::{questions, source};
use crate::environments::Environments;
use crate::lake::Lake;
use crate::query::{Format, QueryError, WrittenGraph, write_graphml};
use crate::runtime::{on_deep_stack, runtime};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::counted;

/// Write the transition graph for another program, or rows for training.
///
/// Without `--training`: as `GraphML`, every state that can be reached from the benchmarks becomes
/// a node with its observations, and every transition a directed edge with its action, rewards and
/// count. networkx reads the file with `networkx.read_graphml(FILE, force_multigraph=True)`. The
/// other formats have the transitions alone, as the query `transition_graph` gives them.
///
/// With `--training`: rows of numbers, split into training and test rows that share no state, and
/// shuffled, as Parquet in a new folder, with a card that describes them.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The format. By default, as the ending of the file of --output says (.graphml, .xml, .csv,
    /// .json, .arrow, .feather, .ipc, .parquet); `GraphML` on standard output.
    #[arg(long, value_enum)]
    format: Option<GraphFormat>,

    /// A LIKE pattern for the URIs of the benchmarks, e.g. `benchmark://debian-v0/zlib/%`. By
    /// default all.
    #[arg(long, short, default_value = "%", value_name = "PATTERN", conflicts_with = "training")]
    benchmark: String,

    /// Write rows for training instead of the graph, into the new folder that --output names.
    #[arg(long, conflicts_with = "format")]
    training: bool,

    #[command(flatten)]
    rows: TrainingArgs,

    #[command(flatten)]
    snapshot: SnapshotArgs,

    /// The file to write, instead of standard output; with --training, a folder.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

/// Output formats of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphFormat {
    /// XML that networkx, Gephi and Cytoscape read: states and transitions.
    Graphml,
    /// Comma-separated values with a header: the transitions.
    Csv,
    /// One array of objects: the transitions.
    Json,
    /// An Arrow IPC file: the transitions.
    Arrow,
    /// A Parquet file: the transitions.
    Parquet,
}

impl GraphFormat {
    /// The format that the ending of the file's name stands for; without one, `GraphML`.
    fn of_ending(path: &Path) -> Result<Self, Error> {
        match Format::of_ending(path) {
            Some(Format::Csv) => return Ok(Self::Csv),
            Some(Format::Json) => return Ok(Self::Json),
            Some(Format::Arrow) => return Ok(Self::Arrow),
            Some(Format::Parquet) => return Ok(Self::Parquet),
            Some(Format::Table | Format::Expanded) | None => {}
        }
        let Some(ending) = path.extension() else { return Ok(Self::Graphml) };
        if ["graphml", "xml"].iter().any(|known| ending.eq_ignore_ascii_case(known)) {
            return Ok(Self::Graphml);
        }
        Err(Error::usage(format!(
            "the name of {} ends in no format that `export` writes: end it in .graphml, .csv, .json, .arrow or \
             .parquet, or name a format with --format",
            path.display()
        )))
    }

    /// The format of the rows; none for `GraphML`.
    fn of_rows(self) -> Option<Format> {
        match self {
            Self::Graphml => None,
            Self::Csv => Some(Format::Csv),
            Self::Json => Some(Format::Json),
            Self::Arrow => Some(Format::Arrow),
            Self::Parquet => Some(Format::Parquet),
        }
    }
}

pub(super) fn run(
    environments: &Environments,
    global: &GlobalArgs,
    args: &ExportArgs,
) -> Result<(), Error> {
    if args.training {
        let folder = args.output.as_deref();
        return training::export(environments, global, &args.rows, args.snapshot, folder);
    }
    let format = match (args.format, args.output.as_deref()) {
        (Some(format), _) => format,
        (None, Some(path)) => GraphFormat::of_ending(path)?,
        (None, None) => GraphFormat::Graphml,
    };
    if let Some(format) = format.of_rows() {
        return transitions(environments, global, args, format);
    }
    let snapshot = source::snapshot(&Lake::open(&global.lake)?, args.snapshot)?;
    runtime()?.block_on(async {
        let engine = local_engine::engine(environments, snapshot, LimitArgs::default()).await?;
        let pattern = args.benchmark.as_str();
        let WrittenGraph { nodes, edges } = if let Some(path) = &args.output {
            let mut file = WholeFile::create(path)?;
            let written = write_graphml(&engine, pattern, &mut file).await?;
            file.finish()?;
            written
        } else {
            let mut out = BufWriter::new(std::io::stdout());
            match write_graphml(&engine, pattern, &mut out).await {
                Err(QueryError::Write(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                    return Ok(());
                }
                written => written?,
            }
        };
        if nodes == 0 {
            tracing::warn!(
                "the graph is empty: no program with a URI like `{pattern}` has a state"
            );
        }
        tracing::info!("wrote {} and {}", counted(nodes, "state"), counted(edges, "transition"));
        Ok(())
    })
}

/// Writes the transitions as rows.
fn transitions(
    environments: &Environments,
    global: &GlobalArgs,
    args: &ExportArgs,
    format: Format,
) -> Result<(), Error> {
    let output = OutputArgs { format: Some(format), rows: None, output: args.output.clone() };
    let values = [("benchmark".to_owned(), args.benchmark.clone())];
    let open = local_engine::opening(environments, LimitArgs::default());
    let source = local_engine::source(global, &open);
    on_deep_stack(|| {
        questions::answer(&source, &output, args.snapshot, async |engine| {
            engine.named("transition_graph", &values).await
        })
    })
}
