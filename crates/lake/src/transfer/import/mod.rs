//! Imports logs of CompilerGym's `SynchronousSqliteLogger`.
//!
//! A log has a row for every distinct (program, actions) that its sessions met: the state, the sum
//! of the rewards, and whether the episode ended. It has neither episodes nor counts. The rows of a
//! program are a trie, and this makes episodes of it:
//!
//! - The first row that continues a row continues its episode. Each other one begins an episode
//!   that is a fork there, or begins in the program's first state. So each row with actions is
//!   exactly one step, and is counted once.
//! - The reward of a step is the difference of the sums. The logger adds in 32 bits, so it is exact
//!   to seven digits of the sum. Wall times are not in a log and are 0.
//! - A row with `done` and without a state is a failure of the compiler. The log does not say which
//!   kind, and nobody has reproduced it. A row with `done` and a state is the end of an episode.
//! - A row whose row before is missing is skipped: nobody knows where its action was taken. This
//!   and everything else that is not taken is counted in the [report](ImportReport).
//! - Graphs are pickled, and to read a pickle is to execute it. They are left out.
//!
//! Several logs are taken as one: a row that the lake has, with the same actions through the same
//! states, is not taken again. So a log that has grown can be imported again, and so can one whose
//! import was interrupted. Where logs contradict each other, both are taken, and a dedup finds the
//! conflict. Of a state's observations, those of the first log stay.
//!
//! # What is durable when
//!
//! Each log is a run of its own. Its rows go to segments, and one version edit at its end lists
//! them together with the run. So the lake has all of a log after `Ok`, and nothing of it after an
//! `Err` or a kill; files that a kill leaves are none of the lake's and go with the next
//! collection. A log that brings nothing new changes nothing.

mod database;
mod episodes;
mod error;
mod known;
mod skipped;
mod states;
mod trie;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use self::database::Database;
use self::episodes::EpisodeImport;
pub use self::error::ImportError;
use self::known::KnownRows;
pub use self::skipped::{Reason, Skipped};
use crate::kernel::versions::catalog;
use crate::kernel::versions::edit::{self, VersionEdit};
use crate::kernel::{KnownBenchmark, Lake, RunRow, Segment, SnapshotKind, Writer};
use steplake_model::{RunId, StateId};

/// Rows between two calls of a progress function.
const PROGRESS_ROWS: u64 = 4096;

/// Imports logs into a lake.
#[derive(Debug)]
pub struct Importer {
    writer: Writer,
    known: KnownRows,
    benchmarks: HashMap<String, KnownBenchmark>,
    observed: HashSet<StateId>,
}

/// What came of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// The log.
    pub path: PathBuf,
    /// Its run; none if it brought nothing new.
    pub run: Option<RunId>,
    /// Number of programs that are new.
    pub benchmarks: u64,
    /// Number of episodes, with forks.
    pub episodes: u64,
    /// Number of episodes that are forks.
    pub forks: u64,
    /// Number of steps with an action.
    pub steps: u64,
    /// Number of steps at which the compiler failed.
    pub failures: u64,
    /// Number of states that are new.
    pub states: u64,
    /// Number of rows that the lake had already.
    pub rows_known: u64,
    /// What was not taken.
    pub skipped: Skipped,
}

impl Importer {
    /// Takes the right to write to a lake, and reads what it has: memory grows by some 100 bytes
    /// for each step and each state. The columns that logs fill are those of the spaces
    /// `IrInstructionCount`, `InstCount`, `Autophase` and `Ir`, the reward `IrInstructionCountOz`,
    /// and the baseline `IrInstructionCountO0`, as far as the lake has them.
    ///
    /// # Errors
    ///
    /// [`LakeError::Busy`](crate::kernel::LakeError::Busy) if somebody writes to it,
    /// [`ImportError::Orphaned`] if it has forks of retracted episodes, and errors of reading.
    pub fn new(lake: &Lake) -> Result<Self, ImportError> {
        let writer = lake.writer()?;
        let known = KnownRows::of(&writer.lake().snapshot()?)?;
        let states = writer.known_states()?;
        Ok(Self { writer, known, benchmarks: states.benchmarks, observed: states.observed })
    }

    /// Opens a log to see whether it is one, before a lake is made for it.
    ///
    /// # Errors
    ///
    /// [`ImportError::Open`] and [`ImportError::NotALog`].
    pub fn check(log: &Path) -> Result<(), ImportError> {
        Database::open(log).map(drop)
    }

    /// Imports a log. Calls `progress` with the rows read and the total.
    ///
    /// # Errors
    ///
    /// See [`ImportError`]. Nothing of the log is then in the lake.
    pub fn import(
        self,
        log: &Path,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Self, ImportReport), ImportError> {
        let mut importer = self;
        let database = Database::open(log)?;
        let (total, mut done) = (database.rows()?, 0);
        let mut read = || {
            done += 1;
            if done % PROGRESS_ROWS == 0 {
                progress(done, total);
            }
        };
        let lake = importer.writer.lake().clone();
        let run = importer.writer.runs()?.last().map_or(RunId(1), |last| RunId(last.id.0 + 1));
        let mut episodes = EpisodeImport::new(
            &database,
            &lake,
            run,
            &mut importer.known,
            &mut importer.benchmarks,
            &importer.observed,
        );
        database.states(&mut |row| {
            read();
            episodes.add(row)
        })?;
        let (mut segments, mut made, mut skipped) = episodes.finish()?;
        let needed = std::mem::take(&mut made.unobserved);
        let is_new = !segments.is_empty();
        if is_new {
            importer.observed.extend(&needed);
            let states = states::write(&lake, &database, needed.clone(), &mut skipped, &mut read)?;
            segments.extend(states);
            importer.publish(run, log, segments)?;
        }
        let report = ImportReport {
            path: log.to_owned(),
            run: is_new.then_some(run),
            benchmarks: made.benchmarks,
            episodes: made.episodes.into(),
            forks: made.forks,
            steps: made.steps,
            failures: made.failures,
            states: needed.len() as u64,
            rows_known: made.rows_known,
            skipped,
        };
        Ok((importer, report))
    }

    /// Makes the segments of a log part of the lake, with its run.
    fn publish(
        &mut self,
        run: RunId,
        log: &Path,
        segments: Vec<Segment>,
    ) -> Result<(), ImportError> {
        // The folder is the machine's, and none of a lake's that may be published.
        let name = log.file_name().unwrap_or_default().to_string_lossy();
        let lake = self.writer.lake().clone();
        let row = RunRow {
            id: run,
            uid: catalog::random_uid()?,
            arguments: serde_json::json!({ "import": "SynchronousSqliteLogger", "log": name })
                .to_string(),
            started_at_ms: lake.clock.now_ms(),
            finished: true,
            repeated_windows: 0,
            audited_steps: 0,
            differing_steps: 0,
        };
        let edit = VersionEdit {
            add: segments,
            runs: vec![row],
            ..VersionEdit::new(SnapshotKind::Import, format!("the log {name}"))
        };
        edit::apply(&mut self.writer.catalog, &lake, &edit)?;
        Ok(())
    }
}
