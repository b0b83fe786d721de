//! Draws an answer as a table for people.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch, RecordBatchOptions};
use arrow::array::{Float64Array, StringArray};
use arrow::datatypes::{DataType, Field, Float64Type, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use arrow::util::pretty::pretty_format_batches_with_options;
use futures::StreamExt;

use super::answer::Answer;
use super::format::{TableLimits, Written};
use crate::errors::error::QueryError;

pub(crate) async fn draw(
    answer: Answer,
    limits: TableLimits,
    out: &mut impl Write,
) -> Result<Written, QueryError> {
    let schema = answer.schema();
    let cell_chars_max = limits.cell_chars_max.filter(|_| !is_plan(&schema));
    let mut batches = Vec::new();
    let written = first_rows(answer, limits.rows_max, cell_chars_max, |batch| {
        batches.push(batch);
        Ok(())
    });
    let written = written.await?;
    let hint = if cell_chars_max.is_some_and(|chars_max| has_shortened(&batches, chars_max)) {
        "; the format `expanded` shows what … stands for"
    } else {
        ""
    };
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(schema));
    }
    let options = FormatOptions::default().with_null("");
    let drawn =
        pretty_format_batches_with_options(&batches, &options).map_err(QueryError::failed)?;
    writeln!(out, "{drawn}\n{}{hint}", footer(written))?;
    Ok(written)
}

/// Whether a value of texts was shortened to `chars_max` characters.
fn has_shortened(batches: &[RecordBatch], chars_max: usize) -> bool {
    let columns = batches.iter().flat_map(RecordBatch::columns);
    let mut texts = columns.flat_map(|column| column.as_string::<i32>().iter().flatten());
    texts.any(|text| text.ends_with('…') && text.chars().count() == chars_max)
}

/// Passes the first rows of an answer to `take`, batch by batch, as the texts that are shown.
pub(crate) async fn first_rows(
    mut answer: Answer,
    rows_max: Option<usize>,
    cell_chars_max: Option<usize>,
    mut take: impl FnMut(RecordBatch) -> Result<(), QueryError>,
) -> Result<Written, QueryError> {
    let (mut rows, mut cut) = (0, false);
    while !cut && let Some(batch) = answer.next().await {
        let batch = batch?;
        let fits = batch.num_rows().min(rows_max.map_or(usize::MAX, |rows_max| rows_max - rows));
        cut = fits < batch.num_rows();
        rows += fits;
        take(shown(&batch.slice(0, fits), cell_chars_max).map_err(QueryError::failed)?)?;
    }
    Ok(Written { rows: rows as u64, cut })
}

/// The line below the rows.
pub(crate) fn footer(Written { rows, cut }: Written) -> String {
    let noun = if rows == 1 { "row" } else { "rows" };
    if cut {
        format!("the first {rows} {noun}; a file and the formats for programs have all of them")
    } else {
        format!("{rows} {noun}")
    }
}

/// True for the answer to `EXPLAIN`, which is one long text.
fn is_plan(schema: &Schema) -> bool {
    schema.fields().iter().map(|field| field.name().as_str()).eq(["plan_type", "plan"])
}

/// The batch with every value as the text that is shown.
fn shown(batch: &RecordBatch, cell_chars_max: Option<usize>) -> Result<RecordBatch, ArrowError> {
    let column = |column: &ArrayRef| -> Result<ArrayRef, ArrowError> {
        let texts = texts(rounded(column)?.as_ref())?;
        let Some(chars_max) = cell_chars_max else { return Ok(texts) };
        let cells = texts.as_string::<i32>().iter();
        Ok(Arc::new(
            cells.map(|cell| cell.map(|cell| shortened(cell, chars_max))).collect::<StringArray>(),
        ))
    };
    let columns = batch.columns().iter().map(column).collect::<Result<_, _>>()?;
    let schema = batch.schema();
    let fields = schema.fields().iter().map(|field| Field::new(field.name(), DataType::Utf8, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

/// Every value as a text.
pub(crate) fn texts(column: &dyn Array) -> Result<ArrayRef, ArrowError> {
    let options = FormatOptions::default().with_null("");
    let formatter = ArrayFormatter::try_new(column, &options)?;
    let text = |row| column.is_valid(row).then(|| formatter.value(row).try_to_string()).transpose();
    let texts = (0..column.len()).map(text).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(StringArray::from(texts)))
}

/// A text of at most `chars_max` characters.
fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().nth(chars_max).is_none() {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

/// The column with its numbers rounded, including those in lists.
fn rounded(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Float64 => {
            let rounded: Float64Array = column.as_primitive::<Float64Type>().unary(round);
            Ok(Arc::new(rounded))
        }
        DataType::List(field) => {
            let list = column.as_list::<i32>();
            let values = rounded(list.values())?;
            let (field, offsets) = (Arc::clone(field), list.offsets().clone());
            Ok(Arc::new(ListArray::try_new(field, offsets, values, list.nulls().cloned())?))
        }
        _ => Ok(Arc::clone(column)),
    }
}

/// From this number on, rounding to six digits would change the integer part.
const WHOLE_MIN: f64 = 1e6;

/// The number with six significant digits, or its integer part if that has more.
fn round(number: f64) -> f64 {
    if number.abs() >= WHOLE_MIN {
        return number.round();
    }
    format!("{number:.5e}").parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_six_digits_and_their_whole_part() {
        for (number, shown) in [
            (0.1 + 0.2, 0.3),
            (-0.123_456_789, -0.123_457),
            (1.234_567_8e-9, 1.234_57e-9),
            (123_456.789, 123_457.0),
            (12_345_678.9, 12_345_679.0),
            (f64::INFINITY, f64::INFINITY),
        ] {
            assert_eq!(round(number).to_bits(), f64::to_bits(shown), "{number}");
        }
        assert!(round(f64::NAN).is_nan());
    }

    #[test]
    fn only_what_is_longer_is_shortened() {
        assert_eq!(shortened("äöü", 3), "äöü");
        assert_eq!(shortened("äöüß", 3), "äö…");
        assert_eq!(shortened("", 3), "");
    }
}
