//! One pass: new steps and some layers become one layer.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use roaring::RoaringBitmap;

use super::failed_episodes::FailedEpisodes;
use super::new_edges::NewEdges;
use super::options::DedupOptions;
use super::plan::Plan;
use super::scatter::{Partition, Scatter};
use super::steps::StepSource;
use crate::kernel::progress::{Thread, demand, in_threads};
use crate::kernel::{Lake, LakeError, LayerId, Segment, Snapshot, Table};
use crate::layers::{
    Comparison, Differences, EdgeSource, Encoder, KeyRange, LayerEdges, LayerWriter, Merge,
    MovedRows, OlderLayer, edge_words, key_of_place,
};
use crate::upkeep::Maintenance;
use steplake_model::ActionIndex;

/// Edges after which the caller is asked whether to go on.
const ASK_EDGES: u64 = 1 << 14;

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

/// Reads steps and scatters their edges. Calls `progress` with the rows read.
pub(super) fn scatter<'a>(
    lake: &'a Lake,
    snapshot: &'a Snapshot,
    segments: &[Segment],
    retracted: &[ActionIndex],
    options: &DedupOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Scattered<'a>, LakeError> {
    let total = segments.iter().map(|segment| segment.rows).sum();
    let plan = Plan::new(total, edge_words(snapshot.identity().rewards.len()), options);
    let mut go_on = || demand(progress(0));
    let failed = FailedEpisodes::read(snapshot, segments, &mut go_on)?;
    let steps = StepSource::new(snapshot, segments, retracted, &failed, &mut go_on)?;
    let work = |(), thread: &Thread<'_>| {
        let mut scatter = Scatter::new(lake, plan);
        let count = steps.read(&mut scatter, thread)?;
        Ok::<_, LakeError>((scatter, count))
    };
    let mut done = 0;
    let results = in_threads(vec![(); plan.threads], work, &mut |rows| {
        done += rows;
        progress(done)
    })?;
    let (scatters, counts): (Vec<_>, Vec<u64>) = results.into_iter().unzip();
    let partitions = Scatter::gather(scatters, &plan);
    let edges = partitions.iter().map(|partition| partition.edges).sum();
    let steps = counts.into_iter().sum();
    Ok(Scattered { lake, snapshot, plan, failed, partitions, steps, edges })
}

/// Writes the new edges and those of the layers `taken` as one layer, with one writer per thread.
/// Each (state, action) of a new edge moves there from the layers `kept`. The writers come in the
/// order of their keys; what they wrote is durable, and not part of the lake yet. Also returns the
/// rows that moved. Asks `go_on` meanwhile.
pub(super) fn write(
    scattered: Scattered<'_>,
    kept: &[(LayerId, Vec<&Segment>)],
    taken: &[(LayerId, Vec<&Segment>)],
    maintenance: &Maintenance,
    id: LayerId,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<(Vec<LayerWriter>, BTreeMap<PathBuf, RoaringBitmap>), LakeError> {
    let Scattered { lake, snapshot, plan, failed, partitions, .. } = scattered;
    let ranges = ranges(partitions, &plan).into_iter();
    let pieces = ranges.map(|(partitions, keys)| (partitions, keys, maintenance.layer_writer(id)));
    let moved = MovedRows::default();
    let work = |piece: (Vec<Partition>, KeyRange, LayerWriter), thread: &Thread<'_>| {
        let (partitions, keys, mut writer) = piece;
        let mut sources: Vec<Box<dyn EdgeSource + '_>> = Vec::new();
        let older = kept.iter().map(|(_, layer)| OlderLayer::new(snapshot, layer, &moved));
        let older = older.collect();
        sources.push(Box::new(NewEdges::open(lake, &plan, &failed, thread, partitions, older)?));
        for (_, layer) in taken {
            sources.push(Box::new(LayerEdges::of(snapshot, layer, &keys, &Table::ALL)?));
        }
        let mut encoder = Encoder::of(snapshot);
        let mut merge = Merge::new(sources);
        while let Some((table, batch)) = merge.next_batch(&mut encoder)? {
            thread.ask()?;
            writer.write(table, &batch)?;
        }
        writer.sync()?;
        Ok(writer)
    };
    let writers = in_threads(pieces, work, &mut |_| go_on())?;
    Ok((writers, moved.into_inner()))
}

/// Compares the edges with the derived tables of these layers, one thread for each range of
/// partitions. Asks `go_on` meanwhile.
pub(super) fn compare(
    scattered: Scattered<'_>,
    layers: &[Vec<&Segment>],
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<Differences, LakeError> {
    let Scattered { lake, snapshot, plan, failed, partitions, .. } = scattered;
    let work = |(partitions, keys): (Vec<Partition>, KeyRange), thread: &Thread<'_>| {
        let mut edges = NewEdges::open(lake, &plan, &failed, thread, partitions, Vec::new())?;
        let mut comparison = Comparison::of(snapshot, layers, &keys)?;
        let mut compared = 0_u64;
        while let Some(row) = edges.row() {
            comparison.push(row, edges.text())?;
            edges.advance()?;
            compared += 1;
            if compared.is_multiple_of(ASK_EDGES) {
                thread.ask()?;
            }
        }
        comparison.end()
    };
    let found = in_threads(ranges(partitions, &plan), work, &mut |_| go_on())?;
    let mut all = Differences::default();
    for differences in found {
        all.extend(differences);
    }
    Ok(all)
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
