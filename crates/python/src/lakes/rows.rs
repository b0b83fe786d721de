//! The rows of an answer, one after another.

use std::vec::IntoIter;

use arrow::array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::lakes::batches;
use crate::lakes::stream::AnswerReader;

/// A place among the rows of an answer.
pub(crate) struct AnswerCursor {
    pub(crate) batches: AnswerBatches,
    pub(crate) batch: Option<RecordBatch>,
    pub(crate) row: usize,
}

/// Where the batches of an answer come from.
pub(crate) enum AnswerBatches {
    /// From the query, as they are needed.
    Read(AnswerReader),
    /// From the answer, which has them all.
    Kept(IntoIter<RecordBatch>),
}

impl AnswerBatches {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        match self {
            Self::Read(reader) => py.detach(|| reader.next_batch()).transpose(),
            Self::Kept(batches) => Ok(batches.next()),
        }
    }
}

impl AnswerCursor {
    /// Returns the next row; none after the last one.
    pub(crate) fn next<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        loop {
            if let Some(batch) = self.batch.as_ref().filter(|batch| self.row < batch.num_rows()) {
                let row = batches::row(py, batch, self.row)?;
                self.row += 1;
                return Ok(Some(row));
            }
            self.row = 0;
            self.batch = self.batches.next(py)?;
            if self.batch.is_none() {
                return Ok(None);
            }
        }
    }
}
