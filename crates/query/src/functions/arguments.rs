//! The arguments of functions, which may be constants or columns, in the types that the functions
//! use.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array, ListArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::ColumnarValue;

use crate::rules::signatures;
use steplake_model::StateId;

/// Applies a function of columns to an argument that may be a constant.
pub(super) fn apply(
    argument: &ColumnarValue,
    function: impl FnOnce(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    match argument {
        ColumnarValue::Array(column) => Ok(ColumnarValue::Array(function(column)?)),
        ColumnarValue::Scalar(value) => {
            let result = function(&value.to_array()?)?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?))
        }
    }
}

/// Reads a column as integers.
pub(super) fn integers(column: &ArrayRef, wanted: &str) -> Result<Int64Array> {
    if !is_integer(column.data_type()) {
        return Err(wrong_type(wanted, column.data_type()));
    }
    Ok(cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

/// Reads a column as lists of actions, whose items are 64-bit integers.
pub(super) fn action_lists(column: &ArrayRef, memory: &MemoryReservation) -> Result<ListArray> {
    let is_list = match column.data_type() {
        DataType::Null => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_integer(item.data_type())
        }
        _ => false,
    };
    if !is_list {
        return Err(wrong_type("a list of actions", column.data_type()));
    }
    // Items of one byte become items of eight.
    memory.try_grow(column.to_data().get_slice_memory_size()?.saturating_mul(8))?;
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    Ok(cast(column, &DataType::List(item))?.as_list().clone())
}

/// Reads a column as bytes; a text is read as its UTF-8 bytes.
pub(super) fn bytes(column: &ArrayRef) -> Result<BinaryArray> {
    match column.data_type() {
        DataType::Null
        | DataType::FixedSizeBinary(_)
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Utf8
        | DataType::Utf8View => Ok(cast(column, &DataType::Binary)?.as_binary().clone()),
        other => Err(wrong_type("a value of bytes", other)),
    }
}

/// Reads a column as state ids: 20 bytes or 40 hexadecimal digits each.
pub(super) fn state_ids(column: &ArrayRef) -> Result<Vec<Option<StateId>>> {
    let of_bytes = |bytes: &[u8]| {
        let state = bytes.try_into().ok().map(StateId);
        state.ok_or_else(|| plan_datafusion_err!("a state id has 20 bytes, not {}", bytes.len()))
    };
    match column.data_type() {
        DataType::Null => Ok(vec![None; column.len()]),
        DataType::FixedSizeBinary(_)
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => {
            bytes(column)?.iter().map(|bytes| bytes.map(of_bytes).transpose()).collect()
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            let texts = cast(column, &DataType::Utf8)?;
            let of_text = |text: &str| {
                text.parse::<StateId>().map_err(|error| {
                    plan_datafusion_err!(
                        "{error}; `SELECT state_id FROM steps LIMIT 10` shows some"
                    )
                })
            };
            texts.as_string::<i32>().iter().map(|text| text.map(of_text).transpose()).collect()
        }
        other => Err(wrong_type("a state id", other)),
    }
}

/// An untyped null counts as any type.
fn is_integer(kind: &DataType) -> bool {
    kind.is_integer() || kind.is_null()
}

/// The error about an argument of a wrong type. Like all errors here it is an error of planning,
/// although the query runs already: the mistake is in its text.
pub(super) fn wrong_type(wanted: &str, got: &DataType) -> DataFusionError {
    plan_datafusion_err!("expected {wanted}, got {}", signatures::named(got))
}
