//! A lake that is merged, and the batches that are read from it.

use std::path::PathBuf;

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};

use super::error::MergeError;
use crate::kernel::schema::state_rows::conform;
use crate::kernel::segments::hot::{HotBatch, masks, sorted_batches};
use crate::kernel::{Lake, LakeError, ScanColumns, Segment, Snapshot, Table};

pub(super) type BatchSource<'a> = &'a mut dyn Iterator<Item = Result<RecordBatch, LakeError>>;

/// What takes the rows of a sealed file, or hot rows.
type PartVisitor<'a> =
    &'a mut dyn FnMut(Option<&Segment>, BatchSource<'_>) -> Result<(), MergeError>;

/// A lake to merge, as it was at one moment.
pub(super) struct SourceLake {
    pub(super) snapshot: Snapshot,
    hot: Vec<HotBatch>,
    /// For each hot batch, which of its rows are closed.
    closed: Vec<BooleanArray>,
}

impl SourceLake {
    pub(super) fn open(lake: &Lake, sealed_only: bool) -> Result<Self, LakeError> {
        let snapshot = if sealed_only { lake.sealed_part()? } else { lake.snapshot()? };
        let hot = Table::ALL.into_iter().flat_map(|table| {
            let batch = move |batch: &RecordBatch| HotBatch {
                seq: 0,
                table,
                batch: batch.clone(),
                bytes: 0,
            };
            snapshot.hot(table).iter().map(batch)
        });
        let hot = hot.collect::<Vec<_>>();
        let closed = masks(&hot);
        Ok(Self { snapshot, hot, closed })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.snapshot.path().to_owned()
    }

    /// Returns the closed hot rows of a table, sorted by its key.
    pub(super) fn hot(&self, table: Table) -> impl Iterator<Item = RecordBatch> + '_ {
        let of_table = self.hot.iter().zip(&self.closed).filter(|(hot, _)| hot.table == table);
        sorted_batches(table, &of_table.collect::<Vec<_>>())
    }

    /// Calls `part` with each sealed file of a table and its rows, and with the closed hot rows, in
    /// the columns of `schema`, for which `columns` are read. The rows of a part are sorted by the
    /// table's key. All steps of an episode are in one part.
    pub(super) fn visit(
        &self,
        table: Table,
        columns: ScanColumns<'_>,
        schema: &SchemaRef,
        part: PartVisitor<'_>,
    ) -> Result<(), MergeError> {
        for segment in self.snapshot.segments(table) {
            let batches = self.snapshot.scan_segment(segment, columns);
            part(Some(segment), &mut batches.map(|batch| Ok(conform(&batch?, schema))))?;
        }
        part(None, &mut self.hot(table).map(|batch| Ok(conform(&batch, schema))))
    }

    /// Compares each sealed file with its digests, so that no damage gets into the new lake.
    pub(super) fn check(&self) -> Result<(), LakeError> {
        let recorded = Table::ALL.into_iter().filter(|table| table.is_recorded());
        recorded.flat_map(|table| self.snapshot.segments(table)).try_for_each(Segment::check)
    }

    /// Returns the number of open episodes.
    pub(super) fn open_episodes(&self) -> u64 {
        let steps = self.hot.iter().zip(&self.closed).filter(|(hot, _)| hot.table == Table::Steps);
        let mut open = std::collections::HashSet::new();
        for (hot, closed) in steps {
            let ids = hot.batch["episode_id"].as_primitive::<Int64Type>().values();
            let is_open = |row: &usize| *row >= closed.len() || !closed.value(*row);
            open.extend((0..ids.len()).filter(is_open).map(|row| ids[row]));
        }
        open.len() as u64
    }
}

impl MergeError {
    pub(super) fn differs(
        what: String,
        first: &SourceLake,
        second: &SourceLake,
        advice: &'static str,
    ) -> Self {
        Self::Differs { what, first: first.path(), second: second.path(), advice }
    }
}
