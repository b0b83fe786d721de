//! `measure`: samples of recorded states, taken on the device, into their lake.

use std::ops::ControlFlow;

use clap::Args;
use steplake::lake::Lake;
use steplake::measure::MeasuredSpace;
use steplake::measurement::{MeasureRequest, MeasuredArgs, measure_lake_on};
use steplake::{Error, ErrorKind};
use steplake_terminal::arguments::GlobalArgs;
use steplake_terminal::output::{bar, print};

use crate::back_end::Gpu;
use crate::device::Device;

/// The template of the bar.
const TIMES_TAKEN: &str = "{bar:24.cyan} {human_pos}/{human_len} times {per_sec} {eta}";

/// What is measured of which lake.
#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    #[command(flatten)]
    global: GlobalArgs,

    #[command(flatten)]
    measured: MeasuredArgs,

    /// The number of launches before each sample.
    #[arg(long, default_value_t = 1, value_name = "N")]
    warmups: u32,

    /// A name for this machine, where the kind of its device does not tell it from others.
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
}

/// Measures.
///
/// # Errors
///
/// Those of [`measure_lake_on`], and if there is no device.
pub(crate) fn run(args: &MeasureArgs) -> Result<(), Error> {
    let failed = |message| Error::new(ErrorKind::Failed, message);
    let lake = Lake::open_one(&args.global.lake, args.global.context.as_deref())?;
    let device = Device::open().map_err(failed)?;
    let machine = device.machine(args.machine.as_deref()).map_err(failed)?;
    let request = MeasureRequest {
        space: MeasuredSpace::Runtime,
        states: args.measured.states,
        cost: args.measured.cost.clone(),
        benchmarks: args.measured.benchmarks.clone(),
        samples: args.measured.samples,
        warmups: args.warmups,
        cpu: None,
        machine: args.machine.clone(),
        how_run: None,
    };
    let bar = bar(&args.global, 0, TIMES_TAKEN);
    let mut show = |done, all| {
        bar.set_length(all);
        bar.set_position(done);
        ControlFlow::Continue(())
    };
    let report = measure_lake_on(&lake, &request, &Gpu(device), machine, &mut show)?;
    drop(bar);
    print(&report.text())?;
    report.demand_right_results()
}
