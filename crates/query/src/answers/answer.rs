//! The answer to a query, as a stream of batches.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::Stream;

use crate::errors::error::QueryError;
use crate::errors::explain::{ErrorContext, explain};
use crate::progress::QueryProgress;
use crate::sources::dedup_coverage::Uncounted;

/// The rows of an answer, batch by batch, as they are found. Dropping it ends the query.
pub struct Answer {
    pub(crate) stream: SendableRecordBatchStream,
    pub(crate) error_context: ErrorContext,
    pub(crate) progress: QueryProgress,
    pub(crate) uncounted: Option<Uncounted>,
    /// The memory of the constants and expressions of the query, if it runs in this process.
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) memory: Option<Arc<MemoryReservation>>,
}

impl Answer {
    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }

    /// The steps that the derived tables it reads do not count. `None` if it reads no derived
    /// table, or if they count all steps.
    pub fn uncounted(&self) -> Option<Uncounted> {
        self.uncounted
    }

    /// The progress of the query. It can be kept and read while the rows are taken.
    pub fn progress(&self) -> QueryProgress {
        self.progress.clone()
    }
}

impl Stream for Answer {
    type Item = Result<RecordBatch, QueryError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        this.stream.as_mut().poll_next(cx).map(|item| {
            item.map(|batch| batch.map_err(|error| explain(error, &this.error_context)))
        })
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer").field("schema", &self.stream.schema()).finish_non_exhaustive()
    }
}
