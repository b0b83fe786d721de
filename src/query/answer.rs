use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use futures::Stream;

use super::QueryError;
use super::explain::{Known, explain};

/// The rows of an answer, batch by batch, as they are found. Dropping it ends the query.
pub struct Answer {
    stream: SendableRecordBatchStream,
    known: Known,
}

impl Answer {
    pub(super) fn new(stream: SendableRecordBatchStream, known: Known) -> Self {
        Self { stream, known }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
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
