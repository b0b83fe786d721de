//! How the cache stores programs and other values.

use serde::{Deserialize, Serialize};

use super::DatasetError;
use super::cache::{Cache, Key};
use crate::model::{Benchmark, BenchmarkUri, Execution, Provenance};

/// Changes with the stored format, and with the way programs are made.
const FORMAT: &str = "2";

/// A compiled program in the cache, with its provenance.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Stored {
    #[serde(with = "StoredProvenance")]
    pub(super) provenance: Provenance,
    pub(super) program: Vec<u8>,
}

/// How the cache stores a [`Provenance`].
#[derive(Serialize, Deserialize)]
#[serde(remote = "Provenance")]
struct StoredProvenance {
    family: String,
    licence: String,
    origin: String,
    compile_command: String,
}

impl Stored {
    /// Returns the cache's entry for `key`; makes it if it is missing.
    pub(super) fn cached(
        cache: &Cache,
        key: &[&str],
        make: impl FnOnce() -> Result<Self, DatasetError>,
    ) -> Result<Self, DatasetError> {
        cached(cache, "programs", key, make)
    }

    pub(super) fn into_benchmark(
        self,
        uri: BenchmarkUri,
        execution: Option<Execution>,
    ) -> Benchmark {
        Benchmark { uri, program: self.program.into(), provenance: self.provenance, execution }
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
    let bad =
        |error| DatasetError::cache(&cache.root)(std::io::Error::other::<postcard::Error>(error));
    let make = || postcard::to_stdvec(&make()?).map_err(bad);
    postcard::from_bytes(&cache.entry(Key::of(kind, &parts), make)?).map_err(bad)
}
