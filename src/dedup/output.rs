//! Edges to the rows of the derived tables.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, FixedSizeBinaryBuilder, Float64Array, Float64Builder, Int16Array, Int64Array,
    RecordBatch, StringArray,
};

use super::edges::{Edges, Key, Tally};
use super::inputs::Inputs;
use crate::model::{EpisodeId, StateId};
use crate::store::{LayerWriter, Snapshot, StoreError, Table};

/// Rows that are put together before they are written.
const WRITE_ROWS: usize = 16_384;

/// How many rows the tables have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) transitions: u64,
    pub(super) conflicts: u64,
    pub(super) failures: u64,
}

/// Writes the derived tables.
pub(super) struct Output<'a> {
    snapshot: &'a Snapshot,
    layer: LayerWriter,
    counts: Counts,
    transitions: Transitions,
    conflicts: Conflicts,
    failures: Failures,
}

#[derive(Default)]
struct Transitions {
    from: Vec<StateId>,
    action: Vec<i16>,
    to: Vec<StateId>,
    rewards: Vec<f64>,
    count: Vec<i64>,
    wall_time_us: Vec<f64>,
}

#[derive(Default)]
struct Conflicts {
    from: Vec<StateId>,
    action: Vec<i16>,
    to: Vec<StateId>,
    count: Vec<i64>,
}

#[derive(Default)]
struct Failures {
    from: Vec<StateId>,
    action: Vec<i16>,
    kind: Vec<&'static str>,
    detail: Vec<Option<String>>,
    count: Vec<i64>,
}

impl<'a> Output<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, layer: LayerWriter) -> Self {
        Self {
            snapshot,
            layer,
            counts: Counts::default(),
            transitions: Transitions::default(),
            conflicts: Conflicts::default(),
            failures: Failures::default(),
        }
    }

    /// Writes the edges of a pass. Passes come in the order of their states.
    pub(super) fn write(&mut self, edges: &Edges, inputs: &Inputs<'_>) -> Result<(), StoreError> {
        let sorted = edges.sorted();
        for group in sorted
            .chunk_by(|(one, _), (other, _)| (one.from, one.action) == (other.from, other.action))
        {
            let (failed, led) = group.split_at(group.partition_point(|(key, _)| key.to.is_none()));
            if let [(key, tally)] = failed {
                self.failure(key, tally, inputs)?;
            }
            if led.len() > 1 {
                for (key, tally) in led {
                    self.conflict(key, tally);
                }
            }
            // Of equal counts the first has the smallest id.
            if let Some((key, tally)) = led.iter().rev().max_by_key(|(_, tally)| tally.count) {
                self.transition(key, tally, edges.rewards(tally));
            }
            self.flush(WRITE_ROWS)?;
        }
        Ok(())
    }

    /// Writes what is left and hands over the tables, and how many rows they have.
    pub(super) fn finish(mut self) -> Result<(LayerWriter, Counts), StoreError> {
        self.flush(1)?;
        Ok((self.layer, self.counts))
    }

    fn transition(&mut self, key: &Key, tally: &Tally, rewards: &[f64]) {
        let rows = &mut self.transitions;
        rows.from.push(key.from);
        rows.action.push(key.action);
        rows.to.extend(key.to);
        rows.rewards.extend_from_slice(rewards);
        rows.count.push(tally.count);
        rows.wall_time_us.push(mean(tally.wall_time_us, tally.count));
    }

    fn conflict(&mut self, key: &Key, tally: &Tally) {
        let rows = &mut self.conflicts;
        rows.from.push(key.from);
        rows.action.push(key.action);
        rows.to.extend(key.to);
        rows.count.push(tally.count);
    }

    fn failure(&mut self, key: &Key, tally: &Tally, inputs: &Inputs<'_>) -> Result<(), StoreError> {
        let (episode, index) = tally.first;
        let failed = inputs.failed(episode).ok_or_else(|| {
            let id = EpisodeId(episode);
            let what = format!(
                "episode {} of run {} has no state after step {index}, and its row no failure",
                id.ordinal(),
                id.run().0
            );
            StoreError::Corrupt { path: self.snapshot.path().to_owned(), what }
        })?;
        let rows = &mut self.failures;
        rows.from.push(key.from);
        rows.action.push(key.action);
        rows.kind.push(failed.kind.as_str());
        rows.detail.push(failed.detail.clone());
        rows.count.push(tally.count);
        Ok(())
    }

    /// Writes each table of which there are so many rows.
    fn flush(&mut self, rows_min: usize) -> Result<(), StoreError> {
        if self.transitions.from.len() >= rows_min {
            let rows = std::mem::take(&mut self.transitions);
            self.counts.transitions += rows.from.len() as u64;
            self.put(
                Table::StateTransitions,
                rows.columns(self.snapshot.identity().rewards.len()),
            )?;
        }
        if self.conflicts.from.len() >= rows_min {
            let rows = std::mem::take(&mut self.conflicts);
            self.counts.conflicts += rows.from.len() as u64;
            self.put(Table::Conflicts, rows.columns())?;
        }
        if self.failures.from.len() >= rows_min {
            let rows = std::mem::take(&mut self.failures);
            self.counts.failures += rows.from.len() as u64;
            self.put(Table::Failures, rows.columns())?;
        }
        Ok(())
    }

    fn put(&mut self, table: Table, columns: Vec<ArrayRef>) -> Result<(), StoreError> {
        let batch = RecordBatch::try_new(self.snapshot.schema(table), columns)
            .expect("the columns are made to the schema");
        self.layer.write(table, &batch)
    }
}

impl Transitions {
    fn columns(self, rewards: usize) -> Vec<ArrayRef> {
        let mut columns = Vec::from(states(&self.from));
        columns.push(Arc::new(Int16Array::from(self.action)));
        columns.extend(states(&self.to));
        for place in 0..rewards {
            let mut column = Float64Builder::with_capacity(self.from.len());
            for &reward in self.rewards.iter().skip(place).step_by(rewards) {
                column.append_option((!reward.is_nan()).then_some(reward));
            }
            columns.push(Arc::new(column.finish()));
        }
        columns.push(Arc::new(Int64Array::from(self.count)));
        columns.push(Arc::new(Float64Array::from(self.wall_time_us)));
        columns
    }
}

impl Conflicts {
    fn columns(self) -> Vec<ArrayRef> {
        let mut columns = Vec::from(states(&self.from));
        columns.push(Arc::new(Int16Array::from(self.action)));
        columns.extend(states(&self.to));
        columns.push(Arc::new(Int64Array::from(self.count)));
        columns
    }
}

impl Failures {
    fn columns(self) -> Vec<ArrayRef> {
        let mut columns = Vec::from(states(&self.from));
        columns.push(Arc::new(Int16Array::from(self.action)));
        columns.push(Arc::new(StringArray::from(self.kind)));
        columns.push(Arc::new(StringArray::from(self.detail)));
        columns.push(Arc::new(Int64Array::from(self.count)));
        columns
    }
}

/// A column of ids and one of their keys.
fn states(states: &[StateId]) -> [ArrayRef; 2] {
    let width = i32::try_from(StateId::LEN).expect("20 is an i32");
    let mut ids = FixedSizeBinaryBuilder::with_capacity(states.len(), width);
    for state in states {
        ids.append_value(state.0).expect("an id has the column's width");
    }
    let keys = Int64Array::from_iter_values(states.iter().map(StateId::key));
    [Arc::new(ids.finish()), Arc::new(keys)]
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a sum of measured microseconds is not exact anyway"
)]
fn mean(sum: i64, count: i64) -> f64 {
    sum as f64 / count as f64
}
