//! The commands: parse, run, exit code. How questions are asked and answers written is `steplake`'s
//! own.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand, ValueHint};
use steplake::assembly::arguments::GlobalArgs;
use steplake::assembly::failure::{Code, CommandError};
use steplake::assembly::messages;
use steplake::console::arguments::{QueryArgs, SQL_HELP, SqlArgs};
use steplake::console::questions;
use steplake::console::runtime::runtime;
use steplake::console::source::{EngineSource, Opening};
use steplake::lake::Snapshot;
use steplake::query::{Engine, EngineOptions, QueryError};

use crate::address::Address;
use crate::cluster::Cluster;
use crate::logging;
use crate::processes::{self, ExecutorArgs, SchedulerArgs};
use crate::tables::Mount;

/// Ask a lake on a Ballista cluster.
#[derive(Debug, Parser)]
#[command(
    name = "steplake cluster",
    version,
    about,
    after_help = "\
On one machine, each line in a terminal of its own:
  steplake cluster scheduler
  steplake cluster executor
  steplake cluster executor
  steplake sql --engine ballista://127.0.0.1:50050 \"SELECT count(*) FROM steps\"

Exit codes are those of `steplake`. See docs/CLUSTER.md."
)]
struct Cli {
    #[command(flatten)]
    global: GlobalArgs,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Scheduler(SchedulerArgs),
    Executor(ExecutorArgs),
    Sql(SqlCommand),
    Query(QueryCommand),
}

/// The cluster, and what it sees of the lake.
#[derive(Debug, Clone, Args)]
struct ClusterArgs {
    /// The scheduler.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: Address,

    /// Where executors have the folder of the lake, if not where it is here: the whole path, from
    /// /.
    #[arg(long, value_name = "FOLDER", value_parser = whole_path, value_hint = ValueHint::DirPath)]
    executors_lake: Option<PathBuf>,

    /// Into how many parts a stage of a query is cut at most.
    #[arg(long, value_name = "N", default_value_t = 16)]
    partitions: usize,
}

fn whole_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("write the whole path, from /".to_owned()) }
}

/// Ask the lake in SQL: one question, a file of them, or a shell. All is as in `steplake sql`.
#[derive(Debug, Args)]
#[command(after_help = SQL_HELP)]
struct SqlCommand {
    #[command(flatten)]
    asked: SqlArgs,

    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Ask one of the named queries.
#[derive(Debug, Args)]
struct QueryCommand {
    #[command(flatten)]
    asked: QueryArgs,

    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Runs the command line of this process.
pub(crate) fn run() -> Result<(), CommandError> {
    let Cli { global, command } = Cli::parse();
    logging::begin(global.verbose);
    messages::begin(global.verbose, Some("steplake_cluster"));
    match command {
        Command::Scheduler(args) => serve(processes::scheduler(args)),
        Command::Executor(args) => serve(processes::executor(args)),
        Command::Sql(SqlCommand { asked, cluster }) => {
            on_cluster(&global, &cluster, |source| questions::sql(source, &asked))
        }
        Command::Query(QueryCommand { asked, cluster }) => {
            on_cluster(&global, &cluster, |source| questions::query(source, &asked))
        }
    }
}

/// Is a part of the cluster until it is told to stop.
fn serve(process: impl Future<Output = anyhow::Result<()>>) -> Result<(), CommandError> {
    let ended = runtime()?.block_on(process);
    ended.map_err(|error| CommandError::new(Code::Failed, format!("{error:#}")))
}

/// Answers with engines whose queries run on the cluster.
fn on_cluster(
    global: &GlobalArgs,
    cluster: &ClusterArgs,
    answer: impl FnOnce(&EngineSource<'_>) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let cluster = cluster.clone();
    let open = move |snapshot| -> Opening { Box::pin(engine(snapshot, cluster.clone())) };
    answer(&EngineSource { lake: &global.lake, is_quiet: global.quiet, open: &open })
}

/// An engine whose queries run on the cluster.
async fn engine(snapshot: Snapshot, args: ClusterArgs) -> Result<Engine, QueryError> {
    let here = snapshot.path().to_owned();
    let there = match args.executors_lake {
        Some(there) => there,
        // Other processes work elsewhere: a relative path would be another one there.
        None => here.canonicalize().map_err(|error| {
            QueryError::Failed(format!("{} cannot be read: {error}", here.display()))
        })?,
    };
    let mount = Mount { here, there };
    let cluster = Cluster::new(args.scheduler, mount, args.partitions.max(1), snapshot.identity());
    let options = EngineOptions { backend: Some(Arc::new(cluster)), ..EngineOptions::default() };
    let renderer = Arc::new(|_: &[u8]| Err("a cluster has no compiler".to_owned()));
    Engine::new(snapshot, renderer, &options).await
}
