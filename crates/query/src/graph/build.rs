//! Reads the graph of the sealed part of a snapshot, and the values of its nodes.

use std::collections::HashSet;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use super::cancellation::CancellationToken;
use super::csr::QueryGraph;
use super::observations::order_of;
use crate::errors::error::stored;
use steplake_lake::graph::{GraphReader, Node};
use steplake_lake::{LakeError, ScanColumns, Snapshot, Table};
use steplake_model::StateId;

/// Reads the graph of `snapshot`, without its hot benchmarks.
///
/// # Errors
///
/// Those of the store, an error for a graph that is too large, and
/// [`Cancelled`](super::cancellation::Cancelled).
pub(super) fn build(
    reader: &GraphReader<'_>,
    snapshot: &Snapshot,
    token: &CancellationToken,
) -> Result<QueryGraph> {
    let starts = starts(snapshot, token)?;
    let graph = reader.graph(starts.iter().map(|(_, state)| *state)).map_err(refused)?;
    Ok(QueryGraph::from(graph).with_starts(starts))
}

fn refused(error: LakeError) -> DataFusionError {
    match error {
        LakeError::TooLarge { most } => exec_datafusion_err!(
            "the transition graph has more than {most} transitions or states, and cannot be walked in memory"
        ),
        LakeError::Unordered { table } => {
            exec_datafusion_err!("`{table}` is not in the order of its key: a full dedup sorts it")
        }
        other => stored(other),
    }
}

/// The sealed benchmarks with their initial states.
fn starts(snapshot: &Snapshot, token: &CancellationToken) -> Result<Vec<(String, StateId)>> {
    let mut starts = Vec::new();
    each_sealed(
        snapshot,
        Table::Benchmarks,
        &["benchmark_uri", "initial_state_id"],
        token,
        |batch| {
            starts.extend(starts_of(batch));
            Ok(())
        },
    )?;
    Ok(starts)
}

/// The benchmarks that are not sealed, with their initial states.
pub(super) fn hot_starts(snapshot: &Snapshot) -> Vec<(String, StateId)> {
    snapshot.hot(Table::Benchmarks).iter().flat_map(starts_of).collect()
}

fn starts_of(batch: &RecordBatch) -> impl Iterator<Item = (String, StateId)> {
    let (uris, states) = (
        batch["benchmark_uri"].as_string::<i32>(),
        batch["initial_state_id"].as_fixed_size_binary(),
    );
    let start = |row| (uris.value(row).to_owned(), StateId::from_slice(states.value(row)));
    (0..batch.num_rows()).map(start)
}

/// The sealed values of one observation space for each node.
///
/// # Errors
///
/// Those of the store, and [`Cancelled`](super::cancellation::Cancelled).
pub(super) fn observations(
    snapshot: &Snapshot,
    graph: &QueryGraph,
    space: &str,
    token: &CancellationToken,
) -> Result<Vec<Option<i64>>> {
    let mut values = vec![None; graph.nodes()];
    each_sealed(snapshot, Table::Observations, &["state_id", space], token, |batch| {
        for (node, value) in observed(batch, graph, space) {
            values[node as usize] = Some(value);
        }
        Ok(())
    })?;
    Ok(values)
}

/// The values that `sealed` lacks: hot values, and sealed values of nodes that were added later.
/// Hot rows come first: a benchmark's initial state is recorded with its observations.
///
/// # Errors
///
/// Those of `take` and of the store; [`Cancelled`](super::cancellation::Cancelled).
pub(super) fn more_observations(
    snapshot: &Snapshot,
    graph: &QueryGraph,
    sealed: &[Option<i64>],
    space: &str,
    token: &CancellationToken,
    take: &mut dyn FnMut(Node, i64) -> Result<()>,
) -> Result<()> {
    let mut missing: HashSet<usize> = (sealed.len()..graph.nodes()).collect();
    for batch in snapshot.hot(Table::Observations) {
        token.check()?;
        for (node, value) in observed(batch, graph, space) {
            let at = node as usize;
            if missing.remove(&at) || sealed.get(at) == Some(&None) {
                take(node, value)?;
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    each_sealed(snapshot, Table::Observations, &["state_id", space], token, |batch| {
        let found = observed(batch, graph, space);
        let mut found = found.filter(|&(node, _)| missing.contains(&(node as usize)));
        found.try_for_each(|(node, value)| take(node, value))
    })
}

/// The values of a batch with their nodes.
fn observed<'a>(
    batch: &'a RecordBatch,
    graph: &'a QueryGraph,
    space: &str,
) -> impl Iterator<Item = (Node, i64)> + use<'a> {
    let states = batch["state_id"].as_fixed_size_binary();
    let known = |number: f64| (!number.is_nan()).then(|| order_of(number));
    let floats = batch[space].as_primitive_opt::<Float64Type>();
    let values = floats.map(|floats| floats.unary_opt(known));
    let values = values.unwrap_or_else(|| batch[space].as_primitive::<Int64Type>().clone());
    (0..batch.num_rows()).filter_map(move |row| {
        let node = graph.find(&StateId::from_slice(states.value(row)))?;
        values.is_valid(row).then(|| (node, values.value(row)))
    })
}

/// Calls `take` with the sealed batches of a table that is not derived, one after another.
fn each_sealed(
    snapshot: &Snapshot,
    table: Table,
    columns: &[&str],
    token: &CancellationToken,
    mut take: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    for segment in snapshot.segments(table) {
        for batch in snapshot.scan_segment(segment, ScanColumns::Named(columns)) {
            token.check()?;
            take(&batch.map_err(stored)?)?;
        }
    }
    Ok(())
}
