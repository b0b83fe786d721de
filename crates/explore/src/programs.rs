//! The programs of live sessions: benchmarks by name, and sources of one's own.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use steplake::datasets::{Datasets, names_files};
use steplake::environments::catalogue::Catalogue;
use steplake::generate::ProgramProvider as _;
use steplake::model::{Baselines, Benchmark, BenchmarkUri};

use super::answers::Problem;

/// The dataset of sources of one's own.
const OWN: &str = "benchmark://user-v0";

/// The most benchmarks that are listed of a dataset, and those of an infinite one.
const EXAMPLES_MAX: usize = 10;

/// A source that somebody sends.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct SentSource {
    /// The name of its file, whose end says what it is: `a.c`, `a.cpp` or `a.ll`.
    pub(super) name: String,
    pub(super) text: String,
}

/// A dataset, for people to choose from.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ListedDataset {
    pub(super) name: String,
    pub(super) uri: String,
    pub(super) description: String,
    pub(super) examples: Vec<String>,
}

/// The programs of an environment.
#[derive(Debug)]
pub(super) struct ProgramSource {
    catalogue: Catalogue,
    /// Whether programs may be named by their paths: only by somebody on this machine.
    reads_files: bool,
}

impl ProgramSource {
    pub(super) fn new(catalogue: Catalogue, reads_files: bool) -> Self {
        Self { catalogue, reads_files }
    }

    /// Returns the program that a URI names.
    ///
    /// # Errors
    ///
    /// If there is none, or it cannot be made.
    pub(super) fn named(&self, uri: &str) -> Result<Benchmark, Problem> {
        if names_files(uri) && !self.reads_files {
            return Err(Problem::wrong(format!(
                "{uri} is a file of the server, which listens to other machines and so reads no files: send the \
                 source"
            )));
        }
        self.load(uri)
    }

    fn load(&self, uri: &str) -> Result<Benchmark, Problem> {
        let uri = self.catalogue.one(uri)?;
        Ok(self.catalogue.load(&uri)?)
    }

    /// Returns the program of a source, which is compiled as a user's own file is: with the
    /// system's headers and no other files.
    ///
    /// # Errors
    ///
    /// If it does not compile.
    pub(super) fn of_source(&self, source: &SentSource) -> Result<Benchmark, Problem> {
        let name = file_name(&source.name)?;
        let unwritten = |error| Problem::of_program(format!("{name} cannot be written: {error}"));
        let folder = tempfile::Builder::new().prefix("steplake-explore-").tempdir();
        let folder = folder.map_err(unwritten)?;
        let folder = folder.path().canonicalize().map(|path| (folder, path)).map_err(unwritten)?;
        let path = folder.1.join(name);
        fs::write(&path, &source.text).map_err(unwritten)?;
        let uri = BenchmarkUri::of_file(&path.to_string_lossy(), &[]);
        let uri = uri.map_err(|error| Problem::wrong(format!("{error}")))?;
        // Messages name the file as the sender does.
        let told = |problem: Problem| {
            let here = format!("{}/", folder.1.display());
            let message = problem.message().replace(uri.as_str(), name).replace(&here, "");
            problem.saying(message)
        };
        let benchmark = self.load(uri.as_str()).map_err(told)?;
        let uri: BenchmarkUri =
            format!("{OWN}/{name}").parse().map_err(|error| Problem::wrong(format!("{error}")))?;
        Ok(Benchmark { uri, ..benchmark })
    }

    /// Returns the baselines of a program that are known.
    pub(super) fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        self.catalogue.baselines(benchmark)
    }

    /// Keeps the baselines that a start has measured.
    pub(super) fn keep_baselines(&self, benchmark: &Benchmark, baselines: &Baselines) {
        self.catalogue.keep_baselines(benchmark, baselines);
    }

    /// Lists the datasets, each with a few benchmarks. Nothing is fetched or made.
    pub(super) fn datasets(&self) -> Vec<ListedDataset> {
        let Catalogue::Datasets(datasets, _) = &self.catalogue else { return Vec::new() };
        let listed = datasets.about().filter(|about| about.name != "file" || self.reads_files);
        listed
            .map(|about| ListedDataset {
                name: about.name.to_owned(),
                uri: about.uri.to_owned(),
                description: about.description.to_owned(),
                examples: examples(datasets, about.uri, about.size, about.example),
            })
            .collect()
    }
}

/// Returns a few benchmarks of a dataset, of those that can be named without the network.
fn examples(datasets: &Datasets, uri: &str, size: Option<u64>, example: &str) -> Vec<String> {
    if uri.starts_with("generator://") {
        let count = size.unwrap_or(u64::MAX).min(EXAMPLES_MAX as u64);
        return (0..count).map(|seed| format!("{uri}/{seed}")).collect();
    }
    let own = [OWN_PROGRAMS, "benchmark://loops-v0"].contains(&uri);
    if own && let Ok(all) = datasets.expand(uri) {
        return all.iter().take(EXAMPLES_MAX).map(|uri| uri.as_str().to_owned()).collect();
    }
    let is_one = !example.contains(['*', '?']) && !example.contains("..");
    let is_one = is_one && example.len() > uri.len() + 1 && !uri.starts_with("file:");
    is_one.then(|| example.to_owned()).into_iter().collect()
}

/// The programs that are part of this program.
const OWN_PROGRAMS: &str = "benchmark://steplake-v0";

/// Returns a name of a file that is nothing but a name.
fn file_name(name: &str) -> Result<&str, Problem> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    let path = Path::new(name);
    let is_name =
        path.file_name().is_some_and(|file| file == name) && !name.starts_with(['.', '-']);
    if is_name && name.chars().all(is_plain) && name.len() <= 100 {
        return Ok(name);
    }
    Err(Problem::wrong(format!(
        "`{name}` is not the name of a source: write letters, digits, `.`, `-` and `_`, as in program.c or program.ll"
    )))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_server_for_other_machines_reads_no_files() {
        let source = ProgramSource::new(Catalogue::Recorded(BTreeSet::new()), false);
        for named in ["file:///etc/passwd", "file:/etc/passwd", "/etc/passwd", "a.c"] {
            let Err(problem) = source.named(named) else { panic!("{named} is read") };
            assert!(problem.message().contains("reads no files"), "{}", problem.message());
        }
        assert!(source.named("benchmark://a-v0/b").is_ok());
    }

    #[test]
    fn a_name_is_no_path() {
        for name in ["a.c", "long-name_1.ll", "a++.cpp"] {
            assert_eq!(file_name(name), Ok(name));
        }
        for name in
            ["", ".", "..", "../a.c", "/etc/passwd", "a/b.c", ".a.c", "-o.c", "a b.c", "ä.c"]
        {
            assert!(file_name(name).is_err(), "{name}");
        }
    }
}
