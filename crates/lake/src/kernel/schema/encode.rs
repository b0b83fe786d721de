//! Rows as Arrow batches.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Float64Array,
    Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef, Fields, Int32Type, SchemaRef};

use super::rows::Rows;
use super::table::{SHA1_LEN, STATE_ID_LEN, Table, list_item};
use super::tables::{BenchmarkRow, ObservationRow, StepRow, TableRow};
use super::values::{self, nulls};
use crate::kernel::identity::{Identity, parameters_json};
use steplake_model::{ActionIndex, ActionSpec, StateId};

/// The greatest number of rows in a frame. It keeps frames below the size limit of `SQLite`.
const FRAME_ROWS_MAX: usize = 65_536;
/// The greatest number of bytes of IR or of observations in a frame, unless a single row has more.
const CHUNK_BYTES_MAX: usize = 16 << 20;

/// The schema of every table of one lake.
#[derive(Debug, Clone)]
pub(crate) struct Schemas([SchemaRef; Table::ALL.len()]);

impl Schemas {
    pub(crate) fn new(identity: &Identity) -> Self {
        Self(Table::ALL.map(|table| table.schema(identity)))
    }

    pub(crate) fn get(&self, table: Table) -> &SchemaRef {
        &self.0[table as usize]
    }

    /// Turns rows into batches of bounded size, in the order of [`Table::ALL`].
    ///
    /// # Panics
    ///
    /// If the values of a row do not fit the lake's columns in number or type.
    pub(crate) fn encode(&self, rows: &Rows) -> Vec<(Table, RecordBatch)> {
        let mut batches = Vec::new();
        self.push(Table::Benchmarks, &rows.benchmarks, &mut batches);
        self.push(Table::Episodes, &rows.episodes, &mut batches);
        self.push(Table::Steps, &rows.steps, &mut batches);
        self.push(Table::Observations, &rows.observations, &mut batches);
        self.push(Table::Ir, &rows.ir, &mut batches);
        self.push(Table::Measurements, &rows.measurements, &mut batches);
        self.push(Table::Miscompilations, &rows.miscompilations, &mut batches);
        batches
    }

    fn push<R: TableRow>(&self, table: Table, rows: &[R], batches: &mut Vec<(Table, RecordBatch)>) {
        let frames = rows.chunks(FRAME_ROWS_MAX).flat_map(|rows| chunks_of_bytes(rows, R::bytes));
        batches.extend(frames.map(|rows| (table, batch(self.get(table), rows))));
    }
}

fn chunks_of_bytes<R>(rows: &[R], bytes_of: fn(&R) -> usize) -> impl Iterator<Item = &[R]> {
    let mut bytes = 0;
    rows.chunk_by(move |row, next| {
        bytes += bytes_of(row);
        let together = bytes + bytes_of(next) <= CHUNK_BYTES_MAX;
        if !together {
            bytes = 0;
        }
        together
    })
}

/// The batch of some rows.
pub(crate) fn batch<R: TableRow>(schema: &SchemaRef, rows: &[R]) -> RecordBatch {
    let columns = R::columns(rows, schema.fields());
    RecordBatch::try_new(Arc::clone(schema), columns).expect("the columns are made to the schema")
}

pub(crate) fn text<'a, R>(rows: &'a [R], of: impl Fn(&'a R) -> &'a str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
}

pub(crate) fn optional_text<'a, R>(
    rows: &'a [R],
    of: impl Fn(&'a R) -> Option<&'a str>,
) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<StringArray>())
}

/// A column of texts of which few differ.
pub(crate) fn symbols<'a, R>(rows: &'a [R], of: impl Fn(&'a R) -> &'a str) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<DictionaryArray<Int32Type>>())
}

/// A column of lists, each of as many of the items as `lengths` says.
fn lists(items: ArrayRef, item: DataType, lengths: impl Iterator<Item = usize>) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(Arc::new(list_item(item)), offsets, items, None))
}

pub(crate) fn integers<R>(rows: &[R], of: impl Fn(&R) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
}

pub(crate) fn optional_integers<R>(rows: &[R], of: impl Fn(&R) -> Option<i64>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<Int64Array>())
}

pub(crate) fn small<R>(rows: &[R], of: impl Fn(&R) -> i32) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(rows.iter().map(of)))
}

pub(crate) fn counts<R>(rows: &[R], of: impl Fn(&R) -> u32) -> ArrayRef {
    small(rows, |row| count(of(row)))
}

pub(crate) fn optional_counts<R>(rows: &[R], of: impl Fn(&R) -> Option<u32>) -> ArrayRef {
    Arc::new(rows.iter().map(|row| of(row).map(count)).collect::<Int32Array>())
}

pub(crate) fn flags<R>(rows: &[R], of: impl Fn(&R) -> bool) -> ArrayRef {
    Arc::new(BooleanArray::from(rows.iter().map(of).collect::<Vec<_>>()))
}

/// A column of state ids.
pub(crate) fn ids(bytes: Vec<u8>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(FixedSizeBinaryArray::new(STATE_ID_LEN, Buffer::from_vec(bytes), nulls))
}

/// A column of rewards. NaN becomes null.
pub(crate) fn rewards(values: Vec<f64>) -> ArrayRef {
    let nulls = nulls(values.iter().map(|value| !value.is_nan()));
    Arc::new(Float64Array::new(values.into(), nulls))
}

/// A column of states.
pub(crate) fn states<R>(rows: &[R], of: impl Fn(&R) -> Option<StateId>) -> ArrayRef {
    let none = [0; StateId::LEN];
    let bytes = rows.iter().map(|row| of(row).map_or(none, |state| state.0)).collect::<Vec<_>>();
    ids(bytes.into_flattened(), nulls(rows.iter().map(|row| of(row).is_some())))
}

/// The keys of such a column.
pub(crate) fn keys<R>(rows: &[R], of: impl Fn(&R) -> Option<StateId>) -> ArrayRef {
    optional_integers(rows, |row| of(row).map(|state| state.key()))
}

/// A count as 32 bits: a program, an episode, a frame and an action space have fewer than 2^31 of
/// anything.
fn count(value: impl TryInto<i32>) -> i32 {
    value.try_into().unwrap_or_else(|_| panic!("a count fits 32 bits"))
}

/// What is left of the columns after the fixed ones: those that the lake's identity adds.
fn of_spaces(table: Table, fields: &Fields) -> &[FieldRef] {
    let fixed = table.columns().iter().filter(|column| column.each.is_none()).count();
    &fields[fixed..]
}

pub(crate) fn baselines(rows: &[BenchmarkRow], fields: &Fields) -> Vec<ArrayRef> {
    let column = |field: &FieldRef| optional_integers(rows, |row| row.baselines.get(field.name()));
    of_spaces(Table::Benchmarks, fields).iter().map(column).collect()
}

pub(crate) fn step_rewards(rows: &[StepRow], fields: &Fields) -> Vec<ArrayRef> {
    let columns = of_spaces(Table::Steps, fields).len();
    for given in rows.iter().filter_map(|row| row.rewards.as_ref()) {
        assert_eq!(given.len(), columns, "a step has one reward for each reward column");
    }
    let column = |place| {
        let reward = |row: &StepRow| row.rewards.as_ref().map_or(f64::NAN, |given| given[place]);
        rewards(rows.iter().map(reward).collect())
    };
    (0..columns).map(column).collect()
}

pub(crate) fn observed(rows: &[ObservationRow], fields: &Fields) -> Vec<ArrayRef> {
    let spaces = of_spaces(Table::Observations, fields);
    for row in rows {
        assert_eq!(row.values.len(), spaces.len(), "a state has one value for each column");
    }
    let column = |(place, space): (usize, &FieldRef)| {
        let values = rows.iter().map(|row| row.values[place].as_ref()).collect::<Vec<_>>();
        values::column(space, &values)
    };
    spaces.iter().enumerate().map(column).collect()
}

/// The place of each action, which is its number.
pub(crate) fn numbers(actions: &[ActionSpec]) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(0..count(actions.len())))
}

pub(crate) fn parameters(actions: &[ActionSpec]) -> ArrayRef {
    let parameters = actions.iter().map(|action| {
        let given = parameters_json(&action.parameters);
        (!given.is_empty()).then(|| serde_json::Value::Object(given).to_string())
    });
    Arc::new(parameters.collect::<StringArray>())
}

pub(crate) fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

pub(crate) fn binary<R>(rows: &[R], of: impl Fn(&R) -> &[u8]) -> ArrayRef {
    Arc::new(BinaryArray::from_iter_values(rows.iter().map(of)))
}

pub(crate) fn sha1s<R>(rows: &[R], of: impl Fn(&R) -> [u8; 20]) -> ArrayRef {
    let bytes = rows.iter().flat_map(of).collect::<Vec<u8>>();
    Arc::new(FixedSizeBinaryArray::new(SHA1_LEN, Buffer::from_vec(bytes), None))
}

pub(crate) fn float_lists<R>(rows: &[R], of: impl Fn(&R) -> &[f64]) -> ArrayRef {
    let items = rows.iter().flat_map(|row| of(row).iter().copied());
    let items = Arc::new(Float64Array::from_iter_values(items));
    lists(items, DataType::Float64, rows.iter().map(|row| of(row).len()))
}

pub(crate) fn action_lists<R>(rows: &[R], of: impl Fn(&R) -> &[ActionIndex]) -> ArrayRef {
    let items = rows.iter().flat_map(|row| of(row).iter().map(|action| count(action.0)));
    let items = Arc::new(Int32Array::from_iter_values(items));
    lists(items, DataType::Int32, rows.iter().map(|row| of(row).len()))
}
