//! Parts of a segment, which several threads can read.

use std::ops::Range;

use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::file::metadata::PageIndexPolicy;

use super::reading::{RowChoice, SegmentRows};
use super::scan::ScanColumns;
use super::segment::Segment;
use crate::kernel::error::LakeError;
use crate::kernel::snapshot::Snapshot;

/// The greatest number of rows in a batch.
const BATCH_ROWS: usize = 8192;

/// Consecutive row groups of a segment.
#[derive(Debug, Clone)]
pub struct Part {
    pub(crate) segment: Segment,
    groups: Range<usize>,
    /// The number of rows of the row group before these.
    rows_before: usize,
}

impl Part {
    /// Whether the first row of a scan belongs to the part before.
    pub(crate) fn has_row_before(&self) -> bool {
        self.rows_before > 0
    }
}

impl Snapshot {
    /// Divides a segment into parts of at least so many rows. Only the last part may be smaller.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub fn parts(segment: &Segment, rows_min: u64) -> Result<Vec<Part>, LakeError> {
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

    /// Reads the named columns of a part, in the table's order. If the segment has rows before the
    /// part, the last of them comes first.
    ///
    /// # Panics
    ///
    /// If the table has no column of one of these names.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub fn scan_part(&self, part: &Part, columns: &[&str]) -> Result<SegmentRows, LakeError> {
        let segment = &part.segment;
        // With a page index, only the last page of the row group before is read.
        let is_first = part.rows_before == 0;
        let index = if is_first { PageIndexPolicy::Skip } else { PageIndexPolicy::Optional };
        let schema = self.schema(segment.table);
        let places = ScanColumns::Named(columns).places(&schema);
        segment.reader(&schema, &places, index, |footer| {
            let choice = RowChoice::all(BATCH_ROWS);
            if is_first {
                return RowChoice { groups: Some(part.groups.clone().collect()), ..choice };
            }
            let rows = |group| footer.row_group(group).num_rows();
            let own = part.groups.clone().map(rows).sum::<i64>();
            let own = usize::try_from(own).unwrap_or(0);
            let selection = RowSelection::from(vec![
                RowSelector::skip(part.rows_before - 1),
                RowSelector::select(1 + own),
            ]);
            let groups = Some((part.groups.start - 1..part.groups.end).collect());
            RowChoice { groups, rows: Some(selection), ..choice }
        })
    }
}
