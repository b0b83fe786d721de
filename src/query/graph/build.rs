//! Builds the graph of the sealed part of a snapshot.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array as _, AsArray as _, FixedSizeBinaryArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int32Type, Int64Type};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};

use super::cancellation::{CancellationToken, Cancelled};
use super::csr::{EdgeIndex, Graph};
use super::observations::order_of;
use super::read::{each_sealed, in_shares};
use crate::lake::state_index::{Node, StateIndex, place};
use crate::lake::{Snapshot, Table};
use crate::model::StateId;

/// The most edges, or states: they are counted in 32 bits.
const COUNT_MAX: usize = u32::MAX as usize;

/// The look-ups between two checks of the token.
const CHUNK: usize = 1 << 13;

/// Some consecutive rows of `state_transitions`.
#[derive(Default)]
struct Piece {
    /// The states with outgoing edges, each with their number.
    from: Vec<(StateId, u32)>,
    actions: Vec<i32>,
    next: Vec<StateId>,
    counts: Vec<u32>,
}

/// Reads the graph of `snapshot`, without its hot benchmarks.
///
/// # Errors
///
/// Those of the store, an error for a graph that is too large, and [`Cancelled`].
pub(super) fn build(
    snapshot: &Snapshot,
    threads: NonZeroUsize,
    token: &CancellationToken,
) -> Result<Graph> {
    let retracted = snapshot.retracted_actions();
    let columns = ["state_id", "action", "next_state_id", "count"];
    let pieces = in_shares(snapshot, Table::StateTransitions, &columns, threads, |batches| {
        let mut piece = Piece::default();
        for batch in batches {
            token.check()?;
            piece.read(&batch?, &retracted);
        }
        Ok(piece)
    })?;
    let whole = Piece::join(pieces)?;
    let failures = failures(snapshot, &retracted, token)?;
    let starts = starts(snapshot, token)?;
    let new = whole.others(&failures, &starts, token)?;
    if whole.from.len() + new.len() >= COUNT_MAX {
        return Err(too_large());
    }
    let (ids, first_edge) = merged(&whole.from, &new);
    token.check()?;
    let states = StateIndex::new(ids);
    let find = |state: &StateId| states.find(state).expect("every state of an edge has a node");
    let mut failures: Vec<(Node, i32)> =
        failures.iter().map(|(state, action)| (find(state), *action)).collect();
    failures.sort_unstable();
    failures.dedup();
    let mut starts: Vec<(String, Node)> =
        starts.into_iter().map(|(name, state)| (name, find(&state))).collect();
    starts.sort_unstable();
    let mut next = Vec::with_capacity(whole.next.len());
    for some in whole.next.chunks(CHUNK) {
        token.check()?;
        next.extend(some.iter().map(find));
    }
    Ok(Graph {
        states,
        first_edge: Arc::new(first_edge),
        actions: Arc::new(whole.actions),
        next: Arc::new(next),
        counts: Arc::new(whole.counts),
        failures: Arc::new(failures),
        starts: starts.into(),
        backward: Arc::new(OnceLock::new()),
    })
}

fn too_large() -> DataFusionError {
    exec_datafusion_err!(
        "the transition graph has more than {COUNT_MAX} transitions or states, and cannot be walked in memory"
    )
}

fn ids(batch: &RecordBatch, column: &str) -> FixedSizeBinaryArray {
    batch[column].as_fixed_size_binary().clone()
}

impl Piece {
    fn read(&mut self, batch: &RecordBatch, retracted: &[i32]) {
        let (from, to) = (ids(batch, "state_id"), ids(batch, "next_state_id"));
        let actions = batch["action"].as_primitive::<Int32Type>().values();
        let counts = batch["count"].as_primitive::<Int64Type>().values();
        for row in 0..batch.num_rows() {
            if retracted.contains(&actions[row]) {
                continue;
            }
            let state = StateId::from_slice(from.value(row));
            match self.from.last_mut() {
                Some((last, edges)) if *last == state => *edges += 1,
                _ => self.from.push((state, 1)),
            }
            self.actions.push(actions[row]);
            self.next.push(StateId::from_slice(to.value(row)));
            self.counts.push(u32::try_from(counts[row]).unwrap_or(u32::MAX));
        }
    }

    /// Joins consecutive pieces.
    fn join(pieces: Vec<Self>) -> Result<Self> {
        let mut pieces = pieces.into_iter();
        let mut whole = pieces.next().unwrap_or_default();
        for mut piece in pieces {
            // The edges of one state may lie in two pieces.
            if let (Some(last), Some(first)) = (whole.from.last_mut(), piece.from.first())
                && last.0 == first.0
            {
                last.1 += first.1;
                piece.from.remove(0);
            }
            whole.from.append(&mut piece.from);
            whole.actions.append(&mut piece.actions);
            whole.next.append(&mut piece.next);
            whole.counts.append(&mut piece.counts);
        }
        if whole.next.len() >= COUNT_MAX {
            return Err(too_large());
        }
        if !whole.from.is_sorted_by(|(one, _), (next, _)| place(one) < place(next)) {
            return exec_err!(
                "`state_transitions` is not in the order of its key: run `steplake dedup --full`"
            );
        }
        Ok(whole)
    }

    /// The states without outgoing edges, in order: those that edges lead to, those with a failure,
    /// and the initial states of benchmarks.
    fn others(
        &self,
        failures: &[(StateId, i32)],
        starts: &[(String, StateId)],
        token: &CancellationToken,
    ) -> Result<Vec<StateId>, Cancelled> {
        let known = StateIndex::new(self.from.iter().map(|(state, _)| *state).collect());
        let is_new = |state: &&StateId| known.find(state).is_none();
        let few = failures.iter().map(|(state, _)| state);
        let few = few.chain(starts.iter().map(|(_, state)| state));
        let mut new: Vec<StateId> = few.filter(is_new).copied().collect();
        for some in self.next.chunks(CHUNK) {
            token.check()?;
            new.extend(some.iter().filter(is_new));
        }
        drop(known);
        new.sort_unstable_by_key(place);
        new.dedup();
        token.check()?;
        Ok(new)
    }
}

/// All ids in their order, and the first edge of each. Those of `new` have no edges.
fn merged(from: &[(StateId, u32)], new: &[StateId]) -> (Vec<StateId>, Vec<EdgeIndex>) {
    let count = from.len() + new.len();
    let (mut ids, mut first_edge) = (Vec::with_capacity(count), Vec::with_capacity(count + 1));
    let (mut from, mut new) = (from.iter().peekable(), new.iter().peekable());
    let mut edges: EdgeIndex = 0;
    first_edge.push(0);
    loop {
        let leaves = match (from.peek(), new.peek()) {
            (Some((known, _)), Some(other)) => place(known) < place(other),
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => return (ids, first_edge),
        };
        if leaves {
            let (id, own) = from.next().expect("it was seen");
            ids.push(*id);
            edges += own;
        } else {
            ids.push(*new.next().expect("it was seen"));
        }
        first_edge.push(edges);
    }
}

/// The (state, action) pairs on which the compiler failed.
fn failures(
    snapshot: &Snapshot,
    retracted: &[i32],
    token: &CancellationToken,
) -> Result<Vec<(StateId, i32)>> {
    let columns = ["state_id", "action"];
    let pieces = in_shares(snapshot, Table::Failures, &columns, NonZeroUsize::MIN, |batches| {
        let mut failures = Vec::new();
        for batch in batches {
            token.check()?;
            let batch = batch?;
            let states = ids(&batch, "state_id");
            // A failed start has no action.
            let actions = batch["action"].as_primitive::<Int32Type>().iter().enumerate();
            let actions = actions.filter_map(|(row, action)| Some((row, action?)));
            let kept = actions.filter(|(_, action)| !retracted.contains(action));
            let pair = |(row, action)| (StateId::from_slice(states.value(row)), action);
            failures.extend(kept.map(pair));
        }
        Ok(failures)
    })?;
    Ok(pieces.concat())
}

/// The sealed benchmarks with their initial states.
fn starts(snapshot: &Snapshot, token: &CancellationToken) -> Result<Vec<(String, StateId)>> {
    let mut starts = Vec::new();
    each_sealed(snapshot, Table::Benchmarks, &["benchmark_uri", "initial_state_id"], |batch| {
        token.check()?;
        starts.extend(starts_of(&batch));
        Ok(())
    })?;
    Ok(starts)
}

/// The benchmarks that are not sealed, with their initial states.
pub(super) fn hot_starts(snapshot: &Snapshot) -> Vec<(String, StateId)> {
    snapshot.hot(Table::Benchmarks).iter().flat_map(starts_of).collect()
}

fn starts_of(batch: &RecordBatch) -> Vec<(String, StateId)> {
    let (names, states) =
        (batch["benchmark_uri"].as_string::<i32>(), ids(batch, "initial_state_id"));
    let row = |row| (names.value(row).to_owned(), StateId::from_slice(states.value(row)));
    (0..batch.num_rows()).map(row).collect()
}

/// The rewards of one space for each edge; NaN if there is none.
///
/// # Errors
///
/// Those of the store, and [`Cancelled`].
pub(super) fn rewards(
    snapshot: &Snapshot,
    column: &str,
    threads: NonZeroUsize,
    token: &CancellationToken,
) -> Result<Vec<f64>> {
    let retracted = snapshot.retracted_actions();
    let columns = ["action", column];
    let pieces = in_shares(snapshot, Table::StateTransitions, &columns, threads, |batches| {
        let mut rewards = Vec::new();
        for batch in batches {
            token.check()?;
            let batch = batch?;
            let actions = batch["action"].as_primitive::<Int32Type>().values();
            let own = batch[column].as_primitive::<Float64Type>();
            // Failed starts, which have no action, are rows of `failures` alone.
            let is_action = |&row: &usize| actions[row] >= 0 && !retracted.contains(&actions[row]);
            let rows = (0..batch.num_rows()).filter(is_action);
            rewards
                .extend(rows.map(|row| if own.is_valid(row) { own.value(row) } else { f64::NAN }));
        }
        Ok(rewards)
    })?;
    // Each piece is freed as soon as it is copied.
    let mut whole = Vec::with_capacity(pieces.iter().map(Vec::len).sum());
    for mut piece in pieces {
        whole.append(&mut piece);
    }
    Ok(whole)
}

/// The sealed values of one observation space for each node.
///
/// # Errors
///
/// Those of the store, and [`Cancelled`].
pub(super) fn observations(
    snapshot: &Snapshot,
    graph: &Graph,
    space: &str,
    token: &CancellationToken,
) -> Result<Vec<Option<i64>>> {
    let mut values = vec![None; graph.nodes()];
    each_sealed(snapshot, Table::Observations, &["state_id", space], |batch| {
        token.check()?;
        for (node, value) in observed(&batch, graph, space) {
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
/// Those of `take` and of the store; [`Cancelled`].
pub(super) fn more_observations(
    snapshot: &Snapshot,
    graph: &Graph,
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
    each_sealed(snapshot, Table::Observations, &["state_id", space], |batch| {
        token.check()?;
        let found = observed(&batch, graph, space);
        let mut found = found.filter(|&(node, _)| missing.contains(&(node as usize)));
        found.try_for_each(|(node, value)| take(node, value))
    })
}

/// The values of a batch with their nodes.
fn observed<'a>(
    batch: &RecordBatch,
    graph: &'a Graph,
    space: &str,
) -> impl Iterator<Item = (Node, i64)> + 'a {
    let states = ids(batch, "state_id");
    let known = |number: f64| (!number.is_nan()).then(|| order_of(number));
    let floats = batch[space].as_primitive_opt::<Float64Type>();
    let values = floats.map(|floats| floats.unary_opt(known));
    let values = values.unwrap_or_else(|| batch[space].as_primitive::<Int64Type>().clone());
    (0..batch.num_rows()).filter_map(move |row| {
        let node = graph.find(&StateId::from_slice(states.value(row)))?;
        values.is_valid(row).then(|| (node, values.value(row)))
    })
}
