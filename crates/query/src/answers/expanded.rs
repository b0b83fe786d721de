//! Writes an answer with one line for each value: rows that are too wide for a table. Values are
//! whole.

use std::io::Write;

use arrow::array::{Array, AsArray};

use super::answer::Answer;
use super::drawing::{first_rows, footer};
use super::format::{TableLimits, Written};
use crate::errors::error::QueryError;

pub(crate) async fn expand(
    answer: Answer,
    limits: TableLimits,
    out: &mut impl Write,
) -> Result<Written, QueryError> {
    let schema = answer.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let width = names.clone().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut rows = 0;
    let written = first_rows(answer, limits.rows_max, None, |batch| {
        for row in 0..batch.num_rows() {
            rows += 1;
            let head = format!("─[ row {rows} ]");
            writeln!(out, "{head:─<length$}", length = width.max(head.chars().count()) + 2)?;
            for (name, column) in names.clone().zip(batch.columns()) {
                let texts = column.as_string::<i32>();
                let value = if texts.is_valid(row) { texts.value(row) } else { "" };
                // A value of several lines stays in its column.
                let mut lines = value.lines();
                writeln!(out, "{name:width$} │ {}", lines.next().unwrap_or_default())?;
                for line in lines {
                    writeln!(out, "{:width$} │ {line}", "")?;
                }
            }
        }
        Ok(())
    });
    let written = written.await?;
    writeln!(out, "{}", footer(written))?;
    Ok(written)
}
