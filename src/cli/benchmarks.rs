//! What commands refer to by name: environments, action spaces, benchmarks.

use std::path::PathBuf;
use std::time::Duration;

use crate::datasets::{Cache, Datasets, KnownBaselines, Settings};
use crate::env::toy;
use crate::env::worker::{WorkerConfig, WorkerEnvironment};
use crate::env::{self, Environment};
use crate::generate::{ProgramError, Programs};
use crate::lake::RunRow;
use crate::model::{ActionSpace, Baselines, Benchmark, BenchmarkUri, EnvironmentSpec};

use super::args::{STEP_CPU_SECONDS_MAX, WORKER_MEMORY_MIB_MAX};
use super::failure::Failed;

/// Returns the environment called `name`.
pub(super) fn environment(name: &str) -> Result<Box<dyn Environment>, Failed> {
    env::open(name).ok_or_else(|| {
        Failed::usage(format!("`{name}` is no environment: {} are", env::NAMES.join(", ")))
    })
}

/// Returns the default limits for worker processes of this program.
///
/// Workers run the same file as this process, even after a build or an upgrade has replaced it: a
/// newer program may have other actions and other state ids.
pub(super) fn worker_config() -> WorkerConfig {
    WorkerConfig::new(PathBuf::from("/proc/self/exe"))
}

/// Returns the same environment with its sessions in worker processes, for replaying what `runs`
/// recorded.
pub(super) fn workers(environment: &dyn Environment, runs: &[RunRow]) -> WorkerEnvironment {
    WorkerEnvironment::new(environment.spec().clone(), widest_config(runs))
}

/// Returns the widest of the limits of `runs`, so that nothing fails that succeeded then.
fn widest_config(runs: &[RunRow]) -> WorkerConfig {
    let mut config = worker_config();
    for run in runs {
        let arguments = serde_json::from_str::<serde_json::Value>(&run.arguments);
        let number = |name: &str| arguments.as_ref().ok()?.get(name)?.as_u64();
        // Somebody else may have written the lake.
        let seconds = number("step_cpu_seconds").unwrap_or(0).min(STEP_CPU_SECONDS_MAX);
        let mib = number("worker_memory_mib").unwrap_or(0).min(WORKER_MEMORY_MIB_MAX);
        config.step_cpu_max = config.step_cpu_max.max(Duration::from_secs(seconds));
        config.memory_bytes_max = config.memory_bytes_max.max(mib << 20);
    }
    config
}

/// Returns the action space called `name`, or the environment's first one.
pub(super) fn action_space(
    spec: &EnvironmentSpec,
    name: Option<&str>,
) -> Result<ActionSpace, Failed> {
    let found = match name {
        Some(name) => spec.action_space(name),
        None => spec.action_spaces.first(),
    };
    found.cloned().ok_or_else(|| {
        let known: Vec<&str> = spec.action_spaces.iter().map(|space| space.name.as_str()).collect();
        Failed::usage(format!(
            "`{}` is no action space of {}: {} are",
            name.unwrap_or_default(),
            spec.name,
            known.join(", ")
        ))
    })
}

/// The benchmarks of an environment.
#[derive(Debug)]
pub(super) enum Catalogue {
    /// Programs of the toy environment: `generator://toy-v0/<seed>`.
    Toy,
    /// Programs for LLVM, and their known baselines.
    Datasets(Datasets, KnownBaselines),
}

impl Catalogue {
    /// `config` is of the workers that find out what is not known.
    pub(super) fn new(spec: &EnvironmentSpec, config: &WorkerConfig) -> Result<Self, Failed> {
        if spec.name == toy::NAME {
            return Ok(Self::Toy);
        }
        let settings = Settings::from_environment()?;
        let baselines = KnownBaselines::new(Cache::new(&settings.cache), spec, &config.limits());
        Ok(Self::Datasets(Datasets::new(&settings), baselines))
    }

    /// Returns the canonical URIs of what `patterns` name, each once.
    pub(super) fn expand(&self, patterns: &[String]) -> Result<Vec<BenchmarkUri>, Failed> {
        match self {
            Self::Datasets(datasets, _) => Ok(datasets.expand_all(patterns)?),
            Self::Toy => {
                let mut seeds = Vec::new();
                for pattern in patterns {
                    seeds.extend(
                        toy_seeds(pattern)?
                            .filter(|seed| !seeds.contains(seed))
                            .collect::<Vec<_>>(),
                    );
                }
                Ok(seeds.into_iter().map(|seed| toy::benchmark(seed).uri).collect())
            }
        }
    }

    /// Returns the canonical URI of one benchmark.
    pub(super) fn one(&self, uri: &str) -> Result<BenchmarkUri, Failed> {
        let uri: BenchmarkUri = uri.parse().map_err(|error| Failed::usage(format!("{error}")))?;
        match self {
            Self::Datasets(datasets, _) => Ok(datasets.resolve(&uri)?),
            Self::Toy => toy_seeds(uri.as_str()).map(|_| uri),
        }
    }
}

/// Most seeds that a range may name.
const TOY_SEEDS_MAX: u32 = 10_000;

/// Parses the seeds of `generator://toy-v0/<seed>` or `generator://toy-v0/<first>..<last>`.
fn toy_seeds(pattern: &str) -> Result<std::ops::RangeInclusive<u32>, Failed> {
    let range = || {
        let seeds = pattern.strip_prefix("generator://toy-v0/")?;
        let (first, last) = seeds.split_once("..").unwrap_or((seeds, seeds));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last - first < TOY_SEEDS_MAX).then_some(first..=last)
    };
    range().ok_or_else(|| {
        Failed::usage(format!(
            "`{pattern}` is no benchmark of toy-v0: write generator://toy-v0/<seed> or generator://toy-v0/<first>..<last>"
        ))
    })
}

impl Programs for Catalogue {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, ProgramError> {
        match self {
            Self::Datasets(datasets, _) => Ok(datasets.benchmark(uri)?),
            Self::Toy => {
                let seed = uri.path().parse().map_err(|error| format!("{uri}: {error}"))?;
                Ok(toy::benchmark(seed))
            }
        }
    }

    fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        match self {
            Self::Datasets(_, known) => known.read(&benchmark.program),
            Self::Toy => None,
        }
    }

    fn keep_baselines(&self, benchmark: &Benchmark, baselines: &Baselines) {
        if let Self::Datasets(_, known) = self
            && let Err(error) = known.write(&benchmark.program, baselines)
        {
            tracing::warn!(
                "the baselines of {} are found out again next time: {error}",
                benchmark.uri
            );
        }
    }
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
