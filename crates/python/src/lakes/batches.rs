//! Batches as objects of Python and of its libraries.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, SchemaRef, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3_arrow::{PyScalar, PyTable};

use crate::interpreter::errors::{PendingException, raise};

/// Returns a row as a tuple of Python's own values.
pub(crate) fn row<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
    place: usize,
) -> PyResult<Bound<'py, PyTuple>> {
    let schema = batch.schema();
    let values = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        let scalar = PyScalar::try_new(column.slice(place, 1), Arc::clone(field))?;
        Bound::new(py, scalar)?.call_method0("as_py")
    });
    PyTuple::new(py, values.collect::<PyResult<Vec<_>>>()?)
}

/// Returns an object with `__arrow_c_stream__`, which every Arrow library takes.
pub(crate) fn table(
    py: Python<'_>,
    batches: Vec<RecordBatch>,
    schema: SchemaRef,
) -> PyResult<Bound<'_, PyAny>> {
    Ok(Bound::new(py, PyTable::try_new(batches, schema)?)?.into_any())
}

/// Returns each column as a writable array of numpy. A column of lists of one length has two
/// dimensions.
pub(crate) fn arrays<'py>(
    py: Python<'py>,
    batches: &[RecordBatch],
    schema: &SchemaRef,
) -> PyResult<Bound<'py, PyDict>> {
    let whole = concat_batches(schema, batches);
    let whole = whole.map_err(|error| raise(PendingException::defect(&error)))?;
    let arrays = PyDict::new(py);
    for (field, column) in schema.fields().iter().zip(whole.columns()) {
        let array = array(py, column).map_err(|problem| {
            raise(PendingException::usage(format!("the column `{}` {problem}", field.name())))
        })?;
        arrays.set_item(field.name(), array)?;
    }
    Ok(arrays)
}

/// Why a column is no array of numbers.
type ColumnProblem = String;

fn array<'py>(py: Python<'py>, column: &ArrayRef) -> Result<Bound<'py, PyAny>, ColumnProblem> {
    match column.data_type() {
        DataType::FixedSizeList(_, length) => {
            let lists = column.as_fixed_size_list();
            demand_values(lists)?;
            // Unlike the child, this minds the offset of a sliced array.
            let length = usize::try_from(*length).unwrap_or_default();
            let values = lists.values().slice(lists.offset() * length, lists.len() * length);
            let flat = array(py, &values)?;
            flat.call_method1("reshape", (lists.len(), length)).map_err(|error| error.to_string())
        }
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            demand_values(lists)?;
            let first = lists.offsets().lengths().next().unwrap_or_default();
            if let Some(other) = lists.offsets().lengths().find(|&length| length != first) {
                return Err(format!(
                    "has lists of {first} and of {other} values, and a tensor needs one length: \
                     leave it out of the question"
                ));
            }
            let start = usize::try_from(lists.offsets()[0]).unwrap_or_default();
            let flat = array(py, &lists.values().slice(start, lists.len() * first))?;
            flat.call_method1("reshape", (lists.len(), first)).map_err(|error| error.to_string())
        }
        DataType::Boolean => {
            demand_values(column)?;
            let values = column.as_boolean().values().iter().collect::<Vec<_>>();
            Ok(PyArray1::from_vec(py, values).into_any())
        }
        DataType::Int8 => numbers::<Int8Type>(py, column),
        DataType::Int16 => numbers::<Int16Type>(py, column),
        DataType::Int32 => numbers::<Int32Type>(py, column),
        DataType::Int64 => numbers::<Int64Type>(py, column),
        DataType::UInt8 => numbers::<UInt8Type>(py, column),
        DataType::UInt16 => numbers::<UInt16Type>(py, column),
        DataType::UInt32 => numbers::<UInt32Type>(py, column),
        DataType::UInt64 => numbers::<UInt64Type>(py, column),
        DataType::Float32 => numbers::<Float32Type>(py, column),
        DataType::Float64 => numbers::<Float64Type>(py, column),
        other => Err(format!(
            "has the type {other}, and a tensor has numbers alone: leave it out of the question"
        )),
    }
}

fn demand_values(column: &dyn Array) -> Result<(), ColumnProblem> {
    match column.null_count() {
        0 => Ok(()),
        nulls => Err(format!(
            "has nulls ({nulls} of {} rows), and a tensor has none: filter them out, or use \
             `coalesce`",
            column.len()
        )),
    }
}

fn numbers<'py, T>(py: Python<'py>, column: &ArrayRef) -> Result<Bound<'py, PyAny>, ColumnProblem>
where
    T: ArrowPrimitiveType<Native: Element>,
{
    demand_values(column)?;
    let values: &[T::Native] = column.as_primitive::<T>().values();
    Ok(PyArray1::from_slice(py, values).into_any())
}

/// Returns a value of a column of texts; `None` if it is null.
pub(crate) fn text(column: &ArrayRef, place: usize) -> Option<String> {
    let texts = arrow::compute::cast(column, &DataType::Utf8).ok()?;
    let texts = texts.as_string::<i32>();
    texts.is_valid(place).then(|| texts.value(place).to_owned())
}
