//! Programs with their provenance, and the URIs that name them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{Execution, StateId};

/// The name of a benchmark: `benchmark://<dataset>/<path>`, `generator://<dataset>/<seed>` or
/// `file:///<path>`, where [`file`](Self::file) and [`flags`](Self::flags) read the path and what
/// may follow it.
///
/// ```
/// use steplake_model::BenchmarkUri;
/// let uri: BenchmarkUri = "generator://csmith-v0/42".parse()?;
/// assert_eq!((uri.dataset(), uri.path()), ("csmith-v0", "42"));
/// # Ok::<(), steplake_model::BenchmarkUriError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BenchmarkUri {
    text: Arc<str>,
    dataset_start: usize,
    path_start: usize,
}

/// The error for a text that names no benchmark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a benchmark URI: write benchmark://<dataset>/<path>, generator://<dataset>/<seed> or file:///<path>"
)]
pub struct BenchmarkUriError(pub String);

impl BenchmarkUri {
    /// Returns `benchmark`, `generator` or `file`.
    pub fn scheme(&self) -> &str {
        &self.text[..self.dataset_start - "://".len()]
    }

    /// Returns the dataset with its version; empty for `file:///…`.
    pub fn dataset(&self) -> &str {
        &self.text[self.dataset_start..self.path_start]
    }

    /// Returns the part after the dataset and its slash: `a/b.c` for `file:///a/b.c`.
    pub fn path(&self) -> &str {
        self.text.get(self.path_start + 1..).unwrap_or("")
    }

    /// Returns scheme and dataset, e.g. `generator://csmith-v0`.
    pub fn dataset_uri(&self) -> &str {
        &self.text[..self.path_start]
    }

    /// Returns the whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name of the program that begins in a state of this one:
    /// `<the URI>#<the id of the state>`. A lake that has it has the state as IR.
    #[must_use]
    pub fn at(&self, state: StateId) -> Self {
        Self { text: format!("{}#{state}", self.base()).into(), ..*self }
    }

    /// Returns the URI of the program of which this one is a [state](Self::at), or else its own.
    pub fn base(&self) -> &str {
        base(&self.text)
    }
}

/// Returns what a benchmark's URI says of the program alone, without the id of a
/// [state](BenchmarkUri::at).
pub fn base(uri: &str) -> &str {
    match uri.rsplit_once('#') {
        Some((base, state)) if state.parse::<StateId>().is_ok() => base,
        _ => uri,
    }
}

impl FromStr for BenchmarkUri {
    type Err = BenchmarkUriError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || BenchmarkUriError(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(error)?;
        let (dataset, path) = rest.split_once('/').ok_or_else(error)?;
        let named = match scheme {
            "benchmark" | "generator" => !dataset.is_empty(),
            "file" => dataset.is_empty(),
            _ => false,
        };
        if !named || path.is_empty() || text.chars().any(char::is_control) {
            return Err(error());
        }
        let dataset_start = scheme.len() + "://".len();
        Ok(Self { text: text.into(), dataset_start, path_start: dataset_start + dataset.len() })
    }
}

impl fmt::Display for BenchmarkUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Where a program comes from, as far as known. An empty text means that the field is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The program family, which is the unit of train/test splits: e.g. `debian/zlib`, `csmith`.
    pub family: String,
    /// The licence, as an SPDX expression if it is known as one.
    pub licence: String,
    /// Where the source was taken from, with version and checksum.
    pub origin: String,
    /// The command that made the program from its source.
    pub compile_command: String,
}

/// A program to optimise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Benchmark {
    /// The benchmark's name, in canonical form.
    pub uri: BenchmarkUri,
    /// The program as the environment's compiler reads it; for LLVM, bitcode.
    pub program: Arc<[u8]>,
    /// Where the program comes from.
    pub provenance: Provenance,
    /// How the program is linked and run; none if it cannot be.
    pub execution: Option<Execution>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_each_scheme() {
        for (text, parts) in [
            ("benchmark://debian-v0/zlib/adler32.c", ("benchmark", "debian-v0", "zlib/adler32.c")),
            ("generator://csmith-v0/0", ("generator", "csmith-v0", "0")),
            ("file:///tmp/a.c", ("file", "", "tmp/a.c")),
        ] {
            let uri: BenchmarkUri = text.parse().unwrap();
            assert_eq!((uri.scheme(), uri.dataset(), uri.path()), parts);
            assert_eq!(uri.to_string(), text);
        }
    }

    #[test]
    fn a_state_of_a_program_is_named_after_it() {
        let uri: BenchmarkUri = "file:///tmp/a#b.c".parse().unwrap();
        let there = uri.at(StateId([0xab; 20]));
        assert_eq!(there.as_str(), format!("file:///tmp/a#b.c#{}", "ab".repeat(20)));
        assert_eq!((there.base(), uri.base()), (uri.as_str(), uri.as_str()));
        assert_eq!(there.as_str().parse(), Ok(there.clone()));
        assert_eq!(there.at(StateId([1; 20])).base(), uri.as_str());
        assert_eq!((there.scheme(), there.dataset()), ("file", ""));
    }

    #[test]
    fn what_names_no_benchmark() {
        for text in [
            "",
            "zlib",
            "benchmark://",
            "benchmark:///x",
            "http://a/b",
            "file://host/x",
            "benchmark://a/",
            "file:///a\nb",
        ] {
            assert_eq!(
                text.parse::<BenchmarkUri>(),
                Err(BenchmarkUriError(text.to_owned())),
                "{text}"
            );
        }
    }
}
