//! Sources of programs.
//!
//! | URI | what it names | how it is made |
//! |---|---|---|
//! | `benchmark://steplake-v0/<name>` | small programs of the project's own | part of the binary, compiled |
//! | `benchmark://steplake-bench-v0/<name>` | a program of a Debian package that runs | fetched, compiled, linked |
//! | `benchmark://debian-v0/<package>@<version>/<file>` | a C or C++ file of a Debian source package | fetched by apt, compiled |
//! | `generator://csmith-v0/<seed>` | a random C program | csmith, compiled |
//! | `generator://llvm-stress-v0/<seed>` | random LLVM IR | llvm-stress |
//! | `benchmark://blas-v0/<name>` and others | CompilerGym's programs | downloaded, some compiled |
//! | `file:///<path>` | your own `.c .cc .cpp .cxx .ll .bc` | compiled or checked where it lies |
//! | `file:///<path>?flags=<flags>` | your own source with flags of its own | compiled with them |
//!
//! # Patterns
//!
//! [`Datasets::expand`] takes a pattern that names several URIs at a time:
//! `generator://csmith-v0/0..99` (both ends included), `benchmark://debian-v0/zlib/*` (`*` and `?`
//! stay within one folder, `**` crosses folders), a folder, a package, or a whole dataset if it is
//! finite. It returns canonical URIs. The plain path of a file or folder, or a glob over files, is
//! a pattern too.
//!
//! # Contract
//!
//! - A canonical URI names one program: the same bytes every time, on every machine with the same
//!   compiler, generator and headers of the C and C++ libraries. The bytes contain no path, host
//!   name or date of this machine, except what a user's own file says about itself.
//! - [`Datasets::resolve`] of a canonical URI returns that URI.
//! - Whatever can be made again, programs and their baselines ([`KnownBaselines`]), is kept in the
//!   [`ProgramCache`], which processes share.
//! - Every foreign program runs with limits on time, memory, files and output, in an environment
//!   that we define, and confined: it can open the system's files and those that it is given, and
//!   no socket. Only apt and curl may use the network.
//! - A program is made of its own sources and of the headers of the compiler and the system; a
//!   program that takes in any other file is refused ([`DatasetError::Refused`]). For a file, its
//!   own sources are the files in its folder and below, and in the folders that its flags name,
//!   except hidden ones; for a package, the unpacked package.

mod aimed;
mod bench;
mod cache;
mod collection;
mod debian;
mod error;
mod file;
mod generator;
mod given;
mod naming;
mod programs;
mod published;
mod seeds;
mod tools;

use std::fmt;

use steplake_model::{Benchmark, BenchmarkUri};

pub use aimed::{Aim, ByClang, compiled_at, compiled_for};
pub use cache::baselines::KnownBaselines;
pub use cache::program_cache::ProgramCache;
pub use collection::no_source;
pub use collection::{DatasetFolders, Datasets};
pub use error::DatasetError;
pub use given::GivenPrograms;
pub use naming::among::among;
pub use naming::named::{as_pattern, names_files};
pub use programs::own_programs;
pub use seeds::Seeds;
pub use tools::assembler_text::reading_directive_in_assembly;
pub use tools::front_end::FrontEnd;
pub use tools::llvm_tools::{demand_llvm_tools, llvm_commands, text_size};
pub use tools::preprocessor::Preprocessor;

/// The folder in the cache that holds the [inputs](steplake_model::Input) of programs, each in a
/// file that is named by its digest.
pub const INPUTS: &str = "bench-inputs";

/// A dataset's description of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetDescription {
    /// The name with its version, e.g. `csmith-v0`.
    pub name: &'static str,
    /// The beginning of its URIs, e.g. `generator://csmith-v0`.
    pub uri: &'static str,
    /// One line about its contents.
    pub description: &'static str,
    /// The licence of its programs as an SPDX expression; empty where each has its own.
    pub licence: &'static str,
    /// The number of programs; `None` if the dataset is infinite.
    pub size: Option<u64>,
    /// A pattern to start with.
    pub example: &'static str,
}

impl DatasetDescription {
    /// Returns the error for a pattern that names all of an infinite dataset.
    fn unbounded(&self) -> DatasetError {
        let (dataset, example) = (self.uri.to_owned(), self.example.to_owned());
        DatasetError::Unbounded { dataset, example }
    }
}

/// A program that a dataset contains but cannot provide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The program's URI.
    pub uri: BenchmarkUri,
    /// The reason, in one line.
    pub reason: String,
}

/// A named, versioned set of benchmarks. See the [module's contract](self).
pub trait Dataset: Send + Sync + fmt::Debug {
    /// Returns the description of the dataset.
    fn about(&self) -> &'static DatasetDescription;

    /// Returns the canonical form of a URI of this dataset. May read package indexes, but makes no
    /// program.
    ///
    /// # Errors
    ///
    /// [`DatasetError::UnknownBenchmark`] if it is clear that no such benchmark exists, otherwise
    /// whatever prevents the lookup.
    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError>;

    /// Returns the canonical URIs that `path` names, in order; an empty path names everything.
    ///
    /// # Errors
    ///
    /// [`DatasetError::Unbounded`] if the list would be infinite, [`DatasetError::BadPattern`], and
    /// whatever prevents the listing. A pattern that names nothing may return an empty list.
    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError>;

    /// Makes the program or takes it from the cache.
    ///
    /// # Errors
    ///
    /// Whatever prevents that.
    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError>;

    /// Returns the name of the dataset that replaces this one, if it is deprecated.
    fn successor(&self) -> Option<&str> {
        None
    }

    /// Returns whether it says how its programs are built and run.
    fn is_runnable(&self) -> bool {
        false
    }

    /// Returns the source of a benchmark, if it is one C file that needs no other but the system's
    /// headers, and at hand.
    fn source(&self, uri: &BenchmarkUri) -> Option<String> {
        let _ = uri;
        None
    }

    /// Returns the canonical URI of a benchmark that is compiled with these flags besides its own;
    /// none if it is no source that takes flags. Folders in flags begin in the current folder, or
    /// in that of the source.
    ///
    /// # Errors
    ///
    /// Those of [`Dataset::resolve`], and [`DatasetError::BadFlag`].
    fn with_flags(
        &self,
        uri: &BenchmarkUri,
        words: &[String],
    ) -> Result<Option<BenchmarkUri>, DatasetError> {
        let _ = (uri, words);
        Ok(None)
    }

    /// Returns what lies under `path` but is no benchmark, with the reasons.
    ///
    /// # Errors
    ///
    /// Those of [`Dataset::expand`].
    fn unavailable(&self, path: &str) -> Result<Vec<Unavailable>, DatasetError> {
        let _ = path;
        Ok(Vec::new())
    }
}
