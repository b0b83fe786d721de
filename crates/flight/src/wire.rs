//! Converts answers to types that every Arrow client knows: no views, no dictionaries. Clients read
//! dictionaries, but pyarrow neither groups, sorts nor joins by a column whose batches have
//! different ones.

use std::any::Any;
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use arrow::array::{Array as _, ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::{
    DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, StreamWriter,
};
use arrow_flight::{FlightData, SchemaAsIpc};
use futures::future::ready;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use steplake::query::{ScalarValue, Statement, Uncounted};
use steplake_server::{AnswerRows, RowStream};
use tonic::Status;

use crate::in_order::in_order;
use crate::tickets::BoundStatement;

/// About how many bytes of rows a message has.
const MESSAGE_BYTES: usize = 2 << 20;
/// How many bytes of rows a message may have, unless it has a single row: some clients take no
/// messages of more than 4 MiB.
const MESSAGE_BYTES_MAX: usize = 3 << 20;

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
        DataType::Map(entries, is_sorted) => DataType::Map(plain_entries(entries), *is_sorted),
        other => other.clone(),
    }
}

/// Returns the keys and values of a map as sent to a client. A map and its keys are never null.
fn plain_entries(entries: &FieldRef) -> FieldRef {
    let retyped = |field: &FieldRef, kind| Arc::new(field.as_ref().clone().with_data_type(kind));
    let DataType::Struct(fields) = entries.data_type() else { return Arc::clone(entries) };
    let fields: Fields =
        fields.iter().map(|field| retyped(field, plain(field.data_type()))).collect();
    retyped(entries, DataType::Struct(fields))
}

/// Returns the messages of an answer, whose schema is that of [`answer`]. They are made on all
/// cores, and come in the order of the rows.
pub(crate) fn messages(found: AnswerRows) -> RowStream<FlightData> {
    let schema = answer(&found.columns, found.uncounted);
    let encoder = MessageEncoder::new(schema, found.kept);
    let first = encoder.columns();
    // Each thread has a message at a time, however many rows a batch has.
    let rows = found.rows.map_ok(|rows| {
        let bytes = rows.columns().iter().map(bytes).sum();
        stream::iter(pieces(rows, bytes).map(Ok::<_, Status>))
    });
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let encoded = in_order(rows.try_flatten().boxed(), cores, move |rows| {
        encoder
            .rows(&rows)
            .map_err(|error| Status::internal(format!("the answer cannot be sent: {error}")))
    });
    let messages =
        encoded.map_ok(|messages| stream::iter(messages.into_iter().map(Ok::<_, Status>)));
    stream::once(ready(Ok(first))).chain(messages.try_flatten()).boxed()
}

/// Returns about how many bytes a column takes.
fn bytes(column: &ArrayRef) -> usize {
    let bytes = column.to_data().get_slice_memory_size();
    bytes.unwrap_or_else(|_unknown| column.get_buffer_memory_size())
}

/// Cuts rows of `bytes` altogether into pieces of [`MESSAGE_BYTES`] or so. Without rows, there are
/// no pieces.
fn pieces(rows: RecordBatch, bytes: usize) -> impl Iterator<Item = RecordBatch> {
    let (count, pieces) = (rows.num_rows(), bytes.div_ceil(MESSAGE_BYTES).max(1));
    let most = count.div_ceil(pieces).max(1);
    (0..count).step_by(most).map(move |start| rows.slice(start, most.min(count - start)))
}

/// Makes the messages of one answer, on any number of threads.
struct MessageEncoder {
    schema: SchemaRef,
    options: IpcWriteOptions,
    /// One for each thread that encodes at a time. A buffer as large as that of the last message
    /// is in each.
    contexts: Mutex<Vec<IpcWriteContext>>,
    /// Held until the last thread has ended.
    _kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl MessageEncoder {
    fn new(schema: SchemaRef, kept: Option<Arc<dyn Any + Send + Sync>>) -> Self {
        let (options, contexts) = (IpcWriteOptions::default(), Mutex::default());
        Self { schema, options, contexts, _kept: kept }
    }

    /// Returns the first message, which has the columns.
    fn columns(&self) -> FlightData {
        SchemaAsIpc::new(&self.schema, &self.options).into()
    }

    /// Returns the messages of some rows.
    ///
    /// # Errors
    ///
    /// As [`batch`].
    fn rows(&self, rows: &RecordBatch) -> Result<Vec<FlightData>, ArrowError> {
        let mut messages = Vec::with_capacity(1);
        self.add(&batch(rows, &self.schema)?, &mut messages)?;
        Ok(messages)
    }

    /// Adds the messages of rows with the columns of the answer. What the rows take is only known
    /// once they are encoded: the texts of a dictionary are written for each row.
    fn add(&self, rows: &RecordBatch, messages: &mut Vec<FlightData>) -> Result<(), ArrowError> {
        let message = self.message(rows)?;
        let bytes = message.data_body.len();
        if bytes <= MESSAGE_BYTES_MAX || rows.num_rows() <= 1 {
            messages.push(message);
            return Ok(());
        }
        drop(message);
        pieces(rows.clone(), bytes).try_for_each(|piece| self.add(&piece, messages))
    }

    /// Encodes rows as one message.
    fn message(&self, rows: &RecordBatch) -> Result<FlightData, ArrowError> {
        let mut context = self.contexts.lock().pop().unwrap_or_else(|| {
            let mut context = IpcWriteContext::default();
            context.set_reserve_scratch(true);
            context
        });
        // Plain columns have no dictionaries.
        let mut dictionaries = DictionaryTracker::new(true);
        let encoded = IpcDataGenerator::default().encode(
            rows,
            &mut dictionaries,
            &self.options,
            &mut context,
        );
        let (_no_dictionaries, rows) = encoded?;
        // The buffer after a larger one would be as large.
        if rows.arrow_data.len() <= MESSAGE_BYTES_MAX {
            self.contexts.lock().push(context);
        }
        Ok(rows.into())
    }
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
        Array, AsArray as _, DictionaryArray, Int32Array, ListArray, MapArray, StringArray,
        StringViewArray, StructArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Int8Type, Int32Type};
    use arrow_flight::decode::FlightRecordBatchStream;
    use arrow_flight::error::FlightError;

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
    fn a_map_keeps_what_is_never_null() {
        let names: DictionaryArray<Int8Type> = ["x", "y"].into_iter().collect();
        let values: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None]));
        let field = |name: &str, column: &dyn Array, nullable| {
            Arc::new(Field::new(name, column.data_type().clone(), nullable))
        };
        let entries = StructArray::from(vec![
            (field("keys", &names, false), Arc::new(names) as ArrayRef),
            (field("values", &values, true), values),
        ]);
        let entry = field("entries", &entries, false);
        let lengths = OffsetBuffer::from_lengths([2, 0]);
        let map = MapArray::new(entry, lengths, entries, None, false);
        let read = RecordBatch::try_from_iter([("map", Arc::new(map) as ArrayRef)]).unwrap();
        let sent = batch(&read, &schema(&read.schema())).unwrap();
        let entries = sent.column(0).as_map().entries();
        let kinds = |field: &FieldRef| (field.data_type().clone(), field.is_nullable());
        let found: Vec<_> = entries.fields().iter().map(kinds).collect();
        assert_eq!(found, [(DataType::Utf8, false), (DataType::Utf8, true)]);
        assert_eq!(entries.len(), 2);
    }

    const TEXT_BYTES: usize = 2000;

    /// Returns batches of numbers that go on from one to the next. Each number has a text, which is
    /// in a dictionary.
    fn numbered(batches: i32, rows: i32) -> Vec<RecordBatch> {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(TEXT_BYTES); 3]));
        let numbered = (0..batches).map(|number| {
            let numbers = Int32Array::from_iter_values(number * rows..(number + 1) * rows);
            let keys = Int32Array::from_iter_values((0..rows).map(|row| row % 3));
            let texts = DictionaryArray::new(keys, Arc::clone(&texts));
            let columns: [(_, ArrayRef); 2] =
                [("number", Arc::new(numbers)), ("text", Arc::new(texts))];
            RecordBatch::try_from_iter(columns).unwrap()
        });
        numbered.collect()
    }

    fn found(batches: Vec<RecordBatch>, kept: &Arc<()>) -> AnswerRows {
        let columns = numbered(1, 1)[0].schema();
        let rows = stream::iter(batches.into_iter().map(Ok)).boxed();
        let kept: Arc<dyn Any + Send + Sync> = Arc::<()>::clone(kept);
        AnswerRows { columns, uncounted: None, rows, kept: Some(kept) }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn rows_keep_their_order_in_messages_that_every_client_takes() {
        let kept = Arc::new(());
        // As they are read, the rows of a batch take less than a message: there are three texts.
        let (batches, rows) = (6, 4000);
        let mut messages = messages(found(numbered(batches, rows), &kept));
        let mut sent = Vec::new();
        while let Some(message) = messages.try_next().await.unwrap() {
            assert!(message.data_body.len() <= MESSAGE_BYTES_MAX);
            sent.push(Ok::<_, FlightError>(message));
        }
        drop(messages);
        assert_eq!(Arc::strong_count(&kept), 1, "the query has ended");
        let bytes = TEXT_BYTES * usize::try_from(batches * rows).unwrap();
        assert!(sent.len() <= 2 * bytes / MESSAGE_BYTES, "{} messages", sent.len());
        let read = FlightRecordBatchStream::new_from_flight_data(stream::iter(sent));
        let read: Vec<RecordBatch> = read.try_collect().await.unwrap();
        let numbers = read.iter().flat_map(|rows| {
            assert_eq!(rows.column(1).as_string::<i32>().value(0).len(), TEXT_BYTES);
            rows.column(0).as_primitive::<Int32Type>().values().to_vec()
        });
        assert!(numbers.eq(0..batches * rows));
    }

    #[tokio::test]
    async fn an_answer_without_rows_has_its_columns() {
        let none = found(numbered(1, 0), &Arc::new(()));
        let sent: Vec<FlightData> = messages(none).try_collect().await.unwrap();
        assert_eq!(sent.len(), 1);
        let columns = Schema::try_from(&sent[0]).unwrap();
        assert_eq!(*columns.field(1).data_type(), DataType::Utf8);
    }

    #[test]
    fn pieces_are_all_of_the_rows() {
        let whole = &numbered(1, 10)[0];
        for (bytes, lengths) in [
            (0, vec![10]),
            (MESSAGE_BYTES, vec![10]),
            (MESSAGE_BYTES + 1, vec![5, 5]),
            (3 * MESSAGE_BYTES, vec![4, 4, 2]),
            (usize::MAX, vec![1; 10]),
        ] {
            let pieces: Vec<_> = pieces(whole.clone(), bytes).collect();
            assert_eq!(pieces.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), lengths);
            assert_eq!(arrow::compute::concat_batches(&whole.schema(), &pieces).unwrap(), *whole);
        }
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
