//! `export`.

use std::io::BufWriter;
use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::args::LimitArgs;
use super::local_engine;
use super::training::{self, TrainingArgs};
use crate::assembly::arguments::GlobalArgs;
use crate::assembly::command_error::CommandError;
use crate::assembly::output::counted;
use crate::assembly::runtime::runtime;
use crate::console::arguments::SnapshotArgs;
use crate::console::source;
use crate::console::whole_file::WholeFile;
use crate::lake::Lake;
use crate::query::{QueryError, WrittenGraph, write_graphml};

/// Write the transition graph for another program, or rows for training.
///
/// Without `--training`: every state that can be reached from the benchmarks becomes a node with
/// its observations, and every transition a directed edge with its action, rewards and count.
/// networkx reads the file with `networkx.read_graphml(FILE, force_multigraph=True)`. For tables,
/// use the query `transition_graph`.
///
/// With `--training`: rows of numbers, split into training and test rows that share no state, and
/// shuffled, as Parquet in a new folder, with a card that describes them.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// The format.
    #[arg(long, value_enum, default_value_t = GraphFormat::Graphml)]
    format: GraphFormat,

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
    /// XML that networkx, Gephi and Cytoscape read.
    Graphml,
}

pub(super) fn run(global: &GlobalArgs, args: &ExportArgs) -> Result<(), CommandError> {
    if args.training {
        return training::export(global, &args.rows, args.snapshot, args.output.as_deref());
    }
    let GraphFormat::Graphml = args.format;
    let snapshot = source::snapshot(&Lake::open(&global.lake)?, args.snapshot)?;
    runtime()?.block_on(async {
        let engine = local_engine::engine(snapshot, LimitArgs::default()).await?;
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
