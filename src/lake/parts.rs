//! A segment in parts that are read on their own, so that several threads can.

use std::ops::Range;

use arrow::array::RecordBatch;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowSelection, RowSelector};
use parquet::file::metadata::PageIndexPolicy;

use super::error::LakeError;
use super::guarded::guarded;
use super::reading::SegmentFile;
use super::segment::Segment;
use super::snapshot::Snapshot;

/// Rows of a batch at most.
const BATCH_ROWS: usize = 8192;

/// Some row groups of a segment, one after another.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) segment: Segment,
    groups: Range<usize>,
    /// The rows of the row group before these.
    rows_before: usize,
}

/// The rows of a part, behind the one row that stands before them where there is one.
#[derive(Debug)]
pub(crate) struct PartScan {
    file: SegmentFile,
    reader: ParquetRecordBatchReader,
}

impl Part {
    /// True when the first row of a scan belongs to the part before.
    pub(crate) fn has_row_before(&self) -> bool {
        self.rows_before > 0
    }
}

impl Snapshot {
    /// Cuts a segment into parts of at least so many rows, but for a smaller last one.
    pub(crate) fn parts(segment: &Segment, rows_min: u64) -> Result<Vec<Part>, LakeError> {
        let footer = segment.footer(&segment.open()?, PageIndexPolicy::Skip)?;
        let rows = |group: usize| {
            usize::try_from(footer.metadata().row_group(group).num_rows()).unwrap_or(0)
        };
        let count = footer.metadata().num_row_groups();
        let (mut parts, mut first, mut gathered) = (Vec::new(), 0, 0);
        for group in 0..count {
            gathered += rows(group) as u64;
            if gathered >= rows_min || group + 1 == count {
                let rows_before = if first == 0 { 0 } else { rows(first - 1) };
                let segment = segment.clone();
                parts.push(Part { segment, groups: first..group + 1, rows_before });
                (first, gathered) = (group + 1, 0);
            }
        }
        Ok(parts)
    }

    /// Reads the columns of these names of a part, in the table's order.
    ///
    /// # Panics
    ///
    /// When the table has no column of one of these names.
    pub(crate) fn scan_part(&self, part: &Part, columns: &[&str]) -> Result<PartScan, LakeError> {
        let segment = &part.segment;
        // With an index, only the last page of the row group before is read.
        let is_first = part.rows_before == 0;
        let index = if is_first { PageIndexPolicy::Skip } else { PageIndexPolicy::Optional };
        let schema = self.schema(segment.table);
        let places = columns
            .iter()
            .map(|name| schema.index_of(name).expect("a scan asks for columns that are there"));
        let (file, reader) = segment.reader(&schema, index, |builder| {
            let mask = ProjectionMask::roots(builder.parquet_schema(), places);
            let builder = builder.with_projection(mask).with_batch_size(BATCH_ROWS);
            if is_first {
                return builder.with_row_groups(part.groups.clone().collect());
            }
            let rows = |group| builder.metadata().row_group(group).num_rows();
            let own = part.groups.clone().map(rows).sum::<i64>();
            let own = usize::try_from(own).unwrap_or(0);
            let selection = RowSelection::from(vec![
                RowSelector::skip(part.rows_before - 1),
                RowSelector::select(1 + own),
            ]);
            builder
                .with_row_groups((part.groups.start - 1..part.groups.end).collect())
                .with_row_selection(selection)
        })?;
        Ok(PartScan { file, reader })
    }
}

impl Iterator for PartScan {
    type Item = Result<RecordBatch, LakeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = guarded(|| self.reader.next().transpose());
        batch.map_err(|error| self.file.unreadable(&error)).transpose()
    }
}
