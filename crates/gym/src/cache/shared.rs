//! What the sessions of a cache share.

use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use steplake::contexts::recorded_by;
use steplake::dedup::{DedupOptions, dedup, seal_closed};
use steplake::env::{Environment, SessionError};
use steplake::environments::catalogue::Catalogue;
use steplake::lake::{KnownBenchmark, Lake, LakeError, to_the_end};
use steplake::model::{
    ActionIndex, Baselines, Benchmark, EnvironmentSpec, Failure, ObservationIndex, StateId,
};
use steplake::record::TransitionRecorder;
use steplake::recording::{SessionOptions, SessionRecording, record_sessions};
use steplake::{Error, ErrorKind};

use super::counters::Counters;
use super::in_flight::InFlight;
use super::transitions::Transitions;

/// The policy of the episodes that a cache records.
const POLICY: &str = "cache";

/// What is looked for in a compiler at present.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Missed {
    Start(String),
    Step(StateId, ActionIndex),
}

/// A cache, which its sessions share.
#[derive(Debug)]
pub(crate) struct Cache {
    environment: Arc<dyn Environment>,
    /// The programs of benchmarks that the lake lacks.
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) transitions: Transitions,
    pub(super) in_flight: InFlight<Missed>,
    pub(super) counters: Counters,
    /// None after the end.
    recording: Mutex<Option<SessionRecording>>,
}

impl Cache {
    /// Opens the cache of a lake, which is made if there is none. `environment` has the compiler.
    ///
    /// # Errors
    ///
    /// If the lake cannot be recorded into or maintained at present, is of another environment, or
    /// is damaged.
    pub(crate) fn open(
        lake: &Path,
        environment: Arc<dyn Environment>,
        catalogue: Arc<Catalogue>,
        options: &SessionOptions,
    ) -> Result<Self, Error> {
        let space = options.action_space.as_deref();
        let lake = &recorded_by(lake, environment.spec(), space)?;
        match Lake::open(lake) {
            Ok(there) => {
                demand_costs(&there, environment.spec())?;
                seal_closed(&there)?;
                let maintenance = &mut there.maintenance()?;
                dedup(maintenance, DedupOptions::default(), &mut to_the_end)?;
            }
            Err(LakeError::NotFound { .. } | LakeError::NotALake { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let recording = record_sessions(lake, environment.as_ref(), options)?;
        demand_costs(&Lake::open(lake)?, environment.spec())?;
        let snapshot = Arc::new(Lake::open(lake)?.snapshot()?);
        let transitions = Transitions::read(snapshot, environment.spec())?;
        Ok(Self {
            environment,
            catalogue,
            transitions,
            in_flight: InFlight::default(),
            counters: Counters::default(),
            recording: Mutex::new(Some(recording)),
        })
    }

    /// The name of the only action space.
    pub(crate) fn action_space(&self) -> &str {
        &self.transitions.action_space().name
    }

    /// Whether the lake has this very program under this name.
    pub(crate) fn has(&self, benchmark: &Benchmark) -> bool {
        self.known(benchmark).is_ok_and(|known| known.is_some())
    }

    /// Whether an episode goes on from a state by these actions, and looks at these spaces then,
    /// without waiting: see [`Transitions::is_at_hand`].
    pub(crate) fn is_at_hand(
        &self,
        state: StateId,
        actions: &[ActionIndex],
        spaces: &[ObservationIndex],
    ) -> bool {
        self.transitions.is_at_hand(state, actions, spaces)
    }

    /// Returns the baselines that the lake has of a program, if it has all that a start needs.
    pub(crate) fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        self.recording().as_ref()?.recording().baselines(benchmark)
    }

    /// Ends the run of the recording. Drop all sessions first.
    ///
    /// # Errors
    ///
    /// If the recording has failed, or the disk does.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let recording = self.recording().take();
        tracing::info!("{}", self.counters.line());
        recording.map_or(Ok(()), |run| run.finish(self.environment.as_ref()).map(drop))
    }

    /// Waits until everything that was recorded is durable.
    pub(super) fn flush(&self) -> Result<(), SessionError> {
        let recording = self.recording();
        recording.as_ref().ok_or(SessionError::Interrupted)?.recording().flush()
    }

    fn recording(&self) -> MutexGuard<'_, Option<SessionRecording>> {
        self.recording.lock()
    }

    pub(super) fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    /// Opens a session of the compiler.
    pub(super) fn compiler(&self) -> Result<TransitionRecorder, SessionError> {
        let session = self.environment.session()?;
        let recording = self.recording();
        let run = recording.as_ref().ok_or(SessionError::Interrupted)?;
        Ok(run.recording().transition_recorder(session, POLICY))
    }

    /// Returns how the compiler failed on a program before its first step, if it did. The lake's
    /// word is taken for programs that a name stands for, and not for those of clients, who may
    /// have mended them.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unreadable`].
    pub(super) fn failed_start(
        &self,
        benchmark: &Benchmark,
    ) -> Result<Option<Failure>, SessionError> {
        let added = self.transitions.added_failed_start(benchmark);
        let uri = &benchmark.uri;
        let is_fixed =
            benchmark.program.is_empty() || self.catalogue.has_dataset(uri.dataset_uri());
        match added {
            None if is_fixed => self.transitions.failed_start(uri.as_str()),
            added => Ok(added),
        }
    }

    /// Returns what is known of the program of a start, which may be empty: then its name tells.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`] if another program has that name.
    pub(super) fn known(
        &self,
        benchmark: &Benchmark,
    ) -> Result<Option<KnownBenchmark>, SessionError> {
        let known = self.transitions.benchmark(benchmark.uri.as_str());
        let Some(known) = known.filter(|known| known.initial_state.is_some()) else {
            return Ok(None);
        };
        let program = &benchmark.program;
        if !program.is_empty() && known.program_digest.is_empty() {
            // The lake does not say which program it was.
            return Ok(None);
        }
        let is_other = || blake3::hash(program).to_hex().as_str() != known.program_digest;
        if !program.is_empty() && is_other() {
            let said = format!(
                "{} is another program than the one that the lake knows by this name: send it \
                 under another name",
                benchmark.uri
            );
            return Err(SessionError::Recording(Error::new(ErrorKind::Lake, said)));
        }
        Ok(Some(known))
    }
}

/// Refuses a lake that has rewards without the costs that they come from: a known step would have
/// none.
fn demand_costs(lake: &Lake, spec: &EnvironmentSpec) -> Result<(), Error> {
    let identity = lake.identity();
    let has = |cost: &str| identity.observations.iter().any(|space| space.name == cost);
    let recorded = |name: &str| identity.rewards.iter().any(|space| space.name == name);
    let rewards = spec.reward_spaces.iter().filter(|space| recorded(&space.name));
    let mut without = rewards.filter(|space| !has(&space.cost));
    without.next().map_or(Ok(()), |space| {
        Err(Error::usage(format!(
            "the lake has the reward {} without the observation {} that it comes from, so a cache \
             could not say it: record that observation too (`steplake backfill {}`)",
            space.name, space.cost, space.cost
        )))
    })
}
