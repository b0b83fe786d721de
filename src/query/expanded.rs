//! Writes an answer with one line for each value: rows that are too wide for a table. Values are
//! whole.

use std::io::Write;

use arrow::array::{Array, AsArray};
use futures::StreamExt;

use super::answer::Answer;
use super::drawing::{footer, shown};
use super::error::QueryError;
use super::format::{TableLimits, Written};

pub(super) async fn expand(
    mut answer: Answer,
    limits: TableLimits,
    out: &mut impl Write,
) -> Result<Written, QueryError> {
    let schema = answer.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let width = names.clone().map(|name| name.chars().count()).max().unwrap_or(0);
    let (mut rows, mut cut) = (0, false);
    while let Some(batch) = answer.next().await {
        let batch = batch?;
        let left = limits.rows_max.map_or(usize::MAX, |rows_max| rows_max - rows);
        cut = left < batch.num_rows();
        let batch = shown(&batch.slice(0, left.min(batch.num_rows())), None);
        let batch = batch.map_err(QueryError::failed)?;
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
        if cut {
            break;
        }
    }
    writeln!(out, "{}", footer(rows, cut))?;
    Ok(Written { rows: rows as u64, cut })
}
