//! Why rows cannot be loaded.

use std::io;
use std::path::{Path, PathBuf};
use steplake_model::{Classified, ErrorKind, Remedy};

use steplake_lake::LakeError;
use steplake_query::QueryError;

/// What keeps rows from being loaded. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The lake cannot be read.
    #[error("{0}")]
    Store(#[from] LakeError),
    /// A condition is wrong, or the lake cannot answer it.
    #[error("{0}")]
    Query(#[from] QueryError),
    /// The rows have no such column.
    #[error("{rows} have no column `{name}`: {hint}")]
    NoColumn {
        /// The name of the rows, such as `state_transitions`.
        rows: String,
        /// The name that was given.
        name: String,
        /// The names that there are.
        hint: String,
        /// The observation space that the name may mean.
        space: Option<String>,
    },
    /// The values of a column are no numbers, or vectors of different lengths.
    #[error("the column `{column}` {problem}")]
    NotNumbers {
        /// The column.
        column: String,
        /// What its values are, and what to do.
        problem: String,
    },
    /// Some rows have no value.
    #[error("the column `{column}` has no value in {missing} of {rows} rows: {advice}")]
    Missing {
        /// The column.
        column: String,
        /// The rows without a value.
        missing: usize,
        /// All rows.
        rows: usize,
        /// What to do.
        advice: String,
        /// The observation space, if it is one.
        space: Option<String>,
    },
    /// The numbers of a column need another type.
    #[error("the column `{column}` has numbers that {number_type} does not hold: choose another")]
    OtherType {
        /// The column.
        column: String,
        /// The type that was asked for.
        number_type: &'static str,
    },
    /// One part of a split would be empty.
    #[error("the rows cannot be split by {by}: {problem}")]
    NoSplit {
        /// What is never divided.
        by: &'static str,
        /// Why, and what to do.
        problem: String,
    },
    /// The transition graph, which a split follows, lacks some steps.
    #[error(
        "a split follows the state transitions, and {steps} steps are newer than the last dedup: \
         have them counted, and open the dataset again"
    )]
    NotDeduplicated {
        /// The steps that no dedup has counted.
        steps: u64,
    },
    /// A file gives no split.
    #[error("{}: {problem}", path.display())]
    SplitFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A given split has a part without programs.
    #[error(
        "the lake has none of the programs of the part `{part}`: name them as in the table \
         `benchmarks`"
    )]
    NoProgram {
        /// The part.
        part: String,
    },
    /// The rows are no steps in their order.
    #[error(
        "slices and episodes are made of steps in their order: open a dataset of `steps`, filter \
         it or split it, and then make them"
    )]
    NoSequences,
    /// Slices or episodes cannot be split.
    #[error("slices and episodes are not split: split the steps, and then make them")]
    SplitFirst,
    /// Slices, episodes and graphs are not streamed.
    #[error(
        "slices, episodes and graphs are not streamed: load them in memory, which maps their files \
         and needs no more memory than there is"
    )]
    NoStream,
    /// There are too many rows.
    #[error("there are more than {most} {what}, which are counted in 32 bits")]
    TooLarge {
        /// What there are too many of.
        what: &'static str,
        /// The most.
        most: u32,
    },
    /// A file of an export cannot be written.
    #[error("{}: {error}", path.display())]
    Export {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
    /// The rows lie in files of the cache that cannot be written or read.
    #[error("{}: {error}", path.display())]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
}

impl Classified for LoadError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Store(error) => error.classify(),
            Self::Query(error) => error.classify(),
            Self::NoColumn { space, .. } => {
                (ErrorKind::NotInLake, space.clone().map(|space| Remedy::Backfill(Some(space))))
            }
            Self::Missing { space, .. } => {
                (ErrorKind::Usage, space.clone().map(|space| Remedy::Backfill(Some(space))))
            }
            Self::NotDeduplicated { .. } => (ErrorKind::NotDerived, Some(Remedy::Dedup)),
            Self::TooLarge { .. } => (ErrorKind::Exhausted, None),
            Self::Cache { .. } | Self::Export { .. } => (ErrorKind::Failed, None),
            Self::NoStream => (ErrorKind::Usage, Some(Remedy::Field("in_memory"))),
            _ => (ErrorKind::Usage, None),
        }
    }
}

impl LoadError {
    /// The error about rows without a value. `is_observed` says that the column has observations.
    /// `has_failures` says that the rows may be steps that failed: they have no next state, and are
    /// loaded with the state that they began in and rewards of 0.
    pub(super) fn missing(
        column: String,
        missing: usize,
        rows: usize,
        is_observed: bool,
        has_failures: bool,
    ) -> Self {
        let (advice, space) = if is_observed {
            let (state, space) = match column.strip_prefix("next_") {
                Some(space) if has_failures => ("coalesce(next_state_id, state_id)", space),
                Some(space) => ("next_state_id", space),
                None => ("state_id", column.as_str()),
            };
            let advice = format!(
                "leave the column out, or the rows, by a filter such as `{state} IN (SELECT \
                 state_id FROM observations WHERE \"{space}\" IS NOT NULL)`"
            );
            (advice, Some(space.to_owned()))
        } else {
            let is_filled = has_failures && column.starts_with("reward_");
            let or_failed = if is_filled { " OR next_state_id IS NULL" } else { "" };
            let advice = format!(
                "leave the column out, or the rows, by a filter such as `\"{column}\" IS NOT \
                 NULL{or_failed}`"
            );
            (advice, None)
        };
        Self::Missing { column, missing, rows, advice, space }
    }

    pub(super) fn cache(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Cache { path: path.to_owned(), error }
    }
}
