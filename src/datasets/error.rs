use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::BenchmarkUriError;

/// What keeps a benchmark from being had. Every message is one line that says what happened, to
/// what, and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The text is no URI at all.
    #[error(transparent)]
    BadUri(#[from] BenchmarkUriError),
    /// No dataset of that name.
    #[error("there is no dataset `{uri}`{hint}: known are {known}")]
    UnknownDataset {
        /// What was asked for.
        uri: String,
        /// A guess at what was meant, or nothing.
        hint: String,
        /// Every dataset.
        known: String,
    },
    /// The dataset has no such benchmark.
    #[error("there is no benchmark `{uri}`: {hint}")]
    UnknownBenchmark {
        /// What was asked for.
        uri: String,
        /// What there is instead.
        hint: String,
    },
    /// A pattern that cannot be read.
    #[error("`{pattern}` cannot be read as a pattern: {detail}")]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A pattern that names nothing.
    #[error("`{pattern}` matches no benchmark: {hint}")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// What there is instead.
        hint: String,
    },
    /// A dataset without an end, asked for all of it.
    #[error("`{dataset}` has no end: name a part of it, e.g. {example}")]
    Unbounded {
        /// The dataset.
        dataset: String,
        /// A pattern that names a part.
        example: String,
    },
    /// A pattern that names more benchmarks than one call may.
    #[error("`{pattern}` names {count} benchmarks; at most {most} are taken at a time")]
    TooMany {
        /// The pattern.
        pattern: String,
        /// How many it names.
        count: u64,
        /// How many are allowed.
        most: u64,
    },
    /// A program that is needed is not installed.
    #[error("{tool} is not installed: apt-get install {package}")]
    ToolMissing {
        /// The program or file.
        tool: String,
        /// The Debian packages that bring it.
        package: &'static str,
    },
    /// A program that is needed did not do its work.
    #[error("{tool} failed on {what}: {detail}")]
    ToolFailed {
        /// The program.
        tool: String,
        /// What it was to do.
        what: String,
        /// Its first error line, or how it ended.
        detail: String,
    },
    /// A program that is needed was ended by a signal: by a person, or for want of memory.
    #[error("{tool} failed on {what}: it was ended by signal {signal}")]
    Killed {
        /// The program.
        tool: String,
        /// What it was to do.
        what: String,
        /// The signal's number.
        signal: i32,
    },
    /// A program that is needed took too long.
    #[error("{tool} on {what} was stopped after {} s", limit.as_secs())]
    TimedOut {
        /// The program.
        tool: String,
        /// What it was to do.
        what: String,
        /// The time it may take.
        limit: Duration,
    },
    /// The compiler rejects the program.
    #[error("{uri} does not compile: {detail}")]
    DoesNotCompile {
        /// The benchmark.
        uri: String,
        /// The compiler's first error line.
        detail: String,
    },
    /// The program takes in what is neither its own nor a header, or could.
    #[error("{uri} is refused: {detail}")]
    Refused {
        /// The benchmark.
        uri: String,
        /// What it takes in, and what to do.
        detail: String,
    },
    /// A file of a user's cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The cache cannot be read or written.
    #[error(
        "the cache at `{}` cannot be used; free its disk, or set STEPLAKE_CACHE to a folder that can be written",
        path.display()
    )]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Nothing says where the cache is to lie.
    #[error("there is no place for the cache: set STEPLAKE_CACHE to a folder of your own, or HOME")]
    NoCachePlace,
    /// The cache's folder is another user's: what lies there cannot be trusted.
    #[error(
        "the cache at `{}` belongs to another user, or others may write to it: set STEPLAKE_CACHE to a folder of \
         your own",
        path.display()
    )]
    ForeignCache {
        /// The folder.
        path: PathBuf,
    },
    /// The Debian sources cannot be reached, and the cache does not have what is wanted.
    #[error("the Debian sources of {what} cannot be fetched (is there a network?): {detail}")]
    Offline {
        /// What was wanted.
        what: String,
        /// What apt says.
        detail: String,
    },
    /// The repository's index names a file that the repository does not have.
    #[error(
        "the repository does not have {what}, which its index names: try again later, or name another version \
         ({versions})"
    )]
    Withdrawn {
        /// The package and its version.
        what: String,
        /// The versions that the index names.
        versions: String,
    },
    /// This machine's apt knows no repository that sources could be fetched from.
    #[error("no package sources are configured in `{}`: add a `deb` line there", folder.display())]
    NoPackageSources {
        /// The folder that was looked at.
        folder: PathBuf,
    },
    /// What was fetched is not what the repository's signed index says it is.
    #[error("the fetched source of {what} does not match its checksums: {detail}")]
    ChecksumMismatch {
        /// The package.
        what: String,
        /// The file that differs.
        detail: String,
    },
}

impl DatasetError {
    /// True when a network, and nothing else, is missing: a caller with other work can go on with
    /// that.
    pub fn is_offline(&self) -> bool {
        matches!(self, Self::Offline { .. })
    }

    /// True when a program was stopped before it had an answer: another time it may have one.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self, Self::Killed { .. } | Self::TimedOut { .. })
    }
}
