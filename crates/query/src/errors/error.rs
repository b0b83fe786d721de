//! Errors of queries, with positions in their texts.

use std::fmt;
use steplake_model::{Classified, ErrorKind, Remedy};

use datafusion::common::DataFusionError;

use crate::answers::format::Format;
use steplake_lake::LakeError;

/// A position in the text of a query. Line and column count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The character in the line.
    pub column: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)
    }
}

/// Shows a position that may be unknown.
fn place(position: Option<Position>) -> String {
    position.map(|position| position.to_string()).unwrap_or_default()
}

/// What keeps a query from being answered. Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The text is not a query, or names something that does not exist.
    #[error("{}{message}", place(*.position))]
    Sql {
        /// What is wrong, perhaps with a hint.
        message: String,
        /// The position in the text, if known.
        position: Option<Position>,
    },
    /// The statement would change something.
    #[error("{0} is refused: a query only reads; ask with SELECT, EXPLAIN, SHOW or DESCRIBE")]
    ReadOnly(String),
    /// There is no such named query.
    #[error("there is no query called `{name}`: {hint}")]
    UnknownQuery {
        /// The name that was given.
        name: String,
        /// The nearest names, or the names of all queries.
        hint: String,
    },
    /// A named query was given a parameter that it does not have, or a value that does not fit.
    #[error("query `{query}`: {problem}; {parameters}")]
    Parameter {
        /// The query.
        query: String,
        /// What is wrong with which parameter.
        problem: String,
        /// What the query takes.
        parameters: String,
    },
    /// A named query needs, or a parameter of it names, what the lake does not have.
    #[error("query `{query}`: {problem}")]
    NotInLake {
        /// The query.
        query: String,
        /// What the lake does not have, and what it has.
        problem: String,
        /// What helps, if something does.
        remedy: Option<Remedy>,
    },
    /// Two columns of the answer have the same name, and the format identifies columns by name.
    #[error(
        "two columns are called `{name}`, and {format} identifies columns by name: rename one with \
         AS, or leave it out of a table, as in `SELECT a.*, b.* EXCLUDE ({name})`"
    )]
    SameName {
        /// The name.
        name: String,
        /// The format that was asked for.
        format: Format,
    },
    /// The answer did not fit into the memory that was allowed.
    #[error("the query needs more memory than it may have: {0}; raise the limit or ask for less")]
    Memory(String),
    /// The temporary files of queries reached their limit, or filled the disk.
    #[error(
        "the query needs more disk space for temporary files than there is: {0}; give queries more of it, \
         give this one more memory, or ask for less"
    )]
    Spill(String),
    /// A value would be too large.
    #[error("{0}")]
    TooLarge(String),
    /// Something failed while the query ran.
    #[error("the query failed: {0}")]
    Failed(String),
    /// The IR of a state is not stored and could not be rebuilt.
    #[error("{0}")]
    NotRebuilt(String),
    /// The lake could not be read. The error names a damaged file.
    #[error("{0}")]
    Store(#[from] LakeError),
    /// The answer could not be written.
    #[error("the answer cannot be written")]
    Write(#[from] std::io::Error),
}

impl Classified for QueryError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Store(error) => error.classify(),
            Self::Sql { .. } | Self::ReadOnly(_) | Self::SameName { .. } => {
                (ErrorKind::Query, None)
            }
            Self::UnknownQuery { .. } | Self::Parameter { .. } => (ErrorKind::Usage, None),
            Self::NotInLake { remedy, .. } => (ErrorKind::NotInLake, remedy.clone()),
            Self::NotRebuilt(_) => (ErrorKind::Lake, None),
            Self::Spill(_) => (ErrorKind::Exhausted, Some(Remedy::Field("spill"))),
            Self::Memory(_) | Self::TooLarge(_) => (ErrorKind::Exhausted, None),
            _ => (ErrorKind::Failed, None),
        }
    }
}

impl QueryError {
    /// An error in the text of a query.
    pub(crate) fn sql(message: impl Into<String>, position: Option<Position>) -> Self {
        Self::Sql { message: one_line(&message.into()), position }
    }

    /// An error of a library that the query uses.
    pub(crate) fn failed(error: impl fmt::Display) -> Self {
        Self::Failed(one_line(&error.to_string()))
    }
}

/// Our errors travel through DataFusion in a box; `explain` takes them out again.
impl From<QueryError> for DataFusionError {
    fn from(error: QueryError) -> Self {
        Self::External(Box::new(error))
    }
}

/// An error of the lake, boxed likewise.
pub(crate) fn stored(error: LakeError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Puts `text` on one line, without a full stop at its end.
pub(crate) fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").trim_end_matches('.').to_owned()
}
