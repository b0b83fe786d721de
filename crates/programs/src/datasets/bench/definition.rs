//! What `data/bench/programs.json` says, and what is made of it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::datasets::cache::stored::StoredProgram;
use steplake_model::{Build, EXECUTABLE, Execution, Input, Linker, ShellCommand};

/// The files in `data/bench`: parts of programs, and inputs.
pub(super) const OWN: [(&str, &str); 6] = [
    ("adpcm.c", include_str!("../../../../../data/bench/adpcm.c")),
    ("aes.c", include_str!("../../../../../data/bench/aes.c")),
    ("blowfish.c", include_str!("../../../../../data/bench/blowfish.c")),
    ("interpreter.lua", include_str!("../../../../../data/bench/interpreter.lua")),
    ("qsort.c", include_str!("../../../../../data/bench/qsort.c")),
    ("sha.c", include_str!("../../../../../data/bench/sha.c")),
];

/// The definition of the dataset.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BenchDefinition {
    pub(super) packages: BTreeMap<String, BenchPackage>,
    pub(super) programs: BTreeMap<String, BenchProgram>,
}

/// The archive of a package, and what `configure` would have made of it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BenchPackage {
    /// The version without Debian's revision.
    pub(super) version: String,
    /// The name and the digest of the archive in Debian's index.
    pub(super) archive: String,
    pub(super) sha256: String,
    /// Files to write into the unpacked archive, as lines.
    #[serde(default)]
    pub(super) added: BTreeMap<String, Vec<String>>,
    /// Files to copy in the unpacked archive: from the second name to the first.
    #[serde(default)]
    pub(super) copied: BTreeMap<String, String>,
}

/// A program of a package.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BenchProgram {
    pub(super) package: String,
    /// What the program does, in one line.
    pub(super) about: String,
    /// An SPDX expression for the files that are compiled, and the inputs.
    pub(super) licence: String,
    /// Globs of the files to compile; one that begins with `!` takes files away again.
    pub(super) sources: Vec<String>,
    /// A file in `data/bench` to compile as well: the `main` of a package that is a library.
    pub(super) driver: Option<String>,
    #[serde(default)]
    pub(super) flags: Vec<String>,
    /// The linker's arguments after the object.
    #[serde(default)]
    pub(super) libraries: Vec<String>,
    /// The inputs, by the names under which the program finds them in its folder:
    /// `package <path>`, `own <file in data/bench>` or `made <specification>`.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// The command that runs the program, in a shell.
    pub(super) run: String,
    /// The files that a run makes, beside what it prints.
    #[serde(default)]
    pub(super) outputs: Vec<String>,
}

/// A program in the cache with its inputs, by name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredBenchProgram {
    pub(super) stored: StoredProgram,
    pub(super) is_cxx: bool,
    pub(super) inputs: Vec<(String, Vec<u8>)>,
}

pub(super) fn definition() -> &'static BenchDefinition {
    static DEFINITION: OnceLock<BenchDefinition> = OnceLock::new();
    DEFINITION.get_or_init(|| {
        let text = include_str!("../../../../../data/bench/programs.json");
        serde_json::from_str(text)
            .unwrap_or_else(|error| panic!("data/bench/programs.json: {error}"))
    })
}

/// Returns a file in `data/bench`.
pub(super) fn own(name: &str) -> &'static str {
    let found = OWN.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("data/bench/{name} is not part of the library")).1
}

impl BenchProgram {
    /// Returns how the program is linked and run. Who runs it puts its inputs where it finds them.
    pub(super) fn execution(&self, made: &StoredBenchProgram) -> Execution {
        let linker = if made.is_cxx { Linker::Cxx } else { Linker::C };
        let inputs = made.inputs.iter().map(|(name, content)| Input {
            name: name.clone(),
            blake3: blake3::hash(content).to_hex().to_string(),
        });
        let inputs: Vec<Input> = inputs.collect();
        let names = inputs.iter().map(|input| input.name.clone());
        let run = ShellCommand {
            arguments: vec![self.run.clone()],
            infiles: [EXECUTABLE.to_owned()].into_iter().chain(names).collect(),
            outfiles: self.outputs.clone(),
            ..ShellCommand::default()
        };
        Execution {
            build: Build::Link { linker, arguments: self.libraries.clone() },
            run: Some(run),
            before_runs: Vec::new(),
            after_runs: Vec::new(),
            inputs,
        }
    }
}
