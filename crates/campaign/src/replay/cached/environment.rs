//! The environment whose sessions need no compiler.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::graph::RecordedGraph;
use super::live::MissingEdge;
use super::observations::SpaceValues;
use super::recorded::RecordedPart;
use super::session::CachedSession;
use super::spaces::CachedSpaces;
use crate::replay::stored_state::ReplayError;
use steplake_env::{Environment, Session, SessionError};
use steplake_lake::{KnownBenchmark, LakeError, Snapshot};
use steplake_model::{EnvironmentSpec, Failure};

/// How a [`CachedEnvironment`] is opened.
#[derive(Debug, Clone, Default)]
pub struct CachedOptions {
    /// What a session does at a missing edge.
    pub missing_edge: MissingEdge,
    /// The threads that read the lake; by default one for each core.
    pub threads: Option<NonZeroUsize>,
}

/// What the sessions of an environment were asked for, and what its lake knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Steps that the lake answered, recorded failures included.
    pub from_lake: u64,
    /// Missing edges that were answered with an error.
    pub refused: u64,
    /// Missing edges at which the session stayed in the state.
    pub stayed: u64,
    /// Missing edges at which the session left the lake and asked a live one.
    pub went_live: u64,
    /// Steps that a live session answered, including those in states that the lake does not have.
    pub live_steps: u64,
    /// Steps that live sessions played only to reach the present state.
    pub replayed_steps: u64,
    /// The states of the graph.
    pub states: u64,
    /// The (state, action) pairs whose result the lake knows: a state or a failure.
    pub known_pairs: u64,
    /// All pairs of these states with the actions of the action space.
    pub all_pairs: u64,
    /// The recorded steps that are not in the graph, because they are newer than the last dedup.
    pub uncounted_steps: u64,
}

/// An environment whose steps are answered from the state transitions of a lake. See the
/// [module](super).
pub struct CachedEnvironment {
    part: Arc<RecordedPart>,
    missing_edge: MissingEdge,
    uncounted_steps: u64,
}

impl fmt::Debug for CachedEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CachedEnvironment");
        shown.field("graph", self.graph()).field("missing_edge", &self.missing_edge);
        shown.finish_non_exhaustive()
    }
}

impl CachedEnvironment {
    /// Reads the graph of a snapshot into memory. `live` is the spec of the environment that the
    /// lake was recorded with. Its compiler need not be here, unless missing edges go to a live
    /// session: then it has to be the lake's.
    ///
    /// # Errors
    ///
    /// [`ReplayError::OtherSpaces`] if the lake cannot have been recorded with `live`,
    /// [`LakeError::NotDerived`] before the first dedup, [`LakeError::TooLarge`], and other errors
    /// of the store.
    pub fn open(
        snapshot: Arc<Snapshot>,
        live: &EnvironmentSpec,
        options: CachedOptions,
    ) -> Result<Self, ReplayError> {
        let has_compiler = matches!(options.missing_edge, MissingEdge::Live(_));
        let spaces = CachedSpaces::new(live, snapshot.identity(), has_compiler)?;
        let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let threads = options.threads.unwrap_or_else(cores);
        let uncounted_steps = snapshot.uncounted_steps();
        let part = Arc::new(RecordedPart::read(snapshot, spaces, threads)?);
        Ok(Self { part, missing_edge: options.missing_edge, uncounted_steps })
    }

    /// Returns the lake's snapshot.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.part.snapshot
    }

    /// Returns the transition graph.
    pub fn graph(&self) -> &RecordedGraph {
        &self.part.graph
    }

    /// Returns the lake's benchmarks by URI, in no order.
    pub fn benchmarks(&self) -> impl Iterator<Item = (&str, &KnownBenchmark)> {
        self.part.benchmarks.iter().map(|(uri, known)| (uri.as_str(), known))
    }

    /// Returns what the lake knows of a benchmark.
    pub fn benchmark(&self, uri: &str) -> Option<&KnownBenchmark> {
        self.part.benchmarks.get(uri)
    }

    /// Returns how the compiler failed on a benchmark of the lake before its first step, if it did
    /// and the benchmark never started. The first call reads the table `episodes`.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub fn failed_start(&self, uri: &str) -> Result<Option<&Failure>, LakeError> {
        self.part.failed_start(uri)
    }

    /// Returns the recorded values of an observation space, by its name, in the order of the
    /// graph's rows. None if the lake does not record it. The first call reads them; later ones,
    /// and sessions, share them.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub fn observations(&self, space: &str) -> Result<Option<Arc<SpaceValues>>, LakeError> {
        let column = self.column(space);
        column.map(|column| self.part.observations(column).cloned()).transpose()
    }

    /// Returns what [`observations`](Self::observations) has read of a space. Reads nothing.
    pub fn observations_read(&self, space: &str) -> Option<Arc<SpaceValues>> {
        self.part.observations_read(self.column(space)?).cloned()
    }

    /// The column of `observations` that has a space.
    fn column(&self, space: &str) -> Option<usize> {
        let spaces = &self.part.snapshot.identity().observations;
        spaces.iter().position(|recorded| recorded.name == space)
    }

    /// Returns the recorded rewards of a space, by its name, in the order of the graph's edges: for
    /// each, that of its first step, or NaN if none was recorded. None if the lake does not record
    /// the space. Sessions give the rewards of the episode's benchmark, which may differ.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub fn rewards(&self, space: &str) -> Result<Option<Arc<Vec<f64>>>, LakeError> {
        let spaces = &self.part.snapshot.identity().rewards;
        let place = spaces.iter().position(|recorded| recorded.name == space);
        place.map(|place| self.part.rewards(place).cloned()).transpose()
    }

    /// Returns what was asked for so far, by all sessions together, and what the lake knows.
    pub fn coverage(&self) -> Coverage {
        let (graph, counters) = (&self.part.graph, &self.part.counters);
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (states, actions) =
            (graph.states() as u64, self.spec().action_spaces[0].actions.len() as u64);
        Coverage {
            from_lake: get(&counters.from_lake),
            refused: get(&counters.refused),
            stayed: get(&counters.stayed),
            went_live: get(&counters.went_live),
            live_steps: get(&counters.live_steps),
            replayed_steps: get(&counters.replayed_steps),
            states,
            known_pairs: graph.known_pairs() as u64,
            all_pairs: states * actions,
            uncounted_steps: self.uncounted_steps,
        }
    }

    /// Returns the number of (state, action) pairs with several recorded next states, of which
    /// sessions follow the most frequent one. The first call reads the table `conflicts`.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub fn conflicts(&self) -> Result<u64, LakeError> {
        self.part.conflicts()
    }
}

impl Environment for CachedEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        &self.part.spaces.spec
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(CachedSession::new(Arc::clone(&self.part), &self.missing_edge)))
    }
}
