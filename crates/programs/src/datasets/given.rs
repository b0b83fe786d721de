//! Programs that the caller gives, for an environment of the caller's own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::{DatasetError, among, as_pattern, no_source};
use steplake_model::suggestions::did_you_mean;
use steplake_model::{Benchmark, BenchmarkUri, Provenance};

/// The dataset `benchmark://<environment>`, whose programs the caller gives, and `file:///<path>`,
/// where the bytes of any file are a program.
#[derive(Debug)]
pub struct GivenPrograms {
    environment: String,
    programs: BTreeMap<BenchmarkUri, Arc<[u8]>>,
}

impl GivenPrograms {
    /// Takes the programs of an environment, by their names.
    ///
    /// # Errors
    ///
    /// [`DatasetError::BadUri`] for a name that cannot be the path of a URI.
    pub fn new(
        environment: &str,
        programs: impl IntoIterator<Item = (String, Arc<[u8]>)>,
    ) -> Result<Self, DatasetError> {
        let named =
            |(name, program)| Ok((format!("benchmark://{environment}/{name}").parse()?, program));
        let programs = programs.into_iter().map(named).collect::<Result<_, DatasetError>>()?;
        Ok(Self { environment: environment.to_owned(), programs })
    }

    /// Returns the beginning of the URIs of the given programs.
    pub fn uri(&self) -> String {
        format!("benchmark://{}", self.environment)
    }

    /// Returns the number of given programs.
    pub fn size(&self) -> usize {
        self.programs.len()
    }

    /// Returns the first of the given programs, by name.
    pub fn first(&self) -> Option<&BenchmarkUri> {
        self.programs.keys().next()
    }

    /// Returns the canonical form of a URI.
    ///
    /// # Errors
    ///
    /// [`DatasetError::UnknownBenchmark`].
    pub fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        if self.programs.contains_key(uri) {
            return Ok(uri.clone());
        }
        if uri.scheme() != "file" {
            return Err(DatasetError::unknown(uri, self.hint(uri.path())));
        }
        if !uri.flags().is_empty() {
            return Err(no_source(&uri.flags()));
        }
        let path = uri.file().and_then(|path| fs::canonicalize(path).ok());
        let real = path.as_deref().filter(|path| path.is_file()).and_then(Path::to_str);
        let real = real.ok_or_else(|| DatasetError::unknown(uri, "there is no such file"))?;
        Ok(BenchmarkUri::of_file(real, &[])?)
    }

    /// Returns the URIs that a [pattern](super) names.
    ///
    /// # Errors
    ///
    /// Those of [`among`], and [`DatasetError::UnknownBenchmark`] for a file.
    pub fn expand(&self, pattern: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        let pattern = &*as_pattern(pattern)?;
        if pattern.starts_with("file://") {
            return Ok(vec![self.resolve(&pattern.parse()?)?]);
        }
        let known: BTreeSet<BenchmarkUri> = self.programs.keys().cloned().collect();
        among(pattern, &known).map_err(|error| match error {
            DatasetError::NoMatch { .. } => DatasetError::no_match(pattern, self.hint(pattern)),
            other => other,
        })
    }

    /// Returns the program that a URI names.
    ///
    /// # Errors
    ///
    /// Those of [`GivenPrograms::resolve`], and [`DatasetError::Unreadable`].
    pub fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        let uri = self.resolve(uri)?;
        if let Some(program) = self.programs.get(&uri) {
            let family = self.environment.clone();
            let provenance = Provenance { family, ..Provenance::default() };
            return Ok(Benchmark {
                uri,
                program: Arc::clone(program),
                provenance,
                execution: None,
            });
        }
        let path = uri.file().unwrap_or_default();
        let unreadable = |source| DatasetError::Unreadable { path: path.clone(), source };
        let program: Arc<[u8]> = fs::read(&path).map_err(unreadable)?.into();
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let provenance = Provenance {
            family: format!("file/{}", folder.display()),
            origin: format!("{}, blake3 {}", path.display(), blake3::hash(&program).to_hex()),
            ..Provenance::default()
        };
        Ok(Benchmark { uri, program, provenance, execution: None })
    }

    /// What there is instead.
    fn hint(&self, wanted: &str) -> String {
        if self.programs.is_empty() {
            return format!("{} has no programs of its own: give the bytes", self.environment);
        }
        let suggestion = did_you_mean(wanted, self.programs.keys().map(BenchmarkUri::path));
        format!("{} has {} programs{suggestion}", self.uri(), self.programs.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> GivenPrograms {
        let programs =
            ["sum", "loops/nested"].map(|name| (name.to_owned(), name.as_bytes().into()));
        GivenPrograms::new("stack-v0", programs).unwrap()
    }

    #[test]
    fn given_programs_have_uris() {
        let uris = |pattern: &str| {
            let found = given().expand(pattern).map_err(|error| error.to_string())?;
            Ok::<_, String>(found.iter().map(|uri| uri.path().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(uris("benchmark://stack-v0").unwrap(), ["loops/nested", "sum"]);
        assert_eq!(uris("benchmark://stack-v0/loops/*").unwrap(), ["loops/nested"]);
        let error = uris("benchmark://stack-v0/s?").unwrap_err();
        assert!(error.contains("benchmark://stack-v0 has 2 programs"), "{error}");
        let sum = "benchmark://stack-v0/sum".parse().unwrap();
        assert_eq!(&*given().benchmark(&sum).unwrap().program, b"sum");
        let unknown = "benchmark://stack-v0/sun".parse().unwrap();
        let error = given().benchmark(&unknown).unwrap_err().to_string();
        assert!(error.contains("did you mean"), "{error}");
        assert!(GivenPrograms::new("stack-v0", [(String::new(), b"".as_slice().into())]).is_err());
    }

    #[test]
    fn the_bytes_of_a_file_are_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.stack");
        fs::write(&path, "push 1").unwrap();
        let path = path.to_str().unwrap();
        let uri = format!("file://{path}");
        let benchmark = given().benchmark(&uri.parse().unwrap()).unwrap();
        assert_eq!(&*benchmark.program, b"push 1");
        assert!(benchmark.provenance.origin.contains("blake3"));
        assert!(benchmark.uri.as_str().ends_with("/a%20b.stack"), "{}", benchmark.uri);
        for named in [&uri, path, benchmark.uri.as_str()] {
            assert_eq!(
                given().expand(named).unwrap(),
                std::slice::from_ref(&benchmark.uri),
                "{named}"
            );
        }
        let flagged = format!("{uri}?flags=-w").parse().unwrap();
        assert!(given().resolve(&flagged).unwrap_err().to_string().contains("flags are for files"));
        let missing = format!("{uri}x").parse().unwrap();
        assert!(given().resolve(&missing).unwrap_err().to_string().contains("no such file"));
    }
}
