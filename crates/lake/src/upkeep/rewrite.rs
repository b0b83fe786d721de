//! Copies of segments without some of their rows. No file is changed.

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use crate::kernel::segments::segment_series::SegmentSeries;
use crate::kernel::versions::edit::VersionEdit;
use crate::kernel::{Lake, LakeError, ScanColumns, Segment};

impl VersionEdit {
    /// Replaces a segment by the rows of it that `keep` selects; `columns` are those that `keep`
    /// reads. Returns how many rows go. If none does, nothing changes.
    pub(super) fn rewrite(
        &mut self,
        lake: &Lake,
        segment: &Segment,
        columns: &[&str],
        keep: &dyn Fn(&RecordBatch) -> BooleanArray,
    ) -> Result<u64, LakeError> {
        let mut gone = 0;
        for batch in segment.scan(&lake.schemas, ScanColumns::Named(columns)) {
            gone += keep(&batch?).false_count() as u64;
        }
        if gone == 0 {
            return Ok(0);
        }
        // Damage must not be written anew, under a digest of its own.
        segment.check()?;
        let mut series = SegmentSeries::new(lake, segment.table);
        for batch in segment.scan(&lake.schemas, ScanColumns::All) {
            let batch = batch?;
            let kept = filter_record_batch(&batch, &keep(&batch)).expect("a mask of its length");
            series.write(&kept)?;
        }
        self.add.extend(series.finish()?);
        self.retire.push(segment.clone());
        Ok(gone)
    }
}
