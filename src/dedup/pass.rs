//! One pass: new steps and some layers become one layer.

use std::sync::mpsc::Sender;

use super::failed_episodes::FailedEpisodes;
use super::new_edges::NewEdges;
use super::options::DedupOptions;
use super::plan::Plan;
use super::scatter::{Partition, Scatter};
use super::steps::Steps;
use crate::lake::{Lake, LakeError, LayerId, Segment, Snapshot, Table};
use crate::layers::{
    EdgeSource, Encoder, KeyRange, LayerEdges, LayerWriter, Merge, Ranges, edge_words, key_of_place,
};
use crate::model::ActionIndex;
use crate::upkeep::Maintenance;

/// The new edges, scattered by the state that they leave.
pub(super) struct Scattered<'a> {
    lake: &'a Lake,
    snapshot: &'a Snapshot,
    plan: Plan,
    failed: FailedEpisodes,
    partitions: Vec<Partition>,
    /// Number of steps with an action.
    pub(super) steps: u64,
    /// Number of edges. Equal edges may count several times.
    pub(super) edges: u64,
}

/// Reads steps and scatters their edges. Calls `progress` with the rows read and the total.
pub(super) fn scatter<'a>(
    lake: &'a Lake,
    snapshot: &'a Snapshot,
    segments: &[Segment],
    retracted: &[ActionIndex],
    options: &DedupOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Scattered<'a>, LakeError> {
    let total = segments.iter().map(|segment| segment.rows).sum();
    let plan = Plan::new(total, edge_words(snapshot.identity().rewards.len()), options);
    let failed = FailedEpisodes::read(snapshot, segments)?;
    let steps = Steps::new(snapshot, segments, retracted)?;
    let work = |read: &Sender<u64>| {
        let mut scatter = Scatter::new(lake, plan);
        let count = steps.scatter(&mut scatter, read)?;
        Ok((scatter, count))
    };
    let mut done = 0;
    let results = in_threads(vec![(); plan.threads], |(), read| work(read), &mut |rows| {
        done += rows;
        progress(done, total);
    })?;
    let (scatters, counts): (Vec<_>, Vec<u64>) = results.into_iter().unzip();
    let partitions = Scatter::gather(scatters, &plan);
    let edges = partitions.iter().map(|partition| partition.edges).sum();
    let steps = counts.into_iter().sum();
    Ok(Scattered { lake, snapshot, plan, failed, partitions, steps, edges })
}

/// Writes the new edges and those of `layers` as one layer, with one writer per thread. The writers
/// come in the order of their keys; what they wrote is not part of the lake yet.
pub(super) fn write(
    scattered: Scattered<'_>,
    layers: &[(LayerId, Vec<&Segment>)],
    maintenance: &Maintenance,
    id: LayerId,
) -> Result<Vec<LayerWriter>, LakeError> {
    let Scattered { lake, snapshot, plan, failed, partitions, .. } = scattered;
    let ranges = ranges(partitions, &plan).into_iter();
    let pieces = ranges.map(|(partitions, keys)| (partitions, keys, maintenance.layer_writer(id)));
    let work = |(partitions, keys, mut writer): (Vec<Partition>, KeyRange, LayerWriter)| {
        let mut sources: Vec<Box<dyn EdgeSource + '_>> = Vec::new();
        sources.push(Box::new(NewEdges::open(lake, &plan, &failed, partitions)?));
        let keys = Ranges::new(&[keys]);
        for (_, layer) in layers {
            sources.push(Box::new(LayerEdges::of(snapshot, layer, &keys, &Table::ALL)?));
        }
        let mut encoder = Encoder::of(snapshot);
        let mut merge = Merge::new(sources);
        while let Some((table, batch)) = merge.next_batch(&mut encoder)? {
            writer.write(table, &batch)?;
        }
        Ok(writer)
    };
    in_threads(pieces.collect(), |piece, _| work(piece), &mut |_| ())
}

/// Divides the partitions into ranges with about equal numbers of edges, one per thread.
fn ranges(partitions: Vec<Partition>, plan: &Plan) -> Vec<(Vec<Partition>, KeyRange)> {
    let all = partitions.iter().map(|partition| partition.edges).sum::<u64>();
    let share = all / plan.threads as u64 + 1;
    let mut ranges: Vec<(Vec<Partition>, KeyRange)> = Vec::new();
    let (mut open, mut edges, mut first) = (Vec::new(), 0, 0);
    let count = partitions.len();
    for (place, partition) in partitions.into_iter().enumerate() {
        edges += partition.edges;
        open.push(partition);
        let is_last = place + 1 == count;
        if is_last || edges >= share && ranges.len() + 1 < plan.threads {
            let (low, high) = (plan.first_place(first), plan.last_place(place));
            ranges.push((std::mem::take(&mut open), key_of_place(low)..=key_of_place(high)));
            (edges, first) = (0, place + 1);
        }
    }
    ranges
}

/// Runs each piece of work in a thread of its own, and passes what the threads report to `hear`.
fn in_threads<W: Send, T: Send>(
    pieces: Vec<W>,
    work: impl Fn(W, &Sender<u64>) -> Result<T, LakeError> + Sync,
    hear: &mut dyn FnMut(u64),
) -> Result<Vec<T>, LakeError> {
    let (say, heard) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let work = &work;
        let begin = |piece| {
            let say = say.clone();
            scope.spawn(move || work(piece, &say))
        };
        let threads = pieces.into_iter().map(begin).collect::<Vec<_>>();
        drop(say);
        heard.iter().for_each(hear);
        let done = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        done.collect()
    })
}
