//! Streams whose batches are made on threads that may block, one at a time.
//!
//! A thread is held while it makes a batch, never while a batch waits to be taken: a runtime has
//! few threads for this, and readers may stop reading for as long as they like.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::{self, TryStreamExt as _};
use tokio::task::JoinError;

/// Batches that are made as they are asked for. Each takes a bounded amount of work.
pub(super) type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// The batches that `begin` yields, as a stream. While a batch is taken, the next one is made.
/// Empty ones are left out.
pub(super) fn pulled(
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

/// Makes the next batch. Dropped, the task does not begin any more.
fn make_next(mut batches: Batches) -> SpawnedTask<(Option<Result<RecordBatch>>, Batches)> {
    SpawnedTask::spawn_blocking(move || (batches.next(), batches))
}

/// Does `work` on a thread that may block. Dropped, it does not begin any more.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    SpawnedTask::spawn_blocking(work).join_unwind().await.map_err(not_joined)?
}

/// The error of a task that a runtime dropped as it shut down.
pub(super) fn not_joined(error: JoinError) -> DataFusionError {
    DataFusionError::ExecutionJoin(Box::new(error))
}
