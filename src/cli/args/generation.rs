//! The arguments of `generate`.

use std::ffi::OsStr;
use std::str::FromStr as _;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Args, Command, Error, value_parser};

use crate::environments::{
    STEP_CPU_SECONDS, STEP_CPU_SECONDS_MAX, WORKER_MEMORY_MIB, WORKER_MEMORY_MIB_MAX,
};
use crate::generate::{PolicyName, Shard};
use crate::recording::{AUDIT_EVERY, EPISODE_LENGTH, EPISODE_LENGTH_MAX, Keyframes};

/// Play episodes in a live environment and record them.
///
/// Episode E uses the (E mod B)-th of the B benchmarks. What is recorded depends on the arguments
/// and the seed, never on --jobs or on timing; but a search by `Runtime` goes where the times lead.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("stop").required(true))]
pub(in crate::cli) struct GenerateArgs {
    /// A benchmark: its URI, or the path of a file or a folder of files of your own. May be
    /// repeated; ranges and globs name several: `generator://csmith-v0/0..99` (both ends included),
    /// `benchmark://debian-v0/zlib/*`, `'my programs/*.c'`.
    #[arg(long = "benchmark", short, required = true, value_name = "URI|PATH")]
    pub(in crate::cli) benchmarks: Vec<String>,

    /// The flags with which files of C or C++ of your own are compiled, as words of a shell:
    /// `--flags '-Iinclude -DNAME=1'`. They are part of the benchmark's URI. Folders in them begin
    /// here or, where there is none of the name, beside the file.
    #[arg(long, value_name = "WORDS", allow_hyphen_values = true)]
    pub(in crate::cli) flags: Option<String>,

    /// The environment, or the address of a service that holds one: `grpc://HOST:PORT`.
    #[arg(long, default_value = crate::compilers::DEFAULT)]
    pub(in crate::cli) env: String,

    /// The action space; by default that of the lake, or of a new one the environment's first. A
    /// lake has only one.
    #[arg(long, value_name = "SPACE")]
    pub(in crate::cli) action_space: Option<String>,

    /// How actions are chosen. A search looks for a low cost. Where states are given by choices, as
    /// in `gcc-v0`, a search that proposes whole sequences elsewhere makes all choices at once, and
    /// an episode begins there and has no steps.
    #[arg(long, default_value = PolicyName::RANDOM.as_str(), value_parser = PolicyParser)]
    pub(in crate::cli) policy: PolicyName,

    /// After how many steps in a row that lower no cost an episode of `random-patience` ends.
    /// By default 50.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(in crate::cli) patience: Option<u32>,

    /// The observation space, of single numbers, of which a search looks for the lowest value; by
    /// default the cost of the environment's first reward. It is recorded. In `loops-v0` it may
    /// also be `Runtime`: states are measured here, unless the lake has their times.
    #[arg(long, value_name = "SPACE")]
    pub(in crate::cli) objective: Option<String>,

    /// Stop after N steps.
    #[arg(long, group = "stop", value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(in crate::cli) steps: Option<u64>,

    /// Stop after the episode in which the run reaches N distinct states.
    #[arg(long, group = "stop", value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(in crate::cli) states: Option<u64>,

    /// Stop after N episodes, counting those of all shards.
    #[arg(long, group = "stop", value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub(in crate::cli) episodes: Option<u64>,

    /// The number of steps of an episode.
    #[arg(
        long,
        default_value_t = EPISODE_LENGTH,
        value_name = "N",
        value_parser = value_parser!(u32).range(1..=i64::from(EPISODE_LENGTH_MAX)),
    )]
    pub(in crate::cli) episode_length: u32,

    /// The seed of every choice.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    pub(in crate::cli) seed: i64,

    /// Play shard I of N, from 0/N to (N-1)/N, each on its own machine; `steplake merge` combines
    /// them into what one machine would have recorded. Requires --episodes.
    #[arg(long, value_name = "I/N")]
    pub(in crate::cli) shard: Option<Shard>,

    /// The number of worker processes; by default the number of cores, or 1 for `Runtime`.
    #[arg(long, short, value_name = "N")]
    pub(in crate::cli) jobs: Option<std::num::NonZeroUsize>,

    /// Which states' IR to keep: `all`, `none`, or `keyframes=K`, the first state of an episode and
    /// every K-th change of state after it. The IR of other states is rebuilt on demand.
    /// By default `all`; in `gcc-v0`, `keyframes=64`.
    #[arg(long, value_name = "all|none|keyframes=K")]
    pub(in crate::cli) ir: Option<Keyframes>,

    /// The observation spaces to record: a comma-separated list. By default those of the lake; a
    /// new lake gets the usual spaces of numbers. A lake grows by a space that it does not have.
    #[arg(long, value_name = "SPACES", value_delimiter = ',')]
    pub(in crate::cli) observe: Option<Vec<String>>,

    /// The reward spaces to record, likewise. By default those of the lake; a new lake gets all but
    /// those of costs that are recorded only if they are named.
    #[arg(long, value_name = "SPACES", value_delimiter = ',')]
    pub(in crate::cli) rewards: Option<Vec<String>>,

    /// Leave what is recorded in the hot log. By default it is sealed at the end, also after
    /// Ctrl-C, so that other tools see all of it.
    #[arg(long)]
    pub(in crate::cli) no_seal: bool,

    /// Continue the run with the same arguments where it stopped, or begin it. Without --resume, a
    /// new run is appended.
    #[arg(long)]
    pub(in crate::cli) resume: bool,

    /// Play one episode of N again in another process, whose heap is laid out otherwise, and
    /// compare states, rewards and observations; 0 plays none. An action that led elsewhere is
    /// flagged in the lake, and what it did is recorded. `steplake info` has the numbers.
    #[arg(long, default_value_t = AUDIT_EVERY.get(), value_name = "N")]
    pub(in crate::cli) audit: u32,

    /// The CPU seconds that a step may take before it counts as a failure. Its verification may
    /// take as long again, and the start of a program five times as long. A step that sleeps may
    /// take six times as many seconds of wall time, and at least ten.
    #[arg(
        long,
        default_value_t = STEP_CPU_SECONDS,
        value_name = "SECONDS",
        value_parser = value_parser!(u64).range(1..=STEP_CPU_SECONDS_MAX),
    )]
    pub(in crate::cli) step_cpu_seconds: u64,

    /// The address space of a worker, in MiB.
    #[arg(
        long,
        default_value_t = WORKER_MEMORY_MIB,
        value_name = "MIB",
        value_parser = value_parser!(u64).range(256..=WORKER_MEMORY_MIB_MAX),
    )]
    pub(in crate::cli) worker_memory_mib: u64,
}

/// Reads the name of a policy; the help shows all of them.
#[derive(Debug, Clone)]
struct PolicyParser;

impl TypedValueParser for PolicyParser {
    type Value = PolicyName;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<PolicyName, Error> {
        PolicyName::from_str.parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let shown = |policy: PolicyName| PossibleValue::new(policy.as_str()).help(policy.summary());
        Some(Box::new(PolicyName::all().map(shown)))
    }
}
