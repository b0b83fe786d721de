//! Errors with their kind: what front ends tell apart.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

/// Who can do something about a failure, and what. Each front end maps it to what it has: exit
/// codes, exceptions of Python, codes of HTTP, gRPC and Flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument is wrong.
    Usage,
    /// The text of a query is wrong.
    Query,
    /// There is no such benchmark, or the compiler rejects its program.
    Benchmark,
    /// No episode is under way.
    NoEpisode,
    /// A question names something that the lake does not have.
    NotInLake,
    /// The lake does not know what an action does in a state.
    MissingEdge,
    /// The lake does not have the snapshot.
    NoSnapshot,
    /// There is no lake at the path.
    NoLake,
    /// The derived tables do not have what was asked for yet: dedup makes them.
    NotDerived,
    /// Another process writes to the lake, maintains it, or reads what is to be deleted.
    Busy,
    /// A file of the lake is not what was written.
    Damaged,
    /// A repair took files of the snapshot out.
    LostSnapshot,
    /// The lake of a session that is under way cannot be read.
    Unreadable,
    /// The lake cannot be used, for another reason.
    Lake,
    /// The compiler failed over a program before its first step, or over an observation.
    CompilerFailed,
    /// The environment's compiler cannot be started here.
    CompilerUnavailable,
    /// The program of a state cannot be built or run, or a run of it failed.
    ProgramFailed,
    /// Recorded actions lead elsewhere than in the lake.
    Diverged,
    /// A check found something.
    Found,
    /// A published version has something that the lake lacks.
    Behind,
    /// No lake is published at an address.
    NothingPublished,
    /// The network is needed, and what was wanted cannot be fetched.
    Offline,
    /// Memory, disk or a limit is used up.
    Exhausted,
    /// This machine does not let the work go on.
    Machine,
    /// A signal or the caller stopped the work.
    Interrupted,
    /// The operation failed, for another reason.
    Failed,
}

impl ErrorKind {
    /// Whether another question, benchmark or argument helps.
    pub fn is_of_caller(self) -> bool {
        matches!(
            self,
            Self::Usage
                | Self::Query
                | Self::Benchmark
                | Self::NotInLake
                | Self::MissingEdge
                | Self::NoSnapshot
        )
    }

    /// Whether the lake cannot be used, for whatever reason.
    pub fn is_of_lake(self) -> bool {
        matches!(
            self,
            Self::NoLake
                | Self::NotDerived
                | Self::Busy
                | Self::Damaged
                | Self::LostSnapshot
                | Self::Unreadable
                | Self::Lake
        )
    }
}

/// What helps, as far as each front end says it in words of its own: a command, a method, an
/// option. What is the same everywhere is part of the message. A front end matches every remedy, so
/// that none is forgotten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remedy {
    /// Record a lake, or name another one.
    Record,
    /// Merge the lakes.
    Merge,
    /// Convert the lake: its states have ids of another scheme.
    OtherScheme,
    /// Give each writer a lake of its own, and merge them.
    OwnLake,
    /// List the snapshots.
    Snapshots,
    /// List the runs.
    Runs,
    /// Measure samples of what belongs to the machine.
    Measure,
    /// Run dedup.
    Dedup,
    /// Run dedup on the lake that was written.
    DedupWritten,
    /// List all damage, and repair it.
    Verify,
    /// Take `lake.json` from a new lake of the same identity.
    Identity,
    /// Compute an observation space of the recorded states: this one, if it is known which.
    Backfill(Option<String>),
    /// List the benchmarks of a dataset.
    Benchmarks(String),
    /// List the spaces of an environment.
    Spaces(String),
    /// Say how a program of one's own is run.
    HowRun,
    /// Give this field of the request, or another value of it.
    Field(&'static str),
}

/// An error that knows its kind, and what helps. Whoever wraps another error has those of it.
pub trait Classified: StdError + Send + Sync + 'static {
    /// Returns the kind, and what helps, if front ends have words for it.
    fn classify(&self) -> (ErrorKind, Option<Remedy>);

    /// Returns the kind.
    fn kind(&self) -> ErrorKind {
        self.classify().0
    }

    /// Returns what helps, if front ends have words for it.
    fn remedy(&self) -> Option<Remedy> {
        self.classify().1
    }
}

impl Classified for std::io::Error {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        (ErrorKind::Failed, None)
    }
}

/// The error of a request to the library: its kind and a message of one line, and the error behind
/// it with its type.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    remedy: Option<Remedy>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Creates an error with a message of one line.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), remedy: None, source: None }
    }

    /// Creates an error about a wrong argument, benchmark or query.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// Creates an error of the kind, message and remedy of one that somebody else keeps.
    pub fn like(error: &impl Classified) -> Self {
        let (kind, remedy) = error.classify();
        Self { kind, message: line(error), remedy, source: None }
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns what helps, if front ends have words for it.
    pub fn remedy(&self) -> Option<&Remedy> {
        self.remedy.as_ref()
    }

    /// Returns the error of this type behind the error, however deep.
    pub fn find<T: StdError + 'static>(&self) -> Option<&T> {
        let mut cause = StdError::source(self);
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }

    /// Says what helps.
    #[must_use]
    pub fn with(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }

    /// Replaces the message by one that says more.
    #[must_use]
    pub fn saying(self, message: impl FnOnce(&str) -> String) -> Self {
        Self { message: message(&self.message), ..self }
    }

    /// Prefixes the message with the place of the failed text.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        self.saying(|message| format!("{place}: {message}"))
    }

    /// Adds what succeeded before the derived tables could not be made.
    #[must_use]
    pub fn after(self, done: &str) -> Self {
        self.saying(|message| format!("{done} ({message})")).with(Remedy::DedupWritten)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|error| error as &(dyn StdError + 'static))
    }
}

impl<E: Classified> From<E> for Error {
    fn from(error: E) -> Self {
        let like = Self::like(&error);
        Self { source: Some(Arc::new(error)), ..like }
    }
}

/// Formats an error and all its causes in one line, without repetitions.
pub fn line(error: &dyn StdError) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        // Some errors repeat the message of their cause.
        if !line.contains(&said) {
            line.push_str(": ");
            line.push_str(&said);
        }
        source = cause.source();
    }
    if line.contains('\n') {
        line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{said}")]
    struct Said {
        said: &'static str,
        source: Option<Box<Said>>,
    }

    impl Classified for Said {
        fn classify(&self) -> (ErrorKind, Option<Remedy>) {
            (ErrorKind::Offline, None)
        }
    }

    fn chain(said: &[&'static str]) -> Said {
        let (first, causes) = said.split_first().expect("something was said");
        let source = (!causes.is_empty()).then(|| Box::new(chain(causes)));
        Said { said: first, source }
    }

    #[test]
    fn a_failure_is_one_line_that_says_each_thing_once() {
        let error = chain(&["cannot read it", "no such bucket: lakes", "lakes", "ask\n  another"]);
        assert_eq!(line(&error), "cannot read it: no such bucket: lakes: ask another");
    }

    #[test]
    fn an_error_keeps_its_kind_and_its_cause() {
        let error = Error::from(chain(&["cannot read it", "no answer"])).at("line 3");
        assert_eq!(error.kind(), ErrorKind::Offline);
        assert_eq!(line(&error), "line 3: cannot read it: no answer");
        assert_eq!(error.find::<Said>().expect("it is behind it").said, "cannot read it");
        assert!(error.find::<std::io::Error>().is_none());
    }
}
