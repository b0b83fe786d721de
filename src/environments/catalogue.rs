//! The benchmarks that an environment can play, and their baselines.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::datasets::{
    DatasetFolders, Datasets, GivenPrograms, INPUTS, KnownBaselines, ProgramCache, among,
    as_pattern, no_source,
};
use crate::env::Environment;
use crate::env::worker::WorkerConfig;
use crate::generate::ProgramProvider;
use crate::model::{Baselines, Benchmark, BenchmarkUri, Execution, Provenance};
use crate::{Error, ErrorKind};

/// The folder in the cache where datasets put the inputs of programs when these are loaded; none if
/// there is no place for a cache.
pub fn inputs_folder() -> Option<PathBuf> {
    Some(cache_folder()?.join(INPUTS))
}

/// The folder of the cache; none if there is no place for one.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    Some(DatasetFolders::from_environment().ok()?.cache)
}

/// The benchmarks of an environment.
#[derive(Debug)]
pub enum Catalogue {
    /// Programs that datasets have or make, and their cached baselines. An environment that makes
    /// its programs itself has none.
    Datasets(Datasets, Option<KnownBaselines>),
    /// The benchmarks of a lake by name, for [sessions](crate::replay::cached) that need no
    /// programs: they are empty.
    Recorded(BTreeSet<BenchmarkUri>),
    /// Programs for an environment of somebody's own.
    Given(GivenPrograms),
    /// Programs for a service: files, and whatever it knows by name, whose programs are empty here.
    Served(GivenPrograms),
}

impl Catalogue {
    /// Opens the catalogue of an environment, which may be that of a service. `config` is that of
    /// the workers that compute missing baselines.
    ///
    /// # Errors
    ///
    /// If the program cache cannot be used.
    pub fn of(environment: &dyn Environment, config: &WorkerConfig) -> Result<Self, Error> {
        let spec = environment.spec();
        if environment.served().is_some() {
            return Ok(Self::Served(GivenPrograms::new(&spec.name, [])?));
        }
        let own = environment.own_datasets();
        if !own.is_empty() {
            return Ok(Self::Datasets(Datasets::own(own), None));
        }
        let settings = DatasetFolders::from_environment()?;
        let baselines =
            KnownBaselines::new(ProgramCache::new(&settings.cache), spec, &config.limits());
        Ok(Self::Datasets(Datasets::of(&settings, &environment.front_end()), Some(baselines)))
    }

    /// Returns whether the benchmarks of a dataset come from here: then nobody else gives a program
    /// such a name.
    pub fn has_dataset(&self, uri: &str) -> bool {
        match self {
            Self::Datasets(datasets, _) => datasets.has(uri),
            Self::Given(programs) => uri == programs.uri(),
            Self::Served(_) | Self::Recorded(_) => false,
        }
    }

    /// Returns whether it is that of a lake with this benchmark.
    pub fn has(&self, named: &str) -> bool {
        let Self::Recorded(known) = self else { return false };
        // Earlier versions wrote the URIs of files as their paths are.
        if known.iter().any(|known| known.as_str() == named) {
            return true;
        }
        let uri = as_pattern(named).ok().and_then(|text| text.parse::<BenchmarkUri>().ok());
        uri.is_some_and(|uri| known.contains(&uri) || known.contains(&uri.as_written()))
    }

    /// Returns how a benchmark of a lake is built and run: as the lake says in its column
    /// `execution`, or else its dataset. What is damaged there is not replaced by what today's
    /// dataset says: the program may have run otherwise.
    ///
    /// # Errors
    ///
    /// What is wrong with what the lake says, or why the dataset does not say it, in one line.
    pub(crate) fn execution(
        &self,
        uri: &BenchmarkUri,
        of_lake: Option<&str>,
    ) -> Result<Option<Execution>, String> {
        if let Some(text) = of_lake {
            return Execution::from_json(text).map(Some).map_err(|error| {
                format!("what the lake says of how it is built and run is damaged: {error}")
            });
        }
        match self {
            Self::Datasets(datasets, _) if datasets.are_runnable(uri) => {
                let loaded = datasets.benchmark(uri).map_err(|error| {
                    format!("its dataset does not say how it is built and run: {error}")
                })?;
                Ok(loaded.execution)
            }
            _ => Ok(None),
        }
    }

    /// Returns the source of a benchmark, if it is one C file that is at hand.
    pub fn source(&self, uri: &BenchmarkUri) -> Option<String> {
        match self {
            Self::Datasets(datasets, _) => datasets.source(uri),
            Self::Given(_) | Self::Served(_) | Self::Recorded(_) => None,
        }
    }

    /// Returns the canonical URIs of the benchmarks that `patterns` name, without duplicates.
    ///
    /// # Errors
    ///
    /// If a pattern names nothing, or nothing that is available.
    pub fn expand(&self, patterns: &[String]) -> Result<Vec<BenchmarkUri>, Error> {
        if let Self::Datasets(datasets, _) = self {
            return Ok(datasets.expand_all(patterns)?);
        }
        let mut all = Vec::new();
        for pattern in patterns {
            let found: Vec<BenchmarkUri> = match self {
                Self::Datasets(datasets, _) => datasets.expand(pattern)?,
                Self::Given(programs) => programs.expand(pattern)?,
                Self::Served(_) => vec![self.one(pattern)?],
                Self::Recorded(known) => among(pattern, known)?,
            };
            all.extend(found.into_iter().filter(|uri| !all.contains(uri)).collect::<Vec<_>>());
        }
        Ok(all)
    }

    /// Returns the canonical URIs of benchmarks, compiled with `flags` where they are sources of
    /// the user's own: see [`with_flags`](crate::datasets::Dataset::with_flags).
    ///
    /// # Errors
    ///
    /// Those of [`Self::expand`]; if a flag is not taken, or no benchmark takes any.
    pub fn expand_with(
        &self,
        patterns: &[String],
        flags: &[String],
    ) -> Result<Vec<BenchmarkUri>, Error> {
        self.with_flags(&self.expand(patterns)?, flags)
    }

    fn with_flags(
        &self,
        uris: &[BenchmarkUri],
        flags: &[String],
    ) -> Result<Vec<BenchmarkUri>, Error> {
        match self {
            Self::Datasets(datasets, _) => Ok(datasets.with_flags(uris, flags)?),
            _ if flags.is_empty() => Ok(uris.to_vec()),
            Self::Given(_) | Self::Served(_) | Self::Recorded(_) => Err(no_source(flags).into()),
        }
    }

    /// Returns the canonical URI of one benchmark, by its URI or the path of a file.
    ///
    /// # Errors
    ///
    /// If there is no such benchmark.
    pub fn one(&self, named: &str) -> Result<BenchmarkUri, Error> {
        if let Self::Recorded(known) = self
            && let Some(known) = known.iter().find(|known| known.as_str() == named)
        {
            return Ok(known.clone());
        }
        let uri: BenchmarkUri = as_pattern(named)?
            .parse()
            .map_err(|error| Error::new(ErrorKind::Benchmark, format!("{error}")))?;
        match self {
            Self::Datasets(datasets, _) => Ok(datasets.resolve(&uri)?),
            Self::Given(programs) => Ok(programs.resolve(&uri)?),
            Self::Served(files) if uri.scheme() == "file" => Ok(files.resolve(&uri)?),
            // Sessions know whether they can start it.
            Self::Recorded(known) if known.contains(&uri) => Ok(uri),
            Self::Served(_) | Self::Recorded(_) => Ok(uri.as_written()),
        }
    }

    /// Returns the canonical URI of one benchmark, compiled with `flags`.
    ///
    /// # Errors
    ///
    /// Those of [`Self::one`] and [`Self::expand_with`].
    pub fn one_with(&self, named: &str, flags: &[String]) -> Result<BenchmarkUri, Error> {
        let uri = self.one(named)?;
        Ok(self.with_flags(std::slice::from_ref(&uri), flags)?.pop().unwrap_or(uri))
    }
}

impl ProgramProvider for Catalogue {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, Error> {
        match self {
            Self::Datasets(datasets, _) => Ok(datasets.benchmark(uri)?),
            Self::Given(programs) => Ok(programs.benchmark(uri)?),
            Self::Served(files) if uri.scheme() == "file" => Ok(files.benchmark(uri)?),
            Self::Served(_) | Self::Recorded(_) => Ok(Benchmark {
                uri: uri.clone(),
                program: Arc::default(),
                provenance: Provenance::default(),
                execution: None,
            }),
        }
    }

    fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        match self {
            Self::Datasets(_, known) => known.as_ref()?.read(&benchmark.program),
            Self::Given(_) | Self::Served(_) | Self::Recorded(_) => None,
        }
    }

    fn keep_baselines(&self, benchmark: &Benchmark, baselines: &Baselines) {
        if let Self::Datasets(_, Some(known)) = self
            && let Err(error) = known.write(&benchmark.program, baselines)
        {
            tracing::warn!(
                "the baselines of {} cannot be cached and will be computed again: {error}",
                benchmark.uri
            );
        }
    }
}
