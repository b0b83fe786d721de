//! The arguments of `measure`.

use clap::{Args, ValueEnum};

use super::how_run::HowRunArgs;
use crate::measure::MeasuredSpace;
use crate::measurement::{MeasureRequest, MeasuredArgs};

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

    #[command(flatten)]
    measured: MeasuredArgs,

    #[command(flatten)]
    how_run: HowRunArgs,

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
                SpaceName::Runtime => MeasuredSpace::Runtime,
                SpaceName::Buildtime => MeasuredSpace::Buildtime,
            },
            states: self.measured.states,
            cost: self.measured.cost.clone(),
            benchmarks: self.measured.benchmarks.clone(),
            samples: self.measured.samples,
            warmups: self.warmups,
            cpu: self.pin,
            machine: self.machine.clone(),
            how_run: self.how_run.how_run(),
        }
    }
}
