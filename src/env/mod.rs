//! Live compiler environments.
//!
//! An [`Environment`] says what there is to do ([`EnvironmentSpec`]) and opens [`Session`]s; a
//! session is one live instance of the compiler: start, apply, observe, fork. This is the paper's
//! `CompilationSession` (arXiv 2109.08267, Section III).
//!
//! # Contract of a session
//!
//! - [`Session::start`] begins an episode, whatever went before; the other calls need one under
//!   way.
//! - The same program and the same actions give the same states, rewards and observations, in this
//!   session and in any other of an equal [`EnvironmentSpec`], up to actions whose flags say
//!   otherwise.
//! - A failure of the compiler over an action is
//!   [`Outcome::Crashed`](crate::model::Outcome::Crashed), never an `Err`. Over a program, before
//!   there is any state, it is [`SessionError::StartFailed`]. After either the episode is over, and
//!   the session can be started again.
//! - A failure of the machine is an `Err`, and never an outcome: [`SessionError::Machine`].
//! - [`Session::observe`] never changes the state.
//! - [`Session::fork`] gives a second session in the same state; from then on neither sees the
//!   other.
//! - After an `Err` of [`SessionError::InvalidAction`] or [`SessionError::UnknownSpace`] the state
//!   is as before.

mod keyframes;
pub mod llvm;
mod planted;
pub mod toy;
pub mod worker;

use std::num::NonZeroU32;
use std::ops::ControlFlow;

pub use self::keyframes::KeyframeCount;

use crate::model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, Baselines, Benchmark, EnvironmentSpec,
    Failure, ObservationIndex, RewardTracker, StateId, Step, Value,
};

/// The environment that is meant where none is named.
pub const DEFAULT: &str = llvm::NAME;

/// The names of all environments, the default first.
pub const NAMES: [&str; 2] = [llvm::NAME, toy::NAME];

/// The environment called `name`, its sessions in this process; `None` when there is none.
///
/// Put a real compiler's sessions into [worker] processes.
pub fn open(name: &str) -> Option<Box<dyn Environment>> {
    match name {
        llvm::NAME => Some(Box::new(llvm::LlvmEnvironment::new())),
        toy::NAME => Some(Box::new(toy::ToyEnvironment::default())),
        toy::UNSURE => Some(Box::new(toy::ToyEnvironment::unsure())),
        _ => None,
    }
}

/// A compiler problem.
pub trait Environment: Send + Sync + std::fmt::Debug {
    /// The compiler and the spaces.
    fn spec(&self) -> &EnvironmentSpec;

    /// Opens a session that has no episode yet.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unavailable`] when the compiler cannot be had.
    fn session(&self) -> Result<Box<dyn Session>, SessionError>;

    /// How many windows of steps failed in one worker process, and not in a fresh one that played
    /// them again in careful mode; see [worker].
    fn repeated_windows(&self) -> u64 {
        0
    }
}

/// What an episode begins with.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The program.
    pub benchmark: &'a Benchmark,
    /// The name of the action space.
    pub action_space: &'a str,
    /// The program's baselines, where they are known already: finding them out runs the compiler's
    /// own pipelines, which can cost more than an episode.
    pub baselines: Option<&'a Baselines>,
    /// What the caller means to observe, if anything.
    pub watch: &'a Watch,
}

/// What a caller means to observe in every state that is new to it. Only a hint: a session in
/// another process sends these values along with the step, so that asking costs no round trip. A
/// session in the same process ignores it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// The observation spaces.
    pub spaces: Vec<ObservationIndex>,
    /// Where [keyframes](KeyframeCount) are to be observed too, in the space that serialises a
    /// state: after how many changes of state there is one at the latest.
    pub keyframes: Option<NonZeroU32>,
    /// Who is asking. What was sent to another asker counts as new again.
    pub asker: u64,
}

/// How an episode began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The initial state.
    pub state: StateId,
    /// The program's baselines.
    pub baselines: Baselines,
}

/// Looks at the state that a step has just led to.
pub type Observe<'a> = dyn FnMut(ObservationIndex) -> Result<Value, SessionError> + 'a;

/// Takes the steps of a batch as they come.
pub type Visit<'a> =
    dyn FnMut(Step, &mut Observe<'_>) -> Result<ControlFlow<()>, SessionError> + 'a;

/// One live instance of a compiler. See the [module's contract](self).
pub trait Session: Send {
    /// Begins an episode.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadProgram`] when the compiler does not take the program,
    /// [`SessionError::StartFailed`] when it fails over it,
    /// [`SessionError::UnknownSpace`] when there is no such action space.
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError>;

    /// Applies one action.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoEpisode`], or [`SessionError::InvalidAction`] with the state as before.
    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError>;

    /// Applies one action and leaves the check of what it made to [`Session::check`]. Until that
    /// has passed, the step is provisional: nobody outside of the session's process may be told of
    /// it.
    ///
    /// A session whose [`Session::apply`] is as cheap with a check need not offer anything else.
    ///
    /// # Errors
    ///
    /// Those of [`Session::apply`].
    fn apply_unchecked(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        self.apply(action)
    }

    /// Checks what [`Session::apply_unchecked`] has made since the last check. A failure says that
    /// some state since then is broken, not which: play the actions again with [`Session::apply`]
    /// to learn that. The episode is over then.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoEpisode`].
    fn check(&mut self) -> Result<Option<Failure>, SessionError> {
        Ok(None)
    }

    /// The id of a state that was serialised by a session of this environment, found from the bytes
    /// alone. Needs no episode, and leaves one that is under way as it is.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadProgram`] when `state` is not the serialisation of a state.
    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError>;

    /// Applies actions one after another and hands each step to `visit`, until they are used up,
    /// the episode ends, or `visit` breaks. The `observe` that `visit` gets looks at the state of
    /// that step; it knows the watched spaces of every state that is new to the asker (the initial
    /// one is new at the start), keyframes by themselves, others only where the session need not go
    /// back for them.
    ///
    /// An invalid action ends the batch there, with the steps before it visited. After a break the
    /// session's state is that of the last step visited *or a later one of the batch*: break only
    /// to start anew.
    ///
    /// # Errors
    ///
    /// Those of [`Session::apply`] and those of `visit`.
    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError>;

    /// Looks at the present state. Values are computed when they are asked for.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoEpisode`] or [`SessionError::UnknownSpace`].
    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError>;

    /// A second session in the same state.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoEpisode`].
    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError>;
}

/// [`Session::multistep`] by calls of [`Session::apply`] and [`Session::observe`]: for sessions
/// that live in the caller's process, where a batch saves nothing.
///
/// # Errors
///
/// Those of [`Session::multistep`].
pub fn step_by_step<S: Session + ?Sized>(
    session: &mut S,
    actions: &[ActionIndex],
    visit: &mut Visit<'_>,
) -> Result<(), SessionError> {
    for &action in actions {
        let step = session.apply(action)?;
        let ends = step.outcome.ends_episode();
        let flow = visit(step, &mut |space| session.observe(space))?;
        if ends || flow.is_break() {
            break;
        }
    }
    Ok(())
}

/// The place of the action space called `name`.
fn action_space(spec: &EnvironmentSpec, name: &str) -> Result<usize, SessionError> {
    let place = spec.action_spaces.iter().position(|space| space.name == name);
    place.ok_or_else(|| unknown_space(spec, name))
}

/// The action at `index` of `space`.
fn action(space: &ActionSpace, index: ActionIndex) -> Result<&ActionSpec, SessionError> {
    space.get(index).ok_or_else(|| SessionError::InvalidAction {
        index: index.0,
        space: space.name.clone(),
        len: space.actions.len(),
    })
}

/// What is known of an action of the space called `space`.
fn flags(spec: &EnvironmentSpec, space: &str, action: ActionIndex) -> ActionFlags {
    let action = spec.action_space(space).and_then(|space| space.get(action));
    action.map_or(ActionFlags::UNREMARKABLE, |action| action.flags)
}

/// The rewards of an episode of a program with these baselines, whose first state costs `cost`.
fn reward_tracker(
    spec: &EnvironmentSpec,
    baselines: &Baselines,
    cost: i64,
) -> Result<RewardTracker, SessionError> {
    RewardTracker::new(&spec.reward_spaces, baselines, cost)
        .map_err(|name| unknown_space(spec, &name))
}

/// The error for a space that the environment does not have.
fn unknown_space(spec: &EnvironmentSpec, name: &str) -> SessionError {
    SessionError::UnknownSpace { name: name.to_owned(), environment: spec.name }
}

/// What keeps a session from doing what it was asked to. A compiler that fails over an action is no
/// error: it is an [`Outcome`](crate::model::Outcome).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Nothing was started, or the episode has ended.
    #[error("no episode is under way: start one first")]
    NoEpisode,
    /// The action space has no such action.
    #[error("there is no action {index} in `{space}`, which has {len} actions")]
    InvalidAction {
        /// What was asked for.
        index: u16,
        /// The name of the action space.
        space: String,
        /// How many actions it has.
        len: usize,
    },
    /// The environment has no such action, observation or reward space.
    #[error("`{environment}` has no space called `{name}`: `steplake env describe` lists them")]
    UnknownSpace {
        /// What was asked for.
        name: String,
        /// The environment.
        environment: &'static str,
    },
    /// The compiler does not take the program.
    #[error("the program of {uri} cannot be read: {detail}")]
    BadProgram {
        /// The benchmark.
        uri: String,
        /// What the compiler says, one line.
        detail: String,
    },
    /// The compiler crashed, hung or ran out of memory over the program, before there was a state.
    /// Like a failed action this is data: whoever records takes it down and goes on with other
    /// programs.
    #[error("the compiler failed over {uri} before the first step: {}: {}", failure.kind, failure.detail)]
    StartFailed {
        /// The benchmark.
        uri: String,
        /// How it failed.
        failure: Failure,
    },
    /// The environment's compiler cannot be had here.
    #[error("`{environment}` cannot be started: {detail}")]
    Unavailable {
        /// The environment.
        environment: &'static str,
        /// What stands in the way and what to do.
        detail: String,
    },
    /// This machine keeps sessions from going on: somebody ends their processes, again and again,
    /// or what got through once does not any more. That says nothing about the compiler.
    #[error("{0}")]
    Machine(String),
    /// The process that held the session could not be reached or brought back.
    #[error("the worker of a session is lost: {0}")]
    Worker(String),
    /// Something that holds whatever a compiler does turned out not to. What was recorded since is
    /// not to be trusted, and doing it again does not help.
    #[error("{0}: this is a defect of steplake, please report it")]
    Defect(String),
    /// The caller's own visit of a step failed.
    #[error("a step could not be taken down: {0}")]
    Visit(String),
}
