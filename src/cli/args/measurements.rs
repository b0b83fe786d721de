//! The arguments of `measure`.

use std::num::NonZeroU32;

use clap::{Args, ValueEnum};

use crate::assembly::measurement::{MeasureRequest, WantedStates};
use crate::measure::Space;

/// Run programs of recorded states and record how long they take.
///
/// Each state is rebuilt, compiled and run on this machine; its samples become a row of the table
/// `measurements`. States of one program take turns. A run whose result differs from that of the
/// program's first state has no time: it is reported, and the exit code is 4. Nobody may record
/// meanwhile. `steplake query speedups` compares the results.
#[derive(Debug, Args)]
pub(in crate::cli) struct MeasureArgs {
    /// What is measured.
    #[arg(long, value_enum, default_value = "Runtime", value_name = "SPACE")]
    space: SpaceName,

    /// Which states of each program besides its first one: `best`, the one with the lowest cost;
    /// `best=N`, the N with the lowest costs; `all` that were reached; or `initial`, none.
    #[arg(long, default_value = "best", value_name = "STATES")]
    states: WantedStates,

    /// The observation space of the cost for `--states best`; by default the cost of the lake's
    /// first reward.
    #[arg(long, value_name = "SPACE")]
    cost: Option<String>,

    /// A benchmark of the lake, as for `generate`; may be repeated. By default all.
    #[arg(long = "benchmark", short, value_name = "URI")]
    benchmarks: Vec<String>,

    /// The number of samples of each state.
    #[arg(long, default_value = "10", value_name = "N")]
    samples: NonZeroU32,

    /// The number of times that are taken before the samples, and left out.
    #[arg(long, default_value_t = 1, value_name = "N")]
    warmups: u32,

    /// The core on which programs run; by default any.
    #[arg(long, value_name = "CPU")]
    pin: Option<usize>,

    /// A name for this machine, where its kind alone does not tell it from others.
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "verbatim")]
enum SpaceName {
    Runtime,
    Buildtime,
}

impl MeasureArgs {
    pub(in crate::cli) fn request(&self) -> MeasureRequest {
        MeasureRequest {
            space: match self.space {
                SpaceName::Runtime => Space::Runtime,
                SpaceName::Buildtime => Space::Buildtime,
            },
            states: self.states,
            cost: self.cost.clone(),
            benchmarks: self.benchmarks.clone(),
            samples: self.samples,
            warmups: self.warmups,
            cpu: self.pin,
            machine: self.machine.clone(),
        }
    }
}
