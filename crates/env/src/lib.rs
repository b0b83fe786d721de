//! Live compiler environments.
//!
//! An [`Environment`] describes what can be done ([`EnvironmentSpec`]) and opens [`Session`]s. A
//! session is one live instance of the compiler: start, apply, observe, fork. It is the paper's
//! `CompilationSession` (arXiv 2109.08267, Section III).
//!
//! # Contract of a session
//!
//! - [`Session::start`] begins an episode and abandons any earlier one. All other calls but
//!   [`Session::identify`] need an episode under way.
//! - The same program and the same actions give the same states, rewards and observations, in this
//!   session and in any other of an equal [`EnvironmentSpec`], except for actions whose flags say
//!   otherwise.
//! - A failure of the compiler on an action is
//!   [`Outcome::Crashed`](steplake_model::Outcome::Crashed), never an `Err`. A failure on a
//!   program, before there is any state, is [`SessionError::StartFailed`]. Either ends the episode,
//!   and the session can be started again.
//! - A failure of the machine is an `Err`, never an outcome: [`SessionError::Machine`]. So is an
//!   interrupt, [`SessionError::Interrupted`], after which the episode goes on.
//! - [`Session::observe`] never changes the state.
//! - [`Session::fork`] gives a second session in the same state; neither sees later changes of the
//!   other.
//! - An invalid action, or an unknown space in [`Session::observe`], leaves the state as it was.

mod choices;
mod entry;
mod error;
mod exclusive;
mod forward;
mod keyframes;
mod remote_service;
mod requested_rewards;
mod route;
pub mod toy;
pub mod worker;

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use nix::time::ClockId;

pub use self::choices::{Choices, Choosable};
pub use self::entry::{EnvironmentOpening, ListedEnvironment};
pub use self::error::SessionError;
pub use self::exclusive::{Exclusive, InUse};
pub use self::keyframes::KeyframeCount;
pub use self::remote_service::RemoteService;
pub use self::requested_rewards::{RequestedRewards, WantedRewards};
pub use self::route::{Destination, Expected, Route, Strayed};
/// What [`forward!`] names in other crates.
#[doc(hidden)]
pub use {steplake_model as model, steplake_programs as programs};

use self::worker::WorkerConfig;
use steplake_model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, Baselines, Benchmark, EnvironmentSpec,
    Failure, ObservationIndex, RewardTracker, StateId, Step, Value,
};
use steplake_programs::datasets::{Dataset, FrontEnd};

/// A compiler problem.
pub trait Environment: Send + Sync + std::fmt::Debug {
    /// Returns the compiler and the spaces.
    fn spec(&self) -> &EnvironmentSpec;

    /// Opens a session without an episode.
    ///
    /// # Errors
    ///
    /// [`SessionError::Unavailable`] if the compiler is not available.
    fn session(&self) -> Result<Box<dyn Session>, SessionError>;

    /// Opens a session in a process of its own, whose heap is laid out otherwise than those of
    /// other sessions: an action that depends on addresses leads elsewhere there. `None` for an
    /// environment whose sessions have no process of their own. The session waits for no
    /// [interrupt](worker::WorkerConfig::interrupt): what it has found is recorded after one.
    ///
    /// # Errors
    ///
    /// Those of [`session`](Self::session).
    fn audit_session(&self) -> Result<Option<Box<dyn Session>>, SessionError> {
        Ok(None)
    }

    /// Returns how many windows of steps failed in one worker process but not in the fresh one that
    /// played them again in careful mode; see [worker].
    fn repeated_windows(&self) -> u64 {
        0
    }

    /// Returns what is particular about an environment whose sessions a service holds; `None` for
    /// one that this program has.
    fn served(&self) -> Option<&RemoteService> {
        None
    }

    /// Returns whether live sessions may be in this process, since there is no compiler that could
    /// harm it.
    fn may_live_here(&self) -> bool {
        false
    }

    /// Returns this environment with its compiler within these limits, if it runs its compiler in
    /// processes of its own. Any other one has its sessions put into [worker] processes.
    fn within(&self, _config: &WorkerConfig) -> Option<Box<dyn Environment>> {
        None
    }

    /// Returns the distance of the [keyframes](KeyframeCount) of a recording, if nobody says
    /// otherwise. By default 1, so that all states are stored.
    fn keyframes(&self) -> NonZeroU32 {
        NonZeroU32::MIN
    }

    /// Returns how states are made of choices, if they are given by choices: then searches choose
    /// them all at once. Other searches look for sequences of actions.
    fn choices(&self) -> Option<&dyn Choices> {
        None
    }

    /// Returns what makes programs of sources for it.
    fn front_end(&self) -> FrontEnd {
        FrontEnd::default()
    }

    /// Returns the datasets of programs that it makes itself. If there are any, they take the place
    /// of those whose programs are made of sources.
    fn own_datasets(&self) -> Vec<Box<dyn Dataset>> {
        Vec::new()
    }
}

/// The arguments of a new episode.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// The program.
    pub benchmark: &'a Benchmark,
    /// The name of the action space.
    pub action_space: &'a str,
    /// The program's baselines, if already known. Measuring them runs the compiler's own pipelines,
    /// which can cost more than an episode.
    pub baselines: Option<&'a Baselines>,
    /// What the caller means to observe, if anything.
    pub watch: &'a Watch,
}

/// What a caller means to observe in every state that is new to it. This is only a hint: a session
/// in another process sends these values along with the step, which saves a round trip. A session
/// in the same process ignores it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Watch {
    /// The observation spaces.
    pub spaces: Vec<ObservationIndex>,
    /// If set, [keyframes](KeyframeCount) are observed too, in the space that serialises a state.
    /// The number is the most changes of state from one keyframe to the next.
    pub keyframes: Option<NonZeroU32>,
    /// The number of the recording that asks. What was sent to one is still new to another.
    pub recording: u64,
    /// Actions that were seen to lead elsewhere next time, though their flags do not say so.
    pub unreplayable: Arc<[ActionIndex]>,
}

impl Watch {
    /// Returns the flags of an action of the space called `space`, with what was seen of it.
    pub fn flags(&self, spec: &EnvironmentSpec, space: &str, action: ActionIndex) -> ActionFlags {
        let mut flags = flags(spec, space, action);
        flags.replayable &= !self.unreplayable.contains(&action);
        flags
    }
}

/// The result of starting an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The initial state.
    pub state: StateId,
    /// The program's baselines.
    pub baselines: Baselines,
}

/// Looks at the state that the current step led to.
pub type Observe<'a> = dyn FnMut(ObservationIndex) -> Result<Value, SessionError> + 'a;

/// Receives the steps of a batch as they come.
pub type Visit<'a> =
    dyn FnMut(Step, &mut Observe<'_>) -> Result<ControlFlow<()>, SessionError> + 'a;

/// Applies actions in calls of their own, until one ends the episode or `visit` breaks off: what
/// [`Session::multistep`] does without a way of its own.
///
/// # Errors
///
/// Those of [`Session::apply`] and of `visit`.
pub fn apply_each<S: Session + ?Sized>(
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

/// One live instance of a compiler. See the [module's contract](self).
pub trait Session: Send {
    /// Begins an episode.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadProgram`] if the compiler rejects the program,
    /// [`SessionError::StartFailed`] if it fails on it, [`SessionError::UnknownSpace`] if there is
    /// no such action space.
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError>;

    /// Applies one action.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoEpisode`], or [`SessionError::InvalidAction`], which leaves the state as
    /// it was.
    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError>;

    /// Applies one action and leaves the check of its result to [`Session::check`]. Until that
    /// check passes, the step is provisional: it must not become known outside of the session's
    /// process.
    ///
    /// A session whose checks cost nothing need not override this.
    ///
    /// # Errors
    ///
    /// Those of [`Session::apply`].
    fn apply_unchecked(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        self.apply(action)
    }

    /// Checks the results of [`Session::apply_unchecked`] since the last check. A failure means
    /// that some state since then is broken, and ends the episode. To learn which one, play the
    /// actions again with [`Session::apply`].
    ///
    /// # Errors
    ///
    /// [`SessionError::NoEpisode`].
    fn check(&mut self) -> Result<Option<Failure>, SessionError> {
        Ok(None)
    }

    /// Computes the id of a state from the bytes alone, as serialised by any session of this
    /// environment. Needs no episode, and does not affect one under way.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadProgram`] if `state` is not a serialised state.
    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError>;

    /// Returns a state as text for people, from its serialisation alone. Needs no episode, and does
    /// not affect one under way.
    ///
    /// A session whose serialised states are text need not override this.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadProgram`] if `state` is not a serialised state.
    fn text(&mut self, state: &[u8]) -> Result<String, SessionError> {
        Ok(String::from_utf8_lossy(state).into_owned())
    }

    /// Applies actions in order and hands each step to `visit`, until the actions run out, the
    /// episode ends, or `visit` breaks. The `observe` passed to `visit` looks at the state of that
    /// step. It knows the watched spaces of every state that is new to the recording (the initial
    /// state is new at the start), and likewise the serialised state of each new keyframe. It knows
    /// other values only if the session need not go back for them.
    ///
    /// An invalid action ends the batch after the steps before it were visited. After a break the
    /// session is in the state of the last step visited *or a later one of the batch*, so break
    /// only to start anew.
    ///
    /// A session in the caller's process, where a batch saves nothing, need not override this.
    ///
    /// # Errors
    ///
    /// Those of [`Session::apply`] and those of `visit`.
    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError> {
        apply_each(self, actions, visit)
    }

    /// Says which actions the next call will apply, by [`Session::multistep`] with the same
    /// actions. A session whose compiler runs elsewhere lets it begin, so that several sessions
    /// compute at once for one caller. Another call than the announced one costs such a session a
    /// fresh start of its compiler, and does what it always does.
    ///
    /// To announce nothing takes an announcement back.
    ///
    /// A session in the caller's process need not override this.
    fn announce(&mut self, _actions: &[ActionIndex]) {}

    /// Looks at the present state. Values are computed on demand.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoEpisode`], [`SessionError::UnknownSpace`], or
    /// [`SessionError::Unobservable`] if the compiler fails on it.
    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError>;

    /// Opens a second session in the same state.
    ///
    /// # Errors
    ///
    /// [`SessionError::NoEpisode`].
    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError>;
}

/// Returns the CPU time of this process so far.
pub fn cpu_time() -> Duration {
    let time = ClockId::CLOCK_PROCESS_CPUTIME_ID.now();
    time.expect("the kernel has this clock").into()
}

/// Returns the place of the action space called `name`.
///
/// # Errors
///
/// [`SessionError::UnknownSpace`].
pub fn action_space(spec: &EnvironmentSpec, name: &str) -> Result<usize, SessionError> {
    let place = spec.action_spaces.iter().position(|space| space.name == name);
    place.ok_or_else(|| unknown_space(spec, name))
}

/// Returns the action at `index` of `space`.
///
/// # Errors
///
/// An error for an action that the space lacks.
pub fn action(space: &ActionSpace, index: ActionIndex) -> Result<&ActionSpec, SessionError> {
    space.get(index).ok_or_else(|| SessionError::InvalidAction {
        index: index.0,
        space: space.name.clone(),
        len: space.actions.len(),
    })
}

/// Returns the flags of an action of the space called `space`.
pub fn flags(spec: &EnvironmentSpec, space: &str, action: ActionIndex) -> ActionFlags {
    let action = spec.action_space(space).and_then(|space| space.get(action));
    action.map_or(ActionFlags::UNREMARKABLE, |action| action.flags)
}

/// Creates the reward tracker of an episode whose program has these baselines. `cost` gives what
/// the initial state costs in the space of a name. Rewards
/// [on request](EnvironmentSpec::is_on_request) are left to [`RequestedRewards`].
///
/// # Errors
///
/// An error for a baseline that is missing.
pub fn reward_tracker(
    spec: &EnvironmentSpec,
    baselines: &Baselines,
    cost: impl Fn(&str) -> f64,
) -> Result<RewardTracker, SessionError> {
    let spaces = spec.reward_spaces.iter();
    let followed = spaces.map(|space| Some(space).filter(|space| !spec.is_on_request(space)));
    RewardTracker::new(followed, baselines, cost).map_err(|name| unknown_space(spec, &name))
}

/// Returns the error for a space that the environment does not have.
pub fn unknown_space(spec: &EnvironmentSpec, name: &str) -> SessionError {
    SessionError::UnknownSpace { name: name.to_owned(), environment: spec.name.to_string() }
}
