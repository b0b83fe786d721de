//! Segments of recorded tables without some of their rows. Nothing is written in place.

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use crate::lake::edit::VersionEdit;
use crate::lake::series::SegmentSeries;
use crate::lake::{Lake, LakeError, Scan, ScanColumns, Segment};

impl VersionEdit {
    /// Replaces a segment by what stays of it: `columns` are those that `keep` looks at. Says how
    /// many rows go; nothing is changed where none does.
    pub(super) fn rewrite(
        &mut self,
        lake: &Lake,
        segment: &Segment,
        columns: &[&str],
        keep: &mut dyn FnMut(&RecordBatch) -> BooleanArray,
    ) -> Result<u64, LakeError> {
        let schema = lake.schemas.get(segment.table);
        let segments = std::slice::from_ref(segment);
        let mut gone = 0;
        for batch in Scan::new(schema, segments, &[], ScanColumns::Named(columns)) {
            let batch = batch?;
            gone += (batch.num_rows() - keep(&batch).true_count()) as u64;
        }
        if gone == 0 {
            return Ok(0);
        }
        // Damage is not to be written anew, under a digest of its own.
        segment.check()?;
        let mut series = SegmentSeries::new(lake, segment.table);
        for batch in Scan::new(schema, segments, &[], ScanColumns::All) {
            let batch = batch?;
            let kept = filter_record_batch(&batch, &keep(&batch)).expect("a mask of its length");
            series.write(&kept)?;
        }
        self.add.extend(series.finish()?);
        self.retire.push(segment.clone());
        Ok(gone)
    }
}
