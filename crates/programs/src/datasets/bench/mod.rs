//! `benchmark://steplake-bench-v0/<name>`: programs of Debian's packages that run, with inputs.
//!
//! A program is one module, linked from several files of a package. The file
//! `data/bench/programs.json` defines the programs: the archive as its authors published it, by
//! digest; the files and how they are compiled; the command that runs the program, and its inputs.
//! So a name means the same program whichever revision of the package Debian has. The inputs are
//! files of the package, files in `data/bench`, and files that [`inputs`] makes.

mod definition;
mod inputs;
mod module;
#[cfg(test)]
mod tests;

use std::path::Path;

use self::definition::{
    BenchDefinition, BenchPackage, BenchProgram, StoredBenchProgram, definition, own,
};

use super::debian::Apt;
use super::{Dataset, DatasetDescription, DatasetError, ProgramCache};
use crate::datasets::cache::stored::cached;
use crate::datasets::naming::pattern::{is_glob, matcher};
use steplake_model::suggestions::did_you_mean;
use steplake_model::{Benchmark, BenchmarkUri};

const URI: &str = "benchmark://steplake-bench-v0";

/// The number of programs in the definition, which a test compares.
const SIZE: u64 = 23;

static ABOUT: DatasetDescription = DatasetDescription {
    name: "steplake-bench-v0",
    uri: URI,
    description: "Programs of Debian packages that run, each linked to one module, with inputs",
    licence: "",
    size: Some(SIZE),
    example: "benchmark://steplake-bench-v0/bzip2",
};

/// The dataset.
#[derive(Debug)]
pub(super) struct BenchDataset {
    cache: ProgramCache,
    apt: Apt,
    definition: &'static BenchDefinition,
}

impl BenchDataset {
    pub(super) fn new(cache: ProgramCache, apt_sources: &Path) -> Self {
        let apt = Apt::new(cache.clone(), apt_sources);
        Self { cache, apt, definition: definition() }
    }

    fn find(
        &self,
        uri: &BenchmarkUri,
    ) -> Result<(&'static BenchPackage, &'static BenchProgram), DatasetError> {
        let BenchDefinition { packages, programs } = self.definition;
        let Some(program) = programs.get(uri.path()) else {
            let near = did_you_mean(uri.path(), programs.keys().map(String::as_str));
            let hint = format!("the dataset has {} programs{near}", programs.len());
            return Err(DatasetError::unknown(uri, hint).listed_by(URI));
        };
        Ok((&packages[&program.package], program))
    }

    /// Makes a program with its inputs or takes it from the cache.
    fn made(&self, uri: &BenchmarkUri) -> Result<StoredBenchProgram, DatasetError> {
        let (package, program) = self.find(uri)?;
        let text = serde_json::to_string(&(package, program)).unwrap_or_default();
        let driver = program.driver.as_deref().map_or("", own);
        let mut key = vec![uri.as_str(), &text, driver, crate::datasets::tools::clang::version()?];
        key.extend([crate::datasets::tools::clang::FLAGS, inputs::VERSION]);
        for from in program.files.values() {
            key.extend(from.strip_prefix("own ").map(|name| -> &str { own(name) }));
        }
        cached(&self.cache, "bench", &key, || {
            module::make(&self.cache, &self.apt, uri, package, program)
        })
    }
}

impl Dataset for BenchDataset {
    fn about(&self) -> &'static DatasetDescription {
        &ABOUT
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        self.find(uri).map(|_| uri.clone())
    }

    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        let pattern = format!("{URI}/{path}");
        if !path.is_empty() && !is_glob(path) {
            return Ok(vec![self.resolve(&pattern.parse()?)?]);
        }
        let wanted = matcher(&pattern, if path.is_empty() { "*" } else { path })?;
        let names = self.definition.programs.keys().filter(|name| wanted.is_match(name));
        Ok(names.map(|name| format!("{URI}/{name}").parse()).collect::<Result<_, _>>()?)
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        let made = self.made(uri)?;
        let (_, program) = self.find(uri)?;
        let execution = program.execution(&made);
        for (_, content) in &made.inputs {
            self.cache.keep_input(content)?;
        }
        Ok(made.stored.into_benchmark(uri.clone(), Some(execution)))
    }

    fn is_runnable(&self) -> bool {
        true
    }
}
