//! The datasets of CompilerGym that lie on the web as archives, under their old URIs.
//!
//! `data/published/datasets.json` says where each archive and the list of its programs lie, with
//! their SHA-256: nothing else is accepted. A program is downloaded with the others of its archive
//! at its first use. Bitcode is taken as it is; sources are compiled by clang 22, so their bitcode
//! is not that of clang 10. Their build and run commands are not part of these datasets here.

mod fetch;
#[cfg(test)]
mod tests;
mod unpack;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

use self::fetch::{Remote, fetched};
use self::unpack::{Unpacked, unpacked};
use super::clang::{self, Compiled, Language, Source};
use super::command::{Run, Tool};
use super::file;
use super::nearest::did_you_mean;
use super::pattern::{NAMED_MAX, is_glob, matcher};
use super::stored::{Stored, cached};
use super::{About, Cache, Dataset, DatasetError};
use crate::model::{Benchmark, BenchmarkUri, Provenance};

const BZIP2: Tool = Tool { name: "bzip2", package: "bzip2" };

/// What is put before a solution: its author's judge included the standard library, and knew these
/// names.
const SOLUTION_HEAD: &str = "#include <bits/stdc++.h>\nusing namespace std;\n\
                             #define LEN 128\n#define MAX_LENGTH 1024\n#define MAX 1024\n";

/// A dataset as it was published.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    name: &'static str,
    uri: &'static str,
    example: &'static str,
    description: &'static str,
    /// The licence that CompilerGym states for the dataset as a whole.
    licence: &'static str,
    /// The number of programs; unknown for a few that others succeeded.
    size: Option<u64>,
    archive: Remote,
    /// The compressed list of the programs' names, one a line.
    manifest: Option<Remote>,
    /// The folder of the programs in the archive.
    folder: String,
    /// What follows a program's name in that of its file.
    suffix: String,
    kind: Kind,
    #[serde(default)]
    families: Families,
    /// The collection of the works; the dataset's name without its version unless it is another.
    collection: Option<String>,
    /// The families of works that are elsewhere, or more than once here, by the works' names.
    #[serde(default)]
    kin: BTreeMap<String, String>,
    /// The files of the programs, where no rule says them and there is no manifest.
    #[serde(default)]
    programs: BTreeMap<String, String>,
    /// The dataset that replaces this one.
    successor: Option<String>,
}

/// What the files of a dataset are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Bitcode,
    C,
    /// C++ that a judge prepared before it compiled it.
    Solution,
    Opencl,
}

/// What the programs of one family are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Families {
    /// Nobody knows which programs of the dataset are related: all are.
    #[default]
    Dataset,
    /// Those of one work, whose name is the program's up to the first hyphen.
    Programs,
}

impl Kind {
    /// The flags with which its sources are compiled, after those that all sources have.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Bitcode => &[],
            Self::C => &["-ferror-limit=1"],
            Self::Solution => &["-std=c++11"],
            Self::Opencl => &["-cl-std=CL1.2", "-Xclang", "-finclude-default-header"],
        }
    }
}

/// A dataset.
#[derive(Debug)]
pub(super) struct Published {
    cache: Cache,
    mirrors: Vec<String>,
    definition: &'static Definition,
    about: &'static About,
    unpacked: Mutex<Option<Arc<Unpacked>>>,
    names: OnceLock<Vec<String>>,
}

fn definitions() -> &'static [(Definition, About)] {
    static DEFINITIONS: OnceLock<Vec<(Definition, About)>> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let text = include_str!("../../../data/published/datasets.json");
        parsed(text).unwrap_or_else(|error| panic!("data/published/datasets.json: {error}"))
    })
}

fn parsed(text: &'static str) -> Result<Vec<(Definition, About)>, serde_json::Error> {
    let all: Vec<Definition> = serde_json::from_str(text)?;
    let with_about = |definition: Definition| {
        let Definition { name, uri, description, licence, size, example, .. } = definition;
        (definition, About { name, uri, description, licence, size, example })
    };
    Ok(all.into_iter().map(with_about).collect())
}

impl Published {
    /// Returns every dataset. Files are looked for at the mirrors first, in their order.
    pub(super) fn all(cache: &Cache, mirrors: &[String]) -> Vec<Self> {
        definitions().iter().map(|both| Self::new(cache, mirrors, both)).collect()
    }

    fn new(
        cache: &Cache,
        mirrors: &[String],
        (definition, about): &'static (Definition, About),
    ) -> Self {
        let (unpacked, names) = (Mutex::default(), OnceLock::new());
        Self { cache: cache.clone(), mirrors: mirrors.to_vec(), definition, about, unpacked, names }
    }

    /// Returns the names of all programs, in the manifest's order.
    fn names(&self) -> Result<&[String], DatasetError> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let Definition { uri, manifest, programs, .. } = self.definition;
        let names = match manifest {
            None => programs.keys().cloned().collect(),
            Some(remote) => cached(&self.cache, "manifests", &[&remote.sha256], || {
                let what = format!("the list of {uri}");
                let path = fetched(&self.cache, &self.mirrors, remote, &what)?;
                let run = Run::new(BZIP2, &what).arg("--decompress").arg("--stdout");
                let text = run.arg("--").arg(&path).reads(&path).output()?;
                let text = String::from_utf8_lossy(&text);
                let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
                Ok(names.map(str::to_owned).collect::<Vec<String>>())
            })?,
        };
        Ok(self.names.get_or_init(|| names))
    }

    /// Returns the unpacked archive, downloaded and unpacked if need be.
    fn contents(&self, again: bool) -> Result<Arc<Unpacked>, DatasetError> {
        let mut known = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unpacked) = known.as_ref().filter(|_| !again) {
            return Ok(Arc::clone(unpacked));
        }
        let Definition { uri, archive, .. } = self.definition;
        let unpacked = unpacked(&self.cache, &archive.sha256, uri, again, || {
            fetched(&self.cache, &self.mirrors, archive, uri)
        })?;
        Ok(Arc::clone(known.insert(Arc::new(unpacked))))
    }

    /// Returns the unpacked archive, and the path and the content of a program's file in it. A
    /// damaged file is unpacked again.
    fn file(&self, uri: &BenchmarkUri) -> Result<(Arc<Unpacked>, String, Vec<u8>), DatasetError> {
        let Definition { folder, suffix, programs, .. } = self.definition;
        let name = programs.get(uri.path()).map_or(uri.path(), String::as_str);
        let path = format!("{folder}/{name}{suffix}");
        for again in [false, true] {
            let contents = self.contents(again)?;
            if !contents.index.contains_key(&path) {
                return Err(self.unknown(uri));
            }
            if let Some(content) = contents.read(&path) {
                return Ok((contents, path, content));
            }
            tracing::warn!("{uri} is damaged in the cache: its archive is unpacked again");
        }
        Err(self.changing())
    }

    fn unknown(&self, uri: &BenchmarkUri) -> DatasetError {
        let dataset = self.definition.uri;
        let names = self.names().unwrap_or_default().iter().map(String::as_str);
        let near = did_you_mean(uri.path(), names.take(10_000));
        let hint = format!("`steplake datasets benchmarks {dataset}` lists what there is{near}");
        DatasetError::unknown(uri, hint)
    }

    fn make(&self, uri: &BenchmarkUri) -> Result<Stored, DatasetError> {
        let (contents, file, content) = self.file(uri)?;
        let Definition { licence, archive, kind, .. } = self.definition;
        let (program, compile_command) = match kind {
            Kind::Bitcode => file::bitcode(uri, &contents.root.join(&file), content)?,
            Kind::C | Kind::Opencl => self.compiled_in_place(uri, &file)?,
            Kind::Solution => {
                let scratch = self.cache.scratch()?;
                let path = scratch.path().join("solution.cc");
                let text = prepared(&String::from_utf8_lossy(&content));
                fs::write(&path, text).map_err(DatasetError::cache(&path))?;
                let compiled = self.compiled(uri, scratch.path(), "solution.cc")?;
                (compiled.program, compiled.command)
            }
        };
        let address = archive.urls.first().map_or("", String::as_str);
        let origin = format!("{address}, sha256 {}, {file}", archive.sha256);
        let licence = (*licence).to_owned();
        let family = self.definition.family(uri.path());
        let provenance = Provenance { family, licence, origin, compile_command };
        Ok(Stored { provenance, program })
    }

    fn compiled(
        &self,
        uri: &BenchmarkUri,
        folder: &Path,
        file: &str,
    ) -> Result<Compiled, DatasetError> {
        let kind = self.definition.kind;
        let language = if kind == Kind::Solution { Language::Cxx } else { Language::C };
        let (uri, flags) = (uri.as_str(), kind.flags());
        clang::compile(&Source { uri, language, folder, file, flags, beside: &[] })
    }

    /// Compiles a file where it lies in the unpacked archive. If a file that it includes is not the
    /// archive's, all is unpacked again.
    fn compiled_in_place(
        &self,
        uri: &BenchmarkUri,
        file: &str,
    ) -> Result<(Vec<u8>, String), DatasetError> {
        for again in [false, true] {
            let contents = self.contents(again)?;
            let compiled = self.compiled(uri, &contents.root, file)?;
            let is_intact =
                |file: &PathBuf| file.to_str().is_some_and(|file| contents.read(file).is_some());
            let Some(bad) = compiled.files.iter().find(|file| !is_intact(file)) else {
                return Ok((compiled.program, compiled.command));
            };
            tracing::warn!("{} of {uri} is damaged: its archive is unpacked again", bad.display());
        }
        Err(self.changing())
    }

    fn changing(&self) -> DatasetError {
        let path = self.cache.root.join("unpacked");
        DatasetError::cache(&path)(io::Error::other("a file changes while it is read"))
    }
}

impl Definition {
    /// Returns the family of a program: what is split between training and test together.
    fn family(&self, program: &str) -> String {
        let Self { name, families, collection, kin, .. } = self;
        let base = name.rsplit_once("-v").map_or(*name, |(base, _version)| base).to_lowercase();
        let base = collection.clone().unwrap_or(base);
        let work = program.split('-').next().unwrap_or(program);
        match families {
            Families::Dataset => base,
            Families::Programs => {
                kin.get(work).cloned().unwrap_or_else(|| format!("{base}/{work}"))
            }
        }
    }
}

/// Prepares a solution as the judge did: `main` returns an integer, and the library is there.
fn prepared(text: &str) -> String {
    let text = text.replace("void main", "int main").replace("\nmain", "\nint main");
    let kind = if text.starts_with("main") { "int " } else { "" };
    format!("{SOLUTION_HEAD}{kind}{text}")
}

impl Dataset for Published {
    fn about(&self) -> &'static About {
        self.about
    }

    fn successor(&self) -> Option<&str> {
        self.definition.successor.as_deref()
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
        let programs = &self.definition.programs;
        let is_known = programs.is_empty() || programs.contains_key(uri.path());
        if uri.path().split('/').all(is_plain) && is_known {
            return Ok(uri.clone());
        }
        Err(self.unknown(uri))
    }

    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        let dataset = self.definition.uri;
        let pattern = format!("{dataset}/{path}");
        let names = self.names()?;
        if names.iter().any(|name| name == path) {
            return Ok(vec![pattern.parse()?]);
        }
        let glob = match path.trim_end_matches('/') {
            "" => "**".to_owned(),
            glob if is_glob(glob) => glob.to_owned(),
            folder => format!("{folder}/**"),
        };
        let wanted = matcher(&pattern, &glob)?;
        let named: Vec<&String> = names.iter().filter(|name| wanted.is_match(name)).collect();
        let count = u64::try_from(named.len()).unwrap_or(u64::MAX);
        if count > NAMED_MAX {
            return Err(DatasetError::TooMany { pattern, count, most: NAMED_MAX });
        }
        if named.is_empty() && !is_glob(path) {
            return Err(self.unknown(&pattern.parse()?));
        }
        let uris = named.iter().map(|name| format!("{dataset}/{name}").parse());
        Ok(uris.collect::<Result<_, _>>()?)
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        let uri = self.resolve(uri)?;
        let definition = serde_json::to_string(self.definition).unwrap_or_default();
        let flags = self.definition.kind.flags().join(" ");
        let key = [uri.as_str(), &definition, clang::version()?, clang::FLAGS, &flags];
        let key = [&key[..], &[SOLUTION_HEAD]].concat();
        let stored = Stored::cached(&self.cache, &key, || self.make(&uri))?;
        Ok(stored.into_benchmark(uri, None))
    }
}
