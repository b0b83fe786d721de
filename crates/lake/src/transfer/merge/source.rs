//! A lake that is merged, and the batches that are read from it.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};

use super::error::MergeError;
use crate::kernel::schema::state_rows::conform;
use crate::kernel::segments::hot::{HotBatch, masks, sorted_batches};
use crate::kernel::{Lake, LakeError, ScanColumns, Segment, Snapshot, Table};
use steplake_model::EpisodeId;

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
    /// The digests of files that are not read, since the first lake has them too.
    left_out: HashSet<String>,
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
        Ok(Self { snapshot, hot, closed, left_out: HashSet::new() })
    }

    /// Leaves out the files that the first lake has too: their rows are taken from there.
    pub(super) fn leave_out_files_of(&mut self, first: &Self) {
        let runs = |source: &Self| {
            let runs = source.snapshot.runs().iter().map(|run| (run.id, run.uid.clone()));
            runs.collect::<BTreeSet<_>>()
        };
        // Equal rows name other episodes if a number is that of another run there.
        let (ours, theirs) = (runs(self), runs(first));
        let other = ours.symmetric_difference(&theirs).map(|&(run, _)| run).min();
        let is_before = |key: i64| other.is_none_or(|other| EpisodeId(key).run() < other);
        let names_same_runs = |file: &Segment| match file.table {
            Table::Episodes | Table::Steps => file.key_range.is_some_and(|(_, to)| is_before(to)),
            _ => true,
        };
        for table in Table::ALL {
            let known = first.files(table).map(|file| &file.digest).collect::<HashSet<_>>();
            let same = self.snapshot.segments(table).iter();
            let same = same.filter(|file| known.contains(&file.digest) && names_same_runs(file));
            self.left_out.extend(same.map(|file| file.digest.clone()));
        }
    }

    /// Returns the sealed files of a table that are read.
    pub(super) fn files(&self, table: Table) -> impl Iterator<Item = &Segment> {
        let files = self.snapshot.segments(table).iter();
        files.filter(|file| !self.left_out.contains(&file.digest))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.snapshot.path().to_owned()
    }

    /// Returns the number of rows of a table that are read, and of its hot rows.
    pub(super) fn rows(&self, table: Table) -> u64 {
        let hot = self.snapshot.hot(table).iter().map(|batch| batch.num_rows() as u64);
        self.files(table).map(|file| file.rows).chain(hot).sum()
    }

    /// Returns the closed hot rows of a table, sorted by its key.
    pub(super) fn hot(&self, table: Table) -> impl Iterator<Item = RecordBatch> + '_ {
        let of_table = self.hot.iter().zip(&self.closed).filter(|(hot, _)| hot.table == table);
        sorted_batches(table, &of_table.collect::<Vec<_>>())
    }

    /// Calls `part` with each sealed file of a table that is read, and its rows, and with the
    /// closed hot rows, in the columns of `schema`, for which `columns` are read. The rows of a
    /// part are sorted by the table's key. All steps of an episode are in one part.
    pub(super) fn visit(
        &self,
        table: Table,
        columns: ScanColumns<'_>,
        schema: &SchemaRef,
        part: PartVisitor<'_>,
    ) -> Result<(), MergeError> {
        for segment in self.files(table) {
            let batches = self.snapshot.scan_segment(segment, columns);
            part(Some(segment), &mut batches.map(|batch| Ok(conform(&batch?, schema))))?;
        }
        part(None, &mut self.hot(table).map(|batch| Ok(conform(&batch, schema))))
    }

    /// Compares each file that is read with its digests, so that no damage gets into the new lake.
    pub(super) fn check(&self) -> Result<(), LakeError> {
        let recorded = Table::ALL.into_iter().filter(|table| table.is_recorded());
        recorded.flat_map(|table| self.files(table)).try_for_each(Segment::check)
    }

    /// Returns the number of open episodes.
    pub(super) fn open_episodes(&self) -> u64 {
        let steps = self.hot.iter().zip(&self.closed).filter(|(hot, _)| hot.table == Table::Steps);
        let mut open = HashSet::new();
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
