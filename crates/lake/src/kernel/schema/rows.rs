//! Rows to append, runs, and what a lake knows already.

use std::collections::{HashMap, HashSet};

use serde::{Deserialize, Serialize};

use super::tables::{
    BenchmarkRow, EpisodeRow, IrRow, MeasurementRow, MiscompilationRow, ObservationRow, StepRow,
};
use steplake_model::{Baselines, RunId, StateId};

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
    /// The number of its steps that were played again in another process, and compared. It may
    /// differ between equal runs. Logs from before the column lack it, and the next.
    #[serde(default)]
    pub audited_steps: u64,
    /// The number of those that had another result.
    #[serde(default)]
    pub differing_steps: u64,
}

/// What a lake has already, so that it need not be appended again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownContents {
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
