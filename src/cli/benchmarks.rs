//! What commands refer to by name: environments, action spaces, benchmarks.

use crate::datasets::{Cache, Datasets, KnownBaselines, Settings};
use crate::env::toy;
use crate::env::worker::{WorkerConfig, WorkerEnvironment};
use crate::env::{self, Environment};
use crate::model::{ActionSpace, Baselines, Benchmark, BenchmarkUri, EnvironmentSpec};
use crate::record::generate::{ProgramError, Programs};

use super::failure::Failed;

/// Returns the environment called `name`.
pub(super) fn environment(name: &str) -> Result<Box<dyn Environment>, Failed> {
    env::open(name).ok_or_else(|| {
        Failed::usage(format!("`{name}` is no environment: {} are", env::NAMES.join(", ")))
    })
}

/// Returns the same environment with its sessions in worker processes of this program.
pub(super) fn workers(environment: &dyn Environment) -> Result<WorkerEnvironment, Failed> {
    let config = WorkerConfig::new(std::env::current_exe()?);
    Ok(WorkerEnvironment::new(environment.spec().clone(), config))
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
    pub(super) fn new(spec: &EnvironmentSpec) -> Result<Self, Failed> {
        if spec.name == toy::NAME {
            return Ok(Self::Toy);
        }
        let settings = Settings::from_environment()?;
        let baselines = KnownBaselines::new(Cache::new(&settings.cache), spec);
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
