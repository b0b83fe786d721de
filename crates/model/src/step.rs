//! Steps: their outcomes and failures.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::{Rewards, StateId};

crate::named! {
    /// How a compiler failed.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FailureKind {
        /// The compiler died of a signal, an abort, or an exit that nobody asked for.
        Crash = "crash",
        /// The compiler used more CPU time, or stood still longer, than allowed.
        TimeOut = "time-out",
        /// The compiler wanted more memory than a worker may have.
        OutOfMemory = "out-of-memory",
        /// The compiler produced a module that its own verifier rejects.
        Verifier = "verifier",
        /// The compiler refused its options, or the program with them, and said why.
        Rejected = "rejected",
        /// The assembler refused what the compiler wrote.
        Assembler = "assembler",
    }

    /// Returns the word stored in the lake.
    fn as_str;
    fn from_name;
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FailureKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::from_name(text).ok_or_else(|| text.to_owned())
    }
}

/// A failure of the compiler: data, not an error of steplake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The details on one line: the signal, the limit, or what the compiler says.
    pub detail: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.detail)
    }
}

/// What an action led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The compiler holds a state.
    State {
        /// The state's name.
        id: StateId,
        /// False if the state is the one before the action.
        changed: bool,
        /// True if the environment takes no further action in this episode.
        end_of_episode: bool,
        /// True if other actions than before are on offer.
        action_space_changed: bool,
    },
    /// The compiler failed. The episode is over; the session can be started again.
    Crashed(Failure),
}

impl Outcome {
    /// Returns the state that the compiler holds; none if it failed.
    pub fn state(&self) -> Option<StateId> {
        match self {
            Self::State { id, .. } => Some(*id),
            Self::Crashed(_) => None,
        }
    }

    /// Returns whether no further action can follow.
    pub fn ends_episode(&self) -> bool {
        match self {
            Self::State { end_of_episode, .. } => *end_of_episode,
            Self::Crashed(_) => true,
        }
    }
}

/// The result of one action.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What the action led to.
    pub outcome: Outcome,
    /// One reward for each of the environment's reward spaces, in its order; all NaN after a
    /// failure.
    pub rewards: Rewards,
    /// The time that the compiler took for the action. It is measured, hence never part of any
    /// identity.
    pub wall_time: Duration,
}

impl Step {
    /// Returns the step of a failed action, in an environment with `reward_spaces` reward spaces.
    pub fn failed(failure: Failure, reward_spaces: usize, wall_time: Duration) -> Self {
        let rewards = vec![f64::NAN; reward_spaces].into();
        Self { outcome: Outcome::Crashed(failure), rewards, wall_time }
    }
}
