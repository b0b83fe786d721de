//! One run's recording: what to record, what is already known, and the thread that commits.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::audit::{Audit, AuditQueue};
use super::background::Background;
use super::buffer::{Buffer, Drained};
use super::first_programs::FirstPrograms;
use super::recorded_spaces::baselines as baselines_of;
use super::recorder::Recorder;
use super::reservations::Reservations;
use super::shared::{RecorderContext, program_digest};
use super::transitions::TransitionRecorder;
use steplake_env::{RequestedRewards, Session, SessionError, WantedRewards};
use steplake_lake::{EpisodeRow, LakeError, MeasurementRow, MiscompilationRow, Writer};
use steplake_model::{
    ActionIndex, ActionSpace, Baselines, Benchmark, Classified, EnvironmentSpec, EpisodeId, Error,
    ErrorKind, Name, ObservationIndex, ObservationSpace, Remedy, RunId, StateId,
};
use steplake_sandbox::Interrupt;

/// What to record, and how.
#[derive(Debug, Clone)]
pub struct RecordingOptions {
    /// The distance of [keyframes](steplake_env::KeyframeCount), whose serialised states (`ir`) are
    /// stored: there is one after at most this many changes of state. By default every change makes
    /// one, so all states are stored; `None` stores none.
    pub keyframes: Option<NonZeroU32>,
    /// The most that a kill or a power cut may take. See the [module](super).
    pub flush_interval: Duration,
    /// Whether to seal the hot log in the background when it has grown.
    pub seal: bool,
    /// The observation spaces to record, by name; `None` stands for all that the lake has and the
    /// environment can give, without those [on
    /// request](steplake_model::ObservationSpace::on_request). The lake's other spaces are null.
    pub observations: Option<Vec<String>>,
    /// The reward spaces to record, likewise: those whose cost is observed on request are recorded
    /// only if they are named.
    pub rewards: Option<Vec<String>>,
}

impl Default for RecordingOptions {
    fn default() -> Self {
        let keyframes = Some(NonZeroU32::MIN);
        let flush_interval = Duration::from_secs(1);
        Self { keyframes, flush_interval, seal: true, observations: None, rewards: None }
    }
}

/// Why a recording cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] LakeError),
    /// A space is to be recorded that the lake or the environment does not have.
    #[error("`{name}` cannot be recorded: the lake or `{environment}` does not have it")]
    MissingSpace {
        /// The space.
        name: String,
        /// The environment.
        environment: String,
    },
    /// The lake's states have ids of another scheme.
    #[error("the lake has state ids of scheme {lake}, and `{environment}` those of scheme {here}")]
    OtherScheme {
        /// The environment.
        environment: String,
        /// Its scheme.
        here: u32,
        /// The scheme of the lake.
        lake: u32,
    },
    /// The committing thread cannot be started.
    #[error("the writer thread cannot be started")]
    NoThread(#[source] std::io::Error),
    /// The committing thread has panicked: a defect of steplake.
    #[error("the writer thread panicked: this is a defect, please report it")]
    WriterPanicked,
    /// The thread of the audit has panicked: a defect of steplake. What was recorded is durable.
    #[error("the audit's thread panicked: this is a defect, please report it")]
    AuditPanicked,
}

impl Classified for RecordError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Store(error) => error.classify(),
            Self::OtherScheme { .. } => (ErrorKind::Lake, Some(Remedy::OtherScheme)),
            _ => (ErrorKind::Failed, None),
        }
    }
}

/// A run that is being recorded in a lake.
#[derive(Debug)]
pub struct Recording {
    pub(super) shared: Arc<RecorderContext>,
    thread: JoinHandle<Result<Writer, LakeError>>,
    options: RecordingOptions,
    audit: Option<Audit>,
}

/// The number of the next recording of this process.
static RECORDINGS: AtomicU64 = AtomicU64::new(1);

impl Recording {
    /// Continues recording `run`, which `writer` has begun.
    ///
    /// # Errors
    ///
    /// [`RecordError::MissingSpace`] if the options name a space that the lake or `spec` lacks;
    /// [`RecordError::OtherScheme`]; errors of the store.
    pub fn begin(
        writer: Writer,
        spec: &EnvironmentSpec,
        run: RunId,
        options: &RecordingOptions,
    ) -> Result<Self, RecordError> {
        let missing = |name: &str| RecordError::MissingSpace {
            name: name.into(),
            environment: spec.name.to_string(),
        };
        let identity = writer.lake().identity();
        let (here, lake) = (spec.state_scheme, identity.state_scheme);
        if here != lake {
            let environment = spec.name.to_string();
            return Err(RecordError::OtherScheme { environment, here, lake });
        }
        let columns = identity.observations.iter().map(|space| space.name.as_str());
        let observed =
            chosen(columns, options.observations.as_deref(), |name| spec.observation_index(name));
        let mut observed = observed.map_err(|name| missing(&name))?;
        if options.observations.is_none() {
            let space = |at| spec.observation_space(at);
            observed = without(observed, |at| space(at).is_some_and(|space| space.on_request));
        }
        let those = |is_one: fn(&ObservationSpace) -> bool| {
            let is_one = |&at: &ObservationIndex| spec.observation_space(at).is_some_and(is_one);
            observed.iter().flatten().copied().filter(is_one).collect::<Vec<_>>()
        };
        let (apart, compiled) = (those(|space| space.on_request), those(|space| space.is_compiled));
        let columns = identity.rewards.iter().map(|space| space.name.as_str());
        let rewards = chosen(columns, options.rewards.as_deref(), |name| {
            spec.reward_spaces.iter().position(|space| space.name == name)
        });
        let mut rewards = rewards.map_err(|name| missing(&name))?;
        let is_on_request = |place: usize| spec.is_on_request(&spec.reward_spaces[place]);
        if options.rewards.is_none() {
            rewards = without(rewards, is_on_request);
        }
        let recorded = identity.rewards.iter().zip(&rewards).filter(|(_, place)| place.is_some());
        let recorded = recorded.map(|(reward, _)| reward.clone()).collect::<Vec<_>>();
        let recorded_baselines = baselines_of(spec, &recorded);
        let requested = rewards.iter().flatten().copied().filter(|&place| is_on_request(place));
        let requested = Arc::new(WantedRewards::new(requested));
        // The session's own flags. Of those in the lake, which may come from another probe, one
        // counts too: see below.
        let space = spec.action_space(&identity.action_space.name);
        let space = space.ok_or_else(|| missing(&identity.action_space.name))?;
        let unreplayable = unreplayable(&identity.action_space, space);
        let is_baseline = |space: &&ObservationSpace| space.of_benchmark && !space.on_request;
        let baselines = spec.observation_spaces.iter().filter(is_baseline);
        let baselines = baselines.map(|space| space.name.clone()).collect();
        let known = Reservations::new(writer.known_states()?, doubted(&writer, spec, &compiled)?);
        let shared = Arc::new(RecorderContext {
            run,
            buffer: Buffer::default(),
            observed,
            apart,
            compiled,
            unobserved: AtomicU64::new(0),
            rewards,
            requested,
            spec: Arc::new(spec.clone()),
            keyframes: options.keyframes,
            state_space: spec.state_index(),
            flags: space.actions.iter().map(|action| action.flags).collect(),
            recorded_baselines,
            baselines,
            reservations: known,
            first_programs: FirstPrograms::new(writer.lake().clone()),
            unreplayable: Mutex::new(unreplayable),
            audit: AuditQueue::default(),
            ordinal_next: AtomicU32::new(0),
            recording: RECORDINGS.fetch_add(1, Ordering::Relaxed),
        });
        let thread = commit(writer, &shared, options).map_err(RecordError::NoThread)?;
        let options = options.clone();
        Ok(Self { shared, thread, options, audit: None })
    }

    /// Plays one episode of `every` again, in `session`, and compares: see
    /// [`Environment::audit_session`](steplake_env::Environment::audit_session). Wrap sessions
    /// afterwards. [`close`](Self::close) waits until all is compared, or for `interrupt`, and
    /// notes in the lake what was found.
    ///
    /// # Errors
    ///
    /// [`RecordError::NoThread`].
    pub fn audited(
        mut self,
        session: Box<dyn Session>,
        every: NonZeroU32,
        interrupt: Interrupt,
    ) -> Result<Self, RecordError> {
        self.audit = Some(Audit::begin(&self.shared, session, every, interrupt)?);
        Ok(self)
    }

    /// Wraps a session, to record what it does from now on.
    pub fn recorder(&self, session: Box<dyn Session>) -> Recorder {
        let (spec, requested) = (Arc::clone(&self.shared.spec), Arc::clone(&self.shared.requested));
        let session = RequestedRewards::new(session, spec, requested);
        Recorder::new(Box::new(session), Arc::clone(&self.shared))
    }

    /// Wraps a session, to record single steps of it as episodes of `policy`.
    pub fn transition_recorder(
        &self,
        session: Box<dyn Session>,
        policy: &'static str,
    ) -> TransitionRecorder {
        let (spec, requested) = (Arc::clone(&self.shared.spec), Arc::clone(&self.shared.requested));
        let session = RequestedRewards::new(session, spec, requested);
        TransitionRecorder::new(Box::new(session), Arc::clone(&self.shared), policy)
    }

    /// Returns the recorded run.
    pub fn run(&self) -> RunId {
        self.shared.run
    }

    /// Returns the lake's baselines of a program, if it has all that are not on request. Episodes
    /// must begin with these: pipelines may give another result now and then, and all rewards of a
    /// benchmark must be scaled by the same row.
    pub fn baselines(&self, benchmark: &Benchmark) -> Option<Baselines> {
        let known = self.shared.reservations.known_benchmark(benchmark.uri.as_str())?;
        let is_same = known.program_digest == program_digest(benchmark);
        let has = |name: &Name| known.baselines.get(name).is_some();
        (is_same && self.shared.baselines.iter().all(has)).then_some(known.baselines)
    }

    /// How many states this recording was the first to observe.
    pub fn states_new(&self) -> u64 {
        self.shared.reservations.states_new()
    }

    /// In how many states that this recording was the first to observe the compiler failed on an
    /// observation, and left null, without a fault of the step that led there.
    pub fn states_unobserved(&self) -> u64 {
        self.shared.unobserved.load(Ordering::Relaxed)
    }

    /// Buffers the rows of settled episodes, in their order. [`Recording::audit`] them next.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`] when the writer has failed.
    pub(crate) fn settle(&self, rows: Vec<EpisodeRow>) -> Result<(), SessionError> {
        self.shared.settle(rows)
    }

    /// Has those of settled episodes compared that the audit chooses. Waits while too many wait:
    /// call it without a lock that others need.
    pub(crate) fn audit(&self, episodes: impl IntoIterator<Item = EpisodeId>) {
        episodes.into_iter().for_each(|episode| self.shared.audit.hand_in(episode));
    }

    /// Returns what takes measurements into this recording.
    pub fn measurements(&self) -> MeasurementSink {
        MeasurementSink(Arc::clone(&self.shared))
    }

    /// Waits until everything recorded before this call is durable.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`] if the writer has failed; [`Recording::close`] returns the
    /// reason.
    pub fn flush(&self) -> Result<(), SessionError> {
        self.shared.buffer.flush()
    }

    /// Commits what waits, and what an audit found, and returns the writer. Recorders that still
    /// exist can record no more.
    ///
    /// # Errors
    ///
    /// The writer's error, if it failed; what was durable by then remains durable.
    pub fn close(self) -> Result<Writer, RecordError> {
        let Self { shared, thread, options, audit } = self;
        let audited = audit.map(|audit| audit.end(&shared));
        shared.buffer.close();
        let writer = thread.join().map_err(|_panic| RecordError::WriterPanicked)??;
        match audited {
            Some(audited) => audited?.note(writer, shared.run, &shared.spec, &options),
            None => Ok(writer),
        }
    }
}

/// Takes measurements of states into a recording, to be committed with what comes after them.
#[derive(Debug, Clone)]
pub struct MeasurementSink(Arc<RecorderContext>);

impl MeasurementSink {
    /// Buffers a measurement. It is durable before any row that is recorded later.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`] when the writer has failed.
    pub fn push(&self, row: MeasurementRow) -> Result<(), SessionError> {
        self.0.buffer.push(|rows| {
            rows.measurements.push(row);
            (1, 0)
        })
    }

    /// Buffers a miscompilation that a measurement found, in the same way.
    ///
    /// # Errors
    ///
    /// [`SessionError::Recording`] when the writer has failed.
    pub fn push_miscompilation(&self, row: MiscompilationRow) -> Result<(), SessionError> {
        self.0.buffer.push(|rows| {
            rows.miscompilations.push(row);
            (1, 0)
        })
    }
}

/// Returns the states of which the lake may have a failure as null: those with null where the
/// compiler must not fail.
fn doubted(
    writer: &Writer,
    spec: &EnvironmentSpec,
    compiled: &[ObservationIndex],
) -> Result<HashSet<StateId>, RecordError> {
    let spaces = compiled.iter().filter_map(|&at| spec.observation_space(at));
    let names: Vec<&str> = spaces.map(|space| space.name.as_ref()).collect();
    if names.is_empty() { Ok(HashSet::new()) } else { Ok(writer.states_with_null(&names)?) }
}

/// Leaves out those of the chosen places to which this applies.
fn without<T: Copy>(chosen: Vec<Option<T>>, applies: impl Fn(T) -> bool) -> Vec<Option<T>> {
    chosen.into_iter().map(|place| place.filter(|&place| !applies(place))).collect()
}

/// For each of a lake's columns, what `find` finds for it, if the column is among those wanted. The
/// error is a wanted name that is no column, or for which nothing is found.
fn chosen<'a, T>(
    columns: impl Iterator<Item = &'a str>,
    wanted: Option<&[String]>,
    find: impl Fn(&str) -> Option<T>,
) -> Result<Vec<Option<T>>, String> {
    let columns = columns.collect::<Vec<_>>();
    let unknown =
        |name: &&String| !columns.contains(&name.as_str()) || find(name.as_str()).is_none();
    if let Some(name) = wanted.into_iter().flatten().find(unknown) {
        return Err(name.clone());
    }
    let is_wanted = |name: &str| wanted.is_none_or(|wanted| wanted.iter().any(|one| one == name));
    let found = columns.into_iter().map(|name| is_wanted(name).then(|| find(name)).flatten());
    Ok(found.collect())
}

/// Returns the actions of which the lake knows that they may lead elsewhere next time, by an audit
/// of an earlier run or an older probe, and whose flags `here` do not say so.
fn unreplayable(lake: &ActionSpace, here: &ActionSpace) -> Arc<[ActionIndex]> {
    let actions = (0..).map(ActionIndex).zip(&lake.actions);
    let found = actions.filter(|(action, known)| {
        let is_sure_here = here.get(*action).is_some_and(|here| here.flags.replayable);
        is_sure_here && !known.flags.replayable
    });
    found.map(|(action, _)| action).collect()
}

/// Begins to commit what comes into the buffer.
fn commit(
    writer: Writer,
    shared: &Arc<RecorderContext>,
    options: &RecordingOptions,
) -> std::io::Result<JoinHandle<Result<Writer, LakeError>>> {
    let (shared, options) = (Arc::clone(shared), options.clone());
    std::thread::Builder::new().name("steplake-writer".into()).spawn(move || {
        let _last = LastWord(&shared.buffer);
        let result = write(writer, &shared.buffer, &options);
        if let Err(error) = &result {
            shared.buffer.fail(Error::like(error));
        }
        result
    })
}

/// Lets nobody wait for a writer thread that is gone, however it went.
struct LastWord<'a>(&'a Buffer);

impl Drop for LastWord<'_> {
    fn drop(&mut self) {
        self.0.fail(Error::new(ErrorKind::Lake, "the recording has ended"));
    }
}

/// Commits rows until the end. Another thread seals meanwhile.
fn write(
    mut writer: Writer,
    buffer: &Buffer,
    options: &RecordingOptions,
) -> Result<Writer, LakeError> {
    let mut background = Background::default();
    let mut steps = 0;
    loop {
        match buffer.take(options.flush_interval / 2) {
            Drained::Rows(rows) => {
                writer.append(&rows)?;
                buffer.committed();
                steps += rows.steps.len();
                tracing::debug!(steps, "committed");
            }
            Drained::Nothing => {}
            Drained::Closed => break,
        }
        if options.seal {
            background.turn(&mut writer)?;
        }
    }
    background.end(&mut writer)?;
    Ok(writer)
}
