//! Batches of the tables as typed columns.
//!
//! Only this module reads columns of `steps` and of the derived tables by name and type. The reader
//! of a batch has compared its columns with those of `lake.json`. A column that is missing here was
//! therefore not asked for, which is a defect: the panic names the column.

use arrow::array::{
    Array as _, ArrayRef, ArrowPrimitiveType, AsArray as _, BooleanArray, DictionaryArray,
    FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array, PrimitiveArray, RecordBatch,
    StringArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};

use super::rows::KnownBenchmark;
use super::table::Table;
use crate::model::{ActionIndex, Baselines, EpisodeId, EpisodeOutcome, Failure, StateId};

/// The type of the columns named `action`.
pub(crate) type ActionType = Int32Type;
/// A number of such a column.
pub(crate) type ActionNumber = i32;
/// A column of actions.
pub(crate) type ActionArray = PrimitiveArray<ActionType>;

/// In place of the action of a failure that no action led to: the compiler failed on the state in
/// which an episode began. In the column it is null.
pub(crate) const NO_ACTION: ActionIndex = ActionIndex(ActionNumber::MAX.cast_unsigned());

/// Returns the action of a number in a column.
#[inline]
pub(crate) fn action_index(number: ActionNumber) -> ActionIndex {
    ActionIndex(number.cast_unsigned())
}

/// Returns the number of an action in a column.
#[inline]
pub(crate) fn action_number(action: ActionIndex) -> ActionNumber {
    action.0.cast_signed()
}

fn typed<'a, A>(
    batch: &'a RecordBatch,
    name: &str,
    downcast: impl FnOnce(&'a ArrayRef) -> Option<A>,
) -> A {
    let column = batch.column_by_name(name);
    let column = column.unwrap_or_else(|| panic!("column `{name}` was not read"));
    let other = || panic!("column `{name}` has another type: {}", column.data_type());
    downcast(column).unwrap_or_else(other)
}

fn numbers<'a, T: ArrowPrimitiveType>(batch: &'a RecordBatch, name: &str) -> &'a PrimitiveArray<T> {
    typed(batch, name, |column| column.as_primitive_opt())
}

fn text<'a>(batch: &'a RecordBatch, name: &str) -> &'a StringArray {
    typed(batch, name, |column| column.as_string_opt())
}

fn ids<'a>(batch: &'a RecordBatch, name: &str) -> &'a FixedSizeBinaryArray {
    typed(batch, name, |column| column.as_fixed_size_binary_opt())
}

fn booleans<'a>(batch: &'a RecordBatch, name: &str) -> &'a BooleanArray {
    typed(batch, name, |column| column.as_boolean_opt())
}

/// The states in a column.
pub(crate) fn state_ids<'a>(
    batch: &'a RecordBatch,
    column: &str,
) -> impl Iterator<Item = Option<StateId>> + 'a {
    let states = States::of(batch, column);
    (0..batch.num_rows()).map(move |row| states.get(row))
}

/// The state in a row, which is not null.
pub(crate) fn state_id(ids: &FixedSizeBinaryArray, row: usize) -> StateId {
    StateId(ids.value(row).try_into().expect("the column holds 20 bytes a row"))
}

/// The order of states in segments: by `state_key`, which is signed, then by the bytes.
pub(crate) fn order(state: StateId) -> (i64, StateId) {
    (state.key(), state)
}

/// The column `state_key`.
pub(crate) fn state_keys(batch: &RecordBatch) -> &Int64Array {
    numbers(batch, "state_key")
}

/// The column `episode_id`.
pub(crate) fn episode_ids(batch: &RecordBatch) -> &[i64] {
    numbers::<Int64Type>(batch, "episode_id").values()
}

/// The column `uid` of a table whose rows have names across lakes.
pub(crate) fn uids(batch: &RecordBatch) -> impl Iterator<Item = &str> {
    let uids = text(batch, "uid");
    (0..uids.len()).map(|row| uids.value(row))
}

/// The numbers of `samples` in each row of `measurements`.
pub(crate) fn samples(batch: &RecordBatch) -> impl Iterator<Item = &[f64]> {
    let lists = typed(batch, "samples", |column| column.as_list_opt::<i32>());
    let numbers = lists.values().as_primitive::<Float64Type>().values();
    let ends = lists.offsets();
    let index = |offset: i32| usize::try_from(offset).expect("offsets are not negative");
    ends.windows(2).map(move |ends| &numbers[index(ends[0])..index(ends[1])])
}

/// The column `benchmark_uri` of any table.
pub(crate) fn benchmark_uris(batch: &RecordBatch) -> impl Iterator<Item = &str> {
    enum Uris<'a> {
        Text(&'a StringArray),
        Symbols(&'a DictionaryArray<Int32Type>, &'a StringArray),
    }
    let uris = typed(batch, "benchmark_uri", |column| {
        let symbols = || {
            let symbols = column.as_dictionary_opt::<Int32Type>()?;
            Some(Uris::Symbols(symbols, symbols.values().as_string_opt()?))
        };
        column.as_string_opt().map(Uris::Text).or_else(symbols)
    });
    (0..batch.num_rows()).map(move |row| match uris {
        Uris::Text(text) => text.value(row),
        Uris::Symbols(symbols, text) => {
            text.value(symbols.key(row).expect("`benchmark_uri` has no nulls"))
        }
    })
}

/// A column whose values may be null.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nullable<'a, T> {
    values: &'a [T],
    nulls: Option<&'a NullBuffer>,
}

/// A column of states.
pub(crate) type States<'a> = Nullable<'a, [u8; StateId::LEN]>;
/// A column of actions.
pub(crate) type Actions<'a> = Nullable<'a, ActionNumber>;
/// A column of rewards.
pub(crate) type Rewards<'a> = Nullable<'a, f64>;

impl<'a, T> Nullable<'a, T> {
    fn new(values: &'a [T], nulls: Option<&'a NullBuffer>) -> Self {
        Self { values, nulls: nulls.filter(|nulls| nulls.null_count() > 0) }
    }

    #[inline]
    pub(crate) fn is_there(&self, row: usize) -> bool {
        self.nulls.is_none_or(|nulls| nulls.is_valid(row))
    }

    #[inline]
    fn value(&self, row: usize) -> Option<&'a T> {
        self.is_there(row).then(|| &self.values[row])
    }
}

impl<'a> States<'a> {
    pub(crate) fn of(batch: &'a RecordBatch, column: &str) -> Self {
        let ids = ids(batch, column);
        assert_eq!(ids.value_size(), StateId::LEN, "column `{column}` holds no state ids");
        Self::new(ids.value_data().as_chunks().0, ids.nulls())
    }

    /// The bytes of the state in a row.
    #[inline]
    pub(crate) fn bytes(&self, row: usize) -> Option<&'a [u8; StateId::LEN]> {
        self.value(row)
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<StateId> {
        self.value(row).copied().map(StateId)
    }
}

impl Actions<'_> {
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<ActionIndex> {
        self.value(row).copied().map(action_index)
    }
}

impl Rewards<'_> {
    /// The reward in a row; NaN for none.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> f64 {
        self.value(row).copied().unwrap_or(f64::NAN)
    }
}

/// The name of the column of a reward space.
pub(crate) fn reward_column(space: &str) -> String {
    format!("reward_{space}")
}

/// The columns of rewards that were read, in the lake's order.
fn reward_columns(batch: &RecordBatch) -> impl Iterator<Item = &Float64Array> {
    let fields = batch.schema_ref().fields().iter().zip(batch.columns());
    let rewards = fields.filter(|(field, _)| field.name().starts_with("reward_"));
    rewards.map(|(_, column)| column.as_primitive::<Float64Type>())
}

/// Rows of `steps`. `episode_id` and `step_index` have to be among the columns; the others only if
/// their methods are called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepColumns<'a> {
    batch: &'a RecordBatch,
    pub(crate) episodes: &'a [i64],
    pub(crate) indexes: &'a [i32],
}

impl<'a> StepColumns<'a> {
    pub(crate) fn of(batch: &'a RecordBatch) -> Self {
        let indexes = numbers::<Int32Type>(batch, "step_index").values();
        Self { batch, episodes: episode_ids(batch), indexes }
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.episodes.len()
    }

    /// Null at step 0, which has no action.
    pub(crate) fn actions(&self) -> Actions<'a> {
        let actions: &ActionArray = numbers(self.batch, "action");
        Actions::new(actions.values(), actions.nulls())
    }

    /// Null if the compiler failed.
    pub(crate) fn states(&self) -> States<'a> {
        States::of(self.batch, "state_id")
    }

    /// Null if the state is null.
    pub(crate) fn state_keys(&self) -> &'a Int64Array {
        state_keys(self.batch)
    }

    pub(crate) fn keyframes(&self) -> &'a BooleanArray {
        booleans(self.batch, "keyframe")
    }

    /// Microseconds.
    pub(crate) fn wall_times(&self) -> &'a [i64] {
        numbers::<Int64Type>(self.batch, "wall_time_us").values()
    }

    /// The columns of rewards that were read, in the lake's order.
    pub(crate) fn rewards(&self) -> Vec<Rewards<'a>> {
        let rewards = reward_columns(self.batch);
        rewards.map(|column| Rewards::new(column.values(), column.nulls())).collect()
    }
}

/// How an episode ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EpisodeEnd<'a> {
    pub(crate) id: EpisodeId,
    /// Steps with an action.
    pub(crate) steps: i32,
    /// The text of the column.
    pub(crate) outcome: &'a str,
    pub(crate) detail: Option<&'a str>,
}

impl<'a> EpisodeEnd<'a> {
    /// The columns to read.
    pub(crate) const NAMES: [&'static str; 4] = ["episode_id", "steps", "outcome", "detail"];

    /// The rows of a batch of `episodes`.
    pub(crate) fn rows(batch: &'a RecordBatch) -> impl Iterator<Item = Self> {
        let (ids, steps) = (episode_ids(batch), numbers::<Int32Type>(batch, "steps").values());
        let (outcomes, details) = (text(batch, "outcome"), text(batch, "detail"));
        (0..ids.len()).map(move |row| Self {
            id: EpisodeId(ids[row]),
            steps: steps[row],
            outcome: outcomes.value(row),
            detail: details.is_valid(row).then(|| details.value(row)),
        })
    }

    /// Why the episode ended; none if the text is no known outcome.
    pub(crate) fn outcome(&self) -> Option<EpisodeOutcome> {
        self.outcome.parse().ok()
    }

    /// How the compiler failed, if that ended the episode.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let Some(EpisodeOutcome::Failed(kind)) = self.outcome() else { return None };
        Some(Failure { kind, detail: self.detail.unwrap_or_default().to_owned() })
    }
}

/// Rows of a derived table, with all columns. The columns share their memory with the batch.
#[derive(Debug, Clone)]
pub(crate) struct EdgeColumns {
    pub(crate) states: FixedSizeBinaryArray,
    pub(crate) state_keys: Int64Array,
    actions: ActionArray,
    pub(crate) counts: Int64Array,
    pub(crate) first_episodes: Int64Array,
    pub(crate) first_indexes: Int32Array,
    /// None in `failures`.
    pub(crate) led: Option<LedColumns>,
    /// Kind and detail; none but in `failures`.
    pub(crate) failed: Option<(StringArray, StringArray)>,
}

/// The columns of rows that led to a state.
#[derive(Debug, Clone)]
pub(crate) struct LedColumns {
    pub(crate) states: FixedSizeBinaryArray,
    pub(crate) wall_times: Int64Array,
    pub(crate) rewards: Vec<Float64Array>,
}

impl LedColumns {
    /// The reward of a row in a space of the lake, by its place; NaN for none.
    pub(crate) fn reward(&self, space: usize, row: usize) -> f64 {
        let rewards = &self.rewards[space];
        if rewards.is_valid(row) { rewards.value(row) } else { f64::NAN }
    }
}

impl EdgeColumns {
    pub(crate) fn of(batch: &RecordBatch, table: Table) -> Self {
        let is_failures = table == Table::Failures;
        Self {
            states: ids(batch, "state_id").clone(),
            state_keys: state_keys(batch).clone(),
            actions: numbers(batch, "action").clone(),
            counts: numbers(batch, "count").clone(),
            first_episodes: numbers(batch, "first_episode_id").clone(),
            first_indexes: numbers(batch, "first_step_index").clone(),
            led: (!is_failures).then(|| LedColumns {
                states: ids(batch, "next_state_id").clone(),
                wall_times: numbers(batch, "wall_time_us").clone(),
                rewards: reward_columns(batch).cloned().collect(),
            }),
            failed: is_failures
                .then(|| (text(batch, "kind").clone(), text(batch, "detail").clone())),
        }
    }

    /// The number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.counts.len()
    }

    /// The action, or [`NO_ACTION`].
    #[inline]
    pub(crate) fn action(&self, row: usize) -> ActionIndex {
        if self.actions.is_null(row) { NO_ACTION } else { action_index(self.actions.value(row)) }
    }
}

/// The programs of some rows of `benchmarks`, by name.
pub(crate) fn known_benchmarks(
    batch: &RecordBatch,
    names: &[String],
) -> Vec<(String, KnownBenchmark)> {
    let digests = text(batch, "program_digest");
    let states = States::of(batch, "initial_state_id");
    let known = |(row, uri): (usize, &str)| {
        let baseline = |name: &String| {
            let column = numbers::<Int64Type>(batch, name);
            column.is_valid(row).then(|| (name.clone(), column.value(row)))
        };
        let baselines = Baselines(names.iter().filter_map(baseline).collect());
        let (program_digest, initial_state) = (digests.value(row).to_owned(), states.get(row));
        (uri.to_owned(), KnownBenchmark { program_digest, initial_state, baselines })
    };
    benchmark_uris(batch).enumerate().map(known).collect()
}
