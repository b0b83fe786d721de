use std::collections::{HashMap, HashSet};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::{
    ActionIndex, Baselines, BenchmarkUri, EpisodeId, EpisodeOutcome, Provenance, Rewards, RunId,
    StateId, Value,
};

/// A row of `benchmarks`.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchmarkRow {
    /// Canonical name.
    pub uri: BenchmarkUri,
    /// BLAKE3 of the program's bytes, hex.
    pub program_digest: String,
    /// Where the program comes from.
    pub provenance: Provenance,
    /// The state that it starts in.
    pub initial_state: StateId,
    /// Costs that belong to it. Those that the lake has no column for are left out.
    pub baselines: Baselines,
}

/// A row of `episodes`: says that the episode is over and has its place in its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpisodeRow {
    /// Its name; run and ordinal are in it.
    pub id: EpisodeId,
    /// Seed of its own random generator.
    pub seed: i64,
    /// The program.
    pub benchmark: BenchmarkUri,
    /// What chose the actions.
    pub policy: String,
    /// The episode that it was forked from, and after which step.
    pub parent: Option<(EpisodeId, u32)>,
    /// Steps with an action.
    pub steps: u32,
    /// Why it ended.
    pub outcome: EpisodeOutcome,
    /// What is known about a failure.
    pub detail: Option<String>,
}

/// A row of `steps`.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRow {
    /// The episode.
    pub episode: EpisodeId,
    /// Place in the episode; 0 is the state after reset.
    pub index: u32,
    /// The program.
    pub benchmark: BenchmarkUri,
    /// The action; none at index 0 and only there.
    pub action: Option<ActionIndex>,
    /// The state; none where the compiler failed.
    pub state: Option<StateId>,
    /// True where the IR of the state is kept because of this step: see [`Rows`].
    pub keyframe: bool,
    /// True when the environment takes no further action.
    pub end_of_episode: bool,
    /// One for each reward column of the lake, in its order. NaN stands for none.
    pub rewards: Option<Rewards>,
    /// The time that the compiler took.
    pub wall_time: Duration,
}

/// A row of `observations`.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservationRow {
    /// The state.
    pub state: StateId,
    /// One for each observation column of the lake, in its order; none for a space that is not
    /// recorded.
    pub values: Vec<Option<Value>>,
}

/// A row of `ir`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IrRow {
    /// The state.
    pub state: StateId,
    /// The bitcode, compressed with zstd.
    pub compressed: Vec<u8>,
    /// Its length uncompressed.
    pub bytes: u32,
    /// Its SHA-1 uncompressed: see [`bitcode_sha1`](super::bitcode_sha1).
    pub bitcode_sha1: [u8; 20],
}

/// Rows to append in one transaction.
///
/// The order in which rows come matters twice: an episode's row comes with its last step or later,
/// and a state's row in `observations` comes with the first step that holds the state or earlier,
/// its row in `ir` with the first such step that is a keyframe. So a seal never finds a step that
/// is closed without its state at hand. IR that no keyframe refers to has no part in the lake: it
/// is not sealed, and goes when open episodes are taken back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// New programs; a program comes once in a lake.
    pub benchmarks: Vec<BenchmarkRow>,
    /// Episodes that are over.
    pub episodes: Vec<EpisodeRow>,
    /// Steps.
    pub steps: Vec<StepRow>,
    /// New states' observations; a state comes once in a lake.
    pub observations: Vec<ObservationRow>,
    /// New states' programs; a state comes once in a lake.
    pub ir: Vec<IrRow>,
}

impl Rows {
    /// True when there is nothing to append.
    pub fn is_empty(&self) -> bool {
        self.benchmarks.is_empty()
            && self.episodes.is_empty()
            && self.steps.is_empty()
            && self.observations.is_empty()
            && self.ir.is_empty()
    }
}

/// A run: one call that recorded episodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRow {
    /// Its number.
    #[serde(rename = "run_id")]
    pub id: RunId,
    /// What names it across lakes: 128 random bits, hex.
    pub uid: String,
    /// What identifies it, as its caller wrote it.
    pub arguments: String,
    /// When it was begun, Unix time in milliseconds.
    pub started_at_ms: i64,
    /// Whether it did all that it was asked for.
    pub finished: bool,
    /// How many windows of its steps failed in one worker process, and not in a fresh one that
    /// played them again. Measured: differs between equal runs.
    pub repeated_windows: u32,
}

/// What a lake knows already and need not be told again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// States with a row in `observations`.
    pub observed: HashSet<StateId>,
    /// States with a row in `ir`.
    pub ir: HashSet<StateId>,
    /// Programs with a row in `benchmarks`, by name.
    pub benchmarks: HashMap<String, KnownBenchmark>,
}

/// What a lake says of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownBenchmark {
    /// BLAKE3 of the program's bytes, hex; empty where a repair lost the row.
    pub program_digest: String,
    /// The state that it starts in.
    pub initial_state: Option<StateId>,
    /// Those that the lake has columns for.
    pub baselines: Baselines,
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i32(self.0)
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i32::deserialize(deserializer).map(Self)
    }
}
