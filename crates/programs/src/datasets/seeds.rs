//! Programs by seed: `generator://<name>/<seed>`, and ranges of them.

use super::{Dataset, DatasetDescription, DatasetError};
use crate::datasets::naming::pattern::{is_glob, range};
use steplake_model::{Benchmark, BenchmarkUri};

/// A dataset of programs that an environment makes of a seed.
#[derive(Debug)]
pub struct Seeds {
    /// The description, whose URI comes before the seed.
    pub about: &'static DatasetDescription,
    /// The last seed.
    pub last: u32,
    /// Makes the program of a seed.
    pub make: fn(u32) -> Benchmark,
}

/// Returns the seed in a URI.
///
/// # Errors
///
/// [`DatasetError::UnknownBenchmark`] if there is none, or one above `last`.
pub(super) fn seed(
    about: &DatasetDescription,
    last: u32,
    uri: &BenchmarkUri,
) -> Result<u32, DatasetError> {
    let path = uri.path();
    let digits = !path.is_empty() && path.bytes().all(|byte| byte.is_ascii_digit());
    let seed = digits.then(|| path.parse().ok()).flatten().filter(|seed| *seed <= last);
    let hint = || format!("a seed from 0 to {last} is wanted, e.g. {}/42", about.uri);
    seed.ok_or_else(|| DatasetError::unknown(uri, hint()))
}

/// Returns the URI of a seed.
pub(super) fn uri(
    about: &DatasetDescription,
    seed: impl Into<u64>,
) -> Result<BenchmarkUri, DatasetError> {
    Ok(format!("{}/{}", about.uri, seed.into()).parse()?)
}

/// Returns the URIs that a path names: one seed, or a range.
///
/// # Errors
///
/// Those of [`Dataset::expand`].
pub(super) fn expand(
    about: &DatasetDescription,
    last: u32,
    path: &str,
) -> Result<Vec<BenchmarkUri>, DatasetError> {
    if path.is_empty() || is_glob(path) {
        return Err(about.unbounded());
    }
    let pattern = format!("{}/{path}", about.uri);
    match range(&pattern, path, last.into())? {
        Some((first, last)) => (first..=last).map(|seed| uri(about, seed)).collect(),
        None => Ok(vec![uri(about, seed(about, last, &pattern.parse()?)?)?]),
    }
}

impl Dataset for Seeds {
    fn about(&self) -> &'static DatasetDescription {
        self.about
    }

    fn resolve(&self, name: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        uri(self.about, seed(self.about, self.last, name)?)
    }

    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        expand(self.about, self.last, path)
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        Ok((self.make)(seed(self.about, self.last, uri)?))
    }
}
