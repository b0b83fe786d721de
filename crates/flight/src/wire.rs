//! Converts answers to types that every Arrow client knows: no views, no dictionaries.

use std::error::Error;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use futures::{StreamExt as _, TryStreamExt as _};
use steplake::query::{ScalarValue, Statement, Uncounted};
use steplake_server::RowStream;
use tonic::Status;

use crate::tickets::BoundStatement;

/// The key in the metadata of an answer's schema under which stands how many steps the derived
/// tables that it reads do not count.
const UNCOUNTED_STEPS: &str = "steplake.uncounted_steps";
/// The key for a sentence about that.
const WARNING: &str = "steplake.warning";

/// Returns the schema of an answer: its columns, and what the tables that it reads do not count.
pub(crate) fn answer(columns: &Schema, uncounted: Option<Uncounted>) -> SchemaRef {
    let schema = schema(columns);
    let Some(uncounted) = uncounted else { return schema };
    let metadata = [
        (UNCOUNTED_STEPS.to_owned(), uncounted.steps.to_string()),
        (WARNING.to_owned(), uncounted.to_string()),
    ];
    Arc::new(Schema::new_with_metadata(schema.fields().clone(), metadata.into()))
}

/// Returns the columns of an answer as sent to a client. All are nullable: whether a column
/// contains nulls is known only after the answer is computed, and clients get the schema before
/// that.
pub(crate) fn schema(columns: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = columns.fields().iter().map(plain_field).collect();
    Arc::new(Schema::new(fields))
}

fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain(field.data_type()), true))
}

fn plain(kind: &DataType) -> DataType {
    match kind {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => plain(values),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        DataType::List(item) | DataType::ListView(item) => DataType::List(plain_field(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => {
            DataType::LargeList(plain_field(item))
        }
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(plain_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        other => other.clone(),
    }
}

/// Returns the messages of an answer, whose schema is that of [`answer`].
pub(crate) fn messages(
    columns: &Schema,
    uncounted: Option<Uncounted>,
    rows: RowStream,
) -> RowStream<FlightData> {
    let schema = answer(columns, uncounted);
    let announced = Arc::clone(&schema);
    let batches = rows.map(move |rows| {
        batch(&rows?, &announced)
            .map_err(|error| Status::internal(format!("the answer cannot be sent: {error}")))
    });
    let batches = batches.map_err(|status| FlightError::Tonic(Box::new(status)));
    let messages = FlightDataEncoderBuilder::new().with_schema(schema).build(batches);
    messages.map_err(Status::from).boxed()
}

/// Converts a batch of an answer to the columns of [`answer`].
///
/// # Errors
///
/// If a text or list is too large for the plain type.
fn batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            Ok(Arc::clone(column))
        } else {
            cast(column, field.data_type())
        }
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let rows = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &rows)
}

/// Encodes the values of parameters for storage: an Arrow stream of one row.
///
/// # Errors
///
/// If they cannot be encoded.
pub(crate) fn keep_values(row: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &row.schema())?;
    writer.write(row)?;
    writer.into_inner()
}

/// Returns a statement with the values of its parameters.
///
/// # Errors
///
/// As [`values`].
pub(crate) fn statement(bound: &BoundStatement) -> Result<Statement, Status> {
    Ok(Statement { text: bound.text.clone(), values: values(bound)?, ..Statement::default() })
}

/// Decodes the values of the parameters of a statement, with their names.
///
/// # Errors
///
/// If they were not encoded by [`keep_values`].
fn values(bound: &BoundStatement) -> Result<Vec<(String, ScalarValue)>, Status> {
    if bound.values.is_empty() {
        return Ok(Vec::new());
    }
    let read = || {
        let mut reader = StreamReader::try_new(bound.values.as_slice(), None)?;
        let Some(row) = reader.next().transpose()? else { return Ok(Vec::new()) };
        let schema = row.schema();
        let columns = schema.fields().iter().zip(row.columns());
        columns
            .map(|(field, column)| {
                Ok((field.name().clone(), ScalarValue::try_from_array(column, 0)?))
            })
            .collect()
    };
    read().map_err(|error: Box<dyn Error>| {
        Status::invalid_argument(format!("the values of the parameters cannot be read: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Array as _, ArrayRef, DictionaryArray, Int32Array, ListArray, StringViewArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Int8Type;

    #[test]
    fn no_view_and_no_dictionary_goes_out() {
        let views: ArrayRef =
            Arc::new(StringViewArray::from(vec!["a", "a text of more than twelve bytes"]));
        let names: DictionaryArray<Int8Type> = ["x", "y"].into_iter().collect();
        let item = Arc::new(Field::new("item", DataType::Utf8View, false));
        let list =
            ListArray::new(item, OffsetBuffer::from_lengths([1, 1]), Arc::clone(&views), None);
        let read = RecordBatch::try_from_iter([
            ("views", views),
            ("names", Arc::new(names) as ArrayRef),
            ("list", Arc::new(list) as ArrayRef),
            ("numbers", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
        ])
        .unwrap();
        let announced = schema(&read.schema());
        let sent = batch(&read, &announced).unwrap();
        let item = Arc::new(Field::new("item", DataType::Utf8, true));
        let kinds: Vec<_> =
            sent.columns().iter().map(|column| column.data_type().clone()).collect();
        let wanted = [DataType::Utf8, DataType::Utf8, DataType::List(item), DataType::Int32];
        assert_eq!(kinds, wanted);
        assert_eq!(sent.schema(), announced);
        assert_eq!(sent.num_rows(), 2);
    }

    #[test]
    fn values_come_back_as_they_were_kept() {
        let row = RecordBatch::try_from_iter([
            ("a", Arc::new(Int32Array::from(vec![7])) as ArrayRef),
            ("b", Arc::new(StringViewArray::from(vec!["text"])) as ArrayRef),
        ])
        .unwrap();
        let bound = BoundStatement { text: String::new(), values: keep_values(&row).unwrap() };
        let found = values(&bound).unwrap();
        assert_eq!(found[0], ("a".to_owned(), ScalarValue::Int32(Some(7))));
        assert_eq!(found[1].1.try_as_str(), Some(Some("text")));
        assert!(values(&BoundStatement { values: vec![1], ..BoundStatement::default() }).is_err());
    }
}
