//! Rows as Arrow batches.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Float64Array,
    Int32Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef, Int32Type, SchemaRef};

use super::identity::{Identity, parameters_json};
use super::rows::{
    BenchmarkRow, EpisodeRow, IrRow, MeasurementRow, MiscompilationRow, ObservationRow, Rows,
    StepRow,
};
use super::table::{SHA1_LEN, STATE_ID_LEN, Table, list_item};
use super::values::{self, nulls};
use crate::model::{ActionSpec, EpisodeId, StateId};

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
        let mut push = |table, batch| batches.push((table, batch));
        for rows in rows.benchmarks.chunks(FRAME_ROWS_MAX) {
            push(Table::Benchmarks, benchmarks(self.get(Table::Benchmarks), rows));
        }
        for rows in rows.episodes.chunks(FRAME_ROWS_MAX) {
            push(Table::Episodes, episodes(self.get(Table::Episodes), rows));
        }
        for rows in rows.steps.chunks(FRAME_ROWS_MAX) {
            push(Table::Steps, steps(self.get(Table::Steps), rows));
        }
        for rows in rows.observations.chunks(FRAME_ROWS_MAX) {
            for rows in chunks_of_bytes(rows, ObservationRow::bytes) {
                push(Table::Observations, observations(self.get(Table::Observations), rows));
            }
        }
        for rows in chunks_of_bytes(&rows.ir, |row| row.compressed.len()) {
            push(Table::Ir, ir(self.get(Table::Ir), rows));
        }
        for rows in chunks_of_bytes(&rows.measurements, |row| size_of_val(&*row.samples)) {
            push(Table::Measurements, measurements(self.get(Table::Measurements), rows));
        }
        for rows in rows.miscompilations.chunks(FRAME_ROWS_MAX) {
            push(Table::Miscompilations, miscompilations(self.get(Table::Miscompilations), rows));
        }
        batches
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

/// A batch of columns in the order of a schema: first those with names, which are checked, then
/// those of a pattern. A column out of its place is caught even where the types agree.
fn batch(
    schema: &SchemaRef,
    named: Vec<(&str, ArrayRef)>,
    rest: impl IntoIterator<Item = ArrayRef>,
) -> RecordBatch {
    let (names, mut arrays): (Vec<_>, Vec<_>) = named.into_iter().unzip();
    let mut places = names.iter().zip(schema.fields());
    assert!(places.all(|(name, field)| name == field.name()), "a column is out of its place");
    arrays.extend(rest);
    RecordBatch::try_new(Arc::clone(schema), arrays).expect("the columns are made to the schema")
}

fn text<'a, R>(rows: &'a [R], of: impl Fn(&'a R) -> &'a str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(of)))
}

fn optional_text<'a, R>(rows: &'a [R], of: impl Fn(&'a R) -> Option<&'a str>) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<StringArray>())
}

/// A column of texts of which few differ.
fn symbols<'a, R>(rows: &'a [R], of: impl Fn(&'a R) -> &'a str) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<DictionaryArray<Int32Type>>())
}

/// A column of lists, each of as many of the items as `lengths` says.
fn lists(items: ArrayRef, item: DataType, lengths: impl Iterator<Item = usize>) -> ArrayRef {
    let offsets = OffsetBuffer::from_lengths(lengths);
    Arc::new(ListArray::new(Arc::new(list_item(item)), offsets, items, None))
}

fn integers<R>(rows: &[R], of: impl Fn(&R) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
}

fn counts<R>(rows: &[R], of: impl Fn(&R) -> u32) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| count(of(row)))))
}

fn flags<R>(rows: &[R], of: impl Fn(&R) -> bool) -> ArrayRef {
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

/// The columns `state_id` and `state_key`.
fn states<R>(rows: &[R], of: impl Fn(&R) -> Option<StateId>) -> [ArrayRef; 2] {
    let states = rows.iter().map(of).collect::<Vec<_>>();
    let nulls = nulls(states.iter().map(Option::is_some));
    let states = states.into_iter().map(|state| state.unwrap_or(StateId([0; StateId::LEN])));
    let (bytes, keys): (Vec<_>, Vec<_>) = states.map(|state| (state.0, state.key())).unzip();
    let keys = Int64Array::new(keys.into(), nulls.clone());
    [ids(bytes.into_flattened(), nulls), Arc::new(keys)]
}

/// A count as 32 bits: a program, an episode, a frame and an action space have fewer than 2^31 of
/// anything.
fn count(value: impl TryInto<i32>) -> i32 {
    value.try_into().unwrap_or_else(|_| panic!("a count fits 32 bits"))
}

fn benchmarks(schema: &SchemaRef, rows: &[BenchmarkRow]) -> RecordBatch {
    let [initial, _] = states(rows, |row| Some(row.initial_state));
    let execution = optional_text(rows, |row| row.execution.as_deref());
    let named = vec![
        ("benchmark_uri", text(rows, |row| row.uri.as_str())),
        ("program_digest", text(rows, |row| &row.program_digest)),
        ("dataset", text(rows, |row| row.uri.dataset())),
        ("family", text(rows, |row| &row.provenance.family)),
        ("licence", text(rows, |row| &row.provenance.licence)),
        ("origin", text(rows, |row| &row.provenance.origin)),
        ("compile_command", text(rows, |row| &row.provenance.compile_command)),
        ("initial_state_id", initial),
        ("execution", execution),
    ];
    let baselines = schema.fields()[named.len()..].iter().map(|field| -> ArrayRef {
        let costs = rows.iter().map(|row| row.baselines.get(field.name()));
        Arc::new(costs.collect::<Int64Array>())
    });
    batch(schema, named, baselines)
}

fn episodes(schema: &SchemaRef, rows: &[EpisodeRow]) -> RecordBatch {
    let runs = Int32Array::from_iter_values(rows.iter().map(|row| row.id.run().0));
    let parents = rows.iter().map(|row| row.parent.map(|(EpisodeId(parent), _)| parent));
    let parent_steps = rows.iter().map(|row| row.parent.map(|(_, step)| count(step)));
    let named: Vec<(&str, ArrayRef)> = vec![
        ("episode_id", integers(rows, |row| row.id.0)),
        ("run_id", Arc::new(runs)),
        ("ordinal", integers(rows, |row| i64::from(row.id.ordinal()))),
        ("seed", integers(rows, |row| row.seed)),
        ("benchmark_uri", text(rows, |row| row.benchmark.as_str())),
        ("policy", text(rows, |row| &row.policy)),
        ("parent_episode_id", Arc::new(parents.collect::<Int64Array>())),
        ("parent_step_index", Arc::new(parent_steps.collect::<Int32Array>())),
        ("steps", counts(rows, |row| row.steps)),
        ("outcome", text(rows, |row| row.outcome.as_str())),
        ("detail", optional_text(rows, |row| row.detail.as_deref())),
    ];
    batch(schema, named, [])
}

fn steps(schema: &SchemaRef, rows: &[StepRow]) -> RecordBatch {
    let [ids, keys] = states(rows, |row| row.state);
    let actions = rows.iter().map(|row| row.action.map(|action| count(action.0)));
    let micros = |row: &StepRow| i64::try_from(row.wall_time.as_micros()).unwrap_or(i64::MAX);
    let named: Vec<(&str, ArrayRef)> = vec![
        ("episode_id", integers(rows, |row| row.episode.0)),
        ("step_index", counts(rows, |row| row.index)),
        ("benchmark_uri", symbols(rows, |row| row.benchmark.as_str())),
        ("action", Arc::new(actions.collect::<Int32Array>())),
        ("state_id", ids),
        ("state_key", keys),
        ("keyframe", flags(rows, |row| row.keyframe)),
        ("end_of_episode", flags(rows, |row| row.end_of_episode)),
        ("wall_time_us", integers(rows, micros)),
    ];
    let columns = schema.fields().len() - named.len();
    for given in rows.iter().filter_map(|row| row.rewards.as_ref()) {
        assert_eq!(given.len(), columns, "a step has one reward for each reward column");
    }
    let column = |place| {
        let reward = |row: &StepRow| row.rewards.as_ref().map_or(f64::NAN, |given| given[place]);
        rewards(rows.iter().map(reward).collect())
    };
    batch(schema, named, (0..columns).map(column))
}

fn observations(schema: &SchemaRef, rows: &[ObservationRow]) -> RecordBatch {
    let [ids, keys] = states(rows, |row| Some(row.state));
    let named = vec![("state_id", ids), ("state_key", keys)];
    let spaces = &schema.fields()[named.len()..];
    for row in rows {
        assert_eq!(row.values.len(), spaces.len(), "a state has one value for each column");
    }
    let column = |(place, space): (usize, &FieldRef)| {
        let values = rows.iter().map(|row| row.values[place].as_ref()).collect::<Vec<_>>();
        values::column(space, &values)
    };
    batch(schema, named, spaces.iter().enumerate().map(column))
}

/// The table of the actions.
pub(crate) fn actions(schema: &SchemaRef, actions: &[ActionSpec]) -> RecordBatch {
    let numbers = Int32Array::from_iter_values(0..count(actions.len()));
    let parameters = actions.iter().map(|action| {
        let given = parameters_json(&action.parameters);
        (!given.is_empty()).then(|| serde_json::Value::Object(given).to_string())
    });
    let named: Vec<(&str, ArrayRef)> = vec![
        ("action", Arc::new(numbers)),
        ("name", text(actions, |action| &action.name)),
        ("pipeline", text(actions, |action| &action.pipeline)),
        ("parameters", Arc::new(parameters.collect::<StringArray>())),
        ("replayable", flags(actions, |action| action.flags.replayable)),
        ("crashes", flags(actions, |action| action.flags.crashes)),
        ("slow", flags(actions, |action| action.flags.slow)),
        ("never_changes", flags(actions, |action| action.flags.never_changes)),
    ];
    batch(schema, named, [])
}

fn ir(schema: &SchemaRef, rows: &[IrRow]) -> RecordBatch {
    let [ids, keys] = states(rows, |row| Some(row.state));
    let bitcode = BinaryArray::from_iter_values(rows.iter().map(|row| &row.compressed));
    let sha1 = rows.iter().flat_map(|row| row.bitcode_sha1).collect::<Vec<u8>>();
    let sha1 = FixedSizeBinaryArray::new(SHA1_LEN, Buffer::from_vec(sha1), None);
    let named: Vec<(&str, ArrayRef)> = vec![
        ("state_id", ids),
        ("state_key", keys),
        ("bitcode", Arc::new(bitcode)),
        ("bytes", counts(rows, |row| row.bytes)),
        ("bitcode_sha1", Arc::new(sha1)),
    ];
    batch(schema, named, [])
}

fn measurements(schema: &SchemaRef, rows: &[MeasurementRow]) -> RecordBatch {
    let [ids, keys] = states(rows, |row| Some(row.state));
    let samples = rows.iter().flat_map(|row| row.samples.iter().copied());
    let samples = Arc::new(Float64Array::from_iter_values(samples));
    let lengths = rows.iter().map(|row| row.samples.len());
    let named: Vec<(&str, ArrayRef)> = vec![
        ("state_id", ids),
        ("state_key", keys),
        ("uid", text(rows, |row| &row.uid)),
        ("benchmark_uri", symbols(rows, |row| row.benchmark.as_str())),
        ("space", symbols(rows, |row| &row.space)),
        ("machine", symbols(rows, |row| &row.machine)),
        ("compilation", symbols(rows, |row| &row.compilation)),
        ("warmups", counts(rows, |row| row.warmups)),
        ("measured_at_ms", integers(rows, |row| row.measured_at_ms)),
        ("samples", lists(samples, DataType::Float64, lengths)),
    ];
    batch(schema, named, [])
}

fn miscompilations(schema: &SchemaRef, rows: &[MiscompilationRow]) -> RecordBatch {
    let [ids, keys] = states(rows, |row| Some(row.state));
    let [next_ids, next_keys] = states(rows, |row| Some(row.next_state));
    let actions = rows.iter().flat_map(|row| row.actions.iter().map(|action| count(action.0)));
    let actions = Arc::new(Int32Array::from_iter_values(actions));
    let lengths = rows.iter().map(|row| row.actions.len());
    let named: Vec<(&str, ArrayRef)> = vec![
        ("state_id", ids),
        ("state_key", keys),
        ("uid", text(rows, |row| &row.uid)),
        ("benchmark_uri", symbols(rows, |row| row.benchmark.as_str())),
        ("next_state_id", next_ids),
        ("next_state_key", next_keys),
        ("kind", symbols(rows, |row| row.kind.as_str())),
        ("subject", optional_text(rows, |row| row.subject.as_deref())),
        ("expected_digest", text(rows, |row| &row.expected.digest)),
        ("actual_digest", text(rows, |row| &row.actual.digest)),
        ("expected_excerpt", text(rows, |row| &row.expected.excerpt)),
        ("actual_excerpt", text(rows, |row| &row.actual.excerpt)),
        ("minimised", flags(rows, |row| row.minimised)),
        ("compilation", symbols(rows, |row| &row.compilation)),
        ("found_at_ms", integers(rows, |row| row.found_at_ms)),
        ("actions", lists(actions, DataType::Int32, lengths)),
    ];
    batch(schema, named, [])
}
