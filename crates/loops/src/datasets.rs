//! The programs of the environment: those that have names, and texts in files.

use std::collections::BTreeSet;

use super::NAME;
use super::programs::{EXAMPLES, program};
use super::text::write_program;
use steplake_model::{Benchmark, BenchmarkUri, Provenance};
use steplake_programs::datasets::{
    Dataset, DatasetDescription, DatasetError, GivenPrograms, among,
};

static NAMED: DatasetDescription = DatasetDescription {
    name: NAME,
    uri: "benchmark://loops-v0",
    description: "Loop nests by name and sizes, such as matrix products of any size",
    licence: "MIT",
    size: None,
    example: "benchmark://loops-v0/matmul-256x256x256",
};

static FILES: DatasetDescription = DatasetDescription {
    name: "file",
    uri: "file://",
    description: "Your own programs and states, as texts",
    licence: "",
    size: None,
    example: "file:///path/to/program.loops",
};

/// `benchmark://loops-v0/<name>`.
#[derive(Debug)]
pub(super) struct NamedPrograms;

impl Dataset for NamedPrograms {
    fn about(&self) -> &'static DatasetDescription {
        &NAMED
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        Ok(self.benchmark(uri)?.uri)
    }

    /// A pattern stands for those of the [examples](EXAMPLES) that it matches.
    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        let pattern = format!("{}/{path}", NAMED.uri);
        if path.is_empty() || path.contains(['*', '?', '[', '{']) {
            let examples = EXAMPLES.iter().map(|name| format!("{}/{name}", NAMED.uri).parse());
            let examples = examples.collect::<Result<BTreeSet<BenchmarkUri>, _>>()?;
            return among(pattern.trim_end_matches('/'), &examples);
        }
        Ok(vec![self.resolve(&pattern.parse()?)?])
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        let dag = program(uri.path()).map_err(|why| DatasetError::unknown(uri, why))?;
        Ok(Benchmark {
            uri: uri.clone(),
            program: write_program(&dag).into_bytes().into(),
            provenance: Provenance {
                family: format!("loops/{}", uri.path().split('-').next().unwrap_or_default()),
                licence: NAMED.licence.to_owned(),
                ..Provenance::default()
            },
            execution: None,
        })
    }
}

/// `file:///<path>`: a file is a program as it is.
#[derive(Debug)]
pub(super) struct LoopsFiles;

impl LoopsFiles {
    fn given() -> Result<GivenPrograms, DatasetError> {
        GivenPrograms::new(NAME, [])
    }
}

impl Dataset for LoopsFiles {
    fn about(&self) -> &'static DatasetDescription {
        &FILES
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        Self::given()?.resolve(uri)
    }

    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        Self::given()?.expand(&format!("{}/{path}", FILES.uri))
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        Self::given()?.benchmark(uri)
    }
}
