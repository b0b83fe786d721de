//! The rows of a lake, checked one by one and against each other.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use arrow::array::{Array as _, RecordBatch};

use super::findings::{Findings, StoredState};
use crate::lake::decode::{
    EdgeColumns, EpisodeColumns, StepColumns, benchmark_uris, order, state_id, state_ids,
    state_keys,
};
use crate::lake::episode_steps::{EpisodeSteps, Link, in_order};
use crate::lake::ir::unpack;
use crate::lake::{Lake, LayerId, REPORT, ScanColumns, Segment, Table, sqlite};
use crate::model::{ActionIndex, EpisodeId, EpisodeOutcome, StateId};

/// Checks rows, table by table; what rows refer to comes before them.
///
/// Keeps one entry in memory for each state, benchmark and episode.
pub(super) struct Checker<'a> {
    pub(super) findings: &'a mut Findings,
    pub(super) rows: BTreeMap<Table, u64>,
    pub(super) ir: u64,
    /// Is handed each state whose IR is sound.
    stored: &'a mut dyn FnMut(StoredState),
    log: PathBuf,
    observes: bool,
    /// States without observations, where a repair had to drop some.
    pub(super) unobserved: HashSet<StateId>,
    /// Keyframes whose IR a repair had to drop.
    pub(super) lost_keyframes: HashSet<StateId>,
    forgives: Forgiven,
    /// Tables of which something could not be read: that rows of them are missing says nothing
    /// more.
    unread: BTreeSet<Table>,
    benchmarks: HashSet<String>,
    observed: HashSet<StateId>,
    with_ir: HashSet<StateId>,
    /// States without IR, and whether one of the recorded paths to them begins in a state that has
    /// it.
    without_ir: HashMap<StateId, bool>,
    episodes: HashMap<i64, Episode>,
    walk: EpisodeSteps<()>,
    /// Whether the IR of the last keyframe, or of the first state, of the episode that is being
    /// read is there.
    rebuilds: bool,
    /// Whether the rows come in the order of the table's key, and the last of them.
    sorted: bool,
    last_key: Option<RowKey>,
    /// The layer of that row.
    layer: Option<LayerId>,
}

/// The columns of steps that are checked in their order.
const STEP_COLUMNS: [&str; 6] =
    ["episode_id", "step_index", "action", "state_id", "state_key", "keyframe"];

/// What an episode's row says, and whether its steps were seen.
struct Episode {
    steps: i32,
    failed: bool,
    seen: bool,
}

/// The place of a row in a table that is sorted by state.
type RowKey = ((i64, StateId), ActionIndex, Option<StateId>);

/// A step, as far as it is checked.
struct Step {
    episode: i64,
    index: i32,
    has_action: bool,
    state: Option<StateId>,
    key: Option<i64>,
    keyframe: bool,
}

/// What states may lack, because a repair had to drop some of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Forgiven {
    pub(super) observations: bool,
    /// That of keyframes.
    pub(super) ir: bool,
}

impl<'a> Checker<'a> {
    pub(super) fn new(
        lake: &Lake,
        forgives: Forgiven,
        findings: &'a mut Findings,
        stored: &'a mut dyn FnMut(StoredState),
    ) -> Self {
        Self {
            findings,
            rows: Table::ALL.map(|table| (table, 0)).into(),
            ir: 0,
            stored,
            log: lake.path.join(sqlite::FILE_NAME),
            observes: !lake.identity.observations.is_empty(),
            unobserved: HashSet::new(),
            lost_keyframes: HashSet::new(),
            forgives,
            unread: BTreeSet::new(),
            benchmarks: HashSet::new(),
            observed: HashSet::new(),
            with_ir: HashSet::new(),
            without_ir: HashMap::new(),
            episodes: HashMap::new(),
            walk: EpisodeSteps::default(),
            rebuilds: false,
            sorted: false,
            last_key: None,
            layer: None,
        }
    }

    /// Checks rows of a segment, which come in the segment's order.
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

    /// Says that a segment has no more rows.
    pub(super) fn end_of_segment(&mut self, segment: &Segment) {
        if segment.table == Table::Steps {
            self.end_of_episode(&segment.path);
        }
        // Only a layer is sorted over all its segments.
        if segment.layer.is_none() {
            self.last_key = None;
        }
    }

    /// Checks all hot rows of a table.
    pub(super) fn hot<'b>(&mut self, table: Table, batches: impl Iterator<Item = &'b RecordBatch>) {
        (self.sorted, self.last_key) = (false, None);
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

    /// Checks what only shows when every row was seen.
    pub(super) fn finish(&mut self) {
        // An episode that failed before its first step has a row and nothing else.
        let has_steps = |episode: &Episode| episode.steps > 0 || !episode.failed;
        let mut lost = self
            .episodes
            .iter()
            .filter(|(_, episode)| !episode.seen && has_steps(episode))
            .map(|(&id, _)| id)
            .collect::<Vec<_>>();
        lost.sort_unstable();
        let log = self.log.clone();
        for id in lost {
            self.lacks(Table::Steps, &log, "has no steps", || format!("episode {}", named(id)));
        }
    }

    /// Takes down that some of a table cannot be read.
    pub(super) fn cannot_read(&mut self, table: Table) {
        self.unread.insert(table);
    }

    /// Adds a finding about a row of `table` that is not there, unless that table is damaged, which
    /// was said.
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
        }
    }

    fn episodes(&mut self, path: &Path, batch: &RecordBatch) {
        for row in EpisodeColumns::of(batch).rows() {
            let Some(outcome) = row.outcome() else {
                self.report(path, "is no outcome of an episode", || row.outcome.to_owned());
                continue;
            };
            let failed = matches!(outcome, EpisodeOutcome::Failed(_));
            let (id, episode) = (row.id.0, Episode { steps: row.steps, failed, seen: false });
            if self.episodes.insert(id, episode).is_some() {
                self.report(path, "is there twice", || format!("episode {}", named(id)));
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
                        (self.stored)(StoredState { path: path.to_owned(), state, bitcode });
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
        let next = edges.led.as_ref().filter(|_| table == Table::Conflicts);
        for row in 0..edges.rows() {
            let state = state_id(&edges.states, row);
            let next = next.map(|next| state_id(&next.states, row));
            self.in_order(path, state, edges.action(row), next);
            if edges.state_keys.value(row) != state.key() {
                self.report(path, "stands under another key", || format!("state {state}"));
            }
        }
    }

    /// Checks that rows come in the order of their keys, and so that no key is there twice.
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
        let key = Some((order(state), action, next));
        if key <= self.last_key {
            self.report(path, "is out of its order", || format!("state {state}"));
        }
        self.last_key = key;
    }

    /// Checks that the benchmark and the state of each step are there.
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
            if self.forgives.observations && self.observes && !self.observed.contains(&state) {
                self.unobserved.insert(state);
            } else if self.observes && !self.observed.contains(&state) {
                let subject = || format!("state {state}");
                self.lacks(Table::Observations, path, "has no observations", subject);
            }
        }
    }

    /// Checks steps, which come in the order of their episodes.
    fn steps(&mut self, path: &Path, batch: &RecordBatch, sealed: bool) {
        let steps = StepColumns::of(batch);
        let (actions, states, keys) = (steps.actions(), steps.states(), steps.state_keys());
        let keyframes = steps.keyframes();
        for row in 0..steps.rows() {
            let step = Step {
                episode: steps.episodes[row],
                index: steps.indexes[row],
                has_action: actions.is_there(row),
                state: states.get(row),
                key: keys.is_valid(row).then(|| keys.value(row)),
                keyframe: keyframes.value(row),
            };
            self.step(path, &step, sealed);
        }
    }

    fn step(&mut self, path: &Path, step: &Step, sealed: bool) {
        if self.walk.last().is_none_or(|last| last.episode != step.episode) {
            self.end_of_episode(path);
            let row = self.episodes.get_mut(&step.episode);
            match row.map(|episode| std::mem::replace(&mut episode.seen, true)) {
                Some(true) => {
                    let subject = || format!("episode {}", named(step.episode));
                    self.report(path, "has steps in two places", subject);
                }
                None if sealed => {
                    let subject = || format!("episode {}", named(step.episode));
                    self.lacks(
                        Table::Episodes,
                        path,
                        "is sealed and has no row of its own",
                        subject,
                    );
                }
                _ => {}
            }
        }
        let link = self.walk.advance(step.episode, step.index, step.state.map(drop));
        if link == Link::Broken
            || step.has_action == (step.index == 0)
            || step.key != step.state.map(|state| state.key())
            || (step.keyframe && step.state.is_none())
        {
            let subject = || format!("step {} of episode {}", step.index, named(step.episode));
            self.report(path, "does not follow", subject);
        }
        self.rebuilds = self.rebuilds(path, step, self.rebuilds);
    }

    /// Checks that the IR of a keyframe is there, and notes which states can be rebuilt: whether
    /// the states after this step can, given whether this one can.
    fn rebuilds(&mut self, path: &Path, step: &Step, rebuilds: bool) -> bool {
        let Some(state) = step.state else { return false };
        let is_stored = self.with_ir.contains(&state);
        if !is_stored {
            *self.without_ir.entry(state).or_default() |= rebuilds;
            if step.keyframe && self.forgives.ir {
                self.lost_keyframes.insert(state);
            } else if step.keyframe && !self.unread.contains(&Table::Ir) {
                self.findings.add(path, "keyframe", || {
                    format!(
                        "state {state} is a keyframe and its IR is not there, so that neither this state \
                         nor those after it can be had: restore `ir` from a copy, or record again into \
                         another lake"
                    )
                });
            }
        }
        if step.keyframe || step.index == 0 { is_stored } else { rebuilds }
    }

    /// States without IR: how many can be rebuilt, and how many cannot.
    pub(super) fn without_ir(&self) -> (u64, u64) {
        let rebuilt = self.without_ir.values().filter(|&&rebuilds| rebuilds).count() as u64;
        (rebuilt, self.without_ir.len() as u64 - rebuilt)
    }

    fn end_of_episode(&mut self, path: &Path) {
        self.rebuilds = false;
        let Some(last) = self.walk.end() else { return };
        let Some(episode) = self.episodes.get(&last.episode) else { return };
        if episode.steps != last.index || episode.failed == last.state.is_some() {
            let subject = || format!("episode {}", named(last.episode));
            self.report(path, "has other steps than its row says", subject);
        }
    }
}

/// An episode as a person finds it again.
fn named(id: i64) -> String {
    let id = EpisodeId(id);
    format!("{} of run {}", id.ordinal(), id.run().0)
}
