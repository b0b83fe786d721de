//! The commands: parse, run, exit code. `steplake::console` asks the questions and writes the
//! answers.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand, ValueHint};
use steplake::console::arguments::{QueryArgs, SQL_HELP, SqlArgs};
use steplake::console::questions;
use steplake::console::source::{EngineFuture, EngineSource};
use steplake::lake::{Lake, Snapshot};
use steplake::query::{Engine, EngineOptions, QueryError};
use steplake::runtime::runtime;
use steplake::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::messages;

use crate::address::Address;
use crate::cluster::Cluster;
use crate::logging;
use crate::processes::{self, ExecutorArgs, SchedulerArgs};
use crate::tables::Mount;

/// Answer queries on a Ballista cluster.
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

/// The cluster, and where it finds the lake.
#[derive(Debug, Clone, Args)]
struct ClusterArgs {
    /// The scheduler.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: Address,

    /// The absolute path of the lake on the executors, if it differs from the path here.
    #[arg(long, value_name = "FOLDER", value_parser = absolute, value_hint = ValueHint::DirPath)]
    executors_lake: Option<PathBuf>,

    /// The highest number of partitions of a stage of a query.
    #[arg(long, value_name = "N", default_value_t = 16)]
    partitions: usize,
}

fn absolute(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err("write an absolute path".to_owned()) }
}

/// Ask the lake in SQL: one question, a file of them, or a shell, as with `steplake sql`.
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
pub(crate) fn run() -> Result<(), Error> {
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

/// Runs a process of the cluster until a signal stops it.
fn serve(process: impl Future<Output = anyhow::Result<()>>) -> Result<(), Error> {
    let ended = runtime()?.block_on(process);
    ended.map_err(|error| Error::new(ErrorKind::Failed, format!("{error:#}")))
}

/// Answers with engines whose queries run on the cluster.
fn on_cluster(
    global: &GlobalArgs,
    cluster: &ClusterArgs,
    answer: impl FnOnce(&EngineSource<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let cluster = cluster.clone();
    let open = move |snapshot| -> EngineFuture { Box::pin(engine(snapshot, cluster.clone())) };
    let lake = Lake::open_one(&global.lake, global.context.as_deref())?;
    answer(&EngineSource { lake: lake.path(), is_quiet: global.quiet, open: &open })
}

/// Opens an engine whose queries run on the cluster.
async fn engine(snapshot: Snapshot, args: ClusterArgs) -> Result<Engine, QueryError> {
    let local = snapshot.path().to_owned();
    let remote = match args.executors_lake {
        Some(path) => path,
        // Other processes have other working directories.
        None => local.canonicalize().map_err(|error| {
            QueryError::Failed(format!("{} cannot be read: {error}", local.display()))
        })?,
    };
    let mount = Mount { local, remote };
    let cluster = Cluster::new(args.scheduler, mount, args.partitions.max(1), snapshot.identity());
    let options = EngineOptions { backend: Some(Arc::new(cluster)), ..EngineOptions::default() };
    let renderer = Arc::new(|_: &[u8]| Err("a cluster has no compiler".to_owned()));
    Engine::new(snapshot, renderer, &options).await
}
