//! Where programs come from.
//!
//! | URI | what it names | how it is made |
//! |---|---|---|
//! | `benchmark://steplake-v0/<name>` | small programs of the project's own | part of the binary, compiled |
//! | `benchmark://debian-v0/<package>@<version>/<file>` | a C file of a Debian source package | fetched by apt, compiled |
//! | `generator://csmith-v0/<seed>` | a random C program | csmith, compiled |
//! | `generator://llvm-stress-v0/<seed>` | random LLVM IR | llvm-stress |
//! | `file:///<path>` | your own `.c .cc .cpp .cxx .ll .bc` | compiled or checked where it lies |
//!
//! # Patterns
//!
//! [`Datasets::expand`] takes more than one URI at a time: `generator://csmith-v0/0..99` (both ends
//! included), `benchmark://debian-v0/zlib/*` (`*` and `?` stay within one folder, `**` goes through
//! all below), a folder, a package, or a whole dataset where it has an end. It gives canonical
//! URIs.
//!
//! # Contract
//!
//! - A canonical URI names one program: the same bytes every time, on every machine with the same
//!   compiler, generator and C library headers. No path, host name or date of this machine is in
//!   the bytes, except in what a user's own file says about itself.
//! - [`Datasets::resolve`] of a canonical URI is that URI.
//! - What can be made again, programs and their baselines ([`KnownBaselines`]), is kept in the
//!   [`Cache`], which processes share.
//! - Every foreign program runs with limits on time, memory, files and output, in an environment
//!   that is ours, and confined: it opens the system's files and those that it is given, and no
//!   socket. apt alone has the network.
//! - A program is made of its own sources and of the headers of the compiler and the system; one
//!   that takes in any other file is refused ([`DatasetError::Refused`]). Its own sources are, of a
//!   file, those in its folder and below, hidden ones excepted, and of a package the unpacked
//!   package.

mod among;
mod assembly;
mod baselines;
mod cache;
mod clang;
mod collection;
mod command;
mod debian;
mod error;
mod file;
mod generator;
mod nearest;
mod opened;
mod pattern;
mod programs;
mod stored;

use std::fmt;

use crate::model::{Benchmark, BenchmarkUri};

pub use among::among;
pub use baselines::KnownBaselines;
pub use cache::Cache;
pub use collection::{Datasets, Settings};
pub use error::DatasetError;
pub(crate) use nearest::did_you_mean;

/// What a dataset says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// Its name with its version, e.g. `csmith-v0`.
    pub name: &'static str,
    /// What its URIs begin with, e.g. `generator://csmith-v0`.
    pub uri: &'static str,
    /// One line on what is in it.
    pub description: &'static str,
    /// The licence of its programs as an SPDX expression; empty where each has its own.
    pub licence: &'static str,
    /// How many programs it has; `None` when there is no end to them.
    pub size: Option<u64>,
    /// A pattern to begin with.
    pub example: &'static str,
}

/// A program that a dataset has but cannot give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// Its name.
    pub uri: BenchmarkUri,
    /// Why, in one line.
    pub reason: String,
}

/// A named, versioned set of benchmarks. See the [module's contract](self).
pub trait Dataset: Send + Sync + fmt::Debug {
    /// What it says of itself.
    fn about(&self) -> &About;

    /// The canonical form of a URI of this dataset. It may look into package indexes, but makes no
    /// program.
    ///
    /// # Errors
    ///
    /// [`DatasetError::UnknownBenchmark`] where it is plain that there is none, else what stands in
    /// the way.
    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError>;

    /// The canonical URIs of what `path` names, in order; an empty path names everything.
    ///
    /// # Errors
    ///
    /// [`DatasetError::Unbounded`] where that has no end, [`DatasetError::BadPattern`], and what
    /// stands in the way. A pattern that names nothing may give an empty list.
    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError>;

    /// The program, made or taken from the cache.
    ///
    /// # Errors
    ///
    /// What stands in the way.
    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError>;

    /// What lies under `path` but is no benchmark, with the reasons.
    ///
    /// # Errors
    ///
    /// Those of [`Dataset::expand`].
    fn unavailable(&self, path: &str) -> Result<Vec<Unavailable>, DatasetError> {
        let _ = path;
        Ok(Vec::new())
    }
}
