//! The binary's commands: parse, run, exit code.
//!
//! Results go to standard output; progress, messages and logs go to standard error.

mod args;
mod backfill;
mod companions;
mod contexts;
mod convert;
mod datasets;
mod dedup;
mod export;
mod generate;
mod history;
mod import;
mod lake;
mod lakes;
mod leaderboard;
mod live;
mod local_engine;
mod measure;
mod merge;
mod optimize;
mod probe;
mod progress;
mod remote_engine;
mod retract;
mod training;
mod verify;

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches as _};

use self::args::{Cli, Command, CompanionArgs, EnvCommand, SqlCommand};
use self::companions::exec_companion;
use crate::Error;
use crate::console::questions;
use crate::console::source::EngineSource;
use crate::environments::{Environments, services};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::messages;
use steplake_terminal::output::print;

/// Runs a command line, whose first word is the name of the program, in these environments. Ends
/// the process if it asks for help, or is wrong.
///
/// # Errors
///
/// Those of the command.
pub fn main(
    environments: &Environments,
    line: impl IntoIterator<Item = OsString>,
) -> Result<(), Error> {
    let line: Vec<OsString> = line.into_iter().collect();
    let matches = Cli::command().get_matches_from(&line);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    messages::begin(cli.global.verbose, None);
    let is_lake_named = matches.value_source("lake") != Some(ValueSource::DefaultValue);
    if of_service(&cli.command) && !environments.have_services() {
        let rest = line.get(1..).unwrap_or_default();
        let (companion, command) = ("steplake-gym", Some("client"));
        return Err(exec_companion(&cli.global, is_lake_named, companion, command, rest));
    }
    contexts::for_each(&cli.global, &cli.command, |global| {
        run(environments, global, &cli.command, is_lake_named)
    })
}

/// Whether a command plays in the environment of a service.
fn of_service(command: &Command) -> bool {
    match command {
        Command::Generate(args) => services::is_address(&args.env),
        Command::Replay(args) => services::is_address(&args.env),
        Command::Env(EnvCommand::Describe(args)) => services::is_address(args.env()),
        _ => false,
    }
}

/// Runs a command. `is_lake_named` says whether the user has named the lake.
fn run(
    environments: &Environments,
    global: &GlobalArgs,
    command: &Command,
    is_lake_named: bool,
) -> Result<(), Error> {
    let companion = |program, command, args: &CompanionArgs| {
        Err(exec_companion(global, is_lake_named, program, command, &args.arguments))
    };
    match command {
        Command::Generate(args) => generate::run(environments, global, args),
        Command::Optimize(args) => optimize::run(environments, global, args),
        Command::Seal => lake::seal(global),
        Command::Compact => lake::compact(global),
        Command::Dedup(args) => dedup::dedup(global, args),
        Command::Backfill(args) => backfill::run(environments, global, args),
        Command::Measure(args) => measure::run(environments, global, args),
        Command::Verify(args) => verify::run(environments, global, args),
        Command::Snapshots(args) => history::snapshots(environments, global, args),
        Command::Expire(args) => history::expire(global, args),
        Command::Gc => history::gc(global),
        Command::Merge(args) => merge::run(global, args),
        Command::Convert(args) => convert::run(environments, global, args),
        Command::Import(args) => import::run(global, args),
        Command::Contexts(args) => contexts::run(environments, global, args),
        Command::Retract(args) => retract::run(global, args),
        Command::Info(args) => lake::info(global, args),
        Command::Sql(command) => sql(environments, global, command),
        Command::Query(command) => {
            remote_engine::query(global, command)?;
            let open = local_engine::opening(environments, command.limits);
            questions::query(&local_engine::source(global, &open), &command.asked)
        }
        Command::Export(args) => export::run(environments, global, args),
        Command::Splits(command) => training::splits(environments, global, command),
        Command::Replay(args) => live::replay(environments, global, args),
        Command::Env(EnvCommand::Describe(args)) => {
            live::describe(environments, args.env(), args.format)
        }
        Command::Env(EnvCommand::Probe(args)) => probe::run(environments, global, args),
        Command::Datasets(command) => datasets::run(global, command),
        Command::Leaderboard(command) => leaderboard::run(environments, global, command),
        Command::Serve(args)
            if args.arguments.iter().any(|argument| argument == "--compiler-gym") =>
        {
            companion("steplake-gym", Some("serve"), args)
        }
        Command::Serve(args) => companion("steplake-flight", None, args),
        Command::Explore(args) => companion("steplake-explore", None, args),
        Command::CompilerGymService(args) => {
            companion("steplake-gym", Some("compiler-gym-service"), args)
        }
        Command::CompilerGymTool(args) => {
            companion("steplake-gym", Some("compiler-gym-tool"), args)
        }
        Command::Publish(args) => companion("steplake-remote", Some("publish"), args),
        Command::Fetch(args) => companion("steplake-remote", Some("fetch"), args),
        Command::Cluster(args) => companion("steplake-cluster", None, args),
        Command::Completions { shell } => completions(*shell),
        Command::ProbeChild => probe::child(),
    }
}

fn sql(
    environments: &Environments,
    global: &GlobalArgs,
    command: &SqlCommand,
) -> Result<(), Error> {
    let named = lakes::named(
        &command.lakes,
        global,
        command.engine.engine.as_deref(),
        command.asked.snapshot.snapshot,
    )?;
    let open = local_engine::opening(environments, command.limits);
    if let Some((_, first)) = named.first().cloned() {
        let open = lakes::opening(named, open, local_engine::options(command.limits));
        let source = EngineSource { lake: &first, is_quiet: global.quiet, open: &open };
        return questions::sql(&source, &command.asked);
    }
    remote_engine::sql(global, command)?;
    questions::sql(&local_engine::source(global, &open), &command.asked)
}

fn completions(shell: clap_complete::Shell) -> Result<(), Error> {
    // clap panics if it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "steplake", &mut script);
    print(&String::from_utf8_lossy(&script))
}
