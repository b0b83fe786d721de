//! Writes an answer in a format, for a terminal, a spreadsheet, a script or another reader.

use std::collections::HashSet;
use std::fmt::Display;
use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::writer::FileWriter;
use futures::StreamExt;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::answer::Answer;
use super::drawing::{draw, texts};
use super::expanded::expand;
use super::format::{Format, TableLimits, Written};
use super::json::NonFiniteAsText;
use crate::errors::error::QueryError;

impl Format {
    /// Whether an answer with these columns can be written in the format. [`write()`] checks this
    /// too, but its caller opens the output first.
    ///
    /// # Errors
    ///
    /// [`QueryError::SameName`]: JSON, Arrow and Parquet know columns by their names.
    pub fn check(self, schema: &Schema) -> Result<(), QueryError> {
        if self.is_for_people() || self == Self::Csv {
            return Ok(());
        }
        let mut names = HashSet::new();
        match schema.fields().iter().find(|field| !names.insert(field.name())) {
            Some(field) => Err(QueryError::SameName { name: field.name().clone(), format: self }),
            None => Ok(()),
        }
    }
}

/// Writes `answer` to `out`. Batches are written as they arrive; only a table is held in memory.
/// `limits` cut the formats for people; the other formats ignore them.
///
/// In a table, in CSV and in JSON, bytes are lower-case hex digits. In a table, numbers are rounded
/// to six significant digits. In a table and in CSV, numbers that are not finite are `NaN`, `inf`
/// and `-inf`. In JSON, they are the texts of [`NonFiniteAsText`], 64-bit integers are numbers,
/// lists are arrays, and nulls are written. In Arrow and Parquet, dictionaries become plain values.
///
/// # Errors
///
/// Those of the query itself, those of [`Format::check`], and [`QueryError::Write`].
pub async fn write(
    answer: Answer,
    format: Format,
    limits: TableLimits,
    out: impl Write + Send,
) -> Result<Written, QueryError> {
    let mut out = FirstErrorWriter { out, failure: None };
    let result = write_as(answer, format, limits, &mut out).await;
    // The errors of the formats hide the error of the system.
    out.failure.map_or(result, |failure| Err(QueryError::Write(failure)))
}

async fn write_as(
    answer: Answer,
    format: Format,
    limits: TableLimits,
    out: &mut FirstErrorWriter<impl Write + Send>,
) -> Result<Written, QueryError> {
    let schema = answer.schema();
    format.check(&schema)?;
    let written = match format {
        Format::Table => draw(answer, limits, out).await?,
        Format::Expanded => expand(answer, limits, out).await?,
        Format::Csv => {
            let schema = mapped(&schema, text_in_csv);
            let mut writer = arrow::csv::WriterBuilder::new().with_header(true).build(&mut *out);
            // This writes a header even if there is no batch.
            let header = RecordBatch::new_empty(Arc::clone(&schema));
            writer.write(&header).map_err(QueryError::failed)?;
            each(answer, &schema, |batch| writer.write(batch)).await?
        }
        Format::Json => {
            let mut writer = arrow::json::WriterBuilder::new()
                .with_explicit_nulls(true)
                .with_encoder_factory(Arc::new(NonFiniteAsText))
                .build::<_, arrow::json::writer::JsonArray>(&mut *out);
            let written = each(answer, &schema, |batch| writer.write(batch)).await?;
            writer.finish().map_err(QueryError::failed)?;
            drop(writer);
            writeln!(out)?;
            written
        }
        Format::Arrow => {
            let schema = mapped(&schema, plain);
            let mut writer = FileWriter::try_new(&mut *out, &schema).map_err(QueryError::failed)?;
            let written = each(answer, &schema, |batch| writer.write(batch)).await?;
            writer.finish().map_err(QueryError::failed)?;
            written
        }
        Format::Parquet => {
            let schema = mapped(&schema, plain);
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .build();
            let mut writer = ArrowWriter::try_new(&mut *out, Arc::clone(&schema), Some(properties))
                .map_err(QueryError::failed)?;
            let written = each(answer, &schema, |batch| writer.write(batch)).await?;
            writer.close().map_err(QueryError::failed)?;
            written
        }
    };
    out.flush()?;
    Ok(written)
}

/// A writer that keeps its first error.
struct FirstErrorWriter<W> {
    out: W,
    failure: Option<io::Error>,
}

impl<W: Write> FirstErrorWriter<W> {
    fn watch<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            if kind != io::ErrorKind::Interrupted {
                self.failure.get_or_insert(error);
            }
            kind.into()
        })
    }
}

impl<W: Write> Write for FirstErrorWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.out.write(bytes);
        self.watch(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.watch(result)
    }
}

/// Passes every batch to `take`, with its columns in the types of `schema`.
async fn each<E: Display>(
    mut answer: Answer,
    schema: &SchemaRef,
    mut take: impl FnMut(&RecordBatch) -> Result<(), E>,
) -> Result<Written, QueryError> {
    let mut rows = 0;
    while let Some(batch) = answer.next().await {
        let batch = adapted(&batch?, schema)?;
        take(&batch).map_err(QueryError::failed)?;
        rows += batch.num_rows() as u64;
    }
    Ok(Written { rows, cut: false })
}

/// The schema with the type of each column replaced.
fn mapped(schema: &SchemaRef, of: fn(&FieldRef) -> FieldRef) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(of).collect::<Vec<_>>()))
}

/// The values of a dictionary: an Arrow file may hold one dictionary for a column, and each batch
/// of an answer has its own.
fn plain(field: &FieldRef) -> FieldRef {
    match field.data_type() {
        DataType::Dictionary(_, value) => {
            Arc::new(field.as_ref().clone().with_data_type(value.as_ref().clone()))
        }
        _ => Arc::clone(field),
    }
}

/// CSV has no lists, so they are written as text, `[1, 2]`.
fn text_in_csv(field: &FieldRef) -> FieldRef {
    if field.data_type().is_nested() {
        Arc::new(Field::new(field.name(), DataType::Utf8, true))
    } else {
        Arc::clone(field)
    }
}

/// The batch with its columns in the types of `schema`.
fn adapted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, QueryError> {
    let column = |(column, field): (&ArrayRef, &FieldRef)| {
        if column.data_type() == field.data_type() {
            Ok(Arc::clone(column))
        } else if column.data_type().is_nested() {
            texts(column.as_ref())
        } else {
            cast(column, field.data_type())
        }
    };
    let columns = batch.columns().iter().zip(schema.fields()).map(column);
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(QueryError::failed)?;
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(QueryError::failed)
}
