//! The dataset `steplake-v0`: programs that are part of the binary.

use std::fs;

use super::{Dataset, DatasetDescription, DatasetError, FrontEnd, ProgramCache};
use crate::datasets::cache::stored::StoredProgram;
use crate::datasets::naming::pattern::{is_glob, matcher};
use crate::datasets::tools::clang::{self, Language, SourceFile};
use steplake_model::suggestions::did_you_mean;
use steplake_model::{Benchmark, BenchmarkUri, Execution, Linker, Provenance};

const URI: &str = "benchmark://steplake-v0";

/// Defines every program: its name, and the text of its file in `data/programs`. The texts are part
/// of the binary, so that the dataset is available wherever the binary runs.
macro_rules! programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[(&str, &str)] = &[$((
            stringify!($name),
            include_str!(concat!("../../../../data/programs/", stringify!($name), ".c")),
        )),*];

        /// The programs as bitcode, if they were compiled together with this library: the Python
        /// package runs where there is no clang.
        #[cfg(feature = "embedded-programs")]
        const EMBEDDED: &[(&str, &[u8])] = &[$((
            stringify!($name),
            include_bytes!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".bc")),
        )),*];
        #[cfg(not(feature = "embedded-programs"))]
        const EMBEDDED: &[(&str, &[u8])] = &[];
    };
}

// Ordered by name; a test compares the list with the folder.
programs! {
    big_integers bit_tricks block_sorter blocked_matmul edit_distance escape_time
    expression_machine fourier heat_stencil huffman introsort json_reader keyed_hash
    list_merge_sort lu_solver monte_carlo orbits pattern_matcher request_machine
    robin_hood_table shortest_paths spanning_forest text_search utf8_codec window_compressor
}

/// The names of the project's own programs, which print a known output and need no input.
pub fn own_programs() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|(name, _)| *name)
}

/// `benchmark://steplake-v0/<name>`: small programs of the project's own.
#[derive(Debug)]
pub(super) struct ProjectPrograms(pub(super) ProgramCache, pub(super) FrontEnd);

static ABOUT: DatasetDescription = DatasetDescription {
    name: "steplake-v0",
    uri: URI,
    description: "Small C programs of many kinds, each runnable with a known output",
    licence: "MIT",
    size: Some(PROGRAMS.len() as u64),
    example: "benchmark://steplake-v0/huffman",
};

fn find(uri: &BenchmarkUri) -> Result<(&'static str, &'static str), DatasetError> {
    let names = || PROGRAMS.iter().map(|(name, _)| *name);
    PROGRAMS.iter().find(|(name, _)| *name == uri.path()).copied().ok_or_else(|| {
        let hint = format!(
            "the dataset has {} programs{}",
            PROGRAMS.len(),
            did_you_mean(uri.path(), names()),
        );
        DatasetError::unknown(uri, hint).listed_by(URI)
    })
}

fn provenance(name: &str, compile_command: String) -> Provenance {
    Provenance {
        family: format!("steplake/{name}"),
        licence: "MIT".to_owned(),
        origin: format!("steplake data/programs/{name}.c"),
        compile_command,
    }
}

/// How every program is linked and run.
fn execution() -> Execution {
    Execution::linked(Linker::C, &["-lm"])
}

impl Dataset for ProjectPrograms {
    fn about(&self) -> &'static DatasetDescription {
        &ABOUT
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        find(uri).map(|_| uri.clone())
    }

    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        let pattern = format!("{URI}/{path}");
        if !path.is_empty() && !is_glob(path) {
            return Ok(vec![self.resolve(&pattern.parse()?)?]);
        }
        let wanted = matcher(&pattern, if path.is_empty() { "*" } else { path })?;
        let names = PROGRAMS.iter().map(|(name, _)| name).filter(|name| wanted.is_match(name));
        Ok(names.map(|name| format!("{URI}/{name}").parse()).collect::<Result<_, _>>()?)
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        let (name, text) = find(uri)?;
        let Self(cache, front_end) = self;
        let execution = Some(execution());
        if matches!(front_end, FrontEnd::Clang)
            && let Some((_, bitcode)) = EMBEDDED.iter().find(|(known, _)| *known == name)
        {
            let provenance = provenance(name, clang::command(&format!("{name}.c")));
            let stored = StoredProgram { provenance, program: bitcode.to_vec() };
            return Ok(stored.into_benchmark(uri.clone(), execution));
        }
        let key = [URI, name, text, front_end.version()?, front_end.flags()];
        let stored = StoredProgram::cached(cache, &key, || {
            let scratch = cache.scratch()?;
            let file = format!("{name}.c");
            let path = scratch.path().join(&file);
            fs::write(&path, text).map_err(DatasetError::cache(&path))?;
            let (uri, folder) = (uri.as_str(), scratch.path());
            let language = Language::C;
            let source = SourceFile { uri, language, folder, file: &file, flags: &[], beside: &[] };
            let compiled = front_end.compile(&source)?;
            let provenance = provenance(name, compiled.command);
            Ok(StoredProgram { provenance, program: compiled.program })
        })?;
        Ok(stored.into_benchmark(uri.clone(), execution))
    }

    fn is_runnable(&self) -> bool {
        true
    }

    fn source(&self, uri: &BenchmarkUri) -> Option<String> {
        find(uri).ok().map(|(_, text)| text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_the_folder() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/programs");
        let mut sources = Vec::new();
        let mut outputs = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            match file.split_once('.').unwrap() {
                (name, "c") => sources.push(name.to_owned()),
                (name, "expected") => outputs.push(name.to_owned()),
                _ => panic!("{file} is neither a program nor its output"),
            }
        }
        sources.sort();
        outputs.sort();
        let listed: Vec<&str> = PROGRAMS.iter().map(|(name, _)| *name).collect();
        assert_eq!(listed, sources);
        assert_eq!(listed, outputs);
    }

    #[test]
    fn every_program_says_its_licence_and_what_it_is() {
        for (name, text) in PROGRAMS {
            assert!(text.starts_with("// SPDX-License-Identifier: MIT\n// "), "{name}");
        }
    }
}
