//! Reads derived tables in threads.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use arrow::array::RecordBatch;

use crate::kernel::progress::{demand, each_share};
use crate::kernel::schema::decode::{
    Actions, NO_ACTION, RewardColumn, StateColumn, failures, reward_column, small_counts,
};
use crate::kernel::{LakeError, Part, Segment, Snapshot, Table};
use crate::layers::{KeyRange, key_ranges};
use steplake_model::{ActionIndex, Failure, StateId};

/// The fewest rows of a share that is a part of a segment.
const SHARE_ROWS_MIN: u64 = 1 << 17;

/// The ranges of keys for each thread, so that threads finish at about the same time.
const RANGES_A_THREAD: usize = 4;

/// Says whether to go on. Every thread that reads asks it at each batch and every few thousand
/// states. After a break, reading ends with [`LakeError::Interrupted`].
pub type GoOn<'a> = &'a (dyn Fn() -> ControlFlow<()> + Sync);

/// A failure of the compiler, as the lake has it.
#[derive(Debug, Clone)]
pub struct RecordedFailure {
    /// The state in which it failed.
    pub state: StateId,
    /// The action on which it failed; none if it was a start.
    pub action: Option<ActionIndex>,
    /// The number of steps that failed; at most `u32::MAX`.
    pub count: u32,
    /// How the first of them failed.
    pub failure: Failure,
}

/// Reads the transition graph of a snapshot, and what belongs to it.
pub struct GraphReader<'a> {
    snapshot: &'a Snapshot,
    threads: NonZeroUsize,
    retracted: Vec<ActionIndex>,
    go_on: GoOn<'a>,
}

impl fmt::Debug for GraphReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphReader").field("threads", &self.threads).finish_non_exhaustive()
    }
}

/// A share of a derived table.
enum TableShare {
    /// A part of its only layer.
    Part(Box<Part>),
    /// A range of keys of all layers together.
    Keys(KeyRange),
}

impl<'a> GraphReader<'a> {
    /// Reads `snapshot` with so many threads.
    pub fn new(snapshot: &'a Snapshot, threads: NonZeroUsize, go_on: GoOn<'a>) -> Self {
        Self { snapshot, threads, retracted: snapshot.retracted_actions(), go_on }
    }

    /// Reads the rewards of a space that the lake records, one for each edge of the graph: that of
    /// the first step that took it, or NaN if none was recorded.
    ///
    /// # Errors
    ///
    /// [`LakeError::NotDerived`], [`LakeError::Corrupt`] and [`LakeError::Interrupted`].
    pub fn rewards(&self, space: &str) -> Result<Vec<f64>, LakeError> {
        let column = reward_column(space);
        let columns = ["action", &column];
        let read = |rewards: &mut Vec<f64>, batch: &RecordBatch| {
            let own = RewardColumn::of(batch, &column);
            rewards.extend(self.kept(batch).map(|(row, _)| own.get(row)));
        };
        let pieces = self.in_shares(Table::StateTransitions, &columns, read)?;
        // Each piece is freed as soon as it is copied.
        let mut whole = Vec::with_capacity(pieces.iter().map(Vec::len).sum());
        for mut piece in pieces {
            whole.append(&mut piece);
        }
        Ok(whole)
    }

    /// Reads the failures of the compiler by states and actions, in the order of
    /// [`TransitionGraph::failures`](super::TransitionGraph::failures), with failed starts.
    ///
    /// # Errors
    ///
    /// [`LakeError::NotDerived`], [`LakeError::Corrupt`] and [`LakeError::Interrupted`].
    pub fn failures(&self) -> Result<impl Iterator<Item = RecordedFailure>, LakeError> {
        let columns = ["state_id", "action", "count", "kind", "detail"];
        let read = |rows: &mut Vec<RecordedFailure>, batch: &RecordBatch| {
            let (states, count) = (StateColumn::of(batch, "state_id"), small_counts(batch));
            let failure = failures(batch);
            rows.extend(self.kept(batch).map(|(row, action)| RecordedFailure {
                state: states.id(row),
                action: Some(action).filter(|&action| action != NO_ACTION),
                count: count(row),
                failure: failure(row),
            }));
        };
        Ok(self.in_shares(Table::Failures, &columns, read)?.into_iter().flatten())
    }

    /// Reads the number of (state, action) pairs with several recorded next states.
    ///
    /// # Errors
    ///
    /// [`LakeError::NotDerived`], [`LakeError::Corrupt`] and [`LakeError::Interrupted`].
    pub fn conflicts(&self) -> Result<u64, LakeError> {
        let read = |pairs: &mut Vec<(StateId, ActionIndex)>, batch: &RecordBatch| {
            let states = StateColumn::of(batch, "state_id");
            for (row, action) in self.kept(batch) {
                let pair = (states.id(row), action);
                if pairs.last() != Some(&pair) {
                    pairs.push(pair);
                }
            }
        };
        let pieces = self.in_shares(Table::Conflicts, &["state_id", "action"], read)?;
        let (mut count, mut last) = (0, None);
        for pair in pieces.into_iter().flatten() {
            count += u64::from(last.replace(pair) != Some(pair));
        }
        Ok(count)
    }

    /// Asks the caller whether to go on.
    pub(super) fn demand_go_on(&self) -> Result<(), LakeError> {
        demand((self.go_on)())
    }

    /// The rows of a batch whose actions are not retracted, each with its action, or
    /// [`NO_ACTION`].
    pub(super) fn kept(&self, batch: &RecordBatch) -> impl Iterator<Item = (usize, ActionIndex)> {
        let actions = Actions::of(batch, "action");
        let row = move |row| (row, actions.get(row).unwrap_or(NO_ACTION));
        let rows = (0..batch.num_rows()).map(row);
        rows.filter(|(_, action)| !self.retracted.contains(action))
    }

    /// Calls `read` with the batches of consecutive shares of `table`, several in parallel, in the
    /// order of the table's key. Returns what it has made of each share, in order. Batches have
    /// the named columns, and may have others.
    ///
    /// # Errors
    ///
    /// [`LakeError::NotDerived`], [`LakeError::Corrupt`] and [`LakeError::Interrupted`].
    pub(super) fn in_shares<T: Default + Send>(
        &self,
        table: Table,
        columns: &[&str],
        read: impl Fn(&mut T, &RecordBatch) + Sync,
    ) -> Result<Vec<T>, LakeError> {
        self.snapshot.demand_derived(table)?;
        each_share(&self.shares(table)?, self.threads, |share| {
            let mut made = T::default();
            let mut take = |batch: &RecordBatch| {
                self.demand_go_on()?;
                read(&mut made, batch);
                Ok::<_, LakeError>(())
            };
            match share {
                TableShare::Part(part) => {
                    // A part begins with the last row of the one before.
                    let mut above = usize::from(part.has_row_before());
                    for batch in self.snapshot.scan_part(part, columns)? {
                        let batch = batch?;
                        let skipped = above.min(batch.num_rows());
                        above -= skipped;
                        take(&batch.slice(skipped, batch.num_rows() - skipped))?;
                    }
                }
                TableShare::Keys(range) => {
                    for batch in self.snapshot.scan_layers(table, range)? {
                        take(&batch?)?;
                    }
                }
            }
            Ok(made)
        })
    }

    /// The shares, in the order of the table's key.
    fn shares(&self, table: Table) -> Result<Vec<TableShare>, LakeError> {
        let segments = self.snapshot.segments(table);
        let is_whole = segments.iter().all(|segment| segment.deleted().is_empty());
        if self.snapshot.layers().len() > 1 || !is_whole {
            let ranges = key_ranges(self.threads.get() * RANGES_A_THREAD);
            return Ok(ranges.map(TableShare::Keys).collect());
        }
        let mut segments: Vec<&Segment> = segments.iter().collect();
        segments.sort_by_key(|segment| segment.key_range);
        let parts = segments.into_iter().map(|segment| Snapshot::parts(segment, SHARE_ROWS_MIN));
        let parts: Vec<Vec<Part>> = parts.collect::<Result<_, _>>()?;
        Ok(parts.into_iter().flatten().map(|part| TableShare::Part(Box::new(part))).collect())
    }
}
