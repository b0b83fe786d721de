//! How the cache stores programs and other values.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::DatasetError;
use super::cache::{Cache, Key};
use crate::model::{Benchmark, BenchmarkUri, Execution, Provenance};

/// Changes with the stored format, and with the way programs are made.
const FORMAT: &str = "3";

/// Returns bytes as hexadecimal digits, as indexes of files have digests.
pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Returns the SHA-256 of a file's content, as [`hex`] gives it.
pub(super) fn sha256_of(path: &Path) -> io::Result<String> {
    let (mut file, mut hasher) = (File::open(path)?, Sha256::new());
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            length => hasher.update(&buffer[..length]),
        }
    }
}

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
    let bad = |_unread: postcard::Error| {
        let problem = format!("the stored {kind} cannot be read: delete the cache");
        DatasetError::cache(&cache.root)(io::Error::other(problem))
    };
    let make = || postcard::to_stdvec(&make()?).map_err(bad);
    postcard::from_bytes(&cache.entry(Key::of(kind, &parts), make)?).map_err(bad)
}
