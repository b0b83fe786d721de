//! Streams whose batches are made one at a time, on threads that may block.
//!
//! A batch holds a thread while it is made, and never while it waits for its reader: a runtime has
//! few such threads, and a reader may pause for any time.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::{self, TryStreamExt as _};
use tokio::task::JoinError;

/// Batches that are made on demand, each with a bounded amount of work.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The batches of the iterator that `begin` returns, as a stream. While the reader takes a batch,
/// the next one is made. Empty batches are left out.
pub(crate) fn blocking_stream(
    schema: SchemaRef,
    begin: impl Future<Output = Result<Batches>> + Send + 'static,
) -> SendableRecordBatchStream {
    let batches = async move {
        let first = make_next(begin.await?);
        Ok::<_, DataFusionError>(stream::try_unfold(first, |made| async {
            let (next, batches) = made.join_unwind().await.map_err(not_joined)?;
            Ok(next.transpose()?.map(|batch| (batch, make_next(batches))))
        }))
    };
    let batches = stream::once(batches).try_flatten();
    let batches = batches.try_filter(|batch| std::future::ready(batch.num_rows() > 0));
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// Makes the next batch. A task that is dropped before it starts never runs.
fn make_next(mut batches: Batches) -> SpawnedTask<(Option<Result<RecordBatch>>, Batches)> {
    SpawnedTask::spawn_blocking(move || (batches.next(), batches))
}

/// Does `work` on a thread that may block. Work that is dropped before it starts never runs.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    SpawnedTask::spawn_blocking(work).join_unwind().await.map_err(not_joined)?
}

/// The error of a task that its runtime dropped on shutdown.
pub(crate) fn not_joined(error: JoinError) -> DataFusionError {
    DataFusionError::ExecutionJoin(Box::new(error))
}
