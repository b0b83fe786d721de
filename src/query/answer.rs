use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use futures::Stream;

use super::counted::Uncounted;
use super::error::QueryError;
use super::explain::{Known, explain};
use super::progress::QueryProgress;

/// The rows of an answer, batch by batch, as they are found. Dropping it ends the query.
pub struct Answer {
    stream: SendableRecordBatchStream,
    known: Known,
    progress: QueryProgress,
    uncounted: Option<Uncounted>,
}

impl Answer {
    pub(super) fn new(
        stream: SendableRecordBatchStream,
        known: Known,
        progress: QueryProgress,
        uncounted: Option<Uncounted>,
    ) -> Self {
        Self { stream, known, progress, uncounted }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    /// What the derived tables that it reads do not count; `None` if it reads none, or if they
    /// count all.
    pub fn uncounted(&self) -> Option<Uncounted> {
        self.uncounted
    }

    /// How far the work on it has come; to be kept apart and read while the rows are taken.
    pub fn progress(&self) -> QueryProgress {
        self.progress.clone()
    }
}

impl Stream for Answer {
    type Item = Result<RecordBatch, QueryError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.stream
            .as_mut()
            .poll_next(cx)
            .map(|item| item.map(|batch| batch.map_err(|error| explain(error, &this.known))))
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("schema", &self.stream.schema()).finish_non_exhaustive()
    }
}
