//! Steps to transitions: every (state, action) that was taken, once.
//!
//! A sealed step is an *edge*: the state before it, its action, and the state after it, or none
//! where the compiler failed. Equal edges are counted. The edges of one (state, action) become
//!
//! - a row of `state_transitions`, with the next state that was seen most often, and among equals
//!   the smallest; its rewards are those of the first such step by `(episode_id, step_index)`;
//! - rows of `conflicts`, one for each next state, where there is more than one;
//! - a row of `failures` where the compiler failed, with kind and detail of the first failure.
//!
//! The result depends on the sealed steps alone: not on how they were sealed, nor on how often
//! dedup ran in between. Only sealed steps are counted, so a pass can go on beside a writer.
//!
//! # What a pass costs
//!
//! A pass counts the steps that no layer counts yet, and writes them as a new layer. It takes
//! layers in that are there already, the newest first, while the next one has less than eight times
//! the rows of what has been taken together: so a step is written again only a few times, however
//! large the lake gets, and there are only a few layers to be read. While all rows together are
//! few, there is one layer.
//!
//! # How
//!
//! Threads read parts of the segments, and scatter the edges into partitions by the first bits of
//! the state before. What does not fit goes to temporary files. Then each thread takes a range of
//! partitions, sorts one after another, merges them with the layers that are taken in, and writes
//! the range: every partition is smaller than all states that come after it.

mod failed;
mod fresh;
mod pass;
mod plan;
mod replacement;
mod scatter;
mod sorted;
mod steps;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

pub use replacement::{Replacement, ReplacementError};

use pass::Rows;

use crate::store::{
    Layer, LayerChange, LayerId, Maintenance, Segment, Snapshot, StoreError, Table,
};

/// Changes when the same steps would give other tables.
const VERSION: u32 = 2;

/// How a dedup goes about it. But for the number of layers, nothing here changes the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Memory for all of it: what was read and not yet sorted, what is being sorted, pages and row
    /// groups of Parquet. Outside of it are the program itself, the catalog's list of files, and
    /// some hundred bytes for each failed episode whose steps are new. Parquet takes about 50 MiB a
    /// thread however little there is.
    pub memory_bytes_max: u64,
    /// Threads that work at once.
    pub threads: NonZeroUsize,
    /// Makes the tables anew from all steps, and one layer of them.
    pub full: bool,
    /// All layers become one while they have so few rows together.
    pub one_layer_rows_max: u64,
    /// A layer is taken in when it has less than so many times the rows of what is written: the
    /// newest first, until one has more. So a step is written again a few times, and there are few
    /// layers.
    pub tier: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            memory_bytes_max: 1 << 30,
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            full: false,
            one_layer_rows_max: 500_000,
            tier: 8,
        }
    }
}

/// What a dedup did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// True when nothing was written: there was nothing new.
    pub unchanged: bool,
    /// Steps with an action that were counted in this pass.
    pub steps: u64,
    /// Rows of `state_transitions` in all layers. One row may be in several: only where there is
    /// one layer it is the number of rows of the table. So it is with the next two.
    pub transitions: u64,
    /// Rows of `conflicts` in all layers.
    pub conflicts: u64,
    /// Rows of `failures` in all layers.
    pub failures: u64,
    /// Layers that there are now.
    pub layers: usize,
    /// How long it took.
    pub elapsed: Duration,
}

/// Counts the steps that are sealed and not counted yet, in one transaction. `progress` is told how
/// many rows of how many are read.
///
/// All that is read of a file is checked against its digests. Where a derived file is missing, or
/// is found to be damaged, all are made anew. Where nothing is new, nothing is written.
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
    let inputs = inputs();
    let layers = snapshot.layers_by_age();
    let stands = snapshot.dedup_inputs() == Some(&inputs)
        && layers.iter().all(|(_, layer)| layer.is_whole());
    let all = snapshot.segments(Table::Steps);
    let uncounted = snapshot.uncounted().cloned().collect::<Vec<_>>();
    let is_known = stands && !settings.full;
    if is_known && uncounted.is_empty() {
        let rows = rows_of(layers.iter().map(|(_, layer)| layer));
        return Ok(report(true, 0, rows, layers.len(), begun));
    }
    let mut job = Job {
        maintenance,
        snapshot: &snapshot,
        settings: &settings,
        inputs,
        uncounted: &uncounted,
    };
    let done = if is_known {
        match job.run(&uncounted, &layers, progress) {
            Err(StoreError::Corrupt { path, .. }) if is_derived(&layers, &path) => {
                tracing::warn!(path = %path.display(), "damaged: the derived tables are made anew");
                job.run(all, &[], progress)?
            }
            done => done?,
        }
    } else {
        job.run(all, &[], progress)?
    };
    Ok(report(false, done.steps, done.rows, done.layers, begun))
}

/// How the layers are made, as the lake keeps it.
fn inputs() -> String {
    format!("version {VERSION}")
}

fn report(unchanged: bool, steps: u64, rows: Rows, layers: usize, begun: Instant) -> Report {
    let Rows { transitions, conflicts, failures } = rows;
    let elapsed = begun.elapsed();
    Report { unchanged, steps, transitions, conflicts, failures, layers, elapsed }
}

fn is_derived(layers: &[(LayerId, Layer)], path: &std::path::Path) -> bool {
    layers.iter().any(|(_, layer)| layer.segments().any(|segment| segment.path == path))
}

fn rows_of<'a>(layers: impl Iterator<Item = &'a Layer>) -> Rows {
    let mut rows = Rows::default();
    for segment in layers.flat_map(Layer::segments) {
        rows.add(segment.table, segment.rows);
    }
    rows
}

/// What all attempts at a pass have in common.
struct Job<'a> {
    maintenance: &'a mut Maintenance,
    snapshot: &'a Snapshot,
    settings: &'a Settings,
    inputs: String,
    uncounted: &'a [Segment],
}

struct Done {
    steps: u64,
    rows: Rows,
    layers: usize,
}

impl Job<'_> {
    /// Counts `steps`. Of `layers`, which stay, some are taken in; all others of the lake go.
    fn run(
        &mut self,
        steps: &[Segment],
        layers: &[(LayerId, Layer)],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Done, StoreError> {
        let (settings, snapshot) = (self.settings, self.snapshot);
        let lake = self.maintenance.lake().clone();
        let scattered = pass::scatter(
            &lake,
            snapshot,
            steps,
            &snapshot.retracted_actions(),
            settings,
            progress,
        )?;
        let sizes = layers.iter().map(|(_, layer)| layer.rows()).collect::<Vec<_>>();
        let kept = kept_layers(scattered.edges, &sizes, settings);
        let (kept, taken) = layers.split_at(kept);
        let taken = taken.iter().map(|(_, layer)| layer.clone()).collect::<Vec<_>>();
        let known = snapshot.layers_by_age();
        let id = LayerId(known.last().map_or(0, |(id, _)| id.0) + 1);
        let counted = scattered.steps;
        let written = pass::write(scattered, &taken, self.maintenance, id)?;

        let stays = |id: &LayerId| kept.iter().any(|(kept, _)| kept == id);
        let gone = known.iter().filter(|(id, _)| !stays(id));
        let retire = gone.flat_map(|(_, layer)| layer.segments().cloned()).collect();
        let mut rows = rows_of(kept.iter().map(|(_, layer)| layer));
        rows.add(Table::StateTransitions, written.rows.transitions);
        rows.add(Table::Conflicts, written.rows.conflicts);
        rows.add(Table::Failures, written.rows.failures);
        let is_empty = written.rows == Rows::default();
        self.maintenance.publish(LayerChange {
            retire,
            add: written.writers,
            counted: self.uncounted.to_vec(),
            inputs: self.inputs.clone(),
            detail: match taken.len() {
                0 => format!("{counted} steps counted"),
                1 => format!("{counted} steps counted, 1 layer taken in"),
                layers => format!("{counted} steps counted, {layers} layers taken in"),
            },
        })?;
        Ok(Done { steps: counted, rows, layers: kept.len() + usize::from(!is_empty) })
    }
}

/// How many of the layers, the oldest first, stay as they are when so many new rows come.
fn kept_layers(new: u64, sizes: &[u64], settings: &Settings) -> usize {
    if new + sizes.iter().sum::<u64>() <= settings.one_layer_rows_max {
        return 0;
    }
    let mut together = new;
    for (kept, size) in sizes.iter().enumerate().rev() {
        if *size >= settings.tier.saturating_mul(together) {
            return kept + 1;
        }
        together += size;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(one_layer_rows_max: u64) -> Settings {
        Settings { one_layer_rows_max, ..Settings::default() }
    }

    #[test]
    fn small_lakes_have_one_layer() {
        assert_eq!(kept_layers(10, &[80, 10], &below(100)), 0);
        assert_eq!(kept_layers(10, &[], &below(0)), 0);
    }

    #[test]
    fn a_layer_stays_while_it_is_much_larger_than_what_comes() {
        assert_eq!(kept_layers(10, &[800, 80], &below(0)), 2);
        assert_eq!(kept_layers(10, &[800, 79], &below(0)), 1);
        assert_eq!(kept_layers(10, &[700, 79], &below(0)), 0);
        assert_eq!(kept_layers(1, &[1000, 100, 10], &below(0)), 3);
        assert_eq!(kept_layers(2, &[1000, 100, 10], &below(0)), 2);
    }

    /// Rows that are written in all, over the rows that came: what tiers are for.
    #[test]
    fn a_row_is_written_a_few_times_however_often_rows_come() {
        let (mut layers, mut written, passes) = (Vec::new(), 0, 20_000);
        for _ in 0..passes {
            let kept = kept_layers(1, &layers, &below(0));
            let size = 1 + layers.drain(kept..).sum::<u64>();
            written += size;
            layers.push(size);
            assert!(layers.len() <= 6, "{layers:?}");
        }
        assert!(written < 40 * passes, "{written}");
    }
}
