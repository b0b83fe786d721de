//! `Answer`: what a question to a lake leads to.

use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::TryStreamExt;
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList, PyTuple};
use pyo3_arrow::PyRecordBatchReader;
use pyo3_arrow::ffi::to_schema_pycapsule;
use steplake::query::{Engine, Format, QueryError, QueryProgress, Statement, TableLimits, write};

use crate::interpreter::errors::{PendingException, raise};
use crate::interpreter::of_process::OfProcess;
use crate::interpreter::progress::Progress;
use crate::interpreter::runtime::{runtime, wait_for};
use crate::lakes::batches;
use crate::lakes::rows::{AnswerBatches, AnswerCursor};
use crate::lakes::stream::AnswerReader;

/// The rows that a representation shows.
const ROWS_SHOWN: usize = 20;

/// The answer to a question, which is asked when its rows are wanted.
///
/// Iterating gives the rows as tuples, and ``len(answer)`` is their number: that runs the query,
/// and keeps its rows for what follows, as long as the answer itself. So does ``list(answer)``,
/// which asks for the number first; ``answer.fetchall()`` keeps nothing. An answer is true, also
/// one without rows: ``if answer`` runs nothing.
///
/// Examples
/// --------
/// >>> answer = lake.sql("SELECT action, name FROM actions ORDER BY action LIMIT 2")
/// >>> len(answer), [action for action, _name in answer]
/// (2, [0, 1])
#[pyclass(frozen, module = "steplake")]
pub(crate) struct Answer {
    engine: OfProcess<Arc<Engine>>,
    statement: Statement,
    schema: SchemaRef,
    progress: Option<bool>,
    /// All rows, once somebody has asked for their number.
    rows: OnceLock<Vec<RecordBatch>>,
    /// What `fetchone` has not returned yet.
    cursor: Mutex<Option<AnswerCursor>>,
}

impl Answer {
    /// Plans a statement, and runs nothing.
    pub(crate) fn new(
        py: Python<'_>,
        engine: Arc<Engine>,
        statement: Statement,
        progress: Option<bool>,
    ) -> PyResult<Self> {
        let (asked, text) = (Arc::clone(&engine), statement.clone());
        let described =
            wait_for(py, &Progress::none(), async move { asked.describe(&text).await })?;
        let (rows, cursor) = (OnceLock::new(), Mutex::default());
        let engine = OfProcess::new(engine);
        Ok(Self { engine, statement, schema: described.columns, progress, rows, cursor })
    }

    fn engine(&self) -> PyResult<Arc<Engine>> {
        self.engine.get().cloned().ok_or_else(|| {
            raise(PendingException::usage(
                "this answer belongs to the process that this one was forked from: ask again here",
            ))
        })
    }

    fn reader(&self, py: Python<'_>) -> PyResult<AnswerReader> {
        let (runtime, engine) = (runtime(py)?, self.engine()?);
        let (statement, schema) = (self.statement.clone(), Arc::clone(&self.schema));
        Ok(AnswerReader::new(runtime, engine, statement, schema))
    }

    /// Begins at the first row.
    pub(crate) fn first(&self, py: Python<'_>) -> PyResult<AnswerCursor> {
        let batches = match self.rows.get() {
            Some(rows) => AnswerBatches::Kept(rows.clone().into_iter()),
            None => AnswerBatches::Read(self.reader(py)?),
        };
        Ok(AnswerCursor { batches, batch: None, row: 0 })
    }

    /// Runs the query to its end, unless it was run for the number of its rows.
    fn all(&self, py: Python<'_>) -> PyResult<Vec<RecordBatch>> {
        if let Some(rows) = self.rows.get() {
            return Ok(rows.clone());
        }
        let (engine, statement) = (self.engine()?, self.statement.clone());
        let begun = Arc::new(Mutex::new(None::<QueryProgress>));
        let shown = Arc::clone(&begun);
        let progress = Progress::new(self.progress, move || {
            let begun = shown.lock();
            let rows = begun.as_ref().map_or(0, QueryProgress::rows);
            format!("asking: {rows} rows")
        });
        wait_for(py, &progress, async move {
            let answer = engine.ask(&statement).await?;
            *begun.lock() = Some(answer.progress());
            answer.try_collect::<Vec<_>>().await
        })
    }

    fn table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        batches::table(py, self.all(py)?, Arc::clone(&self.schema))
    }

    /// The first rows, and the number of all.
    fn glance(&self, py: Python<'_>) -> PyResult<(Vec<RecordBatch>, usize)> {
        let (engine, statement) = (self.engine()?, self.statement.clone());
        wait_for(py, &Progress::none(), async move {
            let mut answer = engine.ask(&statement).await?;
            let (mut first, mut count) = (Vec::new(), 0);
            while let Some(batch) = answer.try_next().await? {
                let wanted = ROWS_SHOWN.saturating_sub(count).min(batch.num_rows());
                if wanted > 0 {
                    first.push(batch.slice(0, wanted));
                }
                count += batch.num_rows();
            }
            Ok::<_, QueryError>((first, count))
        })
    }

    /// Draws the first rows.
    fn drawn(&self, py: Python<'_>) -> PyResult<String> {
        let (engine, statement) = (self.engine()?, self.statement.clone());
        wait_for(py, &Progress::none(), async move {
            let answer = engine.ask(&statement).await?;
            let limits = TableLimits { rows_max: Some(ROWS_SHOWN), ..TableLimits::SCREEN };
            let mut text = Vec::new();
            write(answer, Format::Table, limits, &mut text).await?;
            Ok::<_, QueryError>(String::from_utf8_lossy(&text).trim_end().to_owned())
        })
    }
}

/// Returns a package that a method needs.
fn package<'py>(py: Python<'py>, name: &str, method: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("steplake._optional")?.call_method1("package", (name, format!("`{method}`")))
}

#[pymethods]
impl Answer {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Run the query and return a ``pyarrow.Table``.
    ///
    /// Raises
    /// ------
    /// MissingPackage
    ///     If pyarrow is not installed.
    fn to_arrow_table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pyarrow = package(py, "pyarrow", "to_arrow_table")?;
        pyarrow.call_method1("table", (self.table(py)?,))
    }

    /// Return a ``pyarrow.RecordBatchReader``, which runs the query as batches are read.
    ///
    /// The reader holds a few batches in memory, however long the answer is.
    fn to_arrow_reader<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pyarrow = package(py, "pyarrow", "to_arrow_reader")?;
        let reader = PyRecordBatchReader::new(Box::new(self.reader(py)?));
        let readers = pyarrow.getattr("RecordBatchReader")?;
        readers.call_method1("from_stream", (Bound::new(py, reader)?,))
    }

    /// Run the query and return a ``polars.DataFrame``, without a copy where the types allow.
    fn pl<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let polars = package(py, "polars", "pl")?;
        polars.call_method1("DataFrame", (self.table(py)?,))
    }

    /// Run the query and return a ``pandas.DataFrame``.
    fn df<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        package(py, "pandas", "df")?;
        let pyarrow = package(py, "pyarrow", "df")?;
        pyarrow.call_method1("table", (self.table(py)?,))?.call_method0("to_pandas")
    }

    /// Run the query and return a dict of ``torch.Tensor``, one for each column.
    ///
    /// A column of numbers has the shape ``(rows,)``; a column of lists of one length, such as
    /// ``Autophase``, has the shape ``(rows, length)``. The tensors can be written to.
    ///
    /// Raises
    /// ------
    /// UsageError
    ///     If a column has nulls, texts, bytes, or lists of several lengths.
    fn torch<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let torch = package(py, "torch", "torch")?;
        let arrays = batches::arrays(py, &self.all(py)?, &self.schema)?;
        for (name, array) in arrays.iter() {
            arrays.set_item(name, torch.call_method1("from_numpy", (array,))?)?;
        }
        Ok(arrays.into_any())
    }

    /// Run the query and return all rows as a list of tuples. State ids are 20 bytes.
    fn fetchall<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for batch in self.all(py)? {
            for place in 0..batch.num_rows() {
                rows.append(batches::row(py, &batch, place)?)?;
            }
        }
        Ok(rows)
    }

    /// Return the next row as a tuple; None after the last one. The first call runs the query.
    fn fetchone<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let taken = self.cursor.lock().take();
        let mut cursor = match taken {
            Some(cursor) => cursor,
            None => self.first(py)?,
        };
        let found = cursor.next(py)?;
        *self.cursor.lock() = Some(cursor);
        Ok(found)
    }

    /// Return the number of rows. The first call runs the query and keeps its rows.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        if self.rows.get().is_none() {
            // Another thread may have been faster, with the same rows.
            let _ = self.rows.set(self.all(py)?);
        }
        Ok(self.rows.get().into_iter().flatten().map(RecordBatch::num_rows).sum())
    }

    /// Return True, also without rows. It runs nothing, as `__len__` would.
    fn __bool__(_this: Bound<'_, Self>) -> bool {
        true
    }

    /// Iterate over the rows as tuples, from the first one on; batches are read as they are needed.
    fn __iter__(this: Bound<'_, Self>) -> AnswerRows {
        AnswerRows { answer: this.unbind(), cursor: Mutex::default() }
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let reader = PyRecordBatchReader::new(Box::new(self.reader(py)?));
        Bound::new(py, reader)?.call_method1("__arrow_c_stream__", (requested_schema,))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        Ok(to_schema_pycapsule(py, self.schema.as_ref())?)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.drawn(py)
    }

    /// Return what a notebook shows: a table of the first rows.
    fn _repr_html_<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (first, count) = self.glance(py)?;
        let rows = PyList::empty(py);
        for batch in first {
            for place in 0..batch.num_rows() {
                rows.append(batches::row(py, &batch, place)?)?;
            }
        }
        let notebook = py.import("steplake._notebook")?;
        notebook.call_method1("answer", (self.columns(), rows, count))
    }
}

/// Iterates over the rows of an answer.
#[pyclass(frozen, module = "steplake._steplake")]
pub(crate) struct AnswerRows {
    answer: Py<Answer>,
    /// None until the first row is wanted: `list` asks for the number of rows before.
    cursor: Mutex<Option<AnswerCursor>>,
}

#[pymethods]
impl AnswerRows {
    fn __iter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let taken = self.cursor.lock().take();
        let mut cursor = match taken {
            Some(cursor) => cursor,
            None => self.answer.get().first(py)?,
        };
        let found = cursor.next(py)?;
        *self.cursor.lock() = Some(cursor);
        Ok(found)
    }
}
