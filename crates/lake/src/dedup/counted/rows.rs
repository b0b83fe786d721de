//! Checks of single rows of tables that another program wrote.

use arrow::array::{Array as _, RecordBatch};

use crate::kernel::schema::decode::{EdgeColumns, LedColumns, NO_ACTION};
use crate::kernel::{Snapshot, Table};
use steplake_model::{ActionIndex, FailureKind, StateId};

/// What a row is found by: its state, its action, and in `conflicts` the next state.
type RowKey = ((i64, StateId), ActionIndex, Option<StateId>);

/// Checks that rows of one table can be rows of a lake, and that they ascend by its key.
pub(super) struct RowCheck<'a> {
    pub(super) table: Table,
    snapshot: &'a Snapshot,
    retracted: Vec<ActionIndex>,
    last: Option<RowKey>,
    count: u64,
}

impl<'a> RowCheck<'a> {
    /// Checks rows of a table of a lake.
    pub(super) fn new(table: Table, snapshot: &'a Snapshot) -> Self {
        let retracted = snapshot.retracted_actions();
        Self { table, snapshot, retracted, last: None, count: 0 }
    }

    /// The number of rows so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Checks the next rows, which have the columns of the lake.
    ///
    /// # Errors
    ///
    /// What is wrong with the first wrong one.
    pub(super) fn rows(&mut self, batch: &RecordBatch) -> Result<(), String> {
        let columns = EdgeColumns::of(batch, self.table);
        for row in 0..columns.rows() {
            self.row(&columns, row).map_err(|what| {
                let (table, state) = (self.table, StateId::from_slice(columns.states.value(row)));
                format!("a row of {table} with state {state} {what}")
            })?;
        }
        self.count += columns.rows() as u64;
        Ok(())
    }

    fn row(&mut self, columns: &EdgeColumns, row: usize) -> Result<(), &'static str> {
        let state = StateId::from_slice(columns.states.value(row));
        let action = columns.action(row);
        if columns.state_keys.value(row) != state.key() {
            return Err("stands under another key");
        }
        let next = columns.led.as_ref().map(|led| next_state(led, row)).transpose()?;
        let key = (state.order(), action, next.filter(|_| self.table == Table::Conflicts));
        if self.last.replace(key) >= Some(key) {
            return Err("is out of its order, or there twice");
        }
        if action != NO_ACTION && self.snapshot.identity().action_space.get(action).is_none() {
            return Err("has an action that the lake does not have");
        }
        if self.retracted.contains(&action) {
            return Err("has an action that the lake has retracted");
        }
        if columns.counts.value(row) < 1 {
            return Err("counts no step");
        }
        let first = columns.first_indexes.value(row);
        if first < 0 || (first == 0) != (action == NO_ACTION) {
            return Err("has a first step that no episode has");
        }
        match &columns.failed {
            Some((kinds, _)) if kinds.value(row).parse::<FailureKind>().is_err() => {
                Err("has an unknown kind of failure")
            }
            _ => Ok(()),
        }
    }
}

/// Returns the next state of a row that led to one.
fn next_state(led: &LedColumns, row: usize) -> Result<StateId, &'static str> {
    let next = StateId::from_slice(led.states.value(row));
    if led.state_keys.value(row) != next.key() {
        return Err("has a next state under another key");
    }
    if led.wall_times.value(row) < 0 {
        return Err("has a negative time");
    }
    // A lake has null in place of what is no number.
    if led.rewards.iter().any(|rewards| rewards.is_valid(row) && rewards.value(row).is_nan()) {
        return Err("has a reward that is no number");
    }
    Ok(next)
}
