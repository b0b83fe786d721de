//! Rows to Arrow.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, DictionaryArray, FixedSizeBinaryArray, Float64Array,
    Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};

use super::identity::{Identity, parameters_json};
use super::rows::{BenchmarkRow, EpisodeRow, IrRow, ObservationRow, Rows, StepRow};
use super::table::{SHA1_LEN, STATE_ID_LEN, Table};
use super::values;
use crate::model::{ActionFlags, ActionSpec, EpisodeId, StateId};

/// Rows of one frame at most, so that no frame grows past what `SQLite` takes in one piece.
const FRAME_ROWS_MAX: usize = 65_536;
/// Bytes of IR in one frame at most, but for a single row that has more.
const FRAME_IR_BYTES_MAX: usize = 16 << 20;

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
    /// When a row has another number or kind of values than the lake has columns for.
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
            push(Table::Observations, observations(self.get(Table::Observations), rows));
        }
        for rows in chunks_of_bytes(&rows.ir) {
            push(Table::Ir, ir(self.get(Table::Ir), rows));
        }
        batches
    }
}

fn chunks_of_bytes(rows: &[IrRow]) -> impl Iterator<Item = &[IrRow]> {
    let mut bytes = 0;
    rows.chunk_by(move |row, next| {
        bytes += row.compressed.len();
        let together = bytes + next.compressed.len() <= FRAME_IR_BYTES_MAX;
        if !together {
            bytes = 0;
        }
        together
    })
}

/// Columns in the order of a schema, each named where it is made: a column out of its place is
/// caught even where the types agree.
struct Columns<'a> {
    schema: &'a Schema,
    arrays: Vec<ArrayRef>,
}

impl<'a> Columns<'a> {
    fn new(schema: &'a Schema) -> Self {
        Self { schema, arrays: Vec::with_capacity(schema.fields().len()) }
    }

    fn push(&mut self, name: &str, array: ArrayRef) -> &mut Self {
        assert_eq!(
            self.schema.field(self.arrays.len()).name(),
            name,
            "a column is out of its place"
        );
        self.arrays.push(array);
        self
    }

    /// The columns that come next and match a pattern of the schema.
    fn rest(&mut self, arrays: impl Iterator<Item = ArrayRef>) -> &mut Self {
        self.arrays.extend(arrays);
        self
    }

    fn finish(&mut self, schema: &SchemaRef) -> RecordBatch {
        RecordBatch::try_new(Arc::clone(schema), std::mem::take(&mut self.arrays))
            .expect("the columns are made to the schema")
    }
}

fn text<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn integers(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

/// Few different texts, mostly in long runs of the same one.
fn symbols<'a>(values: impl ExactSizeIterator<Item = &'a str>) -> ArrayRef {
    let mut places = HashMap::new();
    let mut names: Vec<&str> = Vec::new();
    let mut last = (None, 0);
    let keys = values.map(|value| {
        if last.0 != Some(value) {
            let place = *places.entry(value).or_insert_with(|| {
                names.push(value);
                count(names.len() - 1)
            });
            last = (Some(value), place);
        }
        last.1
    });
    let keys = Int32Array::from_iter_values(keys);
    Arc::new(DictionaryArray::new(keys, Arc::new(StringArray::from(names))))
}

/// The columns `state_id` and `state_key` of states that are all there.
pub(crate) fn states(states: impl ExactSizeIterator<Item = StateId>) -> [ArrayRef; 2] {
    let mut bytes = Vec::with_capacity(states.len() * StateId::LEN);
    let mut keys = Vec::with_capacity(states.len());
    for state in states {
        bytes.extend_from_slice(&state.0);
        keys.push(state.key());
    }
    let ids = FixedSizeBinaryArray::new(STATE_ID_LEN, Buffer::from_vec(bytes), None);
    [Arc::new(ids), Arc::new(Int64Array::from(keys))]
}

fn nullable_states(rows: &[StepRow]) -> [ArrayRef; 2] {
    let mut bytes = Vec::with_capacity(rows.len() * StateId::LEN);
    let mut keys = Vec::with_capacity(rows.len());
    for row in rows {
        let state = row.state.unwrap_or(StateId([0; StateId::LEN]));
        bytes.extend_from_slice(&state.0);
        keys.push(state.key());
    }
    let nulls = rows.iter().any(|row| row.state.is_none());
    let nulls = nulls.then(|| rows.iter().map(|row| row.state.is_some()).collect::<NullBuffer>());
    let ids = FixedSizeBinaryArray::new(STATE_ID_LEN, Buffer::from_vec(bytes), nulls.clone());
    [Arc::new(ids), Arc::new(Int64Array::new(keys.into(), nulls))]
}

/// Counts stay within 32 bits: a program, an episode and a frame have fewer than 2^31 of anything.
fn count(value: impl TryInto<i32>) -> i32 {
    value.try_into().unwrap_or_else(|_| panic!("a count fits 32 bits"))
}

fn benchmarks(schema: &SchemaRef, rows: &[BenchmarkRow]) -> RecordBatch {
    let [initial, _] = states(rows.iter().map(|row| row.initial_state));
    let mut columns = Columns::new(schema);
    columns
        .push("benchmark_uri", text(rows.iter().map(|row| row.uri.as_str())))
        .push("program_digest", text(rows.iter().map(|row| row.program_digest.as_str())))
        .push("dataset", text(rows.iter().map(|row| row.uri.dataset())))
        .push("family", text(rows.iter().map(|row| row.provenance.family.as_str())))
        .push("licence", text(rows.iter().map(|row| row.provenance.licence.as_str())))
        .push("origin", text(rows.iter().map(|row| row.provenance.origin.as_str())))
        .push(
            "compile_command",
            text(rows.iter().map(|row| row.provenance.compile_command.as_str())),
        )
        .push("initial_state_id", initial);
    let baselines = schema.fields()[columns.arrays.len()..].iter().map(|field| {
        let costs = rows.iter().map(|row| row.baselines.get(field.name()));
        Arc::new(costs.collect::<Int64Array>()) as ArrayRef
    });
    columns.rest(baselines).finish(schema)
}

fn episodes(schema: &SchemaRef, rows: &[EpisodeRow]) -> RecordBatch {
    let parents = rows.iter().map(|row| row.parent.map(|(EpisodeId(parent), _)| parent));
    let parent_steps = rows.iter().map(|row| row.parent.map(|(_, step)| count(step)));
    Columns::new(schema)
        .push("episode_id", integers(rows.iter().map(|row| row.id.0)))
        .push(
            "run_id",
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| row.id.run().0))),
        )
        .push("ordinal", integers(rows.iter().map(|row| i64::from(row.id.ordinal()))))
        .push("seed", integers(rows.iter().map(|row| row.seed)))
        .push("benchmark_uri", text(rows.iter().map(|row| row.benchmark.as_str())))
        .push("policy", text(rows.iter().map(|row| row.policy.as_str())))
        .push("parent_episode_id", Arc::new(parents.collect::<Int64Array>()))
        .push("parent_step_index", Arc::new(parent_steps.collect::<Int32Array>()))
        .push(
            "steps",
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| count(row.steps)))),
        )
        .push("outcome", text(rows.iter().map(|row| row.outcome.as_str())))
        .push(
            "detail",
            Arc::new(rows.iter().map(|row| row.detail.as_deref()).collect::<StringArray>()),
        )
        .finish(schema)
}

fn steps(schema: &SchemaRef, rows: &[StepRow]) -> RecordBatch {
    let [ids, keys] = nullable_states(rows);
    let actions = rows.iter().map(|row| {
        row.action.map(|action| {
            i32::try_from(action.0).expect("an action space has fewer than 2^31 actions")
        })
    });
    let micros = |row: &StepRow| i64::try_from(row.wall_time.as_micros()).unwrap_or(i64::MAX);
    let mut columns = Columns::new(schema);
    columns
        .push("episode_id", integers(rows.iter().map(|row| row.episode.0)))
        .push(
            "step_index",
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| count(row.index)))),
        )
        .push("benchmark_uri", symbols(rows.iter().map(|row| row.benchmark.as_str())))
        .push("action", Arc::new(actions.collect::<Int32Array>()))
        .push("state_id", ids)
        .push("state_key", keys)
        .push(
            "keyframe",
            Arc::new(rows.iter().map(|row| Some(row.keyframe)).collect::<BooleanArray>()),
        )
        .push(
            "end_of_episode",
            Arc::new(rows.iter().map(|row| Some(row.end_of_episode)).collect::<BooleanArray>()),
        );
    columns.push("wall_time_us", integers(rows.iter().map(micros)));
    let rewards = schema.fields().len() - columns.arrays.len();
    for row in rows {
        let given = row.rewards.as_ref().map_or(rewards, |given| given.len());
        assert_eq!(given, rewards, "a step has one reward for each reward column");
    }
    columns.rest((0..rewards).map(|place| reward(rows, place))).finish(schema)
}

fn reward(rows: &[StepRow], place: usize) -> ArrayRef {
    let values =
        rows.iter().map(|row| row.rewards.as_ref().map_or(f64::NAN, |rewards| rewards[place]));
    let values = values.collect::<Vec<_>>();
    let nulls = values.iter().any(|value| value.is_nan());
    let nulls = nulls.then(|| values.iter().map(|value| !value.is_nan()).collect::<NullBuffer>());
    Arc::new(Float64Array::new(values.into(), nulls))
}

fn observations(schema: &SchemaRef, rows: &[ObservationRow]) -> RecordBatch {
    let [ids, keys] = states(rows.iter().map(|row| row.state));
    let mut columns = Columns::new(schema);
    columns.push("state_id", ids).push("state_key", keys);
    let spaces = &schema.fields()[columns.arrays.len()..];
    for row in rows {
        assert_eq!(row.values.len(), spaces.len(), "a state has one value for each column");
    }
    let values = |(place, space): (usize, &FieldRef)| {
        let values = rows.iter().map(|row| row.values[place].as_ref()).collect::<Vec<_>>();
        values::column(space, &values)
    };
    columns.rest(spaces.iter().enumerate().map(values)).finish(schema)
}

/// The table of the actions.
pub(crate) fn actions(schema: &SchemaRef, actions: &[ActionSpec]) -> RecordBatch {
    let texts = |of: fn(&ActionSpec) -> &str| text(actions.iter().map(of));
    let flags = |of: fn(&ActionFlags) -> bool| -> ArrayRef {
        Arc::new(actions.iter().map(|action| Some(of(&action.flags))).collect::<BooleanArray>())
    };
    let parameters = actions.iter().map(|action| {
        let given = parameters_json(&action.parameters);
        (!given.is_empty()).then(|| serde_json::Value::Object(given).to_string())
    });
    Columns::new(schema)
        .push("action", Arc::new(Int32Array::from_iter_values(0..count(actions.len()))))
        .push("name", texts(|action| &action.name))
        .push("pipeline", texts(|action| &action.pipeline))
        .push("parameters", Arc::new(parameters.collect::<StringArray>()))
        .push("replayable", flags(|flags| flags.replayable))
        .push("crashes", flags(|flags| flags.crashes))
        .push("slow", flags(|flags| flags.slow))
        .push("never_changes", flags(|flags| flags.never_changes))
        .finish(schema)
}

fn ir(schema: &SchemaRef, rows: &[IrRow]) -> RecordBatch {
    let [ids, keys] = states(rows.iter().map(|row| row.state));
    let sha1 = rows.iter().flat_map(|row| row.bitcode_sha1).collect::<Vec<u8>>();
    Columns::new(schema)
        .push("state_id", ids)
        .push("state_key", keys)
        .push(
            "bitcode",
            Arc::new(BinaryArray::from_iter_values(
                rows.iter().map(|row| row.compressed.as_slice()),
            )),
        )
        .push(
            "bytes",
            Arc::new(Int32Array::from_iter_values(rows.iter().map(|row| count(row.bytes)))),
        )
        .push(
            "bitcode_sha1",
            Arc::new(FixedSizeBinaryArray::new(SHA1_LEN, Buffer::from_vec(sha1), None)),
        )
        .finish(schema)
}
