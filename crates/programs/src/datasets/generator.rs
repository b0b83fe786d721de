//! Programs from random generators, one per seed.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use super::seeds;
use super::{Dataset, DatasetDescription, DatasetError, FrontEnd, ProgramCache};
use crate::datasets::cache::stored::StoredProgram;
use crate::datasets::tools::clang::{Language, SourceFile};
use crate::datasets::tools::command::{ForeignTool, ToolRun};
use steplake_model::{Benchmark, BenchmarkUri, Execution, Linker, Provenance};

const SEED_MAX: u32 = u32::MAX;

/// csmith does not terminate for a few seeds; these are not available.
const GENERATE_LIMIT: Duration = Duration::from_secs(30);

/// A dataset of one generator, and how to run the generator.
#[derive(Debug)]
pub(super) struct Recipe {
    about: DatasetDescription,
    tool: ForeignTool,
    /// The arguments before the seed.
    arguments: &'static str,
    /// Picks the line of the version's text that identifies the generator.
    version_line: fn(&str) -> Option<&str>,
    file: &'static str,
    language: Language,
    flags: &'static [&'static str],
    family: &'static str,
    /// The folder, the name and the package of a file required to compile.
    header: Option<[&'static str; 3]>,
    /// Whether a program has a `main`.
    is_runnable: bool,
}

/// csmith with its defaults: C programs without undefined behaviour that print a checksum.
pub(super) static CSMITH: Recipe = Recipe {
    about: DatasetDescription {
        name: "csmith-v0",
        uri: "generator://csmith-v0",
        description: "Random C programs without undefined behaviour, made by csmith",
        // The licence of the only part of a program that has an author: csmith's own headers.
        licence: "BSD-2-Clause",
        size: None,
        example: "generator://csmith-v0/0..99",
    },
    tool: ForeignTool { name: "csmith", package: "csmith libcsmith-dev" },
    arguments: "--concise --seed",
    version_line: |text| text.lines().next(),
    file: "csmith.c",
    language: Language::C,
    flags: &["-I/usr/include/csmith"],
    family: "csmith",
    header: Some(["/usr/include/csmith", "csmith.h", "libcsmith-dev"]),
    is_runnable: true,
};

/// llvm-stress with functions of about 300 instructions, including vector code.
pub(super) static LLVM_STRESS: Recipe = Recipe {
    about: DatasetDescription {
        name: "llvm-stress-v0",
        uri: "generator://llvm-stress-v0",
        description: "Random LLVM IR with vector code, made by llvm-stress",
        licence: "Apache-2.0 WITH LLVM-exception",
        size: None,
        example: "generator://llvm-stress-v0/0..99",
    },
    tool: ForeignTool { name: "llvm-stress-22", package: "llvm-22" },
    arguments: "--size=300 -o - --seed",
    version_line: |text| text.lines().map(str::trim).find(|line| line.contains("LLVM version")),
    file: "stress.ll",
    language: Language::Ir,
    flags: &[],
    family: "llvm-stress",
    header: None,
    is_runnable: false,
};

/// `generator://<name>/<seed>`: programs from a random generator.
#[derive(Debug)]
pub(super) struct Generator {
    cache: ProgramCache,
    front_end: FrontEnd,
    recipe: &'static Recipe,
    version: OnceLock<String>,
}

impl Generator {
    pub(super) fn new(cache: ProgramCache, front_end: FrontEnd, recipe: &'static Recipe) -> Self {
        Self { cache, front_end, recipe, version: OnceLock::new() }
    }

    fn version(&self) -> Result<&str, DatasetError> {
        if let Some(version) = self.version.get() {
            return Ok(version);
        }
        // csmith writes a file into its folder even for `--version`.
        let scratch = self.cache.scratch()?;
        let run = ToolRun::new(self.recipe.tool, "its version").folder(scratch.path());
        let output = run.writes(scratch.path()).arg("--version").output()?;
        let text = String::from_utf8_lossy(&output);
        let line = (self.recipe.version_line)(&text).unwrap_or_default().trim().to_owned();
        Ok(self.version.get_or_init(|| line))
    }

    fn make(&self, uri: &BenchmarkUri, seed: u32) -> Result<StoredProgram, DatasetError> {
        let recipe = self.recipe;
        if let Some([folder, header, package]) = recipe.header
            && !Path::new(folder).join(header).is_file()
        {
            return Err(DatasetError::ToolMissing { tool: header.to_owned(), package });
        }
        let scratch = self.cache.scratch()?;
        let run =
            ToolRun::new(recipe.tool, uri.as_str()).folder(scratch.path()).limit(GENERATE_LIMIT);
        let run = run.writes(scratch.path()).args(recipe.arguments.split(' '));
        let text = run.arg(seed.to_string()).output()?;
        // The generators do not write the file themselves: they ignore a full disk.
        let path = scratch.path().join(recipe.file);
        fs::write(&path, text).map_err(DatasetError::cache(&path))?;
        let compiled = self.front_end.compile(&SourceFile {
            uri: uri.as_str(),
            language: recipe.language,
            folder: scratch.path(),
            file: recipe.file,
            flags: recipe.flags,
            beside: &[],
        })?;
        let Recipe { tool, arguments, file, .. } = recipe;
        let generate = format!("{} {arguments} {seed} > {file}", tool.name);
        let provenance = Provenance {
            family: recipe.family.to_owned(),
            licence: recipe.about.licence.to_owned(),
            origin: format!("{}, seed {seed}", self.version()?),
            compile_command: format!("{generate} && {}", compiled.command),
        };
        Ok(StoredProgram { provenance, program: compiled.program })
    }
}

impl Dataset for Generator {
    fn about(&self) -> &'static DatasetDescription {
        &self.recipe.about
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        seeds::uri(self.about(), seeds::seed(self.about(), SEED_MAX, uri)?)
    }

    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        seeds::expand(self.about(), SEED_MAX, path)
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        let seed = seeds::seed(self.about(), SEED_MAX, uri)?;
        let uri = seeds::uri(self.about(), seed)?;
        let (front_end, flags) = (&self.front_end, self.recipe.flags.join(" "));
        let (compiler, common) = (front_end.version()?, front_end.flags());
        let arguments = self.recipe.arguments;
        let key = [uri.as_str(), self.version()?, arguments, compiler, common, &flags];
        let stored = StoredProgram::cached(&self.cache, &key, || self.make(&uri, seed))?;
        let linked = || Execution::linked(Linker::C, &[]);
        let execution = self.recipe.is_runnable.then(linked);
        Ok(stored.into_benchmark(uri, execution))
    }

    fn is_runnable(&self) -> bool {
        self.recipe.is_runnable
    }
}
