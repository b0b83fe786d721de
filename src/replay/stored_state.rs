//! Sessions that begin in a state of a lake.

use crate::env::{Environment, Session, SessionError, Start, Started, Watch};
use crate::lake::{Identity, LakeError, Snapshot};
use crate::model::{
    Baselines, Benchmark, BenchmarkUri, Failure, ObservationIndex, Outcome, Provenance, StateId,
    Value,
};

/// Why replaying stopped early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The lake cannot be read.
    #[error(transparent)]
    Store(#[from] LakeError),
    /// A session failed in a way that is not the compiler's.
    #[error(transparent)]
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
    /// The lake is too large for a transition graph in memory.
    #[error("the lake has more than {most} transitions or states, which are counted in 32 bits")]
    TooLarge {
        /// The most transitions, and the most states.
        most: usize,
    },
}

/// Refuses an environment that differs from the lake's.
///
/// # Errors
///
/// [`ReplayError::OtherEnvironment`].
pub fn demand_same(environment: &dyn Environment, identity: &Identity) -> Result<(), ReplayError> {
    let spec = environment.spec();
    if (spec.name.as_ref(), &spec.compiler) == (identity.environment.as_str(), &identity.compiler) {
        return Ok(());
    }
    Err(ReplayError::OtherEnvironment {
        lake: format!("{} ({})", identity.environment, identity.compiler),
        here: format!("{} ({})", spec.name, spec.compiler),
    })
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
