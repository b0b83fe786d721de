//! How the cache stores programs and other values.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::program_cache::{Key, ProgramCache};
use crate::datasets::DatasetError;
use steplake_model::{Benchmark, BenchmarkUri, Execution, Provenance};

/// Changes with the stored format, and with the way programs are made.
const FORMAT: &str = "3";

/// Returns bytes as hexadecimal digits, as indexes of files have digests.
pub(in crate::datasets) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Returns the SHA-256 of a file's content, as [`hex`] gives it.
pub(in crate::datasets) fn sha256_of(path: &Path) -> io::Result<String> {
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
pub(in crate::datasets) struct StoredProgram {
    #[serde(with = "StoredProvenance")]
    pub(in crate::datasets) provenance: Provenance,
    pub(in crate::datasets) program: Vec<u8>,
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

impl StoredProgram {
    /// Returns the cache's entry for `key`; makes it if it is missing.
    pub(in crate::datasets) fn cached(
        cache: &ProgramCache,
        key: &[&str],
        make: impl FnOnce() -> Result<Self, DatasetError>,
    ) -> Result<Self, DatasetError> {
        cached(cache, "programs", key, make)
    }

    pub(in crate::datasets) fn into_benchmark(
        self,
        uri: BenchmarkUri,
        execution: Option<Execution>,
    ) -> Benchmark {
        Benchmark { uri, program: self.program.into(), provenance: self.provenance, execution }
    }
}

/// Returns a serialisable value from the cache; makes it if it is missing.
pub(in crate::datasets) fn cached<T: Serialize + for<'a> Deserialize<'a>>(
    cache: &ProgramCache,
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
