use serde::{Deserialize, Serialize};

use super::DatasetError;
use super::cache::{Cache, Key};
use crate::model::{Benchmark, BenchmarkUri, Provenance};

/// Changes with the stored format, and with the way programs are made.
const FORMAT: &str = "2";

/// A compiled program in the cache, with its provenance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stored {
    family: String,
    licence: String,
    origin: String,
    compile_command: String,
    program: Vec<u8>,
}

impl Stored {
    pub(super) fn new(provenance: &Provenance, program: Vec<u8>) -> Self {
        let Provenance { family, licence, origin, compile_command } = provenance.clone();
        Self { family, licence, origin, compile_command, program }
    }

    /// Returns the cache's entry for `key`; makes it if it is missing.
    pub(super) fn cached(
        cache: &Cache,
        key: &[&str],
        make: impl FnOnce() -> Result<Self, DatasetError>,
    ) -> Result<Self, DatasetError> {
        cached(cache, "programs", key, make)
    }

    pub(super) fn into_benchmark(self, uri: BenchmarkUri) -> Benchmark {
        let Self { family, licence, origin, compile_command, program } = self;
        let provenance = Provenance { family, licence, origin, compile_command };
        Benchmark { uri, program: program.into(), provenance }
    }
}

/// Returns a serialisable value from the cache; makes it if it is missing.
pub(super) fn cached<T: Serialize + for<'a> Deserialize<'a>>(
    cache: &Cache,
    kind: &'static str,
    key: &[&str],
    make: impl FnOnce() -> Result<T, DatasetError>,
) -> Result<T, DatasetError> {
    let parts: Vec<&str> = [FORMAT].iter().chain(key).copied().collect();
    let key = Key::of(kind, &parts);
    let bad = |error: postcard::Error| DatasetError::Cache {
        path: cache.root().to_owned(),
        source: std::io::Error::other(error),
    };
    let bytes = cache.entry(key, || postcard::to_stdvec(&make()?).map_err(bad))?;
    postcard::from_bytes(&bytes).map_err(bad)
}
