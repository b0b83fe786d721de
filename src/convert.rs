//! Conversion of a lake whose states have ids of an older scheme.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::OnceLock;

use indicatif::HumanCount;

use crate::Error;
use crate::env::Environment;
use crate::env::worker::WorkerConfig;
use crate::environments::catalogue::Catalogue;
use crate::environments::{Environments, environment_of_lake};
use crate::generate::ProgramProvider;
use crate::lake::{Lake, OnProgress};
use crate::model::{Benchmark, BenchmarkUri};
use crate::replay::convert::{self, ConversionReport};

use steplake_terminal::output::counted;

/// A lake to convert.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConvertRequest {
    /// The folder of the new lake, which is empty, does not exist, or was left by a conversion that
    /// was killed.
    pub into: PathBuf,
    /// The number of sessions; by default the number of cores. The result does not depend on it.
    pub jobs: Option<NonZeroUsize>,
}

/// Makes a new lake with ids of this version's scheme out of a lake with ids of an older one, by
/// playing its closed episodes again in the lake's own compiler. Calls `progress` with the number
/// of steps that are done and of all.
///
/// The new lake exists after `Ok`; it is sealed, and has no derived tables. After an error or a
/// break the folder is as it was before.
///
/// # Errors
///
/// If the lake has ids of this version's scheme, if its compiler is not here, if the folder holds
/// something, and errors of sessions and disks. A break ends it with the code of an interruption.
pub fn convert(
    environments: &Environments,
    lake: &Lake,
    request: &ConvertRequest,
    progress: &mut OnProgress<'_>,
) -> Result<(Lake, ConversionReport), Error> {
    let environment = environment_of_lake(lake.identity())?;
    let snapshot = lake.snapshot()?;
    let workers = environments.workers(environment.as_ref(), snapshot.runs());
    drop(snapshot);
    let programs = Programs {
        environment: environment.as_ref(),
        config: environments.worker_config(),
        catalogue: OnceLock::new(),
    };
    let jobs = request.jobs.or_else(|| std::thread::available_parallelism().ok());
    let jobs = jobs.map_or(1, NonZeroUsize::get);
    Ok(convert::convert(workers.as_ref(), lake, &request.into, &programs, jobs, progress)?)
}

/// The programs of an environment. Their catalogue is opened when it is first needed: most lakes
/// have their programs themselves.
struct Programs<'a> {
    environment: &'a dyn Environment,
    config: WorkerConfig,
    catalogue: OnceLock<Result<Catalogue, Error>>,
}

impl ProgramProvider for Programs<'_> {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, Error> {
        let open = || Catalogue::of(self.environment, &self.config);
        self.catalogue.get_or_init(open).as_ref().map_err(Clone::clone)?.load(uri)
    }
}

/// Describes the result in lines.
pub fn text(new: &Lake, report: &ConversionReport) -> String {
    let mut text = format!(
        "converted into {}: {}, {}; {} proven by their IR, {} by their values\n",
        new.path().display(),
        counted(report.episodes, "episode"),
        counted(report.steps, "step"),
        counted(report.proven_by_ir, "state"),
        HumanCount(report.proven_by_values),
    );
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes it");
    let elsewhere = report.elsewhere.values().sum();
    if elsewhere > 0 {
        let by_action = report.elsewhere.iter();
        let by_action = by_action.map(|(action, count)| format!("{action} {}", HumanCount(*count)));
        let by_action = by_action.collect::<Vec<_>>().join(", ");
        line(format!(
            "led elsewhere, and are recorded as they are now: {} ({by_action})",
            counted(elsewhere, "step")
        ));
        let follow = counted(report.steps_not_compared, "step");
        line(format!("not compared, since they follow one of these: {follow}"));
    }
    if report.steps_unproven > 0 {
        let steps = counted(report.steps_unproven, "step");
        line(format!("not proven, since the lake has neither IR nor values: {steps}"));
    }
    if report.steps_dropped > 0 {
        let steps = counted(report.steps_dropped, "step");
        line(format!("dropped, since their episodes are left out, or fail earlier now: {steps}"));
    }
    for (why, &count) in &report.left_out {
        line(format!("left out, since {why}: {}", counted(count, "episode")));
    }
    if report.rows_left_out > 0 {
        let rows = counted(report.rows_left_out, "measurement and miscompilation");
        line(format!("left out, since their states are not proven: {rows}"));
    }
    text
}
