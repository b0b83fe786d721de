//! All datasets together: benchmarks by URI, and URIs by pattern.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::aimed::OwnFiles;
use super::bench::BenchDataset;
use super::debian::Debian;
use super::file::SourceFiles;
use super::generator::{CSMITH, Generator, LLVM_STRESS};
use super::programs::ProjectPrograms;
use super::published::PublishedDataset;
use super::{Dataset, DatasetDescription, DatasetError, FrontEnd, ProgramCache, Unavailable};
use crate::datasets::naming::named::as_pattern;
use crate::datasets::naming::pattern::{NAMED_MAX, is_glob};
use steplake_model::suggestions::{did_you_mean, near};
use steplake_model::{Benchmark, BenchmarkUri, BenchmarkUriError, base};

/// The folders that the datasets use.
#[derive(Debug, Clone)]
pub struct DatasetFolders {
    /// The cache's folder.
    pub cache: PathBuf,
    /// The folder of apt's lists of repositories; only read.
    pub apt_sources: PathBuf,
    /// The addresses of folders where published archives are looked for first, in order.
    pub mirrors: Vec<String>,
}

impl DatasetFolders {
    /// Uses the cache at [`ProgramCache::users_root`], the repositories of this machine, and the
    /// mirrors that `STEPLAKE_MIRRORS` names, with spaces between them.
    ///
    /// # Errors
    ///
    /// Those of [`ProgramCache::users_root`].
    pub fn from_environment() -> Result<Self, DatasetError> {
        let cache = ProgramCache::users_root()?;
        let mirrors = std::env::var("STEPLAKE_MIRRORS").unwrap_or_default();
        let mirrors = mirrors.split_whitespace().map(str::to_owned).collect();
        Ok(Self { cache, apt_sources: PathBuf::from("/etc/apt"), mirrors })
    }
}

/// All datasets.
#[derive(Debug)]
pub struct Datasets {
    all: Vec<Box<dyn Dataset>>,
}

/// Splits a pattern into the dataset's URI and the rest after it and its slash.
fn split(pattern: &str) -> Result<(&str, &str), DatasetError> {
    let not_a_uri = || BenchmarkUriError(pattern.to_owned());
    let (scheme, rest) = pattern.split_once("://").ok_or_else(not_a_uri)?;
    let name_length = rest.find('/').unwrap_or(rest.len());
    let dataset = &pattern[..scheme.len() + "://".len() + name_length];
    Ok((dataset, rest.get(name_length + 1..).unwrap_or("")))
}

/// Refuses the name of a program that begins at a state of another one: only a lake has it.
fn demand_whole(uri: &str) -> Result<(), DatasetError> {
    let Some(state) = uri.strip_prefix(base(uri)).and_then(|rest| rest.strip_prefix('#')) else {
        return Ok(());
    };
    let hint = format!(
        "it begins at a state of a lake: the query `SELECT ir(state('{state}'))` gives its text, \
         which is a program as a file that ends in .i"
    );
    Err(DatasetError::unknown(uri, hint))
}

/// Returns the error for flags that no benchmark takes.
pub fn no_source(words: &[String]) -> DatasetError {
    let why = "flags are for files of C or C++, and no benchmark here is one".to_owned();
    DatasetError::BadFlag { flag: words.join(" "), why }
}

impl Datasets {
    /// Lists every dataset of programs for LLVM. Reads, makes and fetches nothing yet.
    pub fn new(settings: &DatasetFolders) -> Self {
        Self::of(settings, &FrontEnd::default())
    }

    /// Lists the datasets whose programs this front end makes.
    pub fn of(settings: &DatasetFolders, front_end: &FrontEnd) -> Self {
        let cache = ProgramCache::new(&settings.cache);
        let (front, apt_sources) = (|| front_end.clone(), &settings.apt_sources);
        let mut all: Vec<Box<dyn Dataset>> = vec![
            Box::new(ProjectPrograms(cache.clone(), front())),
            Box::new(Debian::new(cache.clone(), front(), apt_sources)),
            Box::new(Generator::new(cache.clone(), front(), &CSMITH)),
            Box::new(OwnFiles { files: SourceFiles(front()), cache: cache.clone() }),
        ];
        if matches!(front_end, FrontEnd::Gcc(_)) {
            return Self { all };
        }
        all.insert(1, Box::new(BenchDataset::new(cache.clone(), apt_sources)));
        all.insert(4, Box::new(Generator::new(cache.clone(), front(), &LLVM_STRESS)));
        for published in PublishedDataset::all(&cache, &settings.mirrors) {
            all.push(Box::new(published));
        }
        Self { all }
    }

    /// Lists the datasets of an environment that makes its programs itself.
    pub fn own(all: Vec<Box<dyn Dataset>>) -> Self {
        Self { all }
    }

    /// Returns each dataset's description of itself, without those that another one replaces.
    pub fn about(&self) -> impl Iterator<Item = &'static DatasetDescription> {
        let current = self.all.iter().filter(|dataset| dataset.successor().is_none());
        current.map(|dataset| dataset.about())
    }

    /// Returns whether a dataset has this URI, be it one that another one replaces.
    pub fn has(&self, dataset: &str) -> bool {
        self.all.iter().any(|known| known.about().uri == dataset)
    }

    /// Returns the canonical form of a URI, without making its program.
    ///
    /// # Errors
    ///
    /// Those of [`Dataset::resolve`], and [`DatasetError::UnknownDataset`].
    pub fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        demand_whole(uri.as_str())?;
        self.named(uri.dataset_uri())?.resolve(uri)
    }

    /// Returns the program that a URI names.
    ///
    /// # Errors
    ///
    /// Those of [`Dataset::benchmark`], and [`DatasetError::UnknownDataset`].
    pub fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        demand_whole(uri.as_str())?;
        self.named(uri.dataset_uri())?.benchmark(uri)
    }

    /// Returns whether the dataset of a URI says how its programs are built and run.
    pub fn are_runnable(&self, uri: &BenchmarkUri) -> bool {
        let is_whole = uri.base() == uri.as_str();
        is_whole && self.named(uri.dataset_uri()).is_ok_and(Dataset::is_runnable)
    }

    /// Returns the source of a benchmark, if it is one file at hand: see [`Dataset::source`].
    pub fn source(&self, uri: &BenchmarkUri) -> Option<String> {
        self.named(uri.dataset_uri()).ok()?.source(uri)
    }

    /// Returns the canonical URIs of the benchmarks that a [pattern](super) names, at least one, in
    /// order. Listing a Debian package compiles its files, since only that shows which of them are
    /// benchmarks.
    ///
    /// # Errors
    ///
    /// Those of [`Dataset::expand`], [`DatasetError::UnknownDataset`] and
    /// [`DatasetError::NoMatch`].
    pub fn expand(&self, pattern: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        demand_whole(pattern)?;
        let pattern = &*as_pattern(pattern)?;
        let (dataset, path) = split(pattern)?;
        let uris = self.named(dataset)?.expand(path)?;
        if uris.is_empty() {
            return Err(if is_glob(path) && !path.contains("**") {
                let hint = "`*` stays within one folder; `**` goes through all below";
                DatasetError::no_match(pattern, hint)
            } else {
                let hint = "the dataset has none of that name";
                DatasetError::no_match(pattern, hint).listed_by(dataset)
            });
        }
        Ok(uris)
    }

    /// Returns what several patterns name, each benchmark once, at its first place.
    ///
    /// # Errors
    ///
    /// Those of [`Datasets::expand`], and [`DatasetError::TooMany`].
    pub fn expand_all<S: AsRef<str>>(
        &self,
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<Vec<BenchmarkUri>, DatasetError> {
        let mut seen = HashSet::new();
        let mut all = Vec::new();
        for pattern in patterns {
            let pattern = pattern.as_ref();
            all.extend(self.expand(pattern)?.into_iter().filter(|uri| seen.insert(uri.clone())));
            let count = u64::try_from(all.len()).unwrap_or(u64::MAX);
            if count > NAMED_MAX {
                let pattern = format!("… {pattern}");
                return Err(DatasetError::TooMany { pattern, count, most: NAMED_MAX });
            }
        }
        Ok(all)
    }

    /// Returns benchmarks compiled with flags: see [`Dataset::with_flags`]. Those that take none
    /// stay as they are.
    ///
    /// # Errors
    ///
    /// [`DatasetError::BadFlag`], also if none takes flags, and those of [`Datasets::resolve`].
    pub fn with_flags(
        &self,
        uris: &[BenchmarkUri],
        words: &[String],
    ) -> Result<Vec<BenchmarkUri>, DatasetError> {
        if words.is_empty() {
            return Ok(uris.to_vec());
        }
        let (mut all, mut taken) = (Vec::with_capacity(uris.len()), false);
        for uri in uris {
            let flagged = self.named(uri.dataset_uri())?.with_flags(uri, words)?;
            taken |= flagged.is_some();
            all.push(flagged.unwrap_or_else(|| uri.clone()));
        }
        if taken { Ok(all) } else { Err(no_source(words)) }
    }

    /// Returns what a pattern would name but cannot provide, with the reasons: files that do not
    /// compile.
    ///
    /// # Errors
    ///
    /// Those of [`Datasets::expand`].
    pub fn unavailable(&self, pattern: &str) -> Result<Vec<Unavailable>, DatasetError> {
        let pattern = as_pattern(pattern)?;
        let (dataset, path) = split(&pattern)?;
        self.named(dataset)?.unavailable(path)
    }

    /// Makes every program that a pattern names, so that all of them are in the cache, and returns
    /// their number. Calls `made` after each program, with the total number.
    ///
    /// # Errors
    ///
    /// Those of [`Datasets::expand`] and [`Datasets::benchmark`]; the programs made before the
    /// failure stay in the cache.
    pub fn install(
        &self,
        pattern: &str,
        made: &mut dyn FnMut(&BenchmarkUri, usize),
    ) -> Result<usize, DatasetError> {
        let uris = self.expand(pattern)?;
        for uri in &uris {
            self.benchmark(uri)?;
            made(uri, uris.len());
        }
        Ok(uris.len())
    }

    fn named(&self, uri: &str) -> Result<&dyn Dataset, DatasetError> {
        let known = || self.about().map(|about| about.uri);
        let found = self.all.iter().find(|dataset| dataset.about().uri == uri);
        if let Some(successor) = found.and_then(|dataset| dataset.successor()) {
            tracing::warn!("{uri} is deprecated: use {successor}");
        }
        found.map(AsRef::as_ref).ok_or_else(|| {
            // Often only the scheme is wrong.
            let name = Path::new(uri).file_name().and_then(|name| name.to_str()).unwrap_or(uri);
            let names = self.about().map(|about| about.name);
            let by_name = near(name, names)
                .first()
                .and_then(|name| self.about().find(|about| about.name == *name))
                .map(|about| format!(" (did you mean `{}`?)", about.uri));
            DatasetError::UnknownDataset {
                uri: uri.to_owned(),
                hint: by_name.unwrap_or_else(|| did_you_mean(uri, known())),
                known: known().collect::<Vec<_>>().join(", "),
            }
        })
    }
}
