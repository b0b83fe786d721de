//! Builds the transition graph of a snapshot.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;

use arrow::array::Array as _;

use super::graph::{FailureEntry, StateRow, TransitionGraph};
use super::shares::in_shares;
use crate::lake::decode::{EdgeColumns, NO_ACTION, state_id};
use crate::lake::state_index::{StateIndex, place};
use crate::lake::{Batches, LakeError, Snapshot, Table};
use crate::model::{ActionIndex, Failure, FailureKind, StateId};
use crate::replay::stored_state::ReplayError;

/// The most transitions, or states: they are counted in 32 bits.
const COUNT_MAX: usize = u32::MAX as usize;

/// Some consecutive rows of `state_transitions`.
#[derive(Default)]
struct Piece {
    /// The states with transitions, each with their number.
    from: Vec<(StateId, u32)>,
    actions: Vec<u32>,
    next: Vec<StateId>,
    counts: Vec<u32>,
}

/// A row of `failures`. That of a start has [`NO_ACTION`].
struct FailureRow {
    state: StateId,
    action: u32,
    count: u32,
    failure: Failure,
}

/// Reads the graph of a snapshot. `starts` are the first states of benchmarks. Also returns the
/// states on which the compiler failed in a start, whether or not it did so in others.
///
/// # Errors
///
/// [`LakeError::NotDerived`], [`LakeError::Corrupt`] and [`ReplayError::TooLarge`].
pub(super) fn build(
    snapshot: &Snapshot,
    starts: &[StateId],
    threads: NonZeroUsize,
) -> Result<(TransitionGraph, HashSet<StateId>), ReplayError> {
    let retracted = retracted(snapshot);
    let pieces = in_shares(snapshot, Table::StateTransitions, threads, |batches| {
        Piece::read(batches, &retracted)
    })?;
    let whole = Piece::join(pieces);
    let rows =
        in_shares(snapshot, Table::Failures, threads, |batches| failures(batches, &retracted))?;
    let of_start = |row: &FailureRow| row.action == NO_ACTION.0;
    let (failed, rows): (Vec<_>, Vec<_>) = rows.into_iter().flatten().partition(of_start);
    let others = whole.others(rows.iter().map(|row| row.state).chain(starts.iter().copied()));
    if whole.next.len() >= COUNT_MAX || whole.from.len() + others.len() >= COUNT_MAX {
        return Err(ReplayError::TooLarge { most: COUNT_MAX });
    }
    let (ids, first) = merged(&whole.from, &others);
    let states = StateIndex::new(ids);
    let find = |state: &StateId| states.find(state).expect("every state of an edge has a row");
    let next = whole.next.iter().map(find).collect();
    let (texts, failures) = entries(rows, find);
    let (actions, counts) = (whole.actions, whole.counts);
    let graph = TransitionGraph { states, first, actions, next, counts, ..Default::default() };
    let failed = failed.into_iter().map(|row| row.state).collect();
    Ok((with_failures(graph, texts, failures), failed))
}

/// The indices of the retracted actions.
pub(super) fn retracted(snapshot: &Snapshot) -> Vec<ActionIndex> {
    let numbers = snapshot.retracted_actions().into_iter();
    numbers.map(|number| ActionIndex(number.cast_unsigned())).collect()
}

/// A count as it is kept.
fn small(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Piece {
    fn read(batches: Batches<'_>, retracted: &[ActionIndex]) -> Result<Self, LakeError> {
        let mut piece = Self::default();
        for batch in batches {
            let columns = EdgeColumns::of(&batch?, Table::StateTransitions);
            let led = columns.led.as_ref().expect("transitions led to states");
            for row in 0..columns.rows() {
                let action = columns.action(row);
                if retracted.contains(&action) {
                    continue;
                }
                let state = state_id(&columns.states, row);
                match piece.from.last_mut() {
                    Some((last, edges)) if *last == state => *edges += 1,
                    _ => piece.from.push((state, 1)),
                }
                piece.actions.push(action.0);
                piece.next.push(state_id(&led.states, row));
                piece.counts.push(small(columns.counts.value(row)));
            }
        }
        Ok(piece)
    }

    /// Joins consecutive pieces.
    fn join(pieces: Vec<Self>) -> Self {
        let mut pieces = pieces.into_iter();
        let mut whole = pieces.next().unwrap_or_default();
        for mut piece in pieces {
            // The transitions of one state may lie in two pieces.
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
        debug_assert!(whole.from.is_sorted_by(|(one, _), (next, _)| place(one) < place(next)));
        whole
    }

    /// The states without transitions, in order: those of `few`, and those that transitions lead
    /// to.
    fn others(&self, few: impl Iterator<Item = StateId>) -> Vec<StateId> {
        let known = StateIndex::new(self.from.iter().map(|(state, _)| *state).collect());
        let all = few.chain(self.next.iter().copied());
        let mut new: Vec<StateId> = all.filter(|state| known.find(state).is_none()).collect();
        drop(known);
        new.sort_unstable_by_key(place);
        new.dedup();
        new
    }
}

/// All ids in their order, and the first transition of each. Those of `new` have none.
fn merged(from: &[(StateId, u32)], new: &[StateId]) -> (Vec<StateId>, Vec<u32>) {
    let count = from.len() + new.len();
    let (mut ids, mut first) = (Vec::with_capacity(count), Vec::with_capacity(count + 1));
    let (mut new, mut sum) = (new.iter().copied().peekable(), 0);
    first.push(0);
    for &(state, own) in from {
        while let Some(other) = new.next_if(|other| place(other) < place(&state)) {
            ids.push(other);
            first.push(sum);
        }
        ids.push(state);
        sum += own;
        first.push(sum);
    }
    for other in new {
        ids.push(other);
        first.push(sum);
    }
    (ids, first)
}

fn failures(batches: Batches<'_>, retracted: &[ActionIndex]) -> Result<Vec<FailureRow>, LakeError> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = EdgeColumns::of(&batch?, Table::Failures);
        let (kinds, details) = columns.failed.as_ref().expect("failures say how");
        for row in 0..columns.rows() {
            let action = columns.action(row);
            if retracted.contains(&action) {
                continue;
            }
            // A kind of a later version is at least no success.
            let kind = kinds.value(row).parse().unwrap_or(FailureKind::Crash);
            let detail = if details.is_valid(row) { details.value(row) } else { "" };
            rows.push(FailureRow {
                state: state_id(&columns.states, row),
                action: action.0,
                count: small(columns.counts.value(row)),
                failure: Failure { kind, detail: detail.to_owned() },
            });
        }
    }
    Ok(rows)
}

/// Failures as they are kept, sorted, and the distinct descriptions.
fn entries(
    rows: Vec<FailureRow>,
    find: impl Fn(&StateId) -> u32,
) -> (Vec<Failure>, Vec<FailureEntry>) {
    let (mut texts, mut places) = (Vec::new(), HashMap::new());
    let entry = |row: FailureRow| {
        let key = (row.failure.kind, row.failure.detail.clone());
        let text = *places.entry(key).or_insert_with(|| {
            texts.push(row.failure);
            texts.len() - 1
        });
        let text = u32::try_from(text).expect("there are fewer texts than failures");
        FailureEntry { from: find(&row.state), action: row.action, count: row.count, text }
    };
    let mut entries: Vec<FailureEntry> = rows.into_iter().map(entry).collect();
    entries.sort_unstable_by_key(FailureEntry::key);
    (texts, entries)
}

/// Adds failures to a graph that has none.
fn with_failures(
    mut graph: TransitionGraph,
    texts: Vec<Failure>,
    failures: Vec<FailureEntry>,
) -> TransitionGraph {
    for entry in &failures {
        let row = StateRow(entry.from);
        if let Some(edge) = graph.step(row, ActionIndex(entry.action)) {
            graph.both += 1;
            if entry.count > edge.count {
                let place = u32::try_from(edge.place).expect("they are counted in 32 bits");
                graph.outvoted.push(place);
            }
        }
    }
    graph.outvoted.sort_unstable();
    TransitionGraph { failures, texts, ..graph }
}
