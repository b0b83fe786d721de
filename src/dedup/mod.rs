//! Steps to transitions: every (state, action) that was taken, once.
//!
//! A step of a closed episode is an *edge*: the state before it, its action, and the state after
//! it, or none where the compiler failed. Equal edges are counted. The edges of one (state, action)
//! become
//!
//! - a row of `state_transitions`, with the next state that was seen most often, and among equals
//!   the smallest; its rewards are those of the first such step by `(episode_id, step_index)`;
//! - rows of `conflicts`, one for each next state, where there is more than one;
//! - a row of `failures` where the compiler failed, with kind and detail of the first failure.
//!
//! Only sealed steps are counted: seal first where all are to be. The result depends on the sealed
//! episodes alone: not on the order in which they were written, nor on how often dedup ran before. So
//! [`dedup`] keeps a digest of them beside the tables and does nothing while that and the tables' files
//! stand.
//!
//! Memory is bounded: edges are taken in passes, each over a range of the first bytes of the state
//! before, so that no pass sees more steps than fit.

mod edges;
mod inputs;
mod output;

use std::time::{Duration, Instant};

use edges::Edges;
use inputs::Inputs;
use output::Output;

use crate::store::{LayerChange, LayerId, Maintenance, StoreError, Table};

/// How a dedup goes about it. Nothing here changes the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Memory for the edges of one pass. Besides, there is an entry for each closed episode.
    pub memory_bytes_max: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { memory_bytes_max: 1 << 30 }
    }
}

/// What a dedup did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// True when the tables were up to date already. The counts are then those of the tables.
    pub unchanged: bool,
    /// Steps with an action in closed episodes; 0 where they were not read.
    pub steps: u64,
    /// Rows of `state_transitions`.
    pub transitions: u64,
    /// Rows of `conflicts`.
    pub conflicts: u64,
    /// Rows of `failures`.
    pub failures: u64,
    /// How often the steps were read.
    pub passes: u32,
    /// How long it took.
    pub elapsed: Duration,
}

/// Makes the derived tables anew, in one transaction, unless they are up to date. A writer may go on
/// meanwhile: what it seals is counted the next time. `progress` is
/// told how many steps of how many are read.
///
/// The digest of every file that is read is checked first.
///
/// # Errors
///
/// [`StoreError::Corrupt`] with the file that is damaged, [`StoreError::DiskFull`] and what else a
/// disk does. The tables are then as before.
pub fn dedup(
    maintenance: &mut Maintenance,
    settings: Settings,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report, StoreError> {
    let begun = Instant::now();
    let snapshot = maintenance.lake().sealed()?;
    let inputs = Inputs::read(&snapshot)?;
    let layers = snapshot.layers();
    let mut segments = layers.values().flatten();
    if snapshot.dedup_inputs() == Some(inputs.digest())
        && segments.all(|segment| segment.check().is_ok())
    {
        return Ok(Report {
            unchanged: true,
            steps: 0,
            transitions: snapshot.rows(Table::StateTransitions),
            conflicts: snapshot.rows(Table::Conflicts),
            failures: snapshot.rows(Table::Failures),
            passes: 0,
            elapsed: begun.elapsed(),
        });
    }
    inputs.check_segments()?;
    let passes = inputs.passes(settings.memory_bytes_max)?;
    let total = inputs.rows() * passes.len() as u64;
    let mut output = Output::new(&snapshot, maintenance.layer_writer(LayerId(1)));
    let (mut steps, mut done) = (0, 0);
    for pass in &passes {
        let mut edges = Edges::new(snapshot.identity().rewards.len());
        inputs.visit(pass, &mut |step| edges.add(step), &mut |rows| {
            done += rows;
            progress(done, total);
        })?;
        steps += edges.steps();
        output.write(&edges, &inputs)?;
    }
    let (layer, counts) = output.finish()?;
    maintenance.publish(LayerChange {
        retire: layers.into_values().flatten().cloned().collect(),
        add: vec![layer],
        counted: snapshot.segments(Table::Steps).to_vec(),
        inputs: inputs.digest().to_owned(),
        detail: format!("{steps} steps, {} state transitions", counts.transitions),
    })?;
    Ok(Report {
        unchanged: false,
        steps,
        transitions: counts.transitions,
        conflicts: counts.conflicts,
        failures: counts.failures,
        passes: u32::try_from(passes.len()).expect("there are at most 65,536 passes"),
        elapsed: begun.elapsed(),
    })
}
