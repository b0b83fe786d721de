//! The limits of worker processes.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::Error;
use crate::env::worker::WorkerConfig;
use crate::lake::RunRow;

/// The usual limit on the CPU time of a step, in seconds.
pub const STEP_CPU_SECONDS: u64 = 20;

/// The usual limit on the address space of a worker, in MiB.
pub const WORKER_MEMORY_MIB: u64 = 4096;

/// The highest limit on the CPU time of a step, in seconds: twelve days.
pub const STEP_CPU_SECONDS_MAX: u64 = 1 << 20;

/// The highest limit on the address space of a worker, in MiB: 16 TiB.
pub const WORKER_MEMORY_MIB_MAX: u64 = 1 << 24;

/// The smallest limit on the address space of a worker, in MiB.
const WORKER_MEMORY_MIB_MIN: u64 = 256;

/// Refuses limits that no worker can have.
pub(crate) fn demand_worker_limits(
    step_cpu_seconds: u64,
    worker_memory_mib: u64,
) -> Result<(), Error> {
    within("the CPU seconds of a step", step_cpu_seconds, 1..=STEP_CPU_SECONDS_MAX)?;
    let memory = WORKER_MEMORY_MIB_MIN..=WORKER_MEMORY_MIB_MAX;
    within("the memory of a worker in MiB", worker_memory_mib, memory)
}

/// Refuses a number that is out of range.
pub(crate) fn within(what: &str, number: u64, range: RangeInclusive<u64>) -> Result<(), Error> {
    if range.contains(&number) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(Error::usage(format!("{what} is {number}: write a number from {least} to {most}")))
}

/// Widens limits to the widest of those of `runs`, so that nothing fails that succeeded then.
pub(super) fn widest(mut config: WorkerConfig, runs: &[RunRow]) -> WorkerConfig {
    for run in runs {
        let arguments = serde_json::from_str::<serde_json::Value>(&run.arguments);
        let number = |name: &str| arguments.as_ref().ok()?.get(name)?.as_u64();
        // Another program may have written the lake, so the limits are bounded.
        let seconds = number("step_cpu_seconds").unwrap_or(0).min(STEP_CPU_SECONDS_MAX);
        let mib = number("worker_memory_mib").unwrap_or(0).min(WORKER_MEMORY_MIB_MAX);
        config.step_cpu_max = config.step_cpu_max.max(Duration::from_secs(seconds));
        config.memory_bytes_max = config.memory_bytes_max.max(mib << 20);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environments::Environments;
    use crate::model::RunId;

    #[test]
    fn what_runs_recorded_is_played_under_the_widest_of_their_limits() {
        let run = |arguments: &str| RunRow {
            id: RunId(1),
            uid: String::new(),
            arguments: arguments.to_owned(),
            started_at_ms: 0,
            finished: true,
            repeated_windows: 0,
            audited_steps: 0,
            differing_steps: 0,
        };
        let usual = Environments::default().worker_config();
        let widest = |runs: &[RunRow]| widest(usual.clone(), runs);
        let limits = |runs: &[RunRow]| widest(runs).limits();
        let usual = usual.limits();
        assert_eq!(limits(&[]), usual);
        assert_eq!(limits(&[run("{}"), run("not json")]), usual);
        let less = run(r#"{"step_cpu_seconds": 1, "worker_memory_mib": 256}"#);
        assert_eq!(limits(std::slice::from_ref(&less)), usual);
        let slow = run(r#"{"step_cpu_seconds": 100, "worker_memory_mib": 4096}"#);
        let large = run(r#"{"step_cpu_seconds": 20, "worker_memory_mib": 8192}"#);
        assert_eq!(
            limits(&[slow, less, large]),
            format!("100000 ms of CPU time, {} bytes", 8_u64 << 30)
        );
        let huge = run(r#"{"step_cpu_seconds": 18446744073709551615}"#);
        assert!(widest(&[huge]).start_wall_max() > Duration::from_hours(24));
    }
}
