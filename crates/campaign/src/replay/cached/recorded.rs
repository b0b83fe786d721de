//! What the sessions of one environment share: the graph, columns of values, and counters.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::graph::{RecordedGraph, StateEdge, StateRow};
use super::observations::SpaceValues;
use super::spaces::CachedSpaces;
use crate::replay::stored_state::ReplayError;
use steplake_env::SessionError;
use steplake_lake::graph::GraphReader;
use steplake_lake::{KnownBenchmark, LakeError, Snapshot};
use steplake_model::{ActionIndex, Failure, RewardSpace, StateId};

/// The recorded part of an environment. Nothing in it changes but counters; columns are read when
/// they are first needed.
pub(super) struct RecordedPart {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) spaces: CachedSpaces,
    pub(super) graph: RecordedGraph,
    /// Those that never started have no first state.
    pub(super) benchmarks: HashMap<String, KnownBenchmark>,
    pub(super) counters: RequestCounters,
    /// By column of `observations`.
    observations: Vec<OnceLock<Arc<SpaceValues>>>,
    /// By column of rewards: one reward for each transition, NaN for none.
    rewards: Vec<OnceLock<Arc<Vec<f64>>>>,
    conflicts: OnceLock<u64>,
    /// How the starts of benchmarks failed that never started.
    failed_starts: OnceLock<HashMap<String, Failure>>,
    /// Held while something is read, so that it is read once.
    reading: Mutex<()>,
    threads: NonZeroUsize,
}

/// Counts of what sessions were asked for.
#[derive(Default)]
pub(super) struct RequestCounters {
    pub(super) from_lake: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) stayed: AtomicU64,
    pub(super) went_live: AtomicU64,
    pub(super) live_steps: AtomicU64,
    pub(super) replayed_steps: AtomicU64,
}

/// Counts one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl RecordedPart {
    /// Reads the graph and the benchmarks of a snapshot.
    pub(super) fn read(
        snapshot: Arc<Snapshot>,
        spaces: CachedSpaces,
        threads: NonZeroUsize,
    ) -> Result<Self, ReplayError> {
        let identity = snapshot.identity();
        let mut benchmarks = HashMap::new();
        for benchmark in snapshot.benchmarks() {
            let benchmark = benchmark?;
            benchmarks.insert(benchmark.uri, benchmark.known);
        }
        let reader = reader(&snapshot, threads);
        let graph = reader.graph(benchmarks.values().filter_map(|known| known.initial_state))?;
        let (graph, failed) = RecordedGraph::new(graph, reader.failures()?);
        let mut part = Self {
            observations: identity.observations.iter().map(|_| OnceLock::new()).collect(),
            rewards: identity.rewards.iter().map(|_| OnceLock::new()).collect(),
            spaces,
            graph,
            benchmarks,
            counters: RequestCounters::default(),
            conflicts: OnceLock::new(),
            failed_starts: OnceLock::new(),
            reading: Mutex::new(()),
            threads,
            snapshot,
        };
        part.forget_failed_starts(&failed)?;
        Ok(part)
    }

    /// Takes the first state from the benchmarks that never started: it is in the lake since the
    /// compiler failed on what was recorded of it, and is among these states.
    fn forget_failed_starts(&mut self, failed: &HashSet<StateId>) -> Result<(), LakeError> {
        let is_doubtful = |known: &KnownBenchmark| {
            known.initial_state.is_some_and(|state| failed.contains(&state))
        };
        let doubtful = self.benchmarks.iter().filter(|(_, known)| is_doubtful(known));
        let doubtful: BTreeSet<String> = doubtful.map(|(uri, _)| uri.clone()).collect();
        for uri in doubtful {
            if self.failed_start(&uri)?.is_none() {
                continue;
            }
            if let Some(known) = self.benchmarks.get_mut(&uri) {
                known.initial_state = None;
            }
        }
        Ok(())
    }

    /// Returns the values of a column of `observations`.
    #[inline]
    pub(super) fn observations(&self, column: usize) -> Result<&Arc<SpaceValues>, LakeError> {
        self.once(&self.observations[column], || {
            let space = &self.snapshot.identity().observations[column];
            SpaceValues::read(&self.snapshot, &self.graph, space).map(Arc::new)
        })
    }

    /// Returns the values of a column of `observations`, if they were read.
    pub(super) fn observations_read(&self, column: usize) -> Option<&Arc<SpaceValues>> {
        self.observations[column].get()
    }

    /// Returns the values of a column of rewards, one for each transition; NaN for none.
    pub(super) fn rewards(&self, column: usize) -> Result<&Arc<Vec<f64>>, LakeError> {
        self.once(&self.rewards[column], || {
            let space = &self.snapshot.identity().rewards[column].name;
            reader(&self.snapshot, self.threads).rewards(space).map(Arc::new)
        })
    }

    /// Returns the number of (state, action) pairs with several recorded next states.
    pub(super) fn conflicts(&self) -> Result<u64, LakeError> {
        let read = || reader(&self.snapshot, self.threads).conflicts();
        self.once(&self.conflicts, read).copied()
    }

    /// Returns how the start of a benchmark failed, if it did and no other one succeeded.
    pub(super) fn failed_start(&self, uri: &str) -> Result<Option<&Failure>, LakeError> {
        let failed = self.once(&self.failed_starts, || {
            let (mut failed, mut started) = (HashMap::new(), HashSet::<String>::new());
            for episode in self.snapshot.episodes() {
                let episode = episode?;
                match episode.failure.filter(|_| episode.steps == 0) {
                    Some(failure) => drop(failed.entry(episode.benchmark).or_insert(failure)),
                    None => drop(started.insert(episode.benchmark)),
                }
            }
            failed.retain(|uri, _| !started.contains(uri));
            Ok(failed)
        })?;
        Ok(failed.get(uri))
    }

    /// Returns the reward of a transition in the space at `place`, of a program with this divisor.
    ///
    /// It is the difference of the recorded costs. Only if a cost or a baseline was not recorded,
    /// it is the reward of the first step that took the transition; NaN if that is missing too.
    pub(super) fn reward(
        &self,
        place: usize,
        edge: &StateEdge,
        divisor: Option<f64>,
    ) -> Result<f64, LakeError> {
        let (source, _) = self.spaces.rewards[place];
        if let (Some(column), Some(divisor)) = (source.cost, divisor) {
            let costs = self.observations(column)?;
            if let (Some(before), Some(after)) = (costs.cost(edge.from), costs.cost(edge.to)) {
                return Ok(RewardSpace::reward(before, after, divisor));
            }
        }
        let recorded = source.recorded.map(|column| self.rewards(column)).transpose()?;
        Ok(recorded.map_or(f64::NAN, |rewards| rewards[edge.place]))
    }

    /// Returns the IR of a state, if it is stored.
    pub(super) fn ir(&self, row: StateRow) -> Result<Option<Vec<u8>>, LakeError> {
        Ok(self.snapshot.ir(&[self.graph.state(row)])?.pop().flatten())
    }

    /// Returns what `cell` holds, read by one caller at most.
    #[inline]
    fn once<'a, T>(
        &self,
        cell: &'a OnceLock<T>,
        read: impl FnOnce() -> Result<T, LakeError>,
    ) -> Result<&'a T, LakeError> {
        if let Some(value) = cell.get() {
            return Ok(value);
        }
        let _reading = self.reading.lock();
        if cell.get().is_none() {
            let value = read()?;
            return Ok(cell.get_or_init(|| value));
        }
        Ok(cell.get().expect("it was just looked at"))
    }
}

/// A reader that nobody stops.
fn reader(snapshot: &Snapshot, threads: NonZeroUsize) -> GraphReader<'_> {
    GraphReader::new(snapshot, threads, &|| ControlFlow::Continue(()))
}

/// Turns an error of the store into one of a session.
pub(super) fn unreadable(error: &LakeError) -> SessionError {
    SessionError::Unreadable(error.to_string())
}

/// Returns an action of the only action space, or the error for one that it does not have.
pub(super) fn demand_action(
    spaces: &CachedSpaces,
    action: ActionIndex,
) -> Result<&str, SessionError> {
    let space = &spaces.spec.action_spaces[0];
    let found = space.get(action).map(|action| action.name.as_str());
    found.ok_or_else(|| SessionError::InvalidAction {
        index: action.0,
        space: space.name.clone(),
        len: space.actions.len(),
    })
}
