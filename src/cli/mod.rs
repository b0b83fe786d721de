//! The binary's commands: parse, run, exit code.
//!
//! Results go to standard output; progress, messages and logs go to standard error.

mod args;
mod benchmarks;
mod companions;
mod datasets;
mod dedup;
mod elsewhere;
mod export;
pub mod failure;
pub mod files;
mod generate;
mod history;
pub mod ir;
mod lake;
mod lakes;
mod live;
mod merge;
pub mod messages;
mod progress;
mod retract;
pub mod rows;
mod shell;
mod verify;
mod watch;
mod whole_file;

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use indicatif::HumanCount;

use self::args::{Cli, Command, EnvCommand};
pub use self::args::{OutputArgs, QueryArgs, RowFormat, SQL_HELP, SnapshotArgs, SqlArgs};
use self::companions::Companion;
use self::failure::Failed;
use self::rows::{Asking, OpenEngine};
use crate::lake::{Lake, Snapshot, SnapshotId};

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    messages::begin(cli.verbose, None);
    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => failed.report(),
    }
}

fn run(cli: &Cli) -> Result<(), Failed> {
    match &cli.command {
        Command::Generate(args) => generate::run(cli, args),
        Command::Seal => lake::seal(cli),
        Command::Dedup(args) => dedup::dedup(cli, args),
        Command::Verify(args) => verify::run(cli, args),
        Command::Snapshots(args) => history::snapshots(cli, args),
        Command::Expire(args) => history::expire(cli, args),
        Command::Gc => history::gc(cli),
        Command::Merge(args) => merge::run(cli, args),
        Command::Retract(args) => retract::run(cli, args),
        Command::Info(args) => lake::info(cli, args),
        Command::Sql(command) => {
            let snapshot = command.asked.snapshot.snapshot;
            let cluster = command.elsewhere.engine.as_deref();
            let named = lakes::named(&command.lakes, cluster, snapshot)?;
            if let Some((_, first)) = named.first().cloned() {
                let open = lakes::opening(named, rows::opening(command.room));
                let asking = Asking { lake: &first, is_quiet: cli.quiet, open: &open };
                return rows::sql(&asking, &command.asked);
            }
            elsewhere::sql(cli, command)?;
            rows::sql(&here(cli, &rows::opening(command.room)), &command.asked)
        }
        Command::Query(command) => {
            elsewhere::query(cli, command)?;
            rows::query(&here(cli, &rows::opening(command.room)), &command.asked)
        }
        Command::Export(args) => export::run(cli, args),
        Command::Replay(args) => live::replay(args),
        Command::Env(EnvCommand::Describe { env, format }) => live::describe(env, *format),
        Command::Env(EnvCommand::Probe(args)) => live::probe(cli, args),
        Command::Datasets(command) => datasets::run(cli, command),
        Command::Serve(args) => companions::run(cli, Companion::Serve, None, args),
        Command::Publish(args) => companions::run(cli, Companion::Remote, Some("publish"), args),
        Command::Fetch(args) => companions::run(cli, Companion::Remote, Some("fetch"), args),
        Command::Cluster(args) => companions::run(cli, Companion::Cluster, None, args),
        Command::Completions { shell } => {
            // clap panics if it cannot write, so it does not get standard output itself.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "steplake", &mut script);
            print(&String::from_utf8_lossy(&script))
        }
        Command::Worker { environment, flight, step_cpu_max_ms, memory_bytes_max } => {
            worker(environment, flight, Duration::from_millis(*step_cpu_max_ms), *memory_bytes_max)
        }
        Command::ProbeChild => live::probe_child(),
    }
}

/// Sets up answers to questions in this process.
fn here<'a>(cli: &'a Cli, open: &'a OpenEngine) -> Asking<'a> {
    Asking { lake: &cli.lake, is_quiet: cli.quiet, open }
}

/// Runs `work` on a thread with enough stack to plan statements: the stack of the first thread
/// depends on the user's limits.
fn deeply(work: impl FnOnce() -> Result<(), Failed> + Send) -> Result<(), Failed> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(crate::query::STACK_BYTES);
        match thread.spawn_scoped(scope, work)?.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Creates the runtime of a program that plans and answers statements.
fn threads() -> std::io::Result<tokio::runtime::Runtime> {
    let mut threads = tokio::runtime::Builder::new_multi_thread();
    threads.enable_all().thread_stack_size(crate::query::STACK_BYTES).build()
}

/// Serves sessions over standard input, which the supervisor has made a socket.
fn worker(
    environment: &str,
    flight: &Path,
    step_cpu_max: Duration,
    memory_bytes_max: u64,
) -> Result<(), Failed> {
    let environment = benchmarks::environment(environment)?;
    let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
    let stream = UnixStream::from(socket);
    let environment = environment.as_ref();
    Ok(crate::env::worker::serve(environment, stream, flight, step_cpu_max, memory_bytes_max)?)
}

/// Writes a text to standard output. It is no failure if the reader closes the pipe early.
fn print(text: &str) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Returns the snapshot that a command reads.
fn snapshot(lake: &Lake, args: SnapshotArgs) -> Result<Snapshot, Failed> {
    Ok(match args.snapshot {
        Some(number) => lake.snapshot_at(SnapshotId(number))?,
        None => lake.snapshot()?,
    })
}

/// Formats a number with its noun: `1 file`, `1,200 files`.
fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", HumanCount(count), if count == 1 { "" } else { "s" })
}
