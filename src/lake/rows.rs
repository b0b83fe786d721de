//! The rows of the tables of a recording.

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
    /// Whether the IR of the state is stored because of this step: see [`Rows`].
    pub keyframe: bool,
    /// Whether the environment takes no further action.
    pub end_of_episode: bool,
    /// One value for each reward column of the lake, in its order. NaN becomes null.
    pub rewards: Option<Rewards>,
    /// The time that the compiler took.
    pub wall_time: Duration,
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
    pub(crate) fn bytes(&self) -> usize {
        self.values.iter().flatten().map(Value::bytes).sum()
    }
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
    /// The SHA-1 of the bitcode, uncompressed: see [`bitcode_sha1`](super::bitcode_sha1).
    pub bitcode_sha1: [u8; 20],
}

/// A row of `measurements`: samples of one space of one state, taken one after another.
///
/// No row of a table depends on it, and it depends on the row of its program alone.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasurementRow {
    /// Its name across lakes, from [`random_uid`](super::random_uid). A merge takes each name once.
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

/// What of a program's behaviour differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DifferenceKind {
    /// What it writes to its standard output or standard error.
    Output,
    /// Its exit status, or the signal that ended it.
    ExitStatus,
    /// A file that it writes.
    File,
    /// What a sanitizer reports.
    Sanitizer,
    /// It does not end in its time.
    TimeOut,
    /// It cannot be built.
    Build,
}

impl DifferenceKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Output, Self::ExitStatus, Self::File, Self::Sanitizer, Self::TimeOut, Self::Build];

    /// Its name in the column `kind`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::ExitStatus => "exit-status",
            Self::File => "file",
            Self::Sanitizer => "sanitizer",
            Self::TimeOut => "time-out",
            Self::Build => "build",
        }
    }
}

/// A row of `miscompilations`: a program behaves otherwise after the last of some actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MiscompilationRow {
    /// Its name across lakes, from [`random_uid`](super::random_uid). A merge takes each name once.
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
    pub expected: Behaviour,
    /// What was found.
    pub actual: Behaviour,
    /// Whether the actions were minimised: without any one of them, the program behaves as
    /// expected.
    pub minimised: bool,
    /// How machine code was made of both states.
    pub compilation: String,
    /// When it was found, Unix time in milliseconds.
    pub found_at_ms: i64,
}

/// Something that a program gives: its output, a file, or its exit status as a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    /// BLAKE3 of all of it, in hexadecimal digits.
    pub digest: String,
    /// A part of it for people, short, from where the difference begins.
    pub excerpt: String,
}

/// Rows to append in one transaction.
///
/// The order of rows matters twice. The row of an episode comes with its last step or later. The
/// row of a state in `observations` comes no later than the first step with this state, and its row
/// in `ir` no later than the first such step that is a keyframe. A seal therefore never meets a
/// closed step without the rows of its state. IR without a keyframe is not part of the lake: it is
/// not sealed, and it is deleted when open episodes are taken back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// New programs. A lake has a program once.
    pub benchmarks: Vec<BenchmarkRow>,
    /// Episodes that are over.
    pub episodes: Vec<EpisodeRow>,
    /// Steps.
    pub steps: Vec<StepRow>,
    /// Observations of new states. A lake has a state once.
    pub observations: Vec<ObservationRow>,
    /// IR of new states. A lake has a state once.
    pub ir: Vec<IrRow>,
    /// Measurements of programs that have a row of a closed episode.
    pub measurements: Vec<MeasurementRow>,
    /// Miscompilations of such programs.
    pub miscompilations: Vec<MiscompilationRow>,
}

impl Rows {
    /// Whether there is nothing to append.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A row of `runs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRow {
    /// Its number.
    #[serde(rename = "run_id")]
    pub id: RunId,
    /// Its name across lakes: 128 random bits, in hexadecimal digits.
    pub uid: String,
    /// The arguments that identify it: a text of the caller.
    pub arguments: String,
    /// When it began, Unix time in milliseconds.
    pub started_at_ms: i64,
    /// Whether it is complete.
    pub finished: bool,
    /// The number of windows of its steps that failed in one worker, but not in the fresh worker
    /// that played them again. It may differ between equal runs.
    pub repeated_windows: u32,
}

/// What a lake has already, so that it need not be appended again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// States with a row in `observations`.
    pub observed: HashSet<StateId>,
    /// States with a row in `ir`.
    pub ir: HashSet<StateId>,
    /// Programs with a row in `benchmarks`, by name.
    pub benchmarks: HashMap<String, KnownBenchmark>,
}

/// What a lake has of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownBenchmark {
    /// BLAKE3 of the program's bytes, in hexadecimal digits. Empty if a repair dropped the row.
    pub program_digest: String,
    /// The state that it starts in.
    pub initial_state: Option<StateId>,
    /// The baselines that the lake has columns for.
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
