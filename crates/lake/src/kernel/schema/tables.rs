//! The tables: the rows that are recorded, and the columns of every table.
//!
//! What stands here is the only declaration of a table. The schema of its batches and files, the
//! encoding of its rows, what queries and Delta tables say of its columns, and the order of its
//! segments follow from it; a test compares `docs/FORMAT.md` with it.

use std::time::Duration;

use arrow::array::ArrayRef;
use arrow::datatypes::Fields;

use super::encode::{
    action_lists, baselines, binary, counts, flags, float_lists, integers, keys, micros, numbers,
    observed, optional_counts, optional_integers, optional_text, parameters, sha1s, small, states,
    step_rewards, symbols, text,
};
use super::table::{Column, ColumnType, Each, TableSpec};
use steplake_model::{
    ActionIndex, ActionSpec, Baselines, BenchmarkUri, DifferenceKind, EpisodeId, EpisodeOutcome,
    Excerpt, Provenance, Rewards, StateId, Value,
};

/// A row of a table that is not derived.
pub(crate) trait TableRow: Sized {
    /// The columns of some rows. `fields` are those of the table in a lake.
    fn columns(rows: &[Self], fields: &Fields) -> Vec<ArrayRef>;

    /// About how many bytes it has; 0 where rows are small.
    fn bytes(&self) -> usize {
        0
    }
}

/// Those of [`Table::ALL`](crate::kernel::Table::ALL), in its order.
pub(crate) static ALL: [&TableSpec; 11] = [
    &BENCHMARKS,
    &ACTIONS,
    &EPISODES,
    &STEPS,
    &OBSERVATIONS,
    &IR,
    &STATE_TRANSITIONS,
    &CONFLICTS,
    &FAILURES,
    &MEASUREMENTS,
    &MISCOMPILATIONS,
];

/// In a declaration: the column may have nulls.
const NULL: bool = true;

/// Declares a table: its name, its [row](TableRow) if it is not derived, and its key; then its
/// columns: name, [type](ColumnType), the format that added it if rows of older ones lack it, what
/// it is repeated for, and what makes it from the rows.
macro_rules! table {
    (
        $(#[doc = $doc:literal])+
        $table:ident = $name:literal $(of $row:ident $(($bytes:expr))?)?
            by $key:expr $(, $group:literal rows a group)?;
        $(
            $(#[doc = $column_doc:literal])+
            $column:literal: $kind:ident $(or $null:ident)? $(since $format:literal)?
                $(, each $each:ident)? $(= $make:ident $(($of:expr))?)?;
        )+
    ) => {
        pub(crate) static $table: TableSpec = TableSpec {
            name: $name,
            doc: concat!($($doc),+).trim_ascii_start(),
            key: &$key,
            row_group_rows: [$($group,)? 131_072][0],
            columns: &[$(Column {
                name: $column,
                kind: ColumnType::$kind,
                nullable: [$($null,)? false][0],
                since: [$($format,)? 0][0],
                doc: concat!($($column_doc),+).trim_ascii_start(),
                each: [$(Some(Each::$each),)? None][0],
            }),+],
        };

        row! { $($row $(($bytes))?)?; $($($make $(($of))?)? $(each $each)?),+ }
    };
}

/// Implements [`TableRow`] by what makes the columns.
macro_rules! row {
    (; $($derived:tt)+) => {};
    ($row:ident $(($bytes:expr))?; $($make:ident $(($of:expr))? $(each $each:ident)?),+) => {
        impl TableRow for $row {
            fn columns(rows: &[Self], fields: &Fields) -> Vec<ArrayRef> {
                let mut columns = Vec::with_capacity(fields.len());
                $(row!(@column columns, rows, fields, $make $(($of))? $(each $each)?);)+
                columns
            }
            $(
                fn bytes(&self) -> usize {
                    $bytes(self)
                }
            )?
        }
    };
    (@column $columns:ident, $rows:ident, $fields:ident, $make:ident each $each:ident) => {
        $columns.extend($make($rows, $fields))
    };
    (@column $columns:ident, $rows:ident, $fields:ident, $make:ident $(($of:expr))?) => {
        $columns.push($make($rows $(, $of)?))
    };
}

/// A row of `benchmarks`.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchmarkRow {
    /// The canonical name.
    pub uri: BenchmarkUri,
    /// BLAKE3 of the program's bytes, in hexadecimal digits.
    pub program_digest: String,
    /// Where the program comes from.
    pub provenance: Provenance,
    /// The state that it starts in.
    pub initial_state: StateId,
    /// How it is built and run, as a JSON object; none if that is unknown.
    pub execution: Option<String>,
    /// Its baselines. Those without a column in the lake are left out.
    pub baselines: Baselines,
}

impl BenchmarkRow {
    /// A program of which no more is known: rows that do not name a column leave it at this.
    pub fn new(uri: BenchmarkUri, initial_state: StateId) -> Self {
        let (provenance, baselines) = (Provenance::default(), Baselines::default());
        let program_digest = String::new();
        Self { uri, program_digest, provenance, initial_state, execution: None, baselines }
    }
}

table! {
    /// The programs that were optimised.
    BENCHMARKS = "benchmarks" of BenchmarkRow by ["benchmark_uri"];
    /// Canonical name of the program.
    "benchmark_uri": Text = text(|row| row.uri.as_str());
    /// BLAKE3 of the program's bytes, hex.
    "program_digest": Text = text(|row| &row.program_digest);
    /// Dataset with its version; empty for a file.
    "dataset": Text = text(|row| row.uri.dataset());
    /// Program family, the unit of train/test splits; empty if unknown.
    "family": Text = text(|row| &row.provenance.family);
    /// SPDX expression of the licence; empty if unknown.
    "licence": Text = text(|row| &row.provenance.licence);
    /// Origin of the source; empty if unknown.
    "origin": Text = text(|row| &row.provenance.origin);
    /// Command that made the program from its source; empty if unknown.
    "compile_command": Text = text(|row| &row.provenance.compile_command);
    /// State in which the program starts.
    "initial_state_id": StateId = states(|row| Some(row.initial_state));
    /// How the program is built and run, as a JSON object; null if that is unknown, as in rows of
    /// older formats.
    "execution": Text or NULL since 5 = optional_text(|row| row.execution.as_deref());
    /// Cost that belongs to the program alone, named after the space.
    "{}": Int64 or NULL, each Baseline = baselines;
}

table! {
    /// The actions that the environment offers. Rows are only ever appended.
    ACTIONS = "actions" of ActionSpec by ["action"];
    /// Index of the action.
    "action": Int32 = numbers;
    /// Name of the action.
    "name": Text = text(|row| &row.name);
    /// What the compiler is asked to do; for LLVM a pass pipeline. Empty for an action that does
    /// nothing on purpose.
    "pipeline": Text = text(|row| &row.pipeline);
    /// Parameters of the action, as a JSON object; null if it takes none.
    "parameters": Text or NULL = parameters;
    /// Whether a probe found that the same state and action lead to the same next state.
    "replayable": Boolean = flags(|row| row.flags.replayable);
    /// Whether the compiler died on some state that a probe tried.
    "crashes": Boolean = flags(|row| row.flags.crashes);
    /// Whether some state took a probe longer than an ordinary action does.
    "slow": Boolean = flags(|row| row.flags.slow);
    /// Whether the action changed none of the states that a probe tried.
    "never_changes": Boolean = flags(|row| row.flags.never_changes);
}

/// A row of `episodes`: the episode is over and has its place in its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpisodeRow {
    /// Its id, which contains run and ordinal.
    pub id: EpisodeId,
    /// The seed of its random generator.
    pub seed: i64,
    /// The program.
    pub benchmark: BenchmarkUri,
    /// The policy that chose the actions.
    pub policy: String,
    /// The episode that it was forked from, and after which step.
    pub parent: Option<(EpisodeId, u32)>,
    /// Steps with an action.
    pub steps: u32,
    /// Why it ended.
    pub outcome: EpisodeOutcome,
    /// Details of a failure.
    pub detail: Option<String>,
}

impl EpisodeRow {
    /// A complete episode without steps, of a policy without a name.
    pub fn new(id: EpisodeId, benchmark: BenchmarkUri) -> Self {
        let (policy, outcome) = (String::new(), EpisodeOutcome::Complete);
        Self { id, seed: 0, benchmark, policy, parent: None, steps: 0, outcome, detail: None }
    }
}

table! {
    /// Episodes that are over. An episode without a row here is still open.
    EPISODES = "episodes" of EpisodeRow by ["episode_id"];
    /// run_id * 2^32 + ordinal.
    "episode_id": Int64 = integers(|row| row.id.0);
    /// Run that the episode belongs to.
    "run_id": Int32 = small(|row| row.id.run().0);
    /// Place in its run, from 0.
    "ordinal": Int64 = integers(|row| row.id.ordinal().into());
    /// Seed of the run; with the ordinal it seeds the episode's own random generator.
    "seed": Int64 = integers(|row| row.seed);
    /// Program that was optimised.
    "benchmark_uri": Text = text(|row| row.benchmark.as_str());
    /// What chose the actions.
    "policy": Text = text(|row| &row.policy);
    /// Episode that this one was forked from; null if none.
    "parent_episode_id": Int64 or NULL = optional_integers(|row| row.parent.map(|(id, _)| id.0));
    /// Step of the parent after which it was forked; null if it was not.
    "parent_step_index": Int32 or NULL = optional_counts(|row| row.parent.map(|(_, step)| step));
    /// Steps with an action.
    "steps": Int32 = counts(|row| row.steps);
    /// Why it ended: complete, ended, crash, time-out, out-of-memory, verifier, rejected or
    /// assembler.
    "outcome": Text = text(|row| row.outcome.as_str());
    /// What is known about a failure, one line; null without one.
    "detail": Text or NULL = optional_text(|row| row.detail.as_deref());
}

/// A row of `steps`.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRow {
    /// The episode.
    pub episode: EpisodeId,
    /// The position in the episode. Step 0 is the state after the start.
    pub index: u32,
    /// The program.
    pub benchmark: BenchmarkUri,
    /// The action; none exactly at step 0.
    pub action: Option<ActionIndex>,
    /// The state; none if the compiler failed.
    pub state: Option<StateId>,
    /// Whether the IR of the state is stored because of this step: see [`Rows`](super::rows::Rows).
    pub keyframe: bool,
    /// Whether the environment takes no further action.
    pub end_of_episode: bool,
    /// One value for each reward column of the lake, in its order. NaN becomes null.
    pub rewards: Option<Rewards>,
    /// The time that the compiler took.
    pub wall_time: Duration,
}

impl StepRow {
    /// A step without action, state and rewards, which took no time.
    pub fn new(episode: EpisodeId, index: u32, benchmark: BenchmarkUri) -> Self {
        Self {
            episode,
            index,
            benchmark,
            action: None,
            state: None,
            keyframe: false,
            end_of_episode: false,
            rewards: None,
            wall_time: Duration::ZERO,
        }
    }
}

table! {
    /// Positions in episodes: the action taken and the state it led to.
    STEPS = "steps" of StepRow by ["episode_id", "step_index"];
    /// Episode that the step belongs to.
    "episode_id": Int64 = integers(|row| row.episode.0);
    /// Place in the episode; 0 is the state after reset.
    "step_index": Int32 = counts(|row| row.index);
    /// Program that is optimised.
    "benchmark_uri": Symbol = symbols(|row| row.benchmark.as_str());
    /// Index of the action in `actions`; null at step 0.
    "action": Int32 or NULL = optional_counts(|row| row.action.map(|action| action.0));
    /// State after the step; null if the compiler failed.
    "state_id": StateId or NULL = states(|row| row.state);
    /// The first 8 bytes of state_id as a big-endian signed integer: for sorting, joins and
    /// pruning; null with it.
    "state_key": Int64 or NULL = keys(|row| row.state);
    /// True where the IR of the state was kept because of this step; from it the states of the
    /// steps up to the next one can be rebuilt.
    "keyframe": Boolean = flags(|row| row.keyframe);
    /// True when the environment takes no further action.
    "end_of_episode": Boolean = flags(|row| row.end_of_episode);
    /// Time that the compiler took, microseconds. Measured: differs between equal runs.
    "wall_time_us": Int64 = integers(|row| micros(row.wall_time));
    /// Reward of the step in the space of that name; null at step 0, after a failure, and if the
    /// run did not record it.
    "reward_{}": Float64 or NULL, each Reward = step_rewards;
}

/// A row of `observations`.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservationRow {
    /// The state.
    pub state: StateId,
    /// One value for each observation column of the lake, in its order; none if it was not
    /// recorded.
    pub values: Vec<Option<Value>>,
}

impl ObservationRow {
    /// About how many bytes its values take in memory.
    pub fn bytes(&self) -> usize {
        self.values.iter().flatten().map(Value::bytes).sum()
    }
}

table! {
    /// What was observed in each state, once.
    OBSERVATIONS = "observations" of ObservationRow(Self::bytes)
        by ["state_key", "state_id"];
    /// The state's content id, 20 bytes.
    "state_id": StateId = states(|row| Some(row.state));
    /// The first 8 bytes of state_id as a big-endian signed integer: for sorting, joins and
    /// pruning.
    "state_key": Int64 = keys(|row| Some(row.state));
    /// Observation in the space of that name: a number, text, a list, such as a vector with one
    /// number per feature, or a struct of lists, for the graph of a program; null if it was not
    /// recorded when the state was first seen.
    "{}": Observation or NULL, each Observation = observed;
}

/// A row of `ir`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IrRow {
    /// The state.
    pub state: StateId,
    /// The bitcode, compressed with zstd.
    pub compressed: Vec<u8>,
    /// The length of the bitcode, uncompressed.
    pub bytes: u32,
    /// The SHA-1 of the bitcode, uncompressed: see [`bitcode_sha1`](crate::kernel::bitcode_sha1).
    pub bitcode_sha1: [u8; 20],
}

table! {
    /// The program in each state whose IR is stored, once.
    IR = "ir" of IrRow(|row: &Self| row.compressed.len())
        by ["state_key", "state_id"], 4_096 rows a group;
    /// The state's content id, 20 bytes.
    "state_id": StateId = states(|row| Some(row.state));
    /// The first 8 bytes of state_id as a big-endian signed integer: for sorting, joins and
    /// pruning.
    "state_key": Int64 = keys(|row| Some(row.state));
    /// The state's canonical bitcode, compressed with zstd.
    "bitcode": Binary = binary(|row| &row.compressed);
    /// Length of the uncompressed bitcode, bytes.
    "bytes": Int32 = counts(|row| row.bytes);
    /// SHA-1 of the uncompressed bitcode, 20 bytes: any tool can check a row by it.
    "bitcode_sha1": Sha1 = sha1s(|row| row.bitcode_sha1);
}

/// A row of `measurements`: samples of one space of one state, taken one after another.
///
/// No row of a table depends on it, and it depends on the row of its program alone.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasurementRow {
    /// Its name across lakes, from [`random_uid`](crate::kernel::random_uid). A merge takes each
    /// name once.
    pub uid: String,
    /// The state.
    pub state: StateId,
    /// The program that the state is of. The same state of two programs may run on other inputs.
    pub benchmark: BenchmarkUri,
    /// The space, e.g. `Runtime`.
    pub space: String,
    /// What samples have to share to be compared: a text that whoever measures makes.
    pub machine: String,
    /// How machine code was made of the state.
    pub compilation: String,
    /// How many values were taken before the samples, and left out.
    pub warmups: u32,
    /// When the measurement ended, Unix time in milliseconds.
    pub measured_at_ms: i64,
    /// Seconds, in the order in which they were taken: at least one; finite and not negative.
    pub samples: Vec<f64>,
}

impl MeasurementRow {
    /// Whether its samples are such as a clock can give.
    pub fn is_well_formed(&self) -> bool {
        are_samples(&self.samples)
    }
}

/// Whether a measurement can have these samples.
pub(crate) fn are_samples(samples: &[f64]) -> bool {
    !samples.is_empty() && samples.iter().all(|sample| sample.is_finite() && *sample >= 0.0)
}

table! {
    /// Samples of a space that differs from one observation to the next, such as Runtime. Each
    /// measurement is a row; dedup leaves them as they are.
    MEASUREMENTS = "measurements" of MeasurementRow(|row: &Self| size_of_val(&*row.samples))
        by ["state_key", "state_id", "uid"], 16_384 rows a group;
    /// The state that was measured.
    "state_id": StateId = states(|row| Some(row.state));
    /// The first 8 bytes of state_id as a big-endian signed integer: for sorting, joins and
    /// pruning.
    "state_key": Int64 = keys(|row| Some(row.state));
    /// 128 random bits, hex: names the measurement across lakes.
    "uid": Text = text(|row| &row.uid);
    /// Program that the state is of, with its inputs.
    "benchmark_uri": Symbol = symbols(|row| row.benchmark.as_str());
    /// What was measured: Runtime or Buildtime.
    "space": Symbol = symbols(|row| &row.space);
    /// What samples have to share to be compared: processor, core of a pinned measurement, governor
    /// of the frequency, and operating system.
    "machine": Symbol = symbols(|row| &row.machine);
    /// How machine code was made of the state, as a text that ends with a digest of the execution;
    /// samples of different texts are not compared.
    "compilation": Symbol = symbols(|row| &row.compilation);
    /// Times that were taken before the samples and left out.
    "warmups": Int32 = counts(|row| row.warmups);
    /// When the measurement ended, Unix time in milliseconds. States of one program that took turns
    /// have the same.
    "measured_at_ms": Int64 = integers(|row| row.measured_at_ms);
    /// The samples in the order in which they were taken, seconds; at least one.
    "samples": FloatList = float_lists(|row| &row.samples);
}

/// A row of `miscompilations`: a program behaves otherwise after the last of some actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MiscompilationRow {
    /// Its name across lakes, from [`random_uid`](crate::kernel::random_uid). A merge takes each
    /// name once.
    pub uid: String,
    /// The program.
    pub benchmark: BenchmarkUri,
    /// The shortest sequence found that shows it, from the program's first state: at least one
    /// action.
    pub actions: Vec<ActionIndex>,
    /// The state before the last action.
    pub state: StateId,
    /// The state after it.
    pub next_state: StateId,
    /// What differs.
    pub kind: DifferenceKind,
    /// The file or the sanitizer; none for other kinds.
    pub subject: Option<String>,
    /// What was expected.
    pub expected: Excerpt,
    /// What was found.
    pub actual: Excerpt,
    /// Whether the actions were minimised: without any one of them, the program behaves as
    /// expected.
    pub minimised: bool,
    /// How machine code was made of both states.
    pub compilation: String,
    /// When it was found, Unix time in milliseconds.
    pub found_at_ms: i64,
}

table! {
    /// Sequences of actions after which a program behaves otherwise than before its last action.
    MISCOMPILATIONS = "miscompilations" of MiscompilationRow
        by ["state_key", "state_id", "uid"], 16_384 rows a group;
    /// The state before the last action; it behaves as expected.
    "state_id": StateId = states(|row| Some(row.state));
    /// The first 8 bytes of state_id as a big-endian signed integer: for sorting, joins and
    /// pruning.
    "state_key": Int64 = keys(|row| Some(row.state));
    /// 128 random bits, hex: names the finding across lakes.
    "uid": Text = text(|row| &row.uid);
    /// Program that behaves otherwise.
    "benchmark_uri": Symbol = symbols(|row| row.benchmark.as_str());
    /// The state after the last action.
    "next_state_id": StateId = states(|row| Some(row.next_state));
    /// The first 8 bytes of next_state_id as a big-endian signed integer.
    "next_state_key": Int64 = keys(|row| Some(row.next_state));
    /// What differs: output, exit-status, file, sanitizer, time-out or build.
    "kind": Symbol = symbols(|row| row.kind.as_str());
    /// Name of the file or of the sanitizer; null for other kinds.
    "subject": Text or NULL = optional_text(|row| row.subject.as_deref());
    /// BLAKE3 of what was expected, hex.
    "expected_digest": Text = text(|row| &row.expected.digest);
    /// BLAKE3 of what was found, hex.
    "actual_digest": Text = text(|row| &row.actual.digest);
    /// What was expected, around the first difference.
    "expected_excerpt": Text = text(|row| &row.expected.excerpt);
    /// What was found, likewise.
    "actual_excerpt": Text = text(|row| &row.actual.excerpt);
    /// Whether every shorter sequence that leaves out one action behaves as expected.
    "minimised": Boolean = flags(|row| row.minimised);
    /// How machine code was made of both states, as a text.
    "compilation": Symbol = symbols(|row| &row.compilation);
    /// When it was found, Unix time in milliseconds.
    "found_at_ms": Int64 = integers(|row| row.found_at_ms);
    /// Indices of the actions from the first state of the program, the shortest sequence found; at
    /// least one.
    "actions": IntList = action_lists(|row| &row.actions);
}

table! {
    /// Each (state, action) of a closed episode that led to a state, once.
    STATE_TRANSITIONS = "state_transitions" by ["state_key", "state_id", "action"];
    /// The state in which the action was taken.
    "state_id": StateId;
    /// The first 8 bytes of state_id as a big-endian signed integer: for sorting, joins and
    /// pruning.
    "state_key": Int64;
    /// Index of the action in `actions`.
    "action": Int32;
    /// The state that the action led to; if results differ, the most frequent one, and of equally
    /// frequent ones the smallest.
    "next_state_id": StateId;
    /// The first 8 bytes of next_state_id as a big-endian signed integer.
    "next_state_key": Int64;
    /// Steps that took this transition.
    "count": Int64;
    /// Total time that the compiler took for those steps, microseconds.
    "wall_time_us": Int64;
    /// Episode of the first of these steps by (episode_id, step_index).
    "first_episode_id": Int64;
    /// Index of that step.
    "first_step_index": Int32;
    /// Reward in the space of that name, of the first such step by (episode_id, step_index).
    "reward_{}": Float64 or NULL, each Reward;
}

table! {
    /// (State, action) pairs that led to more than one state, with every result: nondeterminism.
    CONFLICTS = "conflicts" by ["state_key", "state_id", "action", "next_state_id"];
    /// The state in which the action was taken.
    "state_id": StateId;
    /// The first 8 bytes of state_id as a big-endian signed integer: for sorting, joins and
    /// pruning.
    "state_key": Int64;
    /// Index of the action in `actions`.
    "action": Int32;
    /// The state that the action led to.
    "next_state_id": StateId;
    /// The first 8 bytes of next_state_id as a big-endian signed integer.
    "next_state_key": Int64;
    /// Steps that led there.
    "count": Int64;
    /// Total time that the compiler took for those steps, microseconds.
    "wall_time_us": Int64;
    /// Episode of the first of these steps by (episode_id, step_index).
    "first_episode_id": Int64;
    /// Index of that step.
    "first_step_index": Int32;
    /// Reward in the space of that name, of the first such step by (episode_id, step_index).
    "reward_{}": Float64 or NULL, each Reward;
}

table! {
    /// (State, action) pairs on which the compiler failed, and states on which it failed at the
    /// start of an episode.
    FAILURES = "failures" by ["state_key", "state_id", "action"];
    /// The state in which the action was taken, or in which the episode began.
    "state_id": StateId;
    /// The first 8 bytes of state_id as a big-endian signed integer: for sorting, joins and
    /// pruning.
    "state_key": Int64;
    /// Index of the action in `actions`; null if the compiler failed on the state in which an
    /// episode began.
    "action": Int32 or NULL;
    /// Kind of the first failure by episode_id: crash, time-out, out-of-memory, verifier, rejected
    /// or assembler.
    "kind": Text;
    /// What is known about that failure, one line.
    "detail": Text or NULL;
    /// Steps that failed, or starts.
    "count": Int64;
    /// Episode of the first of these steps by (episode_id, step_index).
    "first_episode_id": Int64;
    /// Index of that step.
    "first_step_index": Int32;
}
