//! Complete answers in temporary files.

use std::fs::File;
use std::io::{BufReader, BufWriter, Seek as _};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt as _, TryStreamExt as _, stream};

/// Fetches a whole answer into a temporary file, and returns it as a stream. The file is deleted
/// when the stream is dropped.
pub(crate) async fn fetched(
    mut answer: SendableRecordBatchStream,
    schema: &SchemaRef,
) -> Result<SendableRecordBatchStream> {
    let mut writer = StreamWriter::try_new(BufWriter::new(tempfile::tempfile()?), schema)?;
    while let Some(batch) = answer.next().await {
        writer.write(&with_schema(&batch?, schema)?)?;
    }
    writer.finish()?;
    let mut file: File =
        writer.into_inner()?.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    file.rewind()?;
    let batches = StreamReader::try_new(BufReader::new(file), None)?;
    let batches = stream::iter(batches).map_err(Into::into);
    Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), batches)))
}

/// Restores the schema of the plan: batches from the network may lack the names of columns, or the
/// information that a column has no nulls.
fn with_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
