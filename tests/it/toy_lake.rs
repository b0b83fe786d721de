//! Small lakes for tests: what goes in, and what comes out again.

use std::collections::HashSet;
use std::time::Duration;

use arrow::array::{Array as _, AsArray as _, FixedSizeBinaryArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int16Type, Int32Type, Int64Type};
use sha1::{Digest as _, Sha1};
use steplake::lake::{
    BenchmarkRow, EpisodeRow, FORMAT_VERSION, Identity, IrRow, Lake, ObservationRow,
    RecordedObservation, Rows, ScanColumns, Snapshot, StepRow, Table,
};
use steplake::model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, Baselines, BenchmarkUri, EpisodeId,
    EpisodeOutcome, FailureKind, Provenance, StateId, Value,
};

/// An identity with columns of every kind.
pub(crate) fn identity() -> Identity {
    let action = |number: u16| ActionSpec {
        name: format!("a{number}"),
        pipeline: format!("pass{number}"),
        flags: ActionFlags::UNREMARKABLE,
    };
    let space = |name: &str, features: &[&str]| RecordedObservation {
        name: name.into(),
        width: u32::try_from(features.len()).ok().filter(|&width| width > 0),
        features: features.iter().map(|&name| name.into()).collect(),
    };
    Identity {
        format_version: FORMAT_VERSION,
        // No environment of this name is here: nothing but the bytes can be checked.
        environment: "handmade-v0".into(),
        compiler: "toy 1".into(),
        target: "none".into(),
        action_space: ActionSpace { name: "toy-v0".into(), actions: (0..8).map(action).collect() },
        observations: vec![space("Size", &[]), space("Counts", &["x", "y", "z"])],
        rewards: vec!["Size".into(), "SizeNorm".into()],
        baselines: vec!["SizeO0".into()],
    }
}

/// The IR of the `number`-th state.
pub(crate) fn bitcode(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + number as usize % 50)
}

/// The `number`-th state. As of any environment, its id is no hash of what is stored.
pub(crate) fn state(number: u32) -> StateId {
    StateId(Sha1::digest([b"state".to_vec(), bitcode(number)].concat()).into())
}

/// A row of `ir` as a recorder makes it.
pub(crate) fn ir_row(state: StateId, bitcode: &[u8]) -> IrRow {
    IrRow {
        state,
        compressed: zstd::bulk::compress(bitcode, 3).unwrap(),
        bytes: u32::try_from(bitcode.len()).unwrap(),
        bitcode_sha1: Sha1::digest(bitcode).into(),
    }
}

pub(crate) fn uri(number: u32) -> BenchmarkUri {
    format!("generator://toy-v0/{number}").parse().unwrap()
}

/// A step taken: its action, and the state that it led to, or none where the compiler failed.
pub(crate) type Taken = (u16, Option<u32>);

/// Makes rows as a recorder does: states and benchmarks once, an episode's steps in order.
#[derive(Debug, Default)]
pub(crate) struct Author {
    pub(crate) rows: Rows,
    pub(crate) known: HashSet<StateId>,
    pub(crate) benchmarks: HashSet<u32>,
}

impl Author {
    /// The rows so far; the next ones begin anew.
    pub(crate) fn take(&mut self) -> Rows {
        std::mem::take(&mut self.rows)
    }

    /// The beginning of an episode of the `first`-th benchmark.
    pub(crate) fn reset(&mut self, episode: EpisodeId, first: u32) {
        if self.benchmarks.insert(first) {
            self.rows.benchmarks.push(BenchmarkRow {
                uri: uri(first),
                program_digest: blake3::hash(&bitcode(first)).to_hex().to_string(),
                provenance: Provenance {
                    family: "toy".into(),
                    licence: "MIT".into(),
                    ..Provenance::default()
                },
                initial_state: state(first),
                baselines: Baselines(vec![("SizeO0".into(), i64::from(first))]),
            });
        }
        self.step(episode, first, 0, None, Some(first));
    }

    /// The next steps of an episode, the first of them at `index`.
    pub(crate) fn steps(&mut self, episode: EpisodeId, first: u32, index: u32, path: &[Taken]) {
        for (&(action, to), index) in path.iter().zip(index..) {
            self.step(episode, first, index, Some(action), to);
        }
    }

    fn step(
        &mut self,
        episode: EpisodeId,
        first: u32,
        index: u32,
        action: Option<u16>,
        to: Option<u32>,
    ) {
        if let Some(to) = to.filter(|&to| self.known.insert(state(to))) {
            self.state(to);
        }
        self.rows.steps.push(StepRow {
            episode,
            index,
            benchmark: uri(first),
            action: action.map(ActionIndex),
            state: to.map(state),
            keyframe: to.is_some(),
            end_of_episode: false,
            // Other rewards in each episode, so that a test sees whose were kept.
            rewards: action
                .and(to)
                .map(|to| vec![f64::from(to), f64::from(episode.ordinal()) + 0.5].into()),
            wall_time: Duration::from_micros(10 + u64::from(episode.ordinal()) + u64::from(index)),
        });
    }

    fn state(&mut self, number: u32) {
        let number_i32 = i32::try_from(number).unwrap();
        let values =
            vec![Value::Scalar(i64::from(number)), Value::Vector(vec![1, number_i32, -3].into())];
        self.rows.observations.push(ObservationRow { state: state(number), values });
        self.rows.ir.push(ir_row(state(number), &bitcode(number)));
    }

    /// The end of an episode of so many steps with an action.
    pub(crate) fn close(&mut self, episode: EpisodeId, first: u32, steps: u32, alive: bool) {
        let kind = FailureKind::ALL[episode.ordinal() as usize % FailureKind::ALL.len()];
        self.rows.episodes.push(EpisodeRow {
            id: episode,
            seed: episode.0 * 7,
            benchmark: uri(first),
            policy: "random".into(),
            parent: (episode.ordinal() % 2 == 1).then(|| (EpisodeId(episode.0 - 1), 0)),
            steps,
            outcome: if alive { EpisodeOutcome::Complete } else { EpisodeOutcome::Failed(kind) },
            detail: (!alive).then(|| format!("died in {}", episode.0)),
        });
    }

    /// A whole episode.
    pub(crate) fn episode(&mut self, episode: EpisodeId, first: u32, path: &[Taken]) {
        self.reset(episode, first);
        self.steps(episode, first, 1, path);
        let alive = path.last().is_none_or(|(_, to)| to.is_some());
        self.close(episode, first, u32::try_from(path.len()).unwrap(), alive);
    }
}

/// Puts rows in one order.
pub(crate) fn sorted(mut rows: Rows) -> Rows {
    rows.benchmarks.sort_by(|one, other| one.uri.cmp(&other.uri));
    rows.episodes.sort_by_key(|row| row.id);
    rows.steps.sort_by_key(|row| (row.episode, row.index));
    rows.observations.sort_by_key(|row| row.state);
    rows.ir.sort_by_key(|row| row.state);
    rows
}

/// All rows of a lake, in one order.
pub(crate) fn read(lake: &Lake) -> Rows {
    rows_of(&lake.snapshot().unwrap())
}

/// All rows of a snapshot, sorted.
pub(crate) fn rows_of(snapshot: &Snapshot) -> Rows {
    let scan = |table| snapshot.scan(table, ScanColumns::All).map(Result::unwrap);
    let rows = Rows {
        benchmarks: scan(Table::Benchmarks).flat_map(|batch| benchmarks(&batch)).collect(),
        episodes: scan(Table::Episodes).flat_map(|batch| episodes(&batch)).collect(),
        steps: scan(Table::Steps).flat_map(|batch| steps(&batch)).collect(),
        observations: scan(Table::Observations).flat_map(|batch| observations(&batch)).collect(),
        ir: scan(Table::Ir).flat_map(|batch| ir(&batch)).collect(),
    };
    sorted(rows)
}

pub(crate) fn id(batch: &RecordBatch, column: &str, row: usize) -> StateId {
    let ids: &FixedSizeBinaryArray = batch[column].as_fixed_size_binary();
    StateId(ids.value(row).try_into().unwrap())
}

pub(crate) fn text(batch: &RecordBatch, column: &str, row: usize) -> String {
    batch[column].as_string::<i32>().value(row).to_owned()
}

pub(crate) fn int64(batch: &RecordBatch, column: &str, row: usize) -> i64 {
    batch[column].as_primitive::<Int64Type>().value(row)
}

pub(crate) fn int32(batch: &RecordBatch, column: &str, row: usize) -> u32 {
    batch[column].as_primitive::<Int32Type>().value(row).try_into().unwrap()
}

pub(crate) fn int16(batch: &RecordBatch, column: &str, row: usize) -> u16 {
    batch[column].as_primitive::<Int16Type>().value(row).try_into().unwrap()
}

pub(crate) fn float64(batch: &RecordBatch, column: &str, row: usize) -> f64 {
    batch[column].as_primitive::<Float64Type>().value(row)
}

fn benchmarks(batch: &RecordBatch) -> Vec<BenchmarkRow> {
    let row = |row| BenchmarkRow {
        uri: text(batch, "benchmark_uri", row).parse().unwrap(),
        program_digest: text(batch, "program_digest", row),
        provenance: Provenance {
            family: text(batch, "family", row),
            licence: text(batch, "licence", row),
            origin: text(batch, "origin", row),
            compile_command: text(batch, "compile_command", row),
        },
        initial_state: id(batch, "initial_state_id", row),
        baselines: Baselines(vec![("SizeO0".into(), int64(batch, "SizeO0", row))]),
    };
    (0..batch.num_rows()).map(row).collect()
}

fn episodes(batch: &RecordBatch) -> Vec<EpisodeRow> {
    let parent = |row| {
        let parent = EpisodeId(int64(batch, "parent_episode_id", row));
        batch["parent_episode_id"]
            .is_valid(row)
            .then(|| (parent, int32(batch, "parent_step_index", row)))
    };
    let row = |row| EpisodeRow {
        id: EpisodeId(int64(batch, "episode_id", row)),
        seed: int64(batch, "seed", row),
        benchmark: text(batch, "benchmark_uri", row).parse().unwrap(),
        policy: text(batch, "policy", row),
        parent: parent(row),
        steps: int32(batch, "steps", row),
        outcome: text(batch, "outcome", row).parse().unwrap(),
        detail: batch["detail"].is_valid(row).then(|| text(batch, "detail", row)),
    };
    (0..batch.num_rows()).map(row).collect()
}

fn steps(batch: &RecordBatch) -> Vec<StepRow> {
    let uris = cast(&batch["benchmark_uri"], &DataType::Utf8).unwrap();
    let rewards =
        |row| vec![float64(batch, "reward_Size", row), float64(batch, "reward_SizeNorm", row)];
    let row = |row| StepRow {
        episode: EpisodeId(int64(batch, "episode_id", row)),
        index: int32(batch, "step_index", row),
        benchmark: uris.as_string::<i32>().value(row).parse().unwrap(),
        action: batch["action"].is_valid(row).then(|| ActionIndex(int16(batch, "action", row))),
        state: batch["state_id"].is_valid(row).then(|| id(batch, "state_id", row)),
        keyframe: batch["keyframe"].as_boolean().value(row),
        end_of_episode: batch["end_of_episode"].as_boolean().value(row),
        rewards: batch["reward_Size"].is_valid(row).then(|| rewards(row).into()),
        wall_time: Duration::from_micros(int64(batch, "wall_time_us", row).try_into().unwrap()),
    };
    (0..batch.num_rows()).map(row).collect()
}

fn observations(batch: &RecordBatch) -> Vec<ObservationRow> {
    let vector = |row| {
        let values = batch["Counts"].as_fixed_size_list().value(row);
        Value::Vector(values.as_primitive::<Int32Type>().values().to_vec().into())
    };
    let row = |row| ObservationRow {
        state: id(batch, "state_id", row),
        values: vec![Value::Scalar(int64(batch, "Size", row)), vector(row)],
    };
    (0..batch.num_rows()).map(row).collect()
}

fn ir(batch: &RecordBatch) -> Vec<IrRow> {
    let row = |row| IrRow {
        state: id(batch, "state_id", row),
        compressed: batch["bitcode"].as_binary::<i32>().value(row).to_vec(),
        bytes: int32(batch, "bytes", row),
        bitcode_sha1: id(batch, "bitcode_sha1", row).0,
    };
    (0..batch.num_rows()).map(row).collect()
}
