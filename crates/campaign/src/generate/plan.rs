//! What a run is to do.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::coreset::Coreset;
use super::policies::PolicyName;
use steplake_model::BenchmarkUri;

/// When a run is over. In a run with several shards, steps and states are those of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// After this many steps; the last episode is cut to fit.
    Steps(u64),
    /// After the first episode, in order, with which the run has reached this many distinct states.
    States(u64),
    /// After this many episodes, counting those of all shards.
    Episodes(u64),
}

/// Which state of a proposed sequence says what the sequence costs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Costed {
    /// The one that costs least. All states are observed.
    #[default]
    EachState,
    /// The last one. A cost that takes long to find out is not looked for on the way there.
    LastState,
    /// The one with the lowest value of another observation space, the first of equal ones. The
    /// sequence is played once before, to find it.
    LowestOf(String),
}

/// The definition of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPlan {
    /// The `B` programs: episode `e` uses number `e mod B`.
    pub benchmarks: Vec<BenchmarkUri>,
    /// The action space's name.
    pub action_space: String,
    /// How actions are chosen.
    pub policy: PolicyName,
    /// The observation space, of single numbers, of which a [search](super::Property::Searches)
    /// looks for the lowest value; ignored by other policies.
    pub objective: String,
    /// The number of steps in a row that lower no cost after which an episode of `random-patience`
    /// ends; ignored by other policies.
    pub patience: u32,
    /// What the policy `coreset` knows; ignored by others.
    pub coreset: Arc<Coreset>,
    /// What the compiler's own pipeline leaves of the programs, against which `coreset` counts what
    /// it saves; by default the objective's [usual baseline], or what a program costs untouched.
    ///
    /// [usual baseline]: steplake_model::EnvironmentSpec::usual_baseline
    pub reference: Option<f64>,
    /// Which state of a proposed sequence says what the sequence costs.
    pub costed: Costed,
    /// When the run is over.
    pub stop: Stop,
    /// The steps of an episode that nothing cuts short.
    pub episode_length: u32,
    /// The seed of every choice.
    pub seed: i64,
    /// Number of sessions that play at a time. What is recorded does not depend on it.
    pub jobs: usize,
    /// The episodes that are played here.
    pub shard: Shard,
}

impl RunPlan {
    /// Returns the program of an episode.
    pub(super) fn benchmark(&self, ordinal: u32) -> &BenchmarkUri {
        &self.benchmarks[ordinal as usize % self.benchmarks.len()]
    }
}

/// The part of a run that one machine plays.
///
/// Of `count` shards, number `index` has the episodes whose number is `index` modulo `count`. For a
/// policy that looks at earlier episodes of the same benchmark, the number of the benchmark is used
/// in place of the episode's, so that such episodes stay together. The shards of a run have no
/// episode in common, and together they have all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    pub(super) index: u32,
    pub(super) count: u32,
}

impl Shard {
    /// The whole run as one shard.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Returns shard number `index`, from 0, of `count`; none if there is no such shard.
    pub fn new(index: u32, count: u32) -> Option<Self> {
        (index < count).then_some(Self { index, count })
    }

    /// Returns the number of the shard, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns how many shards there are.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns how many of `0..bound` belong to this shard.
    pub(super) fn share_of(self, bound: u64) -> u64 {
        bound.saturating_sub(self.index.into()).div_ceil(self.count.into())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = || {
            let (index, count) = text.split_once('/')?;
            Some((index.parse().ok()?, count.parse().ok()?))
        };
        let found = numbers().and_then(|(index, count)| Self::new(index, count));
        found.ok_or_else(|| {
            "write I/N with I from 0 to N-1: the shards of three are 0/3, 1/3, 2/3".into()
        })
    }
}
