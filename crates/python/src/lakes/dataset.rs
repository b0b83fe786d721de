//! Rows of a lake for training, as arrays of NumPy that Rust has filled.

use std::path::PathBuf;

use numpy::{Element, PyArray1, PyArrayMethods as _, PyReadonlyArray1};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use steplake::export::{matrix_cache, newer_steps, sealed_rows};
use steplake::lake::{Lake, SnapshotId};
use steplake::load::{
    self, BatchPlan, BatchRequest, Batches, ColumnRequest, Condition, DatasetColumn,
    DatasetRequest, Epoch, GatheredItems, GraphBatch, Items, Leaks, NStep, NumberType, Numbers,
    Permutation, SealedRows, Source, SplitBy, SplitRequest, StreamLayout, StreamedRows,
};

use crate::compilers::worker::environments;
use crate::interpreter::errors::{PendingException, raise};
use crate::interpreter::of_process::OfProcess;
use crate::interpreter::progress::Progress;
use crate::interpreter::runtime::{blocking, wait_for};
use crate::lakes::parameters::values;

/// A column as it is asked for: its name, and the name of its type of numbers.
type ColumnArgument = (String, Option<String>);

/// What a split makes: its parts with their names, its counts, and a warning if one is due.
type NamedParts<'py> = (Vec<(&'static str, Dataset)>, Bound<'py, PyDict>, Option<String>);

/// Rows of one snapshot. It has no thread and no open file: a forked process can use it.
#[pyclass(frozen, module = "steplake._steplake")]
pub(crate) struct Dataset {
    rows: load::TrainingDataset,
    path: PathBuf,
    snapshot: i64,
    /// The steps that the rows leave out, because they are not sealed or not counted.
    newer_steps: u64,
}

/// Opens the sealed rows of a snapshot, and counts the closed steps that they leave out.
async fn open(
    path: PathBuf,
    wanted: Option<i64>,
    source: Source,
) -> Result<(SealedRows, u64), PendingException> {
    let (folder, known) = (path.clone(), wanted.map(SnapshotId));
    let count = move || match known {
        None => newer_steps(&Lake::open(&folder)?.snapshot()?, source),
        Some(_) => Ok(0),
    };
    let newer = blocking(count).await?;
    Ok((sealed_rows(&environments(), &path, known).await?, newer))
}

#[pymethods]
impl Dataset {
    /// Opens rows: `source` is the name of a table, and conditions are SQL with parameters.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "the one caller is `steplake._rows`")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        snapshot: Option<i64>,
        source: &str,
        columns: Vec<ColumnArgument>,
        conditions: Vec<(String, Option<Bound<'_, PyAny>>)>,
        n_step: Option<(u32, f64)>,
        progress: Option<bool>,
    ) -> PyResult<Self> {
        let source = Source::from_name(source).ok_or_else(|| {
            raise(PendingException::new(
                "NotInLake",
                format!(
                    "there is no dataset of {source:?}: the rows are those of {}",
                    Source::names().join(", ")
                ),
            ))
        })?;
        let condition = |(sql, params): (String, Option<Bound<'_, PyAny>>)| {
            let values = params.map(|params| values(&params)).transpose()?.unwrap_or_default();
            Ok(Condition { sql, values })
        };
        let request = DatasetRequest {
            source,
            columns: columns.into_iter().map(column).collect::<PyResult<_>>()?,
            conditions: conditions.into_iter().map(condition).collect::<PyResult<_>>()?,
            n_step: n_step.map(|(steps, discount)| NStep { steps, discount }),
        };
        let shown = Progress::new(progress, || "reading columns into the cache".to_owned());
        wait_for(py, &shown, async move {
            let (lake, newer_steps) = open(path.clone(), snapshot, source).await?;
            let rows = load::TrainingDataset::open(&lake, &request).await?;
            Ok::<_, PendingException>(Self { rows, path, snapshot: lake.snapshot().0, newer_steps })
        })
    }

    fn __len__(&self) -> usize {
        self.rows.len()
    }

    /// The number of the snapshot.
    #[getter]
    fn snapshot(&self) -> i64 {
        self.snapshot
    }

    /// Names the rows and their order.
    #[getter]
    fn fingerprint(&self) -> &str {
        self.rows.fingerprint()
    }

    /// The closed steps that are not sealed, or not counted, and so left out.
    #[getter]
    fn newer_steps(&self) -> u64 {
        self.newer_steps
    }

    /// Bytes of memory when everything has been read.
    #[getter]
    fn nbytes(&self) -> usize {
        self.rows.bytes()
    }

    /// The columns: name, type of numbers, and numbers of a row if a row has a vector. The type of
    /// a column of graphs is `graph`.
    #[getter]
    fn columns(&self) -> Vec<(String, &'static str, Option<usize>)> {
        let column =
            |column: &DatasetColumn| (column.name.clone(), column.number_type.name(), column.width);
        let graphs = self.rows.graphs().iter().map(|column| (column.name.clone(), "graph", None));
        self.rows.columns().iter().map(column).chain(graphs).collect()
    }

    /// Whether the rows can be streamed: they are no slices, episodes or graphs.
    #[getter]
    fn can_stream(&self) -> bool {
        self.rows.can_stream()
    }

    /// The distinct texts of nodes in a column of graphs; none if there is no such column.
    fn node_texts(&self, column: &str) -> Option<Vec<String>> {
        let column = self.rows.graphs().iter().find(|graphs| graphs.name == column)?;
        Some(column.texts().to_vec())
    }

    /// Reads the rows at these places of an epoch's order, as a dict of arrays. Without a seed, the
    /// order is that of the dataset.
    fn gather<'py>(
        &self,
        py: Python<'py>,
        places: PyReadonlyArray1<'py, u32>,
        seed: Option<u64>,
        epoch: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let places = self.places(places, seed, epoch)?;
        let read = py.detach(|| self.rows.gather(&places)).map_err(|error| raise(error.into()))?;
        arrays(py, &self.rows, read)
    }

    /// The rows at these places of an epoch's order; `name` says how they were chosen.
    fn choose(
        &self,
        name: &str,
        places: PyReadonlyArray1<'_, u32>,
        seed: Option<u64>,
        epoch: u64,
    ) -> PyResult<Self> {
        let places = self.places(places, seed, epoch)?;
        let chosen =
            || Ok::<_, PendingException>(self.rows.choose(&matrix_cache()?, name, || places)?);
        Ok(self.with(chosen().map_err(raise)?))
    }

    /// Makes items of several steps: slices, or without a length whole episodes.
    fn sequences(&self, length: Option<u32>, stride: u32) -> PyResult<Self> {
        let made =
            || Ok::<_, PendingException>(self.rows.sequences(&matrix_cache()?, length, stride)?);
        Ok(self.with(made().map_err(raise)?))
    }

    /// Splits the rows into parts, by their names; and says what became of the rows, and what there
    /// is to warn of.
    fn split<'py>(
        &self,
        py: Python<'py>,
        by: &str,
        test_size: f64,
        validation_size: f64,
        seed: u64,
    ) -> PyResult<NamedParts<'py>> {
        let by = SplitBy::from_name(by).ok_or_else(|| {
            raise(PendingException::usage(format!(
                "nothing is split by {by:?}: choose 'family', 'program' or 'row'"
            )))
        })?;
        let request = SplitRequest { by, test_size, validation_size, seed };
        let (path, snapshot, rows) = (self.path.clone(), self.snapshot, self.rows.clone());
        let shown = Progress::new(None, || "splitting".to_owned());
        let (split, leaks, of_validation) = wait_for(py, &shown, async move {
            let (lake, _newer) = open(path, Some(snapshot), rows.source()).await?;
            let split = rows.split(&lake, request).await?;
            // Each part is compared with what is trained with.
            let leaks_of = |part: &load::TrainingDataset| Leaks::of(&split.train, part);
            let leaks = leaks_of(&split.test);
            let of_validation = split.validation.as_ref().map(leaks_of).unwrap_or_default();
            Ok::<_, PendingException>((split, leaks, of_validation))
        })?;
        let (found, report) = (split.report, PyDict::new(py));
        for (name, count) in [
            ("train_rows", found.train_rows),
            ("validation_rows", found.validation_rows),
            ("test_rows", found.test_rows),
            ("purged_rows", found.purged_rows),
            ("train_groups", found.train_groups),
            ("validation_groups", found.validation_groups),
            ("test_groups", found.test_groups),
            ("components", found.components),
            ("test_states", leaks.test_states),
            ("leaked_states", leaks.shared_states),
            ("leaked_rows", leaks.rows_of_shared_states),
            ("validation_states", of_validation.test_states),
            ("validation_leaked_states", of_validation.shared_states),
            ("validation_leaked_rows", of_validation.rows_of_shared_states),
        ] {
            if split.validation.is_some() || !name.starts_with("validation") {
                report.set_item(name, count)?;
            }
        }
        let warning = found.warning(request);
        let parts = split.parts().into_iter().map(|(name, rows)| (name, self.with(rows.clone())));
        Ok((parts.collect(), report, warning))
    }

    /// Begins to read the batches of an epoch from a place on.
    #[pyo3(signature = (
        batch_rows, *, drop_last, rank, world_size, seed, epoch, begin, stride, threads, in_memory
    ))]
    #[expect(clippy::too_many_arguments, reason = "the one caller gives them by name")]
    fn batches(
        &self,
        py: Python<'_>,
        batch_rows: u32,
        drop_last: bool,
        rank: u32,
        world_size: u32,
        seed: Option<u64>,
        epoch: u64,
        begin: u32,
        stride: u32,
        threads: usize,
        in_memory: bool,
    ) -> PyResult<BatchReader> {
        let plan = self.plan(batch_rows, drop_last, world_size)?;
        let epoch = match seed {
            Some(seed) if !in_memory => Epoch::Streamed(self.streamed(py)?.epoch(seed, epoch)),
            _ => {
                let order = seed.map(|seed| Permutation::new(plan.rows, seed, epoch));
                Epoch::Mapped { dataset: self.rows.clone(), order }
            }
        };
        let request = BatchRequest { plan, rank, from: begin, stride, threads };
        let batches = Mutex::new(Batches::new(epoch, request));
        Ok(BatchReader { batches: OfProcess::new(batches), rows: self.rows.clone() })
    }

    /// The number of batches of each process from a place on.
    fn rounds(
        &self,
        batch_rows: u32,
        drop_last: bool,
        world_size: u32,
        begin: u32,
    ) -> PyResult<u64> {
        Ok(self.plan(batch_rows, drop_last, world_size)?.rounds(begin))
    }

    /// Where a later round begins.
    fn later(&self, batch_rows: u32, world_size: u32, begin: u32, rounds: u64) -> PyResult<u32> {
        Ok(self.plan(batch_rows, false, world_size)?.later(begin, rounds))
    }
}

impl Dataset {
    /// The rows as Parquet, which is written if the cache does not have it.
    fn streamed(&self, py: Python<'_>) -> PyResult<StreamedRows> {
        let rows = self.rows.clone();
        let shown = Progress::new(None, || "writing rows to be streamed".to_owned());
        wait_for(py, &shown, async move {
            let layout = StreamLayout::default();
            let open = move || {
                Ok::<_, PendingException>(StreamedRows::of(&rows, &matrix_cache()?, layout)?)
            };
            blocking(open).await
        })
    }

    /// Other rows of the same snapshot.
    fn with(&self, rows: load::TrainingDataset) -> Self {
        Self { rows, path: self.path.clone(), ..*self }
    }

    /// The places in the dataset of these places of an order.
    fn places(
        &self,
        places: PyReadonlyArray1<'_, u32>,
        seed: Option<u64>,
        epoch: u64,
    ) -> PyResult<Vec<u32>> {
        let mut places = places.as_slice()?.to_vec();
        let len = u32::try_from(self.rows.len()).expect("rows are counted in 32 bits");
        if let Some(place) = places.iter().find(|&&place| place >= len) {
            let message = format!("there is no row {place}: the dataset has {len} rows");
            return Err(pyo3::exceptions::PyIndexError::new_err(message));
        }
        if let Some(seed) = seed {
            let order = Permutation::new(len, seed, epoch);
            for place in &mut places {
                *place = order.row(*place);
            }
        }
        Ok(places)
    }

    fn plan(&self, batch_rows: u32, drop_last: bool, world_size: u32) -> PyResult<BatchPlan> {
        let some = |what: &str, number: u32| {
            number.try_into().map_err(|_zero| {
                raise(PendingException::usage(format!("`{what}` is 0: give a number from 1 on")))
            })
        };
        Ok(BatchPlan {
            rows: u32::try_from(self.rows.len()).expect("rows are counted in 32 bits"),
            batch_rows: some("batch_size", batch_rows)?,
            drop_last,
            world_size: some("world_size", world_size)?,
        })
    }
}

fn column((name, number_type): ColumnArgument) -> PyResult<ColumnRequest> {
    let Some(text) = number_type else {
        return Ok(ColumnRequest { name, number_type: None });
    };
    let number_type = NumberType::from_name(&text).ok_or_else(|| {
        raise(PendingException::usage(format!(
            "the column `{name}` cannot have the type {text}: choose uint8, int32, int64, float32 \
             or float64"
        )))
    })?;
    Ok(ColumnRequest { name, number_type: Some(number_type) })
}

/// The batches of an epoch, one after another.
#[pyclass(frozen, module = "steplake._steplake")]
pub(crate) struct BatchReader {
    batches: OfProcess<Mutex<Batches>>,
    rows: load::TrainingDataset,
}

#[pymethods]
impl BatchReader {
    /// Returns the next batch, its number of items, and where the next round begins; None at the
    /// end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyDict>, usize, u32)>> {
        let Some(batches) = self.batches.get() else {
            return Err(raise(PendingException::usage(
                "these batches belong to the process that this one was forked from: iterate anew",
            )));
        };
        let next = py.detach(|| batches.lock().next());
        let Some(batch) = next.transpose().map_err(|error| raise(error.into()))? else {
            return Ok(None);
        };
        Ok(Some((arrays(py, &self.rows, batch.read)?, batch.items, batch.next)))
    }
}

/// Each column as an array that can be written to. NumPy takes the memory over, without a copy. A
/// slice adds a dimension. The rows of episodes follow each other, and `ptr` says where each
/// begins.
fn arrays<'py>(
    py: Python<'py>,
    rows: &load::TrainingDataset,
    read: GatheredItems,
) -> PyResult<Bound<'py, PyDict>> {
    let arrays = PyDict::new(py);
    for (column, numbers) in rows.columns().iter().zip(read.columns) {
        let (items, width) = (rows.items(), column.width);
        let array = match numbers {
            Numbers::U8(numbers) if column.number_type == NumberType::Bool => {
                array(py, numbers, items, width)?.call_method1("view", ("bool",))?
            }
            Numbers::U8(numbers) => array(py, numbers, items, width)?,
            Numbers::I32(numbers) => array(py, numbers, items, width)?,
            Numbers::I64(numbers) => array(py, numbers, items, width)?,
            Numbers::F32(numbers) => array(py, numbers, items, width)?,
            Numbers::F64(numbers) => array(py, numbers, items, width)?,
        };
        arrays.set_item(&column.name, array)?;
    }
    for (column, graphs) in rows.graphs().iter().zip(read.graphs) {
        arrays.set_item(&column.name, graph_arrays(py, graphs)?)?;
    }
    if let Some(lengths) = read.lengths {
        let mut ptr = vec![0_i64];
        for length in lengths {
            ptr.push(ptr[ptr.len() - 1] + i64::from(length));
        }
        arrays.set_item("ptr", PyArray1::from_vec(py, ptr))?;
    }
    Ok(arrays)
}

/// Graphs as arrays, in the layout of PyTorch Geometric.
fn graph_arrays(py: Python<'_>, graphs: GraphBatch) -> PyResult<Bound<'_, PyDict>> {
    let arrays = PyDict::new(py);
    let edges = graphs.edge_flow.len();
    arrays.set_item("node_type", PyArray1::from_vec(py, graphs.node_type))?;
    arrays.set_item("node_text", PyArray1::from_vec(py, graphs.node_text))?;
    arrays.set_item("node_function", PyArray1::from_vec(py, graphs.node_function))?;
    arrays.set_item("node_block", PyArray1::from_vec(py, graphs.node_block))?;
    let edge_index = PyArray1::from_vec(py, graphs.edge_index).reshape([2, edges])?;
    arrays.set_item("edge_index", edge_index)?;
    arrays.set_item("edge_flow", PyArray1::from_vec(py, graphs.edge_flow))?;
    arrays.set_item("edge_position", PyArray1::from_vec(py, graphs.edge_position))?;
    arrays.set_item("batch", PyArray1::from_vec(py, graphs.batch))?;
    arrays.set_item("ptr", PyArray1::from_vec(py, graphs.ptr))?;
    Ok(arrays)
}

fn array<T: Element>(
    py: Python<'_>,
    numbers: Vec<T>,
    items: Items,
    width: Option<usize>,
) -> PyResult<Bound<'_, PyAny>> {
    let rows = numbers.len() / width.unwrap_or(1).max(1);
    let array = PyArray1::from_vec(py, numbers);
    let slice = match items {
        Items::Slices(length) => Some(length as usize),
        Items::Rows | Items::Episodes => None,
    };
    Ok(match (slice, width) {
        (None, None) => array.into_any(),
        (None, Some(width)) => array.reshape([rows, width])?.into_any(),
        (Some(length), None) => array.reshape([rows / length, length])?.into_any(),
        (Some(length), Some(width)) => array.reshape([rows / length, length, width])?.into_any(),
    })
}
