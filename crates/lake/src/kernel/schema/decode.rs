//! Batches of the tables as typed columns.
//!
//! Only this module reads columns of `steps` and of the derived tables by name and type. The reader
//! of a batch has compared its columns with those of `lake.json`. A column that is missing here was
//! therefore not asked for, which is a defect: the panic names the column.

use arrow::array::{
    Array as _, ArrayRef, ArrowPrimitiveType, AsArray as _, BooleanArray, DictionaryArray,
    FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array, ListArray, PrimitiveArray,
    RecordBatch, StringArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};

use super::table::Table;
use steplake_model::{ActionIndex, EpisodeId, EpisodeOutcome, Failure, FailureKind, StateId};

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

pub(crate) fn numbers<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> &'a PrimitiveArray<T> {
    typed(batch, name, |column| column.as_primitive_opt())
}

fn text<'a>(batch: &'a RecordBatch, name: &str) -> &'a StringArray {
    typed(batch, name, |column| column.as_string_opt())
}

fn ids<'a>(batch: &'a RecordBatch, name: &str) -> &'a FixedSizeBinaryArray {
    typed(batch, name, |column| column.as_fixed_size_binary_opt())
}

pub(crate) fn booleans<'a>(batch: &'a RecordBatch, name: &str) -> &'a BooleanArray {
    typed(batch, name, |column| column.as_boolean_opt())
}

/// The states in a column.
pub(crate) fn state_ids<'a>(
    batch: &'a RecordBatch,
    column: &str,
) -> impl Iterator<Item = Option<StateId>> + 'a {
    let states = StateColumn::of(batch, column);
    (0..batch.num_rows()).map(move |row| states.get(row))
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

/// The numbers in a row of a column of lists.
#[inline]
pub(crate) fn list_of<T: ArrowPrimitiveType>(lists: &ListArray, row: usize) -> &[T::Native] {
    let index = |offset: i32| usize::try_from(offset).expect("offsets are not negative");
    let ends = &lists.value_offsets()[row..row + 2];
    &lists.values().as_primitive::<T>().values()[index(ends[0])..index(ends[1])]
}

/// A column of lists.
pub(crate) fn lists<'a>(batch: &'a RecordBatch, name: &str) -> &'a ListArray {
    typed(batch, name, |column| column.as_list_opt())
}

/// The numbers of `samples` in each row of `measurements`.
pub(crate) fn samples(batch: &RecordBatch) -> impl Iterator<Item = &[f64]> {
    let lists = lists(batch, "samples");
    (0..lists.len()).map(|row| list_of::<Float64Type>(lists, row))
}

/// A column of texts, stored as they are or as a dictionary.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TextColumn<'a> {
    Text(&'a StringArray),
    Symbols(&'a DictionaryArray<Int32Type>, &'a StringArray),
}

impl<'a> TextColumn<'a> {
    pub(crate) fn of(batch: &'a RecordBatch, name: &str) -> Self {
        typed(batch, name, |column| {
            let symbols = || {
                let symbols = column.as_dictionary_opt::<Int32Type>()?;
                Some(Self::Symbols(symbols, symbols.values().as_string_opt()?))
            };
            column.as_string_opt().map(Self::Text).or_else(symbols)
        })
    }

    /// The text of a row that has one.
    #[inline]
    pub(crate) fn text(self, row: usize) -> &'a str {
        match self {
            Self::Text(text) => text.value(row),
            Self::Symbols(symbols, text) => {
                text.value(symbols.key(row).expect("a row that has one"))
            }
        }
    }

    /// The text of a row; none if it is NULL.
    pub(crate) fn get(self, row: usize) -> Option<&'a str> {
        let is_null = match self {
            Self::Text(text) => text.is_null(row),
            Self::Symbols(symbols, _) => symbols.is_null(row),
        };
        (!is_null).then(|| self.text(row))
    }
}

/// The column `benchmark_uri` of any table.
pub(crate) fn benchmark_uris(batch: &RecordBatch) -> impl Iterator<Item = &str> {
    let uris = TextColumn::of(batch, "benchmark_uri");
    (0..batch.num_rows()).map(move |row| uris.text(row))
}

/// A column whose values may be null.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nullable<'a, T> {
    values: &'a [T],
    nulls: Option<&'a NullBuffer>,
}

/// A column of states.
pub(crate) type StateColumn<'a> = Nullable<'a, [u8; StateId::LEN]>;
/// A column of actions.
pub(crate) type Actions<'a> = Nullable<'a, ActionNumber>;
/// A column of rewards.
pub(crate) type RewardColumn<'a> = Nullable<'a, f64>;

impl<'a, T> Nullable<'a, T> {
    fn new(values: &'a [T], nulls: Option<&'a NullBuffer>) -> Self {
        Self { values, nulls: nulls.filter(|nulls| nulls.null_count() > 0) }
    }

    /// Whether the row has a value.
    #[inline]
    pub(crate) fn is_there(&self, row: usize) -> bool {
        self.nulls.is_none_or(|nulls| nulls.is_valid(row))
    }

    #[inline]
    fn value(&self, row: usize) -> Option<&'a T> {
        self.is_there(row).then(|| &self.values[row])
    }
}

impl<'a> StateColumn<'a> {
    /// Reads the ids of this column.
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

    /// The state of a row; none if it is NULL.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<StateId> {
        self.value(row).copied().map(StateId)
    }

    /// The state in a row that has one.
    #[inline]
    pub(crate) fn id(&self, row: usize) -> StateId {
        StateId(self.values[row])
    }
}

impl<'a> Actions<'a> {
    pub(crate) fn of(batch: &'a RecordBatch, column: &str) -> Self {
        let actions: &ActionArray = numbers(batch, column);
        Self::new(actions.values(), actions.nulls())
    }

    /// The action of a row; none if it is NULL.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<ActionIndex> {
        self.value(row).copied().map(action_index)
    }
}

impl<'a> RewardColumn<'a> {
    pub(crate) fn of(batch: &'a RecordBatch, column: &str) -> Self {
        let rewards = numbers::<Float64Type>(batch, column);
        Self::new(rewards.values(), rewards.nulls())
    }

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
    /// The episodes, by row.
    pub(crate) episodes: &'a [i64],
    /// The places of the steps in their episodes, by row.
    pub(crate) indexes: &'a [i32],
}

impl<'a> StepColumns<'a> {
    /// Reads the columns of a batch of `steps`.
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
        Actions::of(self.batch, "action")
    }

    /// Null if the compiler failed.
    pub(crate) fn states(&self) -> StateColumn<'a> {
        StateColumn::of(self.batch, "state_id")
    }

    /// Null if the state is null.
    pub(crate) fn state_keys(&self) -> &'a Int64Array {
        state_keys(self.batch)
    }

    /// Whether each row is a keyframe.
    pub(crate) fn keyframes(&self) -> &'a BooleanArray {
        booleans(self.batch, "keyframe")
    }

    /// Microseconds.
    pub(crate) fn wall_times(&self) -> &'a [i64] {
        numbers::<Int64Type>(self.batch, "wall_time_us").values()
    }

    /// The columns of rewards that were read, in the lake's order.
    pub(crate) fn rewards(&self) -> Vec<RewardColumn<'a>> {
        let rewards = reward_columns(self.batch);
        rewards.map(|column| RewardColumn::new(column.values(), column.nulls())).collect()
    }
}

/// How an episode ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EpisodeEnd<'a> {
    /// The episode.
    pub(crate) id: EpisodeId,
    /// Steps with an action.
    pub(crate) steps: i32,
    /// The text of the column.
    pub(crate) outcome: &'a str,
    /// What the failure says.
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
    /// The states in which the actions began.
    pub(crate) states: FixedSizeBinaryArray,
    /// Their keys.
    pub(crate) state_keys: Int64Array,
    actions: ActionArray,
    /// How often each edge was taken.
    pub(crate) counts: Int64Array,
    /// The episodes that took each first.
    pub(crate) first_episodes: Int64Array,
    /// The places of the first steps in these episodes.
    pub(crate) first_indexes: Int32Array,
    /// None in `failures`.
    pub(crate) led: Option<LedColumns>,
    /// Kind and detail; none but in `failures`.
    pub(crate) failed: Option<(StringArray, StringArray)>,
}

/// The columns of rows that led to a state.
#[derive(Debug, Clone)]
pub(crate) struct LedColumns {
    /// The states that the actions led to.
    pub(crate) states: FixedSizeBinaryArray,
    /// Their keys.
    pub(crate) state_keys: Int64Array,
    /// Wall times of the first steps, in nanoseconds.
    pub(crate) wall_times: Int64Array,
    /// The rewards of the first steps, by reward space.
    pub(crate) rewards: Vec<Float64Array>,
}

impl EdgeColumns {
    /// Reads the columns of a batch of a derived table.
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
                state_keys: numbers(batch, "next_state_key").clone(),
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

/// Gives the count in a row of a derived table; at most `u32::MAX`.
pub(crate) fn small_counts(batch: &RecordBatch) -> impl Fn(usize) -> u32 {
    let counts = numbers::<Int64Type>(batch, "count").values();
    move |row| u32::try_from(counts[row]).unwrap_or(u32::MAX)
}

/// Gives how the compiler failed in a row of `failures`.
pub(crate) fn failures(batch: &RecordBatch) -> impl Fn(usize) -> Failure {
    let (kinds, details) = (text(batch, "kind"), text(batch, "detail"));
    |row| {
        // A kind of a later version is at least no success.
        let kind = kinds.value(row).parse().unwrap_or(FailureKind::Crash);
        let detail = if details.is_valid(row) { details.value(row) } else { "" };
        Failure { kind, detail: detail.to_owned() }
    }
}
