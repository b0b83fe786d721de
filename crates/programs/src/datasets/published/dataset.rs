//! The dataset: finds its programs in a downloaded archive, and compiles what is source.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::definition::{ContentKind, PublishedDefinition, definitions};
use super::fetch::fetched;
use super::unpack::{UnpackedArchive, unpacked};
use crate::datasets::cache::stored::{StoredProgram, cached};
use crate::datasets::file;
use crate::datasets::naming::pattern::{NAMED_MAX, is_glob, matcher};
use crate::datasets::tools::clang::{self, Compiled, Language, SourceFile};
use crate::datasets::tools::command::{ForeignTool, ToolRun};
use crate::datasets::{Dataset, DatasetDescription, DatasetError, ProgramCache};
use steplake_model::suggestions::did_you_mean;
use steplake_model::{Benchmark, BenchmarkUri, Provenance};

const BZIP2: ForeignTool = ForeignTool { name: "bzip2", package: "bzip2" };

/// What is put before a solution: its author's judge included the standard library, and knew these
/// names.
const SOLUTION_HEAD: &str = "#include <bits/stdc++.h>\nusing namespace std;\n\
                             #define LEN 128\n#define MAX_LENGTH 1024\n#define MAX 1024\n";

/// A dataset.
#[derive(Debug)]
pub(in crate::datasets) struct PublishedDataset {
    cache: ProgramCache,
    mirrors: Vec<String>,
    definition: &'static PublishedDefinition,
    about: &'static DatasetDescription,
    unpacked: Mutex<Option<Arc<UnpackedArchive>>>,
    names: OnceLock<Vec<String>>,
}

impl PublishedDataset {
    /// Returns every dataset. Files are looked for at the mirrors first, in their order.
    pub(in crate::datasets) fn all(cache: &ProgramCache, mirrors: &[String]) -> Vec<Self> {
        definitions().iter().map(|both| Self::new(cache, mirrors, both)).collect()
    }

    pub(super) fn new(
        cache: &ProgramCache,
        mirrors: &[String],
        (definition, about): &'static (PublishedDefinition, DatasetDescription),
    ) -> Self {
        let (unpacked, names) = (Mutex::default(), OnceLock::new());
        Self { cache: cache.clone(), mirrors: mirrors.to_vec(), definition, about, unpacked, names }
    }

    /// Returns the names of all programs, in the manifest's order.
    fn names(&self) -> Result<&[String], DatasetError> {
        if let Some(names) = self.names.get() {
            return Ok(names);
        }
        let PublishedDefinition { uri, manifest, programs, .. } = self.definition;
        let names = match manifest {
            None => programs.keys().cloned().collect(),
            Some(remote) => cached(&self.cache, "manifests", &[&remote.sha256], || {
                let what = format!("the list of {uri}");
                let path = fetched(&self.cache, &self.mirrors, remote, &what)?;
                let run = ToolRun::new(BZIP2, &what).arg("--decompress").arg("--stdout");
                let text = run.arg("--").arg(&path).reads(&path).output()?;
                let text = String::from_utf8_lossy(&text);
                let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
                Ok(names.map(str::to_owned).collect::<Vec<String>>())
            })?,
        };
        Ok(self.names.get_or_init(|| names))
    }

    /// Returns the unpacked archive, downloaded and unpacked if need be.
    fn contents(&self, again: bool) -> Result<Arc<UnpackedArchive>, DatasetError> {
        let mut known = self.unpacked.lock();
        if let Some(unpacked) = known.as_ref().filter(|_| !again) {
            return Ok(Arc::clone(unpacked));
        }
        let PublishedDefinition { uri, archive, .. } = self.definition;
        let unpacked = unpacked(&self.cache, &archive.sha256, uri, again, || {
            fetched(&self.cache, &self.mirrors, archive, uri)
        })?;
        Ok(Arc::clone(known.insert(Arc::new(unpacked))))
    }

    /// Returns the unpacked archive, and the path and the content of a program's file in it. A
    /// damaged file is unpacked again.
    pub(super) fn file(
        &self,
        uri: &BenchmarkUri,
    ) -> Result<(Arc<UnpackedArchive>, String, Vec<u8>), DatasetError> {
        let PublishedDefinition { folder, suffix, programs, .. } = self.definition;
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
        DatasetError::unknown(uri, format!("the dataset has none of that name{near}"))
            .listed_by(dataset)
    }

    fn make(&self, uri: &BenchmarkUri) -> Result<StoredProgram, DatasetError> {
        let (contents, file, content) = self.file(uri)?;
        let PublishedDefinition { licence, archive, kind, .. } = self.definition;
        let (program, compile_command) = match kind {
            ContentKind::Bitcode => file::bitcode(uri, &contents.root.join(&file), content)?,
            ContentKind::C | ContentKind::Opencl => self.compiled_in_place(uri, &file)?,
            ContentKind::Solution => {
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
        Ok(StoredProgram { provenance, program })
    }

    fn compiled(
        &self,
        uri: &BenchmarkUri,
        folder: &Path,
        file: &str,
    ) -> Result<Compiled, DatasetError> {
        let kind = self.definition.kind;
        let language = if kind == ContentKind::Solution { Language::Cxx } else { Language::C };
        let (uri, flags) = (uri.as_str(), kind.flags());
        clang::compile(&SourceFile { uri, language, folder, file, flags, beside: &[] })
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

/// Prepares a solution as the judge did: `main` returns an integer, and the library is there.
fn prepared(text: &str) -> String {
    let text = text.replace("void main", "int main").replace("\nmain", "\nint main");
    let kind = if text.starts_with("main") { "int " } else { "" };
    format!("{SOLUTION_HEAD}{kind}{text}")
}

impl Dataset for PublishedDataset {
    fn about(&self) -> &'static DatasetDescription {
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
        let stored = StoredProgram::cached(&self.cache, &key, || self.make(&uri))?;
        Ok(stored.into_benchmark(uri, None))
    }
}
