//! Checks of rows, one by one and against each other.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use arrow::array::{Array as _, RecordBatch};

use super::findings::{Findings, StoredState};
use crate::kernel::ir::unpack;
use crate::kernel::schema::decode::{
    EdgeColumns, EpisodeEnd, StepColumns, benchmark_uris, samples, state_ids, state_keys, uids,
};
use crate::kernel::schema::episode_steps::{EpisodeSteps, StepLink, in_order};
use crate::kernel::versions::sqlite;
use crate::kernel::{Lake, LakeError, LayerId, REPORT, ScanColumns, Segment, Table, are_samples};
use steplake_model::{ActionIndex, EpisodeId, EpisodeOutcome, StateId};

/// Checks rows, table by table; rows that others refer to come first.
///
/// Keeps one entry in memory for each state, benchmark and episode.
#[derive(Default)]
pub(super) struct Checker<'a> {
    pub(super) findings: Findings,
    pub(super) rows: BTreeMap<Table, u64>,
    pub(super) ir: u64,
    /// Receives each state whose IR is sound.
    stored: Option<&'a mut dyn FnMut(StoredState)>,
    log: PathBuf,
    observes: bool,
    /// States without observations, if a repair had to drop some.
    pub(super) unobserved: HashSet<StateId>,
    /// Keyframes whose IR a repair had to drop.
    pub(super) lost_keyframes: HashSet<StateId>,
    /// Tables of which a repair had to drop rows, so that states may lack theirs.
    lossy: BTreeSet<Table>,
    /// Tables of which something could not be read. Missing rows of these are no further finding.
    unread: BTreeSet<Table>,
    benchmarks: HashSet<String>,
    /// The names of measurements and of miscompilations.
    uids: HashSet<String>,
    observed: HashSet<StateId>,
    with_ir: HashSet<StateId>,
    /// Actions that need not lead to the same state again.
    doubted: HashSet<ActionIndex>,
    /// States without IR, and the best of the recorded paths to them.
    without_ir: HashMap<StateId, WayBack>,
    episodes: HashMap<i64, CheckedEpisode>,
    walk: EpisodeSteps<StateId>,
    /// The way back to the last step, from the last keyframe of its episode; before a keyframe,
    /// from the first state.
    way_back: WayBack,
    /// Whether the rows are in the order of the table's key, and the key of the last row.
    sorted: bool,
    last_key: Option<RowKey>,
    /// The key of the last row of a table whose rows have names.
    last_named: Option<((i64, StateId), String)>,
    /// The layer of that row.
    layer: Option<LayerId>,
}

/// The columns of steps that are checked in their order.
const STEP_COLUMNS: [&str; 6] =
    ["episode_id", "step_index", "action", "state_id", "state_key", "keyframe"];

/// Whether a recorded path leads from a state with IR to a state; the worst comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum WayBack {
    /// None does.
    #[default]
    Missing,
    /// One does, through a change of state by this action, which need not lead there again.
    Doubtful(ActionIndex),
    /// One does, and each of its actions leads to the same state again.
    Sure,
}

/// How many states without IR can be rebuilt.
#[derive(Debug, Default)]
pub(super) struct WithoutIr {
    pub(super) rebuilt: u64,
    /// By one of the actions in doubt on the way.
    pub(super) doubtful: BTreeMap<ActionIndex, u64>,
    pub(super) not: u64,
}

/// The contents of an episode's row, and whether its steps were seen.
struct CheckedEpisode {
    steps: i32,
    failed: bool,
    seen: bool,
}

/// The sort key of a row in a table that is sorted by state.
type RowKey = ((i64, StateId), ActionIndex, Option<StateId>);

impl<'a> Checker<'a> {
    pub(super) fn new(
        lake: &Lake,
        lossy: BTreeSet<Table>,
        doubted: HashSet<ActionIndex>,
        findings: Findings,
        stored: &'a mut dyn FnMut(StoredState),
    ) -> Self {
        Self {
            findings,
            rows: Table::ALL.map(|table| (table, 0)).into(),
            stored: Some(stored),
            log: lake.path.join(sqlite::FILE_NAME),
            observes: !lake.identity.observations.is_empty(),
            lossy,
            doubted,
            ..Self::default()
        }
    }

    /// Checks rows of a segment, in the segment's order.
    pub(super) fn sealed(&mut self, segment: &Segment, batch: &RecordBatch) {
        let (table, path) = (segment.table, segment.path.as_path());
        self.sorted = true;
        if self.layer != segment.layer {
            (self.layer, self.last_key) = (segment.layer, None);
        }
        *self.rows.entry(table).or_default() += batch.num_rows() as u64;
        match table {
            Table::Steps => {
                self.references(path, batch);
                self.steps(path, batch, true);
            }
            _ => self.keyed(path, table, batch),
        }
    }

    /// Ends the rows of a segment.
    pub(super) fn end_of_segment(&mut self, segment: &Segment) {
        if segment.table == Table::Steps {
            self.end_of_episode(&segment.path);
        }
        // Only a layer is sorted over all its segments.
        if segment.layer.is_none() {
            (self.last_key, self.last_named) = (None, None);
        }
    }

    /// Checks all hot rows of a table.
    pub(super) fn hot<'b>(&mut self, table: Table, batches: impl Iterator<Item = &'b RecordBatch>) {
        (self.sorted, self.last_key, self.last_named) = (false, None, None);
        let log = self.log.clone();
        let batches = batches.collect::<Vec<_>>();
        for batch in &batches {
            *self.rows.entry(table).or_default() += batch.num_rows() as u64;
            if table == Table::Steps {
                self.references(&log, batch);
            } else {
                self.keyed(&log, table, batch);
            }
        }
        if table == Table::Steps {
            for batch in in_order(&batches, ScanColumns::Named(&STEP_COLUMNS)) {
                self.steps(&log, &batch, false);
            }
            self.end_of_episode(&log);
        }
    }

    /// Checks what can be checked only after all rows.
    pub(super) fn finish(&mut self) {
        // An episode that failed before its first step has only a row.
        let has_steps = |episode: &CheckedEpisode| episode.steps > 0 || !episode.failed;
        let lost = self.episodes.iter().filter(|(_, it)| !it.seen && has_steps(it));
        let lost = lost.map(|(&id, _)| id).collect::<BTreeSet<_>>();
        let log = self.log.clone();
        for id in lost {
            self.lacks(Table::Steps, &log, "has no steps", || named(id));
        }
    }

    /// Adds the finding that some of a table cannot be read. `advice` says what to do.
    pub(super) fn cannot_read(
        &mut self,
        table: Table,
        path: &Path,
        advice: &'static str,
        error: LakeError,
    ) {
        self.unread.insert(table);
        self.findings.add_error(path, advice, error);
    }

    /// Adds a finding about a missing row of `table`, unless damage to that table was already
    /// reported.
    fn lacks(
        &mut self,
        table: Table,
        path: &Path,
        wrong: &'static str,
        subject: impl FnOnce() -> String,
    ) {
        if !self.unread.contains(&table) {
            self.report(path, wrong, subject);
        }
    }

    /// Adds a finding: `subject` and what is wrong with it.
    fn report(&mut self, path: &Path, wrong: &'static str, subject: impl FnOnce() -> String) {
        self.findings.add(path, wrong, || format!("{} {wrong}: {REPORT}", subject()));
    }

    fn keyed(&mut self, path: &Path, table: Table, batch: &RecordBatch) {
        match table {
            Table::Benchmarks => {
                for uri in benchmark_uris(batch) {
                    if !self.benchmarks.insert(uri.to_owned()) {
                        self.report(path, "is there twice", || uri.to_owned());
                    }
                }
            }
            Table::Actions => {}
            Table::Episodes => self.episodes(path, batch),
            Table::Observations | Table::Ir => self.states(path, table, batch),
            Table::Steps => unreachable!("steps are checked in their order"),
            Table::StateTransitions | Table::Conflicts | Table::Failures => {
                self.derived(path, table, batch);
            }
            Table::Measurements => {
                self.named_rows(path, batch);
                for (uid, samples) in uids(batch).zip(samples(batch)) {
                    if !are_samples(samples) {
                        self.report(path, "has samples that no clock gives", || of_uid(uid));
                    }
                }
            }
            Table::Miscompilations => self.named_rows(path, batch),
        }
    }

    fn episodes(&mut self, path: &Path, batch: &RecordBatch) {
        for row in EpisodeEnd::rows(batch) {
            let Some(outcome) = row.outcome() else {
                self.report(path, "is no outcome of an episode", || row.outcome.to_owned());
                continue;
            };
            let failed = matches!(outcome, EpisodeOutcome::Failed(_));
            let (id, episode) =
                (row.id.0, CheckedEpisode { steps: row.steps, failed, seen: false });
            if self.episodes.insert(id, episode).is_some() {
                self.report(path, "is there twice", || named(id));
            }
        }
    }

    fn states(&mut self, path: &Path, table: Table, batch: &RecordBatch) {
        let keys = state_keys(batch);
        for (row, state) in state_ids(batch, "state_id").flatten().enumerate() {
            self.in_order(path, state, ActionIndex(0), None);
            let known = if table == Table::Ir { &mut self.with_ir } else { &mut self.observed };
            if !known.insert(state) {
                self.report(path, "is there twice", || format!("state {state}"));
            }
            if table == Table::Ir {
                self.ir += 1;
                match unpack(batch, row) {
                    Ok(bitcode) => {
                        if let Some(stored) = &mut self.stored {
                            stored(StoredState { path: path.to_owned(), state, bitcode });
                        }
                    }
                    Err(what) => {
                        self.findings.add(path, "ir", || format!("{what}: {REPORT}"));
                    }
                }
            } else if keys.value(row) != state.key() {
                self.report(path, "stands under another key", || format!("state {state}"));
            }
        }
    }

    fn derived(&mut self, path: &Path, table: Table, batch: &RecordBatch) {
        let edges = EdgeColumns::of(batch, table);
        for row in 0..edges.rows() {
            let state = StateId::from_slice(edges.states.value(row));
            let led = edges.led.as_ref();
            let next = led.map(|led| StateId::from_slice(led.states.value(row)));
            let in_key = next.filter(|_| table == Table::Conflicts);
            self.in_order(path, state, edges.action(row), in_key);
            let next_key = led.map(|led| led.state_keys.value(row));
            if let Some(next) = next.filter(|next| next_key != Some(next.key())) {
                self.report(path, "stands under another key", || format!("state {next}"));
            }
            if edges.state_keys.value(row) != state.key() {
                self.report(path, "stands under another key", || format!("state {state}"));
            }
        }
    }

    /// Checks rows with names: each name once, in order, and of a program that has a row.
    fn named_rows(&mut self, path: &Path, batch: &RecordBatch) {
        let keys = state_keys(batch);
        let rows = state_ids(batch, "state_id").flatten().zip(uids(batch));
        for (row, ((state, uid), uri)) in rows.zip(benchmark_uris(batch)).enumerate() {
            if !self.uids.insert(uid.to_owned()) {
                self.report(path, "is there twice", || of_uid(uid));
            }
            if keys.value(row) != state.key() {
                self.report(path, "stands under another key", || format!("state {state}"));
            }
            if self.sorted {
                let key = Some((state.order(), uid.to_owned()));
                if key < self.last_named {
                    self.report(path, "is out of its order", || of_uid(uid));
                }
                self.last_named = key;
            }
            // The rows that a repair makes again are those of programs with steps.
            let is_lost = self.lossy.contains(&Table::Benchmarks);
            if !self.benchmarks.contains(uri) && !is_lost {
                let subject = || format!("benchmark {uri}");
                self.lacks(Table::Benchmarks, path, "has no row of its own", subject);
            }
        }
    }

    /// Checks that keys ascend, so that none is there twice.
    fn in_order(
        &mut self,
        path: &Path,
        state: StateId,
        action: ActionIndex,
        next: Option<StateId>,
    ) {
        if !self.sorted {
            return;
        }
        let key = Some((state.order(), action, next));
        if key <= self.last_key {
            self.report(path, "is out of its order", || format!("state {state}"));
        }
        self.last_key = key;
    }

    /// Checks that the benchmark and the observations of each step are there.
    fn references(&mut self, path: &Path, batch: &RecordBatch) {
        let mut last = "";
        for uri in benchmark_uris(batch) {
            if uri != last && !self.benchmarks.contains(uri) {
                let subject = || format!("benchmark {uri}");
                self.lacks(Table::Benchmarks, path, "has no row of its own", subject);
            }
            last = uri;
        }
        for state in state_ids(batch, "state_id").flatten() {
            if !self.observes || self.observed.contains(&state) {
                continue;
            }
            if self.lossy.contains(&Table::Observations) {
                self.unobserved.insert(state);
            } else {
                let subject = || format!("state {state}");
                self.lacks(Table::Observations, path, "has no observations", subject);
            }
        }
    }

    /// Checks steps, in the order of their episodes.
    fn steps(&mut self, path: &Path, batch: &RecordBatch, sealed: bool) {
        let steps = StepColumns::of(batch);
        let (actions, states, keys) = (steps.actions(), steps.states(), steps.state_keys());
        let keyframes = steps.keyframes();
        for (row, &episode) in steps.episodes.iter().enumerate() {
            let (index, state) = (steps.indexes[row], states.get(row));
            if self.walk.last().is_none_or(|last| last.episode != episode) {
                self.end_of_episode(path);
                self.begin_episode(path, episode, sealed);
            }
            let link = self.walk.advance(episode, index, state);
            let key = keys.is_valid(row).then(|| keys.value(row));
            let keyframe = keyframes.value(row);
            if link == StepLink::Broken
                || actions.is_there(row) == (index == 0)
                || key != state.map(|state| state.key())
                || (keyframe && state.is_none())
            {
                let subject = || format!("step {index} of {}", EpisodeId(episode));
                self.report(path, "does not follow", subject);
            }
            if let (StepLink::Next(from), Some(action)) = (link, actions.get(row))
                && state.is_some_and(|state| state != from)
                && self.doubted.contains(&action)
            {
                self.way_back = self.way_back.min(WayBack::Doubtful(action));
            }
            self.way_back = state.map_or(WayBack::Missing, |state| {
                self.way_back_after(path, state, keyframe, keyframe || index == 0)
            });
        }
    }

    /// Checks that the row of an episode whose steps begin here is there, and notes its steps.
    fn begin_episode(&mut self, path: &Path, episode: i64, sealed: bool) {
        let row = self.episodes.get_mut(&episode);
        match row.map(|episode| std::mem::replace(&mut episode.seen, true)) {
            Some(true) => self.report(path, "has steps in two places", || named(episode)),
            None if sealed => {
                let wrong = "is sealed and has no row of its own";
                self.lacks(Table::Episodes, path, wrong, || named(episode));
            }
            _ => {}
        }
    }

    /// Checks that the IR of a keyframe is there. Returns the way back to the states after this
    /// step; `starts` says that it starts here.
    fn way_back_after(
        &mut self,
        path: &Path,
        state: StateId,
        keyframe: bool,
        starts: bool,
    ) -> WayBack {
        let is_stored = self.with_ir.contains(&state);
        if !is_stored {
            let best = self.without_ir.entry(state).or_default();
            *best = self.way_back.max(*best);
            if keyframe && self.lossy.contains(&Table::Ir) {
                self.lost_keyframes.insert(state);
            } else if keyframe && !self.unread.contains(&Table::Ir) {
                self.findings.add(path, "keyframe", || {
                    format!(
                        "state {state} is a keyframe and its IR is missing, so neither this state nor \
                         those after it can be rebuilt: restore `ir` from a copy, or record again \
                         into another lake"
                    )
                });
            }
        }
        match starts {
            true if is_stored => WayBack::Sure,
            true => WayBack::Missing,
            false => self.way_back,
        }
    }

    /// Counts the states without IR.
    pub(super) fn without_ir(&self) -> WithoutIr {
        let mut counts = WithoutIr::default();
        #[expect(clippy::iter_over_hash_type, reason = "sums do not depend on the order")]
        for (state, way_back) in &self.without_ir {
            match way_back {
                WayBack::Sure => counts.rebuilt += 1,
                // A repair has dropped it, and says so.
                WayBack::Doubtful(_) if self.lost_keyframes.contains(state) => counts.not += 1,
                WayBack::Doubtful(action) => *counts.doubtful.entry(*action).or_default() += 1,
                WayBack::Missing => counts.not += 1,
            }
        }
        counts
    }

    fn end_of_episode(&mut self, path: &Path) {
        self.way_back = WayBack::Missing;
        let Some(last) = self.walk.end() else { return };
        let Some(episode) = self.episodes.get(&last.episode) else { return };
        // The compiler may have failed on the state in which the episode began.
        let is_failed_start = episode.failed && last.index == 0;
        let ends_otherwise = !is_failed_start && episode.failed == last.state.is_some();
        if episode.steps != last.index || ends_otherwise {
            self.report(path, "has other steps than its row says", || named(last.episode));
        }
    }
}

/// Names a measurement or a miscompilation for people.
fn of_uid(uid: &str) -> String {
    format!("the row named {uid}")
}

/// Names an episode for people.
fn named(id: i64) -> String {
    EpisodeId(id).to_string()
}
