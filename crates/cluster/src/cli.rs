//! The commands: parse, run, exit code.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgAction, Args, Parser, Subcommand, ValueHint};
use steplake::query::{Answer, Engine, EngineOptions, Format, QueryError, TableLimits, write};
use steplake::store::{Lake, Snapshot, SnapshotId};
use tracing_subscriber::EnvFilter;

use crate::address::Address;
use crate::cluster::Cluster;
use crate::failure::Failed;
use crate::processes::{self, ExecutorArgs, SchedulerArgs};
use crate::tables::Mount;
use crate::{dedup, logging, say};

/// Stack of a thread: plans are walked by recursion.
const STACK_BYTES: usize = 16 << 20;

/// Ask a lake, and dedup it, on a Ballista cluster.
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
  steplake dedup --engine ballista://127.0.0.1:50050

Exit codes are those of `steplake`. See docs/CLUSTER.md."
)]
pub(crate) struct Cli {
    /// The folder of the lake.
    #[arg(long, global = true, env = "STEPLAKE_LAKE", default_value = "./lake", value_hint = ValueHint::DirPath)]
    lake: PathBuf,

    /// Say more on standard error: -v what is done, -vv every detail.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// Show no progress.
    #[arg(short, long, global = true)]
    quiet: bool,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Scheduler(SchedulerArgs),
    Executor(ExecutorArgs),
    /// Ask the lake in SQL.
    Sql(SqlArgs),
    /// Ask one of the named queries.
    Query(QueryArgs),
    /// Make the derived tables anew from all sealed steps.
    Dedup(ClusterArgs),
}

/// The cluster, and what it sees of the lake.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// The scheduler.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: Address,

    /// Where executors have the folder of the lake, if not where it is here.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    executors_lake: Option<PathBuf>,

    /// Into how many parts a stage of a query is cut at most.
    #[arg(long, value_name = "N", default_value_t = 16)]
    partitions: usize,
}

#[derive(Debug, Args)]
struct OutputArgs {
    /// How to print the rows: table, csv, json, arrow or parquet.
    #[arg(long, default_value_t = Format::Table)]
    format: Format,

    /// The rows that a table shows: 1,000 by default, all with --output.
    #[arg(long, value_name = "N")]
    rows: Option<usize>,

    /// The file to write instead of standard output.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,

    /// Read this snapshot instead of the newest one and the hot log.
    #[arg(long, value_name = "NUMBER")]
    snapshot: Option<i64>,
}

#[derive(Debug, Args)]
struct SqlArgs {
    /// The question.
    sql: String,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct QueryArgs {
    /// The query's name.
    name: String,

    /// A parameter of the query.
    #[arg(long = "param", short, value_name = "NAME=VALUE")]
    params: Vec<String>,

    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command line of this process.
pub(crate) fn run() -> Result<(), Failed> {
    let cli = Cli::parse();
    begin_messages(&cli);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()?;
    runtime.block_on(async {
        match cli.command {
            Command::Scheduler(args) => Ok(processes::scheduler(args).await?),
            Command::Executor(args) => Ok(processes::executor(args).await?),
            Command::Sql(args) => {
                let engine = open(&cli.lake, args.output.snapshot, &args.cluster).await?;
                hand_over(engine.sql(&args.sql).await?, &args.output).await
            }
            Command::Query(args) => {
                let values = args.params.iter().map(|text| parameter(text));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                let engine = open(&cli.lake, args.output.snapshot, &args.cluster).await?;
                hand_over(engine.named(&args.name, &values).await?, &args.output).await
            }
            Command::Dedup(args) => {
                let report = dedup::dedup(&Lake::open(&cli.lake)?, &args).await?;
                Ok(say(&format!(
                    "{} steps: {} transitions, {} conflicts, {} failures\n",
                    report.steps, report.transitions, report.conflicts, report.failures
                ))?)
            }
        }
    })
}

fn begin_messages(cli: &Cli) {
    let level = match (cli.verbose, &cli.command) {
        (0, _) => "warn",
        (1, _) => "info",
        (2, _) => "debug",
        _ => "trace",
    };
    logging::begin(cli.verbose);
    let wanted = EnvFilter::try_from_env("STEPLAKE_LOG");
    let filter = wanted.unwrap_or_else(|_unset| {
        EnvFilter::new(format!("steplake={level},steplake_cluster={level}"))
    });
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .log_internal_errors(false)
        .init();
}

fn parameter(text: &str) -> Result<(String, String), Failed> {
    let (name, value) = text.split_once('=').ok_or_else(|| {
        Failed::usage(format!("`--param {text}` has no value: write --param NAME=VALUE"))
    })?;
    Ok((name.to_owned(), value.to_owned()))
}

/// An engine whose queries run on the cluster.
pub(crate) async fn engine(snapshot: Snapshot, args: &ClusterArgs) -> Result<Engine, Failed> {
    // Other processes work elsewhere: a relative path would be another one there.
    let here = snapshot.path().to_owned();
    let there = match &args.executors_lake {
        Some(there) if there.is_absolute() => there.clone(),
        Some(_) => return Err(Failed::usage("--executors-lake wants the whole path, from /")),
        None => here.canonicalize()?,
    };
    let mount = Mount { here, there };
    let cluster =
        Cluster::new(args.scheduler.clone(), mount, args.partitions.max(1), snapshot.identity());
    let options = EngineOptions { backend: Some(Arc::new(cluster)), ..EngineOptions::default() };
    let renderer = Arc::new(|_: &[u8]| Err("a cluster has no compiler".to_owned()));
    Ok(Engine::new(snapshot, renderer, &options).await?)
}

async fn open(
    lake: &std::path::Path,
    snapshot: Option<i64>,
    args: &ClusterArgs,
) -> Result<Engine, Failed> {
    let lake = Lake::open(lake)?;
    let snapshot = match snapshot {
        Some(number) => lake.snapshot_at(SnapshotId(number))?,
        None => lake.snapshot()?,
    };
    engine(snapshot, args).await
}

/// Writes an answer where it belongs.
async fn hand_over(answer: Answer, args: &OutputArgs) -> Result<(), Failed> {
    if args.rows.is_some() && args.format != Format::Table {
        return Err(Failed::usage("--rows is for tables: the other formats hold all rows"));
    }
    args.format.check(&answer.schema())?;
    let limits = if args.output.is_some() { TableLimits::NONE } else { TableLimits::SCREEN };
    let limits = TableLimits { rows_max: args.rows.or(limits.rows_max), ..limits };
    let written = match &args.output {
        Some(path) => {
            let file = File::create(path).map_err(|error| {
                Failed::usage(format!("{} cannot be written: {error}", path.display()))
            })?;
            write(answer, args.format, limits, BufWriter::new(file)).await?
        }
        None => match write(answer, args.format, limits, BufWriter::new(io::stdout())).await {
            Err(QueryError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        },
    };
    if written.cut && args.rows.is_none() {
        tracing::warn!(
            "the table shows only the first {} rows: --rows shows more; --output FILE has all, and so have \
             csv, json, arrow and parquet",
            written.rows
        );
    }
    io::stdout().flush()?;
    Ok(())
}
