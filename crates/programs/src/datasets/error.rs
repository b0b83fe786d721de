//! Errors of the datasets.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steplake_model::{BenchmarkUriError, Classified, ErrorKind, Remedy};

/// Why a benchmark is not available. Every message is one line that says what happened, to what,
/// and what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatasetError {
    /// The text is not a URI.
    #[error(transparent)]
    BadUri(#[from] BenchmarkUriError),
    /// No dataset has that name.
    #[error("there is no dataset `{uri}`{hint}: known are {known}; other environments have others")]
    UnknownDataset {
        /// The requested dataset.
        uri: String,
        /// A suggestion, or nothing.
        hint: String,
        /// Every dataset.
        known: String,
    },
    /// The dataset has no such benchmark.
    #[error("there is no benchmark `{uri}`: {hint}")]
    UnknownBenchmark {
        /// The requested benchmark.
        uri: String,
        /// A suggestion.
        hint: String,
        /// The dataset, if a list of its benchmarks helps.
        listed: Option<String>,
    },
    /// A pattern is invalid.
    #[error("`{pattern}` cannot be read as a pattern: {detail}")]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// The mistake in the pattern.
        detail: String,
    },
    /// A pattern matches nothing.
    #[error("`{pattern}` matches no benchmark: {hint}")]
    NoMatch {
        /// The pattern.
        pattern: String,
        /// A suggestion.
        hint: String,
        /// The dataset, if a list of its benchmarks helps.
        listed: Option<String>,
    },
    /// A pattern names all of an infinite dataset.
    #[error("`{dataset}` has no end: name a part of it, e.g. {example}")]
    Unbounded {
        /// The dataset.
        dataset: String,
        /// A pattern that names a part.
        example: String,
    },
    /// A pattern names more benchmarks than one call may.
    #[error("`{pattern}` names {count} benchmarks; at most {most} are taken at a time")]
    TooMany {
        /// The pattern.
        pattern: String,
        /// The number of benchmarks that it names.
        count: u64,
        /// The number allowed.
        most: u64,
    },
    /// A required program is not installed.
    #[error("{tool} is not installed: apt-get install {package}")]
    ToolMissing {
        /// The program or file.
        tool: String,
        /// The Debian packages that provide it.
        package: &'static str,
    },
    /// A required program failed.
    #[error("{tool} failed on {what}: {detail}")]
    ToolFailed {
        /// The program.
        tool: String,
        /// The task.
        what: String,
        /// The program's first error line, or the way it ended.
        detail: String,
    },
    /// A required program could not be run to its end, which says nothing about its input.
    #[error("{tool} failed on {what}: {detail}")]
    ToolNotRun {
        /// The program.
        tool: String,
        /// The task.
        what: String,
        /// The system's error.
        detail: String,
    },
    /// A signal ended a required program: a person sent it, or memory ran out.
    #[error("{tool} failed on {what}: it was ended by signal {signal}")]
    Killed {
        /// The program.
        tool: String,
        /// The task.
        what: String,
        /// The signal's number.
        signal: i32,
    },
    /// A required program took too long.
    #[error("{tool} on {what} was stopped after {} s", limit.as_secs())]
    TimedOut {
        /// The program.
        tool: String,
        /// The task.
        what: String,
        /// The time limit.
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
    /// A flag cannot be given with a source.
    #[error("the flag `{flag}` is not taken: {why}")]
    BadFlag {
        /// The flag.
        flag: String,
        /// The reason.
        why: String,
    },
    /// The program takes in a file that is neither its own nor a header, or could do so.
    #[error("{uri} is refused: {detail}")]
    Refused {
        /// The benchmark.
        uri: String,
        /// The offending file or directive, and what to do.
        detail: String,
    },
    /// A user's file has nothing in it.
    #[error("{0} is an empty file: there is no program in it")]
    Empty(String),
    /// A user's file cannot be read.
    #[error("`{}` cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The cache cannot be read or written.
    #[error(
        "the cache at `{}` cannot be used; free its disk, or set STEPLAKE_CACHE to a folder that can \
         be written",
        path.display()
    )]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No variable says where the cache lies.
    #[error("there is no place for the cache: set STEPLAKE_CACHE to a folder of your own, or HOME")]
    NoCachePlace,
    /// The cache's folder belongs to another user, so its contents cannot be trusted.
    #[error(
        "the cache at `{}` belongs to another user, or others may write to it: set STEPLAKE_CACHE to \
         a folder of your own",
        path.display()
    )]
    ForeignCache {
        /// The folder.
        path: PathBuf,
    },
    /// The Debian sources cannot be reached, and the cache does not have what was wanted.
    #[error("the Debian sources of {what} cannot be fetched (is there a network?): {detail}")]
    Offline {
        /// The wanted package or list.
        what: String,
        /// The error from apt.
        detail: String,
    },
    /// The repository's index names a file that the repository lacks.
    #[error(
        "the repository does not have {what}, which its index names: try again later, or name \
         another version ({versions})"
    )]
    Withdrawn {
        /// The package and its version.
        what: String,
        /// The versions that the index names.
        versions: String,
    },
    /// No repository that this machine's apt knows has an archive.
    #[error(
        "`{archive}` cannot be fetched: this machine's Debian has {has}; add a `deb` line of Debian 12 \
         (bookworm) to the package sources"
    )]
    OtherDebian {
        /// The name of the archive.
        archive: String,
        /// The package with the versions that there are.
        has: String,
    },
    /// No address gives a file.
    #[error(
        "{what} cannot be downloaded (is there a network? STEPLAKE_MIRRORS can name mirrors): {detail}"
    )]
    NotFetched {
        /// The dataset, or its list.
        what: String,
        /// What each address answered.
        detail: String,
    },
    /// What was downloaded is not the file that was published, and no address gives that one.
    #[error("{what} was downloaded, but its content is not what was published: {detail}")]
    WrongContent {
        /// The dataset, or its list.
        what: String,
        /// What each address answered.
        detail: String,
    },
    /// A downloaded archive is none to unpack.
    #[error("the archive of {what} is not unpacked: {detail}")]
    BadArchive {
        /// The dataset.
        what: String,
        /// What is wrong with the archive.
        detail: String,
    },
    /// This machine's apt knows no repository from which sources can be fetched.
    #[error("no package sources are configured in `{}`: add a `deb` line there", folder.display())]
    NoPackageSources {
        /// The folder that was searched.
        folder: PathBuf,
    },
    /// A fetched file differs from the repository's signed index.
    #[error("the fetched source of {what} does not match its checksums: {detail}")]
    ChecksumMismatch {
        /// The package.
        what: String,
        /// The file that differs.
        detail: String,
    },
}

impl DatasetError {
    /// Returns the function that reports a disk error at `path` in the cache.
    pub(super) fn cache(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Cache { path: path.to_owned(), source }
    }

    /// An error for a program that does not exist, with a hint.
    pub fn unknown(uri: &(impl ToString + ?Sized), hint: impl Into<String>) -> Self {
        Self::UnknownBenchmark { uri: uri.to_string(), hint: hint.into(), listed: None }
    }

    pub(super) fn no_match(pattern: &str, hint: impl Into<String>) -> Self {
        Self::NoMatch { pattern: pattern.to_owned(), hint: hint.into(), listed: None }
    }

    /// Adds that the list of a dataset's benchmarks helps.
    pub(super) fn listed_by(mut self, dataset: &(impl ToString + ?Sized)) -> Self {
        if let Self::UnknownBenchmark { listed, .. } | Self::NoMatch { listed, .. } = &mut self {
            *listed = Some(dataset.to_string());
        }
        self
    }

    pub(super) fn bad_pattern(pattern: &str, detail: impl Into<String>) -> Self {
        Self::BadPattern { pattern: pattern.to_owned(), detail: detail.into() }
    }

    /// Returns whether only a network is missing: a caller with other work can go on with that.
    pub fn is_offline(&self) -> bool {
        matches!(self, Self::Offline { .. } | Self::NotFetched { .. })
    }

    /// Returns whether a program was stopped before it gave an answer: it may give one next time.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self, Self::Killed { .. } | Self::TimedOut { .. })
    }
}

impl Classified for DatasetError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            _ if self.is_offline() => (ErrorKind::Offline, None),
            Self::UnknownBenchmark { listed, .. } | Self::NoMatch { listed, .. } => {
                (ErrorKind::Benchmark, listed.clone().map(Remedy::Benchmarks))
            }
            Self::ToolMissing { .. }
            | Self::ToolFailed { .. }
            | Self::ToolNotRun { .. }
            | Self::Killed { .. }
            | Self::TimedOut { .. }
            | Self::Cache { .. }
            | Self::NoCachePlace
            | Self::ForeignCache { .. }
            | Self::NoPackageSources { .. }
            | Self::ChecksumMismatch { .. }
            | Self::WrongContent { .. } => (ErrorKind::Failed, None),
            _ => (ErrorKind::Benchmark, None),
        }
    }
}
