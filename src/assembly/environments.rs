//! Environments and action spaces by name, and the limits of worker processes.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::command_error::{Code, CommandError};
use super::imports;
use super::services;
use super::worker_program;
use crate::env::worker::{WorkerConfig, WorkerEnvironment};
use crate::env::{self, Environment, OpenError};
use crate::lake::{Identity, RunRow};
use crate::model::{ActionSpace, EnvironmentSpec};

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

/// Returns the environment called `name`, or that of the service at the address `name`.
///
/// # Errors
///
/// If there is none.
pub fn environment(name: &str) -> Result<Box<dyn Environment>, CommandError> {
    if name == imports::ENVIRONMENT {
        return Err(CommandError::usage(format!(
            "`{name}` is the environment of imported logs: its compiler is not here, so nothing \
             can be played in it"
        )));
    }
    if services::is_address(name) {
        return services::open(name);
    }
    env::open(name).map_err(|error| match error {
        OpenError::Unknown(name) => CommandError::usage(format!(
            "there is no environment `{name}`: write {}, or grpc://HOST:PORT for that of a service",
            env::names().collect::<Vec<_>>().join(" or ")
        )),
        other => unavailable(&other),
    })
}

fn unavailable(error: &OpenError) -> CommandError {
    CommandError::new(Code::Failed, error.to_string())
}

/// Returns the environment of a lake, with the lake's own build of the compiler if that is here.
///
/// # Errors
///
/// If this program does not have it: the lake was recorded from somebody's own, or imported.
pub fn environment_of_lake(lake: &Identity) -> Result<Box<dyn Environment>, CommandError> {
    env::open_build(&lake.environment, &lake.compiler).map_err(|error| match error {
        OpenError::Unknown(name) => CommandError::usage(format!(
            "the lake is of the environment `{name}`, which is not part of steplake: what it \
             stores can be read, and no state can be computed again"
        )),
        other => unavailable(&other),
    })
}

/// Returns the default limits for worker processes of this program.
pub fn worker_config() -> WorkerConfig {
    WorkerConfig::new(worker_program::program())
}

/// Returns the limits for worker processes of this program.
///
/// # Errors
///
/// If a limit is out of range.
pub fn limited_worker_config(
    step_cpu_seconds: u64,
    worker_memory_mib: u64,
) -> Result<WorkerConfig, CommandError> {
    demand_worker_limits(step_cpu_seconds, worker_memory_mib)?;
    Ok(WorkerConfig {
        step_cpu_max: Duration::from_secs(step_cpu_seconds),
        memory_bytes_max: worker_memory_mib << 20,
        ..worker_config()
    })
}

/// Refuses limits that no worker can have.
pub(super) fn demand_worker_limits(
    step_cpu_seconds: u64,
    worker_memory_mib: u64,
) -> Result<(), CommandError> {
    within("the CPU seconds of a step", step_cpu_seconds, 1..=STEP_CPU_SECONDS_MAX)?;
    let memory = WORKER_MEMORY_MIB_MIN..=WORKER_MEMORY_MIB_MAX;
    within("the memory of a worker in MiB", worker_memory_mib, memory)
}

/// Refuses a number that is out of range.
pub(super) fn within(
    what: &str,
    number: u64,
    range: RangeInclusive<u64>,
) -> Result<(), CommandError> {
    if range.contains(&number) {
        return Ok(());
    }
    let (least, most) = range.into_inner();
    Err(CommandError::usage(format!("{what} is {number}: write a number from {least} to {most}")))
}

/// Returns the environment with its compiler in other processes, if this program has it and it has
/// a compiler.
pub fn live(environment: Box<dyn Environment>, config: WorkerConfig) -> Box<dyn Environment> {
    if environment.may_live_here() {
        return environment;
    }
    if let Some(served) = environment.served() {
        served.limit(config);
        return environment;
    }
    apart(environment.as_ref(), config)
}

/// Returns the same environment with its compiler in other processes, for replaying what `runs`
/// recorded.
pub fn workers(environment: &dyn Environment, runs: &[RunRow]) -> Box<dyn Environment> {
    apart(environment, widest_config(runs))
}

/// Returns the same environment with its compiler in other processes: its own ones, or workers.
fn apart(environment: &dyn Environment, config: WorkerConfig) -> Box<dyn Environment> {
    environment
        .within(&config)
        .unwrap_or_else(|| Box::new(WorkerEnvironment::new(environment.spec().clone(), config)))
}

/// Returns the widest of the limits of `runs`, so that nothing fails that succeeded then.
fn widest_config(runs: &[RunRow]) -> WorkerConfig {
    let mut config = worker_config();
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

/// Returns the action space called `name`, or the environment's first one.
///
/// # Errors
///
/// If the environment has no such action space.
pub fn action_space(
    spec: &EnvironmentSpec,
    name: Option<&str>,
) -> Result<ActionSpace, CommandError> {
    let found = match name {
        Some(name) => spec.action_space(name),
        None => spec.action_spaces.first(),
    };
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = spec.action_spaces.iter().map(|space| space.name.as_str()).collect();
        CommandError::usage(format!(
            "{} has no action space `{}`: write {}",
            spec.name,
            name.unwrap_or_default(),
            known.join(" or ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
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
        };
        let limits = |runs: &[RunRow]| widest_config(runs).limits();
        let usual = worker_config().limits();
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
        assert!(widest_config(&[huge]).start_wall_max() > Duration::from_hours(24));
    }
}
