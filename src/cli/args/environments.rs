//! The arguments of `env`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint, value_parser};

use super::info_format::InfoFormat;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum EnvCommand {
    /// List an environment's actions, observations and rewards.
    Describe(DescribeArgs),
    /// Run every action over many states of LLVM with other heap layouts, from re-parsed modules
    /// and in other processes; print the findings and, on request, write the flags of the action
    /// spaces.
    Probe(ProbeArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DescribeArgs {
    /// The environment, or the address of a service that holds one: `grpc://HOST:PORT`.
    #[arg(value_name = "ENV", default_value = crate::compilers::DEFAULT)]
    named: String,

    /// The same, named as in other commands.
    #[arg(long, value_name = "ENV", conflicts_with = "named")]
    env: Option<String>,

    /// How to print it.
    #[arg(long, value_enum, default_value_t = InfoFormat::Text)]
    pub(in crate::cli) format: InfoFormat,
}

impl DescribeArgs {
    /// Returns the environment, by whichever argument it is named.
    pub(in crate::cli) fn env(&self) -> &str {
        self.env.as_ref().unwrap_or(&self.named)
    }
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ProbeArgs {
    /// The benchmarks whose states to probe.
    #[arg(long = "benchmark", short, required = true, value_name = "URI|PATH")]
    pub(in crate::cli) benchmarks: Vec<String>,

    /// The action space whose actions to run; by default those of all.
    #[arg(long, value_name = "SPACE")]
    pub(in crate::cli) action_space: Option<String>,

    /// The folder of the action tables whose flags to write: `crates/llvm/src/actions` of a source
    /// tree.
    #[arg(long, short, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(in crate::cli) output: Option<PathBuf>,

    /// How often to run every action on every benchmark, each time in another order.
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        value_parser = value_parser!(u32).range(1..),
    )]
    pub(in crate::cli) rounds: u32,

    /// The seed of the orders.
    #[arg(long, default_value_t = 0)]
    pub(in crate::cli) seed: u64,

    /// The number of concurrent walks; by default the number of cores.
    #[arg(long, short, value_name = "N")]
    pub(in crate::cli) jobs: Option<std::num::NonZeroUsize>,
}
