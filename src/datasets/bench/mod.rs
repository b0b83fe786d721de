//! `benchmark://steplake-bench-v0/<name>`: programs of Debian's packages that run, with inputs.
//!
//! A program is one module, linked from several files of a package. The file
//! `data/bench/programs.json` defines the programs: the archive as its authors published it, by
//! digest; the files and how they are compiled; the command that runs the program, and its inputs.
//! So a name means the same program whichever revision of the package Debian has. The inputs are
//! files of the package, files in `data/bench`, and files that [`inputs`] makes.

mod inputs;
mod module;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::debian::Apt;
use super::nearest::did_you_mean;
use super::pattern::{is_glob, matcher};
use super::stored::{Stored, cached};
use super::{About, Cache, Dataset, DatasetError};
use crate::model::{Benchmark, BenchmarkUri, Build, EXECUTABLE, Execution, Linker, ShellCommand};

const URI: &str = "benchmark://steplake-bench-v0";

/// The number of programs in the definition, which a test compares.
const SIZE: u64 = 23;

/// The files in `data/bench`: parts of programs, and inputs.
const OWN: [(&str, &str); 5] = [
    ("aes.c", include_str!("../../../data/bench/aes.c")),
    ("blowfish.c", include_str!("../../../data/bench/blowfish.c")),
    ("interpreter.lua", include_str!("../../../data/bench/interpreter.lua")),
    ("qsort.c", include_str!("../../../data/bench/qsort.c")),
    ("sha.c", include_str!("../../../data/bench/sha.c")),
];

static ABOUT: About = About {
    name: "steplake-bench-v0",
    uri: URI,
    description: "Programs of Debian packages that run, each linked to one module, with inputs",
    licence: "",
    size: Some(SIZE),
    example: "benchmark://steplake-bench-v0/bzip2",
};

/// The definition of the dataset.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    packages: BTreeMap<String, Package>,
    programs: BTreeMap<String, Program>,
}

/// The archive of a package, and what `configure` would have made of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    /// The version without Debian's revision.
    version: String,
    /// The name and the digest of the archive in Debian's index.
    archive: String,
    sha256: String,
    /// An SPDX expression.
    licence: String,
    /// Files to write into the unpacked archive, as lines.
    #[serde(default)]
    added: BTreeMap<String, Vec<String>>,
    /// Files to copy in the unpacked archive: from the second name to the first.
    #[serde(default)]
    copied: BTreeMap<String, String>,
}

/// A program of a package.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    package: String,
    /// What the program does, in one line.
    about: String,
    /// Globs of the files to compile; one that begins with `!` takes files away again.
    sources: Vec<String>,
    /// A file in `data/bench` to compile as well: the `main` of a package that is a library.
    driver: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    /// The linker's arguments after the object.
    #[serde(default)]
    libraries: Vec<String>,
    /// The inputs, by the names under which the program finds them in its folder:
    /// `package <path>`, `own <file in data/bench>` or `made <specification>`.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// The command that runs the program, in a shell.
    run: String,
    /// The files that a run makes, beside what it prints.
    #[serde(default)]
    outputs: Vec<String>,
}

/// A program in the cache with its inputs, by name.
#[derive(Debug, Serialize, Deserialize)]
struct Made {
    stored: Stored,
    is_cxx: bool,
    inputs: Vec<(String, Vec<u8>)>,
}

/// The dataset.
#[derive(Debug)]
pub(super) struct Bench {
    cache: Cache,
    apt: Apt,
    definition: &'static Definition,
}

fn definition() -> &'static Definition {
    static DEFINITION: OnceLock<Definition> = OnceLock::new();
    DEFINITION.get_or_init(|| {
        let text = include_str!("../../../data/bench/programs.json");
        serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("data/bench/programs.json: {error}"))
    })
}

/// Returns a file in `data/bench`.
fn own(name: &str) -> &'static str {
    let found = OWN.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("data/bench/{name} is not part of the library")).1
}

impl Program {
    /// Returns how the program is linked and run: its inputs in the folder `inputs` are copied to
    /// the scratch folder first, so that it finds them by their names alone.
    fn execution(&self, made: &Made, inputs: &Path) -> Execution {
        let linker = if made.is_cxx { Linker::Cxx } else { Linker::C };
        let names = || made.inputs.iter().map(|(name, _)| name.clone());
        let infiles: Vec<String> =
            names().map(|name| inputs.join(name).display().to_string()).collect();
        let quoted = infiles.iter().map(|path| format!("'{}'", path.replace('\'', "'\\''")));
        let copy = ShellCommand {
            arguments: ["cp".to_owned()]
                .into_iter()
                .chain(quoted)
                .chain([".".to_owned()])
                .collect(),
            infiles: infiles.clone(),
            outfiles: names().collect(),
            ..ShellCommand::default()
        };
        let run = ShellCommand {
            arguments: vec![self.run.clone()],
            infiles: [EXECUTABLE.to_owned()].into_iter().chain(names()).collect(),
            outfiles: self.outputs.clone(),
            ..ShellCommand::default()
        };
        Execution {
            build: Build::Link { linker, arguments: self.libraries.clone() },
            run: Some(run),
            before_runs: if infiles.is_empty() { Vec::new() } else { vec![copy] },
            after_runs: Vec::new(),
        }
    }
}

impl Bench {
    pub(super) fn new(cache: Cache, apt_sources: &Path) -> Self {
        let apt = Apt::new(cache.clone(), apt_sources);
        Self { cache, apt, definition: definition() }
    }

    fn find(
        &self,
        uri: &BenchmarkUri,
    ) -> Result<(&'static Package, &'static Program), DatasetError> {
        let Definition { packages, programs } = self.definition;
        let Some(program) = programs.get(uri.path()) else {
            let near = did_you_mean(uri.path(), programs.keys().map(String::as_str));
            let hint = format!(
                "the dataset has {} programs{near}, see `steplake datasets benchmarks {URI}`",
                programs.len()
            );
            return Err(DatasetError::unknown(uri, hint));
        };
        Ok((&packages[&program.package], program))
    }

    /// Makes a program with its inputs or takes it from the cache.
    fn made(&self, uri: &BenchmarkUri) -> Result<Made, DatasetError> {
        let (package, program) = self.find(uri)?;
        let text = serde_json::to_string(&(package, program)).unwrap_or_default();
        let driver = program.driver.as_deref().map_or("", own);
        let mut key = vec![uri.as_str(), &text, driver, super::clang::version()?];
        key.push(super::clang::FLAGS);
        for from in program.files.values() {
            key.extend(from.strip_prefix("own ").map(|name| -> &str { own(name) }));
        }
        cached(&self.cache, "bench", &key, || {
            module::make(&self.cache, &self.apt, uri, package, program)
        })
    }

    /// Returns the folder that holds a program's inputs; writes what is missing or damaged there.
    fn inputs(&self, made: &Made) -> Result<PathBuf, DatasetError> {
        let mut hasher = blake3::Hasher::new();
        for (name, content) in &made.inputs {
            hasher.update(name.as_bytes()).update(blake3::hash(content).as_bytes());
        }
        let name = format!("bench-inputs/{}", &hasher.finalize().to_hex()[..32]);
        let folder = self.cache.folder(&name)?;
        for (name, content) in &made.inputs {
            let path = folder.join(name);
            if fs::read(&path).is_ok_and(|there| there == *content) {
                continue;
            }
            let scratch = self.cache.scratch()?;
            let written = scratch.path().join("input");
            let put = fs::write(&written, content).and_then(|()| fs::rename(&written, &path));
            put.map_err(DatasetError::cache(&path))?;
        }
        Ok(folder)
    }
}

impl Dataset for Bench {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        self.find(uri).map(|_| uri.clone())
    }

    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        let pattern = format!("{URI}/{path}");
        if !path.is_empty() && !is_glob(path) {
            return Ok(vec![self.resolve(&pattern.parse()?)?]);
        }
        let wanted = matcher(&pattern, if path.is_empty() { "*" } else { path })?;
        let names = self.definition.programs.keys().filter(|name| wanted.is_match(name));
        Ok(names.map(|name| format!("{URI}/{name}").parse()).collect::<Result<_, _>>()?)
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        let made = self.made(uri)?;
        let inputs = self.inputs(&made)?;
        let (_, program) = self.find(uri)?;
        let execution = program.execution(&made, &inputs);
        Ok(made.stored.into_benchmark(uri.clone(), Some(execution)))
    }
}
