//! One cache of state transitions for many clients: sessions are answered from a lake, and a
//! compiler is asked only for what the lake does not know.
//!
//! ```text
//!  client ── CacheSession ──┬─ Transitions: the lake's, and those recorded since   (a hit)
//!                           └─ InFlight ── Follower ── compiler ── lake            (a miss)
//! ```
//!
//! # What is known
//!
//! When a cache opens, it seals and deduplicates the lake, and reads the transition graph. So it
//! knows all steps of closed episodes, whoever recorded them. It adds what it records to a table in
//! memory. One right to write protects the lake, so nobody else records into it meanwhile.
//!
//! # What is durable when
//!
//! A miss is one step of a compiler. Its rows are one transaction of the hot log: a closed episode
//! of one action, with the observations and the IR of the state if that is new. First the
//! transaction is durable, then sessions of others can find the answer, then the client gets it. So
//! after a kill at any moment
//!
//! - every answer that a client got is in the lake;
//! - a step that was recorded and not answered is in the lake too, and the next one who asks hits;
//! - a step that was not recorded is not there at all, and the next one who asks misses.
//!
//! Starts of benchmarks are kept in the same way.
//!
//! # Recorded once
//!
//! A miss holds its (state, action) in [`InFlight`](in_flight::InFlight) until its answer can be
//! found. Others who miss the same pair wait, and then hit. The steps that bring a compiler to the
//! state are not recorded. So each miss is one row of `steps` with an action, and dedup counts a
//! transition that only this cache recorded as one.
//!
//! # How a compiler comes to a state
//!
//! Each session has a compiler of its own, as far behind as it can be ([`Follower`](follower)): it
//! starts the benchmark and plays those actions that changed the state. Compilers of idle sessions
//! are given up, see [`parking`](crate::compiler_gym). A client who has only a state id has no
//! actions: a shortest recorded path from the start of the benchmark is taken. If the actions lead
//! elsewhere this time, since one of them depends on more than the state, the compiler starts in
//! the stored IR of the state.

mod counters;
mod episode;
mod follower;
mod http;
mod in_flight;
mod ir_file;
mod session;
mod transitions;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use steplake::assembly::catalogue::Catalogue;
use steplake::assembly::command_error::CommandError;
use steplake::assembly::recording::{SessionOptions, SessionRecording, record_sessions};
use steplake::dedup::{DedupOptions, dedup, seal_closed};
use steplake::env::{Environment, Session, SessionError};
use steplake::lake::{KnownBenchmark, Lake, LakeError, to_the_end};
use steplake::model::{ActionIndex, Baselines, Benchmark, EnvironmentSpec, StateId};
use steplake::record::TransitionRecorder;

use self::counters::Counters;
use self::in_flight::InFlight;
use self::session::CacheSession;
use self::transitions::Transitions;

pub(crate) use self::http::serve;

/// The policy of the episodes that a cache records.
const POLICY: &str = "cache";

/// What is looked for in a compiler at present.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Missed {
    Start(String),
    Step(StateId, ActionIndex),
}

/// A cache, which its sessions share.
#[derive(Debug)]
pub(crate) struct Cache {
    environment: Arc<dyn Environment>,
    /// The programs of benchmarks that the lake lacks.
    catalogue: Arc<Catalogue>,
    transitions: Transitions,
    in_flight: InFlight<Missed>,
    counters: Counters,
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
    ) -> Result<Self, CommandError> {
        match Lake::open(lake) {
            Ok(there) => {
                seal_closed(&there)?;
                let maintenance = &mut there.maintenance()?;
                dedup(maintenance, DedupOptions::default(), &mut to_the_end)?;
            }
            Err(LakeError::NotFound { .. } | LakeError::NotALake { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let recording = record_sessions(lake, environment.as_ref(), options)?;
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

    /// Opens a session.
    pub(crate) fn session(self: &Arc<Self>) -> Box<dyn Session> {
        Box::new(CacheSession::new(Arc::clone(self)))
    }

    /// The name of the only action space.
    pub(crate) fn action_space(&self) -> &str {
        &self.transitions.action_space().name
    }

    /// Whether the lake has this very program under this name.
    pub(crate) fn has(&self, benchmark: &Benchmark) -> bool {
        self.known(benchmark).is_ok_and(|known| known.is_some())
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
    pub(crate) fn finish(&self) -> Result<(), CommandError> {
        let recording = self.recording().take();
        tracing::info!("{}", self.counters.line());
        recording.map_or(Ok(()), |run| run.finish(self.environment.as_ref()).map(drop))
    }

    /// Waits until everything that was recorded is durable.
    fn flush(&self) -> Result<(), SessionError> {
        let recording = self.recording();
        recording.as_ref().ok_or(SessionError::Interrupted)?.recording().flush()
    }

    fn recording(&self) -> MutexGuard<'_, Option<SessionRecording>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spec(&self) -> &EnvironmentSpec {
        self.environment.spec()
    }

    /// Opens a session of the compiler.
    fn compiler(&self) -> Result<TransitionRecorder, SessionError> {
        let session = self.environment.session()?;
        let recording = self.recording();
        let run = recording.as_ref().ok_or(SessionError::Interrupted)?;
        Ok(run.recording().transition_recorder(session, POLICY))
    }

    /// Returns what is known of the program of a start, which may be empty: then its name tells.
    ///
    /// # Errors
    ///
    /// [`SessionError::Visit`] if another program has that name.
    fn known(&self, benchmark: &Benchmark) -> Result<Option<KnownBenchmark>, SessionError> {
        let known = self.transitions.benchmark(benchmark.uri.as_str());
        let Some(known) = known.filter(|known| known.initial_state.is_some()) else {
            return Ok(None);
        };
        let program = &benchmark.program;
        let is_other = || blake3::hash(program).to_hex().as_str() != known.program_digest;
        if !program.is_empty() && !known.program_digest.is_empty() && is_other() {
            return Err(SessionError::Visit(format!(
                "{} is another program than the one that the lake knows by this name: send it \
                 under another name",
                benchmark.uri
            )));
        }
        Ok(Some(known))
    }
}
