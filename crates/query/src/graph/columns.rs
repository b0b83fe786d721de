//! The columns of answers.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, FixedSizeBinaryArray, Float64Array, Int32Array, Int32Builder, Int64Array,
    ListBuilder, StringArray,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

use crate::rules::literals::STATE_TYPE;
use steplake_model::{ActionIndex, StateId};

/// A column's name, type, and whether values can be missing.
pub(super) type ColumnSpec = (&'static str, DataType, bool);

/// A state id and its key.
pub(super) fn state_columns() -> [ColumnSpec; 2] {
    [("state_id", STATE_TYPE, false), ("state_key", DataType::Int64, false)]
}

/// A list of actions.
pub(super) fn actions_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)))
}

pub(super) fn states(states: impl Iterator<Item = StateId>) -> Result<ArrayRef> {
    let bytes: Vec<u8> = states.flat_map(|state| state.0).collect();
    Ok(Arc::new(FixedSizeBinaryArray::try_new(20, Buffer::from_vec(bytes), None)?))
}

pub(super) fn some_states(states: impl Iterator<Item = Option<StateId>>) -> Result<ArrayRef> {
    let states: Vec<Option<StateId>> = states.collect();
    let bytes = states.iter().flat_map(|state| state.map_or([0; StateId::LEN], |state| state.0));
    let nulls = states.iter().map(Option::is_some).collect::<NullBuffer>();
    let bytes = Buffer::from_vec(bytes.collect::<Vec<u8>>());
    Ok(Arc::new(FixedSizeBinaryArray::try_new(20, bytes, Some(nulls))?))
}

pub(super) fn keys(states: impl Iterator<Item = StateId>) -> ArrayRef {
    Arc::new(states.map(|state| state.key()).collect::<Int64Array>())
}

pub(super) fn action_lists(lists: impl Iterator<Item = Option<Vec<ActionIndex>>>) -> ArrayRef {
    let mut builder = ListBuilder::new(Int32Builder::new());
    for list in lists {
        match list {
            Some(actions) => {
                let numbers: Vec<i32> = actions.into_iter().map(number).collect();
                builder.values().append_slice(&numbers);
                builder.append(true);
            }
            None => builder.append(false),
        }
    }
    Arc::new(builder.finish())
}

pub(super) fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(texts.map(Some).collect::<StringArray>())
}

pub(super) fn actions(actions: impl Iterator<Item = Option<ActionIndex>>) -> ArrayRef {
    Arc::new(actions.map(|action| action.map(number)).collect::<Int32Array>())
}

/// The number of an action in a column.
fn number(action: ActionIndex) -> i32 {
    action.0.cast_signed()
}

/// Numbers of steps, and other small ones.
pub(super) fn counts(counts: impl Iterator<Item = Option<u32>>) -> ArrayRef {
    let whole = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    Arc::new(counts.map(|count| count.map(whole)).collect::<Int32Array>())
}

pub(super) fn integers(integers: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(integers.collect::<Int64Array>())
}

/// Numbers; NaN becomes null.
pub(super) fn numbers(numbers: impl Iterator<Item = f64>) -> ArrayRef {
    let known = |number: f64| (!number.is_nan()).then_some(number);
    Arc::new(numbers.map(known).collect::<Float64Array>())
}
