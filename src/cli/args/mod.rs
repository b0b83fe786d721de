//! The command line, as clap parses it.

mod datasets;
mod environments;
mod generation;
mod how_run;
mod imports;
mod info_format;
mod leaderboard;
mod measurements;
mod optimization;
mod questions;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint, value_parser};

pub(super) use self::datasets::DatasetsCommand;
pub(super) use self::environments::{EnvCommand, ProbeArgs};
pub(super) use self::generation::GenerateArgs;
use self::how_run::HowRunArgs;
pub(super) use self::imports::ImportArgs;
pub(super) use self::info_format::InfoFormat;
pub(super) use self::leaderboard::{
    AddArgs, LeaderboardCommand, RenderArgs, ShowArgs, VerifyEntriesArgs,
};
pub(super) use self::measurements::MeasureArgs;
pub(super) use self::optimization::OptimizeArgs;
pub(super) use self::questions::{EngineArgs, LimitArgs, QueryCommand, SqlCommand};
use super::export::ExportArgs;
use super::training::SplitsCommand;
use crate::console::arguments::{OutputArgs, SnapshotArgs};
use steplake_terminal::arguments::{Bytes, GlobalArgs};

/// Record what compilers do, keep every state once, and ask questions about it.
#[derive(Debug, Parser)]
#[command(
    name = "steplake",
    version,
    about,
    after_help = "\
A first look, in this order:
  steplake generate --benchmark 'benchmark://steplake-v0/*' --episodes 32
  steplake dedup
  steplake query best_episode
  steplake sql \"SELECT action_name(action), count(*) FROM steps GROUP BY 1 ORDER BY 2 DESC LIMIT 5\"

Exit codes: 0 done; 1 it failed; 2 the command line, a benchmark or a query is wrong; 3 the lake
cannot be used (another format or compiler, busy, damaged, no space); 4 `verify`, `measure` or
`leaderboard` found something; 5 something cannot be fetched (no network); 6 `fetch`: nothing is
published there; 7 `publish`: the published version has something that the lake lacks;
130 interrupted (--resume continues)."
)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) global: GlobalArgs,

    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Optimize(OptimizeArgs),
    Generate(GenerateArgs),
    /// Move completed episodes from the hot log into Parquet, which a run does at its end.
    Seal,
    /// Merge the small files of the recorded tables, so that look-ups open few files.
    Compact,
    Dedup(DedupArgs),
    Backfill(BackfillArgs),
    Measure(MeasureArgs),
    /// Check every digest, every state id and every reference; re-run transitions on request.
    ///
    /// Checking the bytes needs no compiler. If this machine has the lake's own compiler, state ids
    /// and the baselines of a few programs are recomputed; if not, the summary says so.
    Verify(VerifyArgs),
    Snapshots(SnapshotsArgs),
    Expire(ExpireArgs),
    /// Delete files that no snapshot needs any more, and what a crash left behind.
    ///
    /// Files of snapshots that `steplake snapshots` lists stay; `steplake expire` forgets
    /// snapshots. While another process reads the lake, nothing is deleted.
    Gc,
    Merge(MergeArgs),
    Convert(ConvertArgs),
    Import(ImportArgs),
    Contexts(ContextsArgs),
    Retract(RetractArgs),
    /// Describe what the lake holds.
    Info(InfoArgs),
    Sql(SqlCommand),
    Query(QueryCommand),
    Export(ExportArgs),
    /// Work with splits into training and test rows.
    #[command(subcommand)]
    Splits(SplitsCommand),
    /// Apply actions to a benchmark and show every step, without recording.
    Replay(ReplayArgs),
    /// Describe an environment, or probe its actions.
    #[command(subcommand)]
    Env(EnvCommand),
    /// List datasets and their benchmarks, or fetch them.
    #[command(subcommand)]
    Datasets(DatasetsCommand),
    /// Compare methods on fixed tasks: add results, which are played again, and show the tables.
    #[command(subcommand)]
    Leaderboard(LeaderboardCommand),
    /// Serve the lake to Arrow clients over Flight SQL, or with --compiler-gym live sessions to
    /// clients of CompilerGym (separate programs, `steplake-flight` and `steplake-gym`).
    #[command(disable_help_flag = true)]
    Serve(CompanionArgs),
    /// Open a page in the browser to explore the lake and the compiler (a separate program,
    /// `steplake-explore`).
    #[command(disable_help_flag = true)]
    Explore(CompanionArgs),
    /// Serve sessions to the CompilerGym client that starts this command.
    #[command(name = "compiler-gym-service", disable_help_flag = true, hide = true)]
    CompilerGymService(CompanionArgs),
    /// Stand in for a program that comes with CompilerGym.
    #[command(name = "compiler-gym-tool", disable_help_flag = true, hide = true)]
    CompilerGymTool(CompanionArgs),
    /// Publish the lake to an object store (a separate program, `steplake-remote`).
    #[command(disable_help_flag = true)]
    Publish(CompanionArgs),
    /// Fetch a published lake, or its newer versions (a separate program, `steplake-remote`).
    #[command(disable_help_flag = true)]
    Fetch(CompanionArgs),
    /// Run parts of a Ballista cluster (a separate program, `steplake-cluster`).
    #[command(disable_help_flag = true)]
    Cluster(CompanionArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Answer the probe that started this process.
    #[command(hide = true)]
    ProbeChild,
}

/// Arguments that are passed on to another program.
#[derive(Debug, Args)]
pub(super) struct CompanionArgs {
    /// The program's arguments; `--help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
    pub(super) arguments: Vec<OsString>,
}

/// List the contexts of the lake: what was recorded with which compiler and action space.
///
/// A run with another compiler or action space than those in the lake begins a new context. `sql`
/// reads all contexts, with their names in the column `context`; `seal`, `compact`, `dedup`,
/// `verify`, `expire --keep` and `gc` work on each; other commands want one with `--context`.
#[derive(Debug, Args)]
pub(super) struct ContextsArgs {
    /// Play N random transitions of each context again in the compiler that is here, which may be a
    /// newer build, and say how many lead to the same states.
    #[arg(long, value_name = "N")]
    pub(super) replay: Option<usize>,

    /// The seed by which the transitions are drawn.
    #[arg(long, default_value_t = 0, requires = "replay")]
    pub(super) seed: i64,

    /// How to print them.
    #[arg(long, value_enum, default_value_t = InfoFormat::Text)]
    pub(super) format: InfoFormat,
}

/// List the lake's snapshots: every seal, compaction, dedup, backfill, retraction, repair, merge,
/// conversion, import and fetch makes one.
///
/// With `--snapshot N`, info, sql, query and verify read one of them. Files that only older
/// snapshots need stay until `steplake expire` and `steplake gc` remove them.
#[derive(Debug, Args)]
pub(super) struct SnapshotsArgs {
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// Forget old snapshots, so that `gc` can delete what only they have.
///
/// The newest snapshot always stays. No file is deleted yet, so readers of a forgotten snapshot can
/// finish.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true))]
pub(super) struct ExpireArgs {
    /// Keep the K newest snapshots.
    #[arg(long, group = "which", value_name = "K", value_parser = value_parser!(u64).range(1..))]
    pub(super) keep: Option<u64>,

    /// Forget snapshots with numbers below N.
    #[arg(long, group = "which", value_name = "N", value_parser = value_parser!(i64).range(1..))]
    pub(super) before: Option<i64>,
}

/// Derive state transitions, conflicts and failures from the steps.
///
/// Dedup costs time linear in the number of new steps. While another process records, dedup counts
/// what that process has sealed. Before the first dedup, queries on these tables are refused.
#[derive(Debug, Args)]
pub(super) struct DedupArgs {
    /// Make all tables anew from all steps.
    #[arg(long)]
    pub(super) full: bool,

    /// Take the tables in this folder, which dedup on Spark wrote, in place of all that the lake
    /// has. The lake's steps are counted, each row is compared, and the tables are refused if one
    /// differs. Nothing is sealed; steps that were sealed since stay uncounted.
    #[arg(long, value_name = "OUTPUT", value_hint = ValueHint::DirPath, conflicts_with = "full")]
    pub(super) counted: Option<PathBuf>,

    /// The memory to use, e.g. 512M or 2G; what does not fit goes to temporary files in the lake.
    #[arg(long, default_value = "1G", value_name = "BYTES")]
    pub(super) memory: Bytes,
}

/// Compute observations that recorded states lack, by replay.
///
/// Every sealed state gets its observations in the given spaces, as if the runs had recorded them;
/// later runs record them by default. Nobody may record or maintain meanwhile, and the lake's own
/// compiler is required. If it is interrupted or killed, the same command continues. States that
/// no replay leads to keep null, and are counted.
#[derive(Debug, Args)]
pub(super) struct BackfillArgs {
    /// The observation spaces: a comma-separated list. May be repeated. `steplake env describe`
    /// lists them.
    #[arg(
        long = "space",
        required = true,
        value_name = "NAME",
        value_delimiter = ',',
        num_args = 1..,
    )]
    pub(super) spaces: Vec<String>,

    /// The number of worker processes; by default the number of cores.
    #[arg(long, short, value_name = "N")]
    pub(super) jobs: Option<std::num::NonZeroUsize>,
}

/// Merge lakes into a new one.
///
/// The lakes are only read. Contexts of the same compiler and action space are merged into one. A
/// run that several of them contain is taken once; runs are numbered anew. Open episodes are left
/// out. The new lake is deduplicated, and conflicts that none of the lakes has by itself are
/// reported.
#[derive(Debug, Args)]
pub(super) struct MergeArgs {
    /// The folders of the lakes.
    #[arg(required = true, value_name = "LAKE", value_hint = ValueHint::DirPath)]
    pub(super) lakes: Vec<PathBuf>,

    /// The folder of the new lake; it must be empty or not exist.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) into: PathBuf,

    /// How to print the result.
    #[arg(long, value_enum, default_value_t = InfoFormat::Text)]
    pub(super) format: InfoFormat,
}

/// Make a new lake out of one whose states have ids of an older scheme.
///
/// A lake of an older version of steplake can be read, and no more is recorded into it. Its closed
/// episodes are played again in the lake's own compiler, which has to be here, and each state is
/// compared with the recorded one. What leads elsewhere this time is recorded as it is now, and
/// counted. The old lake is only read. If the conversion is killed, the same command starts over.
#[derive(Debug, Args)]
pub(super) struct ConvertArgs {
    /// The folder of the new lake; it must be empty or not exist.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(super) into: PathBuf,

    /// The number of worker processes; by default the number of cores.
    #[arg(long, short, value_name = "N")]
    pub(super) jobs: Option<std::num::NonZeroUsize>,

    /// How to print the result.
    #[arg(long, value_enum, default_value_t = InfoFormat::Text)]
    pub(super) format: InfoFormat,
}

/// Retract a benchmark, a run or an action, and record the reason.
///
/// The rows of a benchmark or a run are removed in a new snapshot; the rows of an action stay, but
/// its transitions are removed. Older snapshots keep them, until `steplake expire` and `steplake
/// gc`. Numbers are never reused.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("subject").required(true))]
pub(super) struct RetractArgs {
    /// A benchmark: a URI, a path, a range or a glob as for `generate`, matched against the lake's
    /// benchmarks. Its row and all its episodes are removed. May be repeated.
    #[arg(long = "benchmark", group = "subject", value_name = "URI|PATH")]
    pub(super) benchmarks: Vec<String>,

    /// The run's number: all its episodes are removed.
    #[arg(long, group = "subject", value_name = "N")]
    pub(super) run: Option<i32>,

    /// The action's name: dedup omits its transitions from now on.
    #[arg(long, group = "subject", value_name = "NAME", allow_hyphen_values = true)]
    pub(super) action: Option<String>,

    /// The reason, in one line; it is stored in the lake.
    #[arg(long, required = true, value_name = "TEXT")]
    pub(super) reason: String,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub(super) snapshot: SnapshotArgs,

    /// Re-run N random transitions in the live environment and report how many agree.
    #[arg(long, value_name = "N")]
    pub(super) replay: Option<usize>,

    /// Build and run N random states of runnable programs, and compare what they do with their
    /// first states. Minimise what differs, and write it to the table `miscompilations`.
    #[arg(long, value_name = "N")]
    pub(super) semantics: Option<std::num::NonZeroUsize>,

    /// The seed for drawing the transitions to replay, the states to run, and the programs whose
    /// baselines are recomputed.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: i64,

    /// Count the steps again, and compare each row of the derived tables with what follows from
    /// them.
    #[arg(long)]
    pub(super) derived: bool,

    /// Drop what is damaged, report it, and make the derived tables anew; then check. No process
    /// may record meanwhile. First try to restore damaged files from a copy: what is dropped is
    /// lost.
    #[arg(long, conflicts_with_all = ["snapshot", "replay", "semantics"])]
    pub(super) repair: bool,

    #[command(flatten)]
    pub(super) how_run: HowRunArgs,
}

#[derive(Debug, Args)]
pub(super) struct InfoArgs {
    #[command(flatten)]
    pub(super) snapshot: SnapshotArgs,

    /// How to print it.
    #[arg(long, value_enum, default_value_t = InfoFormat::Text)]
    pub(super) format: InfoFormat,
}

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    /// The benchmark: its URI, or the path of a file.
    #[arg(value_name = "URI|PATH", value_hint = ValueHint::FilePath)]
    pub(super) benchmark: String,

    /// The actions, by name or by number. A leading hyphen of a name may be omitted.
    pub(super) actions: Vec<String>,

    /// The environment, or the address of a service that holds one: `grpc://HOST:PORT`.
    #[arg(long, default_value = crate::compilers::DEFAULT)]
    pub(super) env: String,

    /// The flags with which a file of C or C++ is compiled, as words of a shell.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub(super) flags: Option<String>,

    /// The action space; by default that of the lake, if there is one, or else the environment's
    /// first one.
    #[arg(long, value_name = "SPACE")]
    pub(super) action_space: Option<String>,

    /// Print the final state's IR instead of the steps; that of LLVM with the order of its
    /// use-lists, so that `opt` goes on from it as an action does.
    #[arg(long, conflicts_with = "validate")]
    pub(super) ir: bool,

    /// Play the actions in a second worker too, and build and run the program before and after
    /// them. If anything differs, the exit code is 4.
    #[arg(long)]
    pub(super) validate: bool,

    #[command(flatten)]
    pub(super) how_run: HowRunArgs,
}
