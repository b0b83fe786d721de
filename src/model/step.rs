use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Rewards, StateId};

/// How a compiler failed on an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// It died: a signal, an abort, or an exit that nobody asked for.
    Crash,
    /// It used more CPU time, or stood still longer, than a step may.
    TimeOut,
    /// It wanted more memory than a worker may have.
    OutOfMemory,
    /// It produced a module that its own verifier rejects.
    Verifier,
}

impl FailureKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Crash, Self::TimeOut, Self::OutOfMemory, Self::Verifier];

    /// The word that stands in the lake.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::TimeOut => "time-out",
            Self::OutOfMemory => "out-of-memory",
            Self::Verifier => "verifier",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FailureKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or_else(|| text.to_owned())
    }
}

/// A failure of the compiler: data, not an error of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How it failed.
    pub kind: FailureKind,
    /// What is known about it, one line: the signal, the limit, the verifier's message.
    pub detail: String,
}

/// What an action led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The compiler holds a state.
    State {
        /// The state's name.
        id: StateId,
        /// False when it is the state from before the action.
        changed: bool,
        /// True when the environment takes no further action in this episode.
        end_of_episode: bool,
        /// True when other actions than before are on offer.
        action_space_changed: bool,
    },
    /// The compiler failed. The episode is over; the session can be started again.
    Crashed(Failure),
}

impl Outcome {
    /// The state that the compiler holds, where it still lives.
    pub fn state(&self) -> Option<StateId> {
        match self {
            Self::State { id, .. } => Some(*id),
            Self::Crashed(_) => None,
        }
    }

    /// True when no further action can follow.
    pub fn ends_episode(&self) -> bool {
        match self {
            Self::State { end_of_episode, .. } => *end_of_episode,
            Self::Crashed(_) => true,
        }
    }
}

/// What came of one action.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What the action led to.
    pub outcome: Outcome,
    /// One reward for each of the environment's reward spaces, in its order; all NaN after a crash.
    pub rewards: Rewards,
    /// The time the compiler took over the action. Measured, hence never part of any identity.
    pub wall_time: Duration,
}

impl Step {
    /// A step over which the compiler failed, in an environment with so many reward spaces.
    pub fn failed(failure: Failure, reward_spaces: usize, wall_time: Duration) -> Self {
        let rewards = vec![f64::NAN; reward_spaces].into();
        Self { outcome: Outcome::Crashed(failure), rewards, wall_time }
    }
}
