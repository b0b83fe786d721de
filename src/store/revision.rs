//! Changes of what is sealed in recorded tables: rows go, none comes, and nothing is written in
//! place.

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;

use super::frame::Frame;
use super::series::SegmentSeries;
use super::{
    Lake, LossRow, Maintenance, RetractionRow, Scan, ScanColumns, Segment, SnapshotId,
    SnapshotKind, StoreError, catalog, losses, manifest, retractions,
};

/// What changes, all at once. The derived tables go with it: they are to be made anew.
pub(super) struct Revision {
    pub(super) kind: SnapshotKind,
    /// One line for the list of snapshots.
    pub(super) detail: String,
    /// Segments that go, as the newest snapshot has them.
    pub(super) retire: Vec<Segment>,
    /// Those of them that are damaged.
    pub(super) lost: Vec<Segment>,
    /// Segments that come, durable already.
    pub(super) add: Vec<Segment>,
    /// Frames of the hot log that go, by number.
    pub(super) frames_gone: Vec<i64>,
    /// What they held that stays.
    pub(super) frames: Vec<Frame>,
    /// Why; the snapshot is filled in.
    pub(super) retractions: Vec<RetractionRow>,
    /// What could not be kept; the snapshot is filled in.
    pub(super) losses: Vec<LossRow>,
}

impl Revision {
    pub(super) fn new(kind: SnapshotKind) -> Self {
        Self {
            kind,
            detail: String::new(),
            retire: Vec::new(),
            lost: Vec::new(),
            add: Vec::new(),
            frames_gone: Vec::new(),
            frames: Vec::new(),
            retractions: Vec::new(),
            losses: Vec::new(),
        }
    }

    /// Replaces a segment by what stays of it: `columns` are those that `keep` looks at. Says how
    /// many rows go; nothing is changed where none does.
    pub(super) fn rewrite(
        &mut self,
        lake: &Lake,
        segment: &Segment,
        columns: &[&str],
        keep: &mut dyn FnMut(&RecordBatch) -> BooleanArray,
    ) -> Result<u64, StoreError> {
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

impl Maintenance {
    /// Publishes a change of recorded tables, in one transaction and a snapshot of its own: a
    /// reader sees all of it or nothing. The caller has the right to write too.
    pub(super) fn revise(&mut self, revision: &Revision) -> Result<SnapshotId, StoreError> {
        let (path, lake) = (self.catalog.path().to_owned(), self.lake.path.clone());
        let now_ms = self.lake.disk.now_ms();
        let transaction = self.catalog.write()?;
        let publish = || {
            let snapshot =
                manifest::begin_snapshot(&transaction, now_ms, revision.kind, &revision.detail)?;
            manifest::retire_layers(&transaction, snapshot)?;
            for segment in revision.retire.iter().filter(|segment| segment.layer.is_none()) {
                let known = manifest::retire(&transaction, &lake, segment, snapshot)?;
                assert!(known, "{} was retired before", segment.path.display());
            }
            for segment in &revision.lost {
                manifest::mark_lost(&transaction, &lake, segment)?;
            }
            for segment in &revision.add {
                manifest::insert(&transaction, &lake, segment, snapshot)?;
            }
            for &seq in &revision.frames_gone {
                catalog::delete_frame(&transaction, seq)?;
            }
            for frame in &revision.frames {
                catalog::insert_frame(&transaction, frame)?;
            }
            for row in &revision.retractions {
                retractions::insert(&transaction, &RetractionRow { snapshot, ..row.clone() })?;
            }
            for row in &revision.losses {
                losses::insert(&transaction, &LossRow { snapshot, ..row.clone() })?;
            }
            Ok(snapshot)
        };
        let snapshot = publish().map_err(StoreError::sqlite(&path))?;
        self.lake.disk.commit(transaction, &path)?;
        // The transaction is durable either way; brought home, no damage to the log can take it
        // back.
        let _ = self.catalog.settle();
        self.settle(true);
        Ok(snapshot)
    }
}
