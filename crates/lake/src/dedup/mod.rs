//! Turns steps into transitions: every (state, action) that was taken, once.
//!
//! A sealed step is an *edge*: the state before it, its action, and the state after it, or none if
//! the compiler failed. Equal edges are counted. `layers::rule` states which rows of
//! `state_transitions`, `conflicts` and `failures` the edges become.
//!
//! The result depends only on the sealed steps: not on how they were sealed, nor on how often dedup
//! ran in between. Only sealed steps are counted, so a pass can run beside a writer.
//!
//! # What a pass costs
//!
//! A pass counts the steps that no layer counts yet, and writes them as a new layer. It also takes
//! in existing layers, the newest first, while the next one has less than eight times the rows
//! collected so far. So a step is rewritten only a few times, however large the lake grows, and
//! there are only a few layers. While all rows together are few, there is one layer. All layers
//! become one when the newer ones have more than a tenth of the rows of the oldest.
//!
//! Of the layers that stay, a pass reads the keys, and the pages with a (state, action) of a new
//! step: its rows move into the new layer, and are deleted in the older one. So each (state,
//! action) has its rows in one layer, and readers need not merge layers.
//!
//! # How
//!
//! Threads read parts of the segments, and scatter the edges into partitions by the first bits of
//! the state before. What does not fit in memory goes to temporary files. Then each thread takes a
//! range of partitions, sorts them one by one, merges them with the layers that are taken in, and
//! writes the range: all states of a partition are smaller than those of the next.

mod compare;
mod counted;
mod failed_episodes;
mod new_edges;
mod options;
mod pass;
mod plan;
mod scatter;
mod sorted;
mod steps;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub use compare::{Compared, compare};
pub use counted::take_counted;
pub use options::DedupOptions;

use crate::kernel::progress::demand;
use crate::kernel::{DEDUP_INPUTS, Lake, LakeError, LayerId, OnProgress, Segment, Snapshot, Table};
use crate::layers::LayerChange;
use crate::upkeep::Maintenance;

/// The result of a dedup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DedupReport {
    /// Whether nothing was written, because there was nothing new.
    pub unchanged: bool,
    /// Steps with an action that this pass counted.
    pub steps: u64,
    /// Rows of `state_transitions`.
    pub transitions: u64,
    /// Rows of `conflicts`.
    pub conflicts: u64,
    /// Rows of `failures`.
    pub failures: u64,
    /// Number of layers after the dedup.
    pub layers: usize,
    /// Elapsed time.
    pub elapsed: Duration,
}

/// Seals what is closed, for a dedup to count. If another process is recording, that process
/// decides when to seal: then nothing is sealed here, and the result is the number of steps of
/// closed episodes that the dedup will not count.
///
/// # Errors
///
/// [`LakeError::DiskFull`] and other disk errors.
pub fn seal_closed(lake: &Lake) -> Result<u64, LakeError> {
    match lake.writer() {
        Ok(mut writer) => writer.seal().map(|_| 0),
        Err(LakeError::Busy { .. }) => Ok(lake.snapshot()?.closed_hot_steps()),
        Err(error) => Err(error),
    }
}

/// Counts the steps that are sealed and not counted yet, in one transaction. Calls `progress` with
/// the rows read and the total, also while it sorts and writes what it read; a break stops it.
///
/// Everything read from a file is checked against its digests. If a derived file is missing or
/// damaged, all are made anew. If nothing is new, nothing is written.
///
/// # Errors
///
/// [`LakeError::Corrupt`] with the damaged file, [`LakeError::DiskFull`] and other disk errors,
/// [`LakeError::Interrupted`]. The tables are then unchanged.
pub fn dedup(
    maintenance: &mut Maintenance,
    options: DedupOptions,
    progress: &mut OnProgress<'_>,
) -> Result<DedupReport, LakeError> {
    let begun = Instant::now();
    let snapshot = maintenance.lake().sealed()?;
    let layers = snapshot.layers().into_iter().collect::<Vec<_>>();
    let of_layers = || layers.iter().flat_map(|(_, layer)| layer.iter().copied());
    let are_there = of_layers().all(|segment| segment.open().is_ok());
    let stands = snapshot.dedup_inputs() == Some(DEDUP_INPUTS) && are_there;
    let all = snapshot.segments(Table::Steps);
    let uncounted = snapshot.uncounted().cloned().collect::<Vec<_>>();
    let is_known = stands && !options.full;
    if is_known && uncounted.is_empty() {
        let report =
            DedupReport { unchanged: true, layers: layers.len(), ..DedupReport::of(of_layers()) };
        return Ok(DedupReport { elapsed: begun.elapsed(), ..report });
    }
    let mut count = |steps: &[Segment], layers: &[(LayerId, Vec<&Segment>)]| {
        count(maintenance, &snapshot, &options, steps, layers, progress)
    };
    let counted = if is_known { count(&uncounted, &layers) } else { count(all, &[]) };
    let counted = match counted {
        Err(LakeError::Corrupt { path, .. })
            if is_known && of_layers().any(|segment| segment.path == path) =>
        {
            tracing::warn!(path = %path.display(), "damaged: the derived tables are made anew");
            count(all, &[])
        }
        counted => counted,
    };
    Ok(DedupReport { elapsed: begun.elapsed(), ..counted? })
}

impl DedupReport {
    /// Reports the rows of segments of derived tables.
    fn of<'a>(segments: impl Iterator<Item = &'a Segment>) -> Self {
        let mut report = Self::default();
        for segment in segments {
            match segment.table {
                Table::StateTransitions => report.transitions += segment.live_rows(),
                Table::Conflicts => report.conflicts += segment.live_rows(),
                _ => report.failures += segment.live_rows(),
            }
        }
        report
    }
}

/// Counts `steps`. Takes in some of `layers`, keeps the others, and retires all other layers of the
/// lake. Afterwards no step is uncounted.
fn count(
    maintenance: &mut Maintenance,
    snapshot: &Snapshot,
    options: &DedupOptions,
    steps: &[Segment],
    layers: &[(LayerId, Vec<&Segment>)],
    progress: &mut OnProgress<'_>,
) -> Result<DedupReport, LakeError> {
    let lake = maintenance.lake().clone();
    let retracted = snapshot.retracted_actions();
    let total = steps.iter().map(|segment| segment.rows).sum();
    let mut at = |done| progress(done, total);
    let scattered = pass::scatter(&lake, snapshot, steps, &retracted, options, &mut at)?;
    let rows = |layer: &[&Segment]| layer.iter().map(|segment| segment.live_rows()).sum::<u64>();
    let sizes = layers.iter().map(|(_, layer)| rows(layer)).collect::<Vec<_>>();
    let (kept, taken) = layers.split_at(kept_layers(scattered.edges, &sizes, options));
    let known = snapshot.layers();
    let id = LayerId(known.last_key_value().map_or(0, |(id, _)| id.0) + 1);
    let counted = scattered.steps;
    let mut go_on = || at(total);
    let (add, moved) = pass::write(scattered, kept, taken, maintenance, id, &mut go_on)?;
    demand(go_on())?;

    let gone = known.iter().filter(|(id, _)| !kept.iter().any(|(kept, _)| kept == *id));
    let of_kept = || kept.iter().flat_map(|(_, layer)| layer.iter().copied());
    let delete = |segment: &Segment| Some((segment.clone(), moved.get(&segment.path)?.clone()));
    let (_, added) = maintenance.publish(LayerChange {
        retire: gone.flat_map(|(_, layer)| layer.iter().copied().cloned()).collect(),
        add,
        delete: of_kept().filter_map(delete).collect(),
        counted: snapshot.uncounted().cloned().collect(),
        detail: match taken.len() {
            0 => format!("{counted} steps counted"),
            1 => format!("{counted} steps counted, 1 layer taken in"),
            layers => format!("{counted} steps counted, {layers} layers taken in"),
        },
    })?;
    // Nothing is read here: the change is made, whatever happens to a reading.
    let stays = of_kept().filter(|segment| !moved.contains_key(&segment.path));
    let segments = stays.chain(&added).collect::<Vec<_>>();
    let layers = segments.iter().filter(|segment| segment.rows > 0).map(|segment| segment.layer);
    let layers = layers.collect::<BTreeSet<_>>().len();
    Ok(DedupReport { steps: counted, layers, ..DedupReport::of(segments.into_iter()) })
}

/// Returns how many of the layers, counted from the oldest, stay unchanged when `new` rows come.
fn kept_layers(new: u64, sizes: &[u64], options: &DedupOptions) -> usize {
    if new + sizes.iter().sum::<u64>() <= options.one_layer_rows_max {
        return 0;
    }
    let mut together = new;
    for (kept, size) in sizes.iter().enumerate().rev() {
        if *size >= options.tier.saturating_mul(together) {
            let lag = new + sizes[1..].iter().sum::<u64>();
            return if lag.saturating_mul(options.lag) > sizes[0] { 0 } else { kept + 1 };
        }
        together += size;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn below(one_layer_rows_max: u64) -> DedupOptions {
        DedupOptions { one_layer_rows_max, ..DedupOptions::default() }
    }

    #[test]
    fn small_lakes_have_one_layer() {
        assert_eq!(kept_layers(10, &[80, 10], &below(100)), 0);
        assert_eq!(kept_layers(10, &[], &below(0)), 0);
    }

    #[test]
    fn a_layer_stays_while_it_is_much_larger_than_what_comes() {
        assert_eq!(kept_layers(10, &[900, 80], &below(0)), 2);
        assert_eq!(kept_layers(10, &[900, 79], &below(0)), 1);
        assert_eq!(kept_layers(10, &[700, 79], &below(0)), 0);
        assert_eq!(kept_layers(1, &[2000, 100, 10], &below(0)), 3);
        assert_eq!(kept_layers(2, &[2000, 100, 10], &below(0)), 2);
    }

    #[test]
    fn the_oldest_layer_lags_by_a_tenth_at_most() {
        assert_eq!(kept_layers(10, &[1000, 90], &below(0)), 2);
        assert_eq!(kept_layers(10, &[1000, 91], &below(0)), 0);
        assert_eq!(kept_layers(101, &[1000], &below(0)), 0);
    }

    /// Bounds the rows written in all per row that comes: this is what tiers are for.
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
