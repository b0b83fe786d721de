//! Backfill by plain requests: the names of spaces.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use indicatif::HumanCount;

use crate::Error;
use crate::env::Environment;
use crate::environments::{Environments, action_space, environment_of_lake};
use crate::lake::{Lake, OnProgress, RecordedObservation, SnapshotId};
use crate::record::{self, SpaceChoice};
use crate::replay::backfill::{LeftOut, fill};
use crate::replay::demand_same;
use crate::upkeep::Backfill;
use steplake_terminal::output::counted;

/// The result of a backfill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackfillReport {
    /// The spaces.
    pub spaces: Vec<String>,
    /// Number of sealed states.
    pub states: u64,
    /// Number of states that had an observation in each of the spaces before.
    pub had: u64,
    /// Number of states that lacked one and have it now.
    pub filled: u64,
    /// How many of these an interrupted backfill had computed.
    pub resumed: u64,
    /// The states that keep null.
    pub left_out: LeftOut,
    /// The snapshot with the observations; `None` if nothing was filled.
    pub snapshot: Option<SnapshotId>,
    /// Elapsed time.
    pub elapsed: Duration,
}

/// Computes the observations in `spaces` that the states of a lake lack, on `jobs` workers of the
/// lake's own compiler; by default one for each core. Calls `progress` with the number of states
/// that are done and of those that are computed now.
///
/// # Errors
///
/// If the environment has no such space, if the lake's compiler is not here, or if somebody records
/// into the lake or maintains it. A break ends it with the code of an interruption. What was
/// computed before an error or a break is kept for the next backfill of the same spaces.
pub fn backfill(
    environments: &Environments,
    lake: &Lake,
    spaces: &[String],
    jobs: Option<NonZeroUsize>,
    progress: &mut OnProgress<'_>,
) -> Result<BackfillReport, Error> {
    let begun = Instant::now();
    let environment = environment_of_lake(lake.identity())?;
    let chosen = chosen(environment.as_ref(), lake, spaces)?;
    let backfill = Backfill::begin(lake, &chosen)?;
    let filling = backfill.filling();
    let (states, resumed) = (filling.states(), filling.resumed());
    let had = states - resumed - filling.missing().len() as u64;
    let mut left_out = LeftOut::default();
    if !filling.missing().is_empty() {
        let workers = environments.workers(environment.as_ref(), filling.snapshot().runs());
        let index = |space: &RecordedObservation| workers.spec().observation_index(&space.name);
        let indexes = chosen.iter().filter_map(index).collect::<Vec<_>>();
        let jobs = jobs.or_else(|| std::thread::available_parallelism().ok());
        left_out =
            fill(workers.as_ref(), filling, &indexes, jobs.map_or(1, NonZeroUsize::get), progress)?;
    }
    let done = filling.missing().len() as u64 - left_out.states();
    let done = backfill.complete(&mut || progress(done, done))?;
    Ok(BackfillReport {
        spaces: spaces.to_vec(),
        states,
        had,
        filled: done.filled,
        resumed,
        left_out,
        snapshot: done.snapshot,
        elapsed: begun.elapsed(),
    })
}

/// Returns the spaces of these names, as the environment has them.
fn chosen(
    environment: &dyn Environment,
    lake: &Lake,
    spaces: &[String],
) -> Result<Vec<RecordedObservation>, Error> {
    demand_same(environment, lake.identity())?;
    if spaces.is_empty() {
        return Err(Error::usage("name an observation space to fill in"));
    }
    let spec = environment.spec();
    let space = action_space(spec, Some(&lake.identity().action_space.name))?;
    let choice = SpaceChoice { observations: Some(spaces), rewards: Some(&[]) };
    let mut chosen = record::identity(spec, &space, &choice)?.observations;
    // One order, so that an interrupted backfill goes on whatever the order of the names.
    chosen.sort_by_key(|space| spec.observation_index(&space.name));
    Ok(chosen)
}

impl BackfillReport {
    /// Describes the result in one line.
    pub fn text(&self) -> String {
        let names = self.spaces.join(", ");
        let Self { states, had, filled, resumed, .. } = *self;
        let LeftOut { without_path, elsewhere, failed } = self.left_out;
        if had == states {
            return format!("{names}: nothing to do, all {} have it\n", counted(states, "state"));
        }
        let computed = match resumed {
            0 => String::new(),
            _ => format!(" ({} computed before an interruption)", HumanCount(resumed)),
        };
        let reasons = [
            (without_path, "no recorded path from stored IR"),
            (elsewhere, "another state on the recorded path"),
            (failed, "a failure of the compiler"),
        ];
        let reasons = reasons.into_iter().filter(|(count, _)| *count > 0);
        let reasons = reasons.map(|(count, why)| format!("{}: {why}", HumanCount(count)));
        let reasons = match reasons.collect::<Vec<_>>().join("; ") {
            none if none.is_empty() => none,
            some => format!(" ({some})"),
        };
        format!(
            "{names}: {} filled{computed}, {} had it, {} left out{reasons}\n",
            counted(filled, "state"),
            HumanCount(had),
            HumanCount(self.left_out.states()),
        )
    }
}
