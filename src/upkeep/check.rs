//! The rows of a lake, checked one by one and against each other.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use arrow::array::{Array as _, AsArray as _, FixedSizeBinaryArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type};

use super::findings::{Findings, StoredState};
use crate::lake::decode::{order, state_id, state_ids};
use crate::lake::ir::unpack;
use crate::lake::{Lake, LayerId, REPORT, Segment, Table, sqlite};
use crate::model::{EpisodeId, EpisodeOutcome, StateId};

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
    /// States without IR, and whether one of the recorded ways to them begins in a state that has
    /// it.
    without_ir: HashMap<StateId, bool>,
    episodes: HashMap<i64, Episode>,
    chain: Option<Chain>,
    /// Whether the rows come in the order of the table's key, and the last of them.
    sorted: bool,
    last_key: Option<RowKey>,
    /// The layer of that row.
    layer: Option<LayerId>,
}

/// What an episode's row says, and whether its steps were seen.
struct Episode {
    steps: i32,
    failed: bool,
    seen: bool,
}

/// The steps of the episode that is being read.
struct Chain {
    episode: i64,
    index: i32,
    alive: bool,
    /// Whether the IR of the last keyframe, or of the first state, is there.
    rebuilds: bool,
}

/// The place of a row in a table that is sorted by state.
type RowKey = ((i64, StateId), i16, Option<StateId>);

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
            chain: None,
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
                for step in steps(batch) {
                    self.step(path, &step, true);
                }
            }
            _ => self.keyed(path, table, batch),
        }
    }

    /// Says that a segment has no more rows.
    pub(super) fn end_of_segment(&mut self, segment: &Segment) {
        if segment.table == Table::Steps {
            self.end_of_chain(&segment.path);
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
        let mut hot_steps = Vec::new();
        for batch in batches {
            *self.rows.entry(table).or_default() += batch.num_rows() as u64;
            if table == Table::Steps {
                self.references(&log, batch);
                hot_steps.extend(steps(batch));
            } else {
                self.keyed(&log, table, batch);
            }
        }
        hot_steps.sort_unstable_by_key(|step| (step.episode, step.index));
        for step in &hot_steps {
            self.step(&log, step, false);
        }
        self.end_of_chain(&log);
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
                for uri in batch["benchmark_uri"].as_string::<i32>().iter().flatten() {
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
        let steps = batch["steps"].as_primitive::<Int32Type>().values().iter();
        let outcomes = batch["outcome"].as_string::<i32>().iter();
        let ids = batch["episode_id"].as_primitive::<Int64Type>().values().iter();
        for ((&id, &steps), outcome) in ids.zip(steps).zip(outcomes) {
            let outcome = outcome.unwrap_or_default();
            let Ok(parsed) = outcome.parse::<EpisodeOutcome>() else {
                self.report(path, "is no outcome of an episode", || outcome.to_owned());
                continue;
            };
            let failed = matches!(parsed, EpisodeOutcome::Failed(_));
            if self.episodes.insert(id, Episode { steps, failed, seen: false }).is_some() {
                self.report(path, "is there twice", || format!("episode {}", named(id)));
            }
        }
    }

    fn states(&mut self, path: &Path, table: Table, batch: &RecordBatch) {
        let keys = batch["state_key"].as_primitive::<Int64Type>();
        for (row, state) in state_ids(batch, "state_id").flatten().enumerate() {
            self.in_order(path, state, 0, None);
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
        let actions = batch["action"].as_primitive::<Int16Type>();
        let keys = batch["state_key"].as_primitive::<Int64Type>();
        let next =
            (table == Table::Conflicts).then(|| batch["next_state_id"].as_fixed_size_binary());
        for (row, state) in state_ids(batch, "state_id").flatten().enumerate() {
            let next = next.map(|next: &FixedSizeBinaryArray| state_id(next, row));
            self.in_order(path, state, actions.value(row), next);
            if keys.value(row) != state.key() {
                self.report(path, "stands under another key", || format!("state {state}"));
            }
        }
    }

    /// Checks that rows come in the order of their keys, and so that no key is there twice.
    fn in_order(&mut self, path: &Path, state: StateId, action: i16, next: Option<StateId>) {
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
        let uris =
            cast(&batch["benchmark_uri"], &DataType::Utf8).expect("a dictionary of text is text");
        let mut last = "";
        for uri in uris.as_string::<i32>().iter().flatten() {
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

    fn step(&mut self, path: &Path, step: &Step, sealed: bool) {
        let continues = self.chain.as_ref().is_some_and(|chain| chain.episode == step.episode);
        if !continues {
            self.end_of_chain(path);
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
        let follows = match &self.chain {
            Some(chain) if continues => chain.alive && step.index == chain.index + 1,
            _ => step.index == 0,
        };
        if !follows
            || step.has_action == (step.index == 0)
            || step.key != step.state.map(|state| state.key())
            || (step.keyframe && step.state.is_none())
        {
            let subject = || format!("step {} of episode {}", step.index, named(step.episode));
            self.report(path, "does not follow", subject);
        }
        let rebuilds = self.chain.as_ref().is_some_and(|chain| continues && chain.rebuilds);
        let rebuilds = self.rebuilds(path, step, rebuilds);
        let alive = step.state.is_some();
        self.chain = Some(Chain { episode: step.episode, index: step.index, alive, rebuilds });
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

    fn end_of_chain(&mut self, path: &Path) {
        let Some(chain) = self.chain.take() else { return };
        let Some(episode) = self.episodes.get(&chain.episode) else { return };
        if episode.steps != chain.index || episode.failed == chain.alive {
            let subject = || format!("episode {}", named(chain.episode));
            self.report(path, "has other steps than its row says", subject);
        }
    }
}

/// An episode as a person finds it again.
fn named(id: i64) -> String {
    let id = EpisodeId(id);
    format!("{} of run {}", id.ordinal(), id.run().0)
}

fn steps(batch: &RecordBatch) -> impl Iterator<Item = Step> + '_ {
    let episodes = batch["episode_id"].as_primitive::<Int64Type>();
    let indexes = batch["step_index"].as_primitive::<Int32Type>();
    let actions = &batch["action"];
    let keys = batch["state_key"].as_primitive::<Int64Type>();
    let keyframes = batch["keyframe"].as_boolean();
    state_ids(batch, "state_id").enumerate().map(|(row, state)| Step {
        episode: episodes.value(row),
        index: indexes.value(row),
        has_action: actions.is_valid(row),
        state,
        key: keys.is_valid(row).then(|| keys.value(row)),
        keyframe: keyframes.value(row),
    })
}
