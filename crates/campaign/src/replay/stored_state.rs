//! Sessions that begin in a state of a lake.

use steplake_env::{Environment, Session, SessionError, Start, Started, Watch};
use steplake_lake::{Identity, LakeError, Snapshot};
use steplake_model::{
    Baselines, Benchmark, BenchmarkUri, Classified, ErrorKind, Failure, ObservationIndex, Outcome,
    Provenance, Remedy, StateId, Value,
};

/// Why replaying stopped early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The lake cannot be read.
    #[error("{0}")]
    Store(#[from] LakeError),
    /// A session failed in a way that is not the compiler's.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// The live environment differs from the lake's.
    #[error(
        "the lake was recorded with {lake}, and what is here is {here}: transitions of another compiler cannot be replayed"
    )]
    OtherEnvironment {
        /// The environment and the compiler of the lake.
        lake: String,
        /// The live environment and compiler.
        here: String,
    },
    /// States of the lake have ids of another scheme.
    #[error(
        "the states of the lake have ids of scheme {lake}, and this version gives ids of scheme {here}: the lake can be read, and nothing in it can be played again"
    )]
    OtherScheme {
        /// The scheme of the lake.
        lake: u32,
        /// The scheme here.
        here: u32,
    },
    /// A name means something else in the live environment than in the lake.
    #[error(
        "the lake cannot have been recorded with this environment: its {what} is {lake}, and here it is {here}"
    )]
    OtherSpaces {
        /// What differs.
        what: String,
        /// Its meaning in the lake.
        lake: String,
        /// Its meaning in the live environment.
        here: String,
    },
}

impl Classified for ReplayError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Store(error) => error.classify(),
            Self::Session(error) => error.classify(),
            Self::OtherScheme { .. } => (ErrorKind::Lake, Some(Remedy::OtherScheme)),
            _ => (ErrorKind::Lake, None),
        }
    }
}

/// Refuses an environment that differs from the lake's.
///
/// # Errors
///
/// [`ReplayError::OtherEnvironment`] or [`ReplayError::OtherScheme`].
pub fn demand_same(environment: &dyn Environment, identity: &Identity) -> Result<(), ReplayError> {
    demand_same_compiler(environment, identity)?;
    let spec = environment.spec();
    if spec.state_scheme != identity.state_scheme {
        let (lake, here) = (identity.state_scheme, spec.state_scheme);
        return Err(ReplayError::OtherScheme { lake, here });
    }
    Ok(())
}

/// Refuses an environment that differs from the lake's, whatever the scheme of its state ids.
pub(super) fn demand_same_compiler(
    environment: &dyn Environment,
    identity: &Identity,
) -> Result<(), ReplayError> {
    let spec = environment.spec();
    if (spec.name.as_ref(), &spec.compiler) != (identity.environment.as_str(), &identity.compiler) {
        return Err(ReplayError::other_environment(environment, identity));
    }
    Ok(())
}

impl ReplayError {
    /// The environment is another one than the lake's.
    pub(super) fn other_environment(environment: &dyn Environment, lake: &Identity) -> Self {
        let spec = environment.spec();
        Self::OtherEnvironment {
            lake: format!("{} ({})", lake.environment, lake.compiler),
            here: format!("{} ({})", spec.name, spec.compiler),
        }
    }
}

/// Starts an episode in a state, given its serialisation. Returns the state in which the episode
/// begins, which should be the same one, or how the compiler failed.
pub(super) fn begin(
    environment: &dyn Environment,
    session: &mut dyn Session,
    snapshot: &Snapshot,
    state: StateId,
    serialised: &[u8],
) -> Result<Outcome, SessionError> {
    // Rewards do not matter here, and computing the baselines would take most of the time.
    let of_benchmark =
        environment.spec().observation_spaces.iter().filter(|space| space.of_benchmark);
    let baselines = Baselines(of_benchmark.map(|space| (space.name.to_string(), 0)).collect());
    match start(session, snapshot.identity(), state, serialised, Some(&baselines)) {
        Err(SessionError::StartFailed { failure, .. }) => Ok(Outcome::Crashed(failure)),
        started => Ok(Outcome::State {
            id: started?.state,
            changed: true,
            end_of_episode: false,
            action_space_changed: false,
        }),
    }
}

/// Observes a state of a lake, given its serialisation, in a session of the lake's environment. The
/// inner error says how the compiler failed on the state.
///
/// # Errors
///
/// [`SessionError::Unobservable`] if the compiler failed on the observation alone; other errors of
/// the session.
pub fn observe_state(
    environment: &dyn Environment,
    session: &mut dyn Session,
    snapshot: &Snapshot,
    state: StateId,
    serialised: &[u8],
    space: ObservationIndex,
) -> Result<Result<Value, Failure>, SessionError> {
    match begin(environment, session, snapshot, state, serialised)? {
        Outcome::Crashed(failure) => Ok(Err(failure)),
        Outcome::State { .. } => session.observe(space).map(Ok),
    }
}

/// Starts an episode in a state of a lake, given its serialisation.
pub(super) fn start(
    session: &mut dyn Session,
    lake: &Identity,
    state: StateId,
    serialised: &[u8],
    baselines: Option<&Baselines>,
) -> Result<Started, SessionError> {
    let uri: BenchmarkUri =
        format!("benchmark://state/{state}").parse().expect("digits make a path");
    let (program, provenance) = (serialised.into(), Provenance::default());
    session.start(&Start {
        benchmark: &Benchmark { uri, program, provenance, execution: None },
        action_space: &lake.action_space.name,
        baselines,
        watch: &Watch::default(),
    })
}
