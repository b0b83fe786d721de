//! Generating: plays the episodes of a [`RunPlan`] on many workers and records them.
//!
//! What a run leaves in the lake depends only on its plan, apart from the number of jobs;
//! `schedule` ensures that. [`ResumeState`] explains how an interrupted run is resumed.

mod attempt;
mod best;
mod campaign;
mod coreset;
mod costs;
mod earlier;
mod episode;
mod error;
mod first_starts;
mod past;
mod plan;
mod policies;
mod programs;
mod resume;
mod schedule;
mod setting;
mod settled;
mod shard;
mod start;
mod walk;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

pub use self::best::{BestProposal, BestProposals};
pub use self::campaign::generate;
pub use self::coreset::{Coreset, ProgramFeatures};
pub use self::error::GenerateError;
pub use self::plan::{Costed, RunPlan, Shard, Stop};
use self::policies::actions;
pub use self::policies::{PolicyName, Property};
pub use self::programs::ProgramProvider;
pub use self::resume::ResumeState;
pub use self::settled::Settled;
use steplake_model::{ActionIndex, BenchmarkUri, FailureKind};

/// The progress of a run; any thread may read it.
#[derive(Debug, Default)]
pub struct RunProgress {
    /// Steps made by this process.
    pub steps: AtomicU64,
    /// States that this process was the first to observe.
    pub states: AtomicU64,
    /// Settled episodes of this process that the compiler's failure ended, at a step or at their
    /// start.
    pub failures: Mutex<BTreeMap<FailureKind, u64>>,
    /// Settled episodes, including those of an earlier process.
    pub episodes: AtomicU64,
    /// The best that searches have found for each program in this process.
    pub best: Mutex<HashMap<BenchmarkUri, BestProposals>>,
}

impl RunProgress {
    /// Returns the best sequences of actions that a search has found for a program, the best first.
    pub fn best_sequences(&self, program: &BenchmarkUri) -> Vec<Vec<ActionIndex>> {
        let best = self.best.lock();
        let found = best.get(program).map(BestProposals::found).unwrap_or_default().iter();
        found.map(|found| actions(&found.proposal).collect()).collect()
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignEnd {
    /// The run reached its stop.
    Complete,
    /// The search of every program was over before the run reached its stop.
    Exhausted,
    /// The run was interrupted.
    Interrupted,
}
