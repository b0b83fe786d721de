//! Backfill: computes observations of stored states by replay.
//!
//! The recorded episodes are cut into stretches, each from a stored state to the next. Stretches
//! that meet a state without its observations are played again, each once, in as many sessions as
//! there are jobs. A session computes an observation only in a state whose id is the recorded one:
//! if a stretch leads elsewhere, its states are tried on other recorded paths. What the sessions
//! compute becomes a durable part of the backfill every few moments.

mod computed;
mod filler;
mod stretches;

use self::filler::Filler;
use super::stored_state::{ReplayError, demand_same};
use steplake_env::Environment;
use steplake_lake::OnProgress;
use steplake_lake::upkeep::BackfillProgress;
use steplake_model::ObservationIndex;

/// The states that a backfill leaves without observations, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// No recorded path leads there from a state whose IR is stored.
    pub without_path: u64,
    /// The replay led to other states, on every recorded path that was tried.
    pub elsewhere: u64,
    /// The compiler failed on the way, or on the observation.
    pub failed: u64,
}

impl LeftOut {
    /// Returns their number.
    pub fn states(&self) -> u64 {
        self.without_path + self.elsewhere + self.failed
    }
}

/// Computes the observations of the states that miss them, on `jobs` sessions of `environment`, and
/// adds them to `filling` in parts. `spaces` are those of the backfill. Calls `progress` with the
/// number of states that are done and of all; after a break, states that are under way are still
/// done, and added.
///
/// # Errors
///
/// See [`ReplayError`]; after a break,
/// [`LakeError::Interrupted`](steplake_lake::LakeError::Interrupted). What was computed before is
/// added all the same, if the disk takes it.
pub fn fill(
    environment: &dyn Environment,
    filling: &BackfillProgress,
    spaces: &[ObservationIndex],
    jobs: usize,
    progress: &mut OnProgress<'_>,
) -> Result<LeftOut, ReplayError> {
    demand_same(environment, filling.snapshot().identity())?;
    let filler = Filler::new(environment, filling, spaces);
    let (mut done, all) = (0, filling.missing().len() as u64);
    let result = filler.fill(jobs.max(1), &mut |more| {
        done += more;
        progress(done, all)
    });
    let added = filling.add(filler.rest());
    result?;
    added?;
    Ok(filler.left_out())
}
