//! Changes of the layers of a lake.

use roaring::RoaringBitmap;

use super::writer::LayerWriter;
use crate::kernel::segments::segment_writer::SegmentWriter;
use crate::kernel::versions::edit::VersionEdit;
use crate::kernel::versions::manifest;
use crate::kernel::versions::manifest::Derived;
use crate::kernel::{
    DEDUP_INPUTS, DeletionVector, LakeError, LayerId, Segment, SnapshotId, SnapshotKind, Table,
};
use crate::upkeep::Maintenance;

/// What one dedup changes, in one version edit.
#[derive(Debug, Default)]
pub struct LayerChange {
    /// Segments of derived tables to retire. The newest snapshot has them.
    pub retire: Vec<Segment>,
    /// New layers.
    pub add: Vec<LayerWriter>,
    /// Segments that lose rows, and the positions of these rows. The newest snapshot has them.
    pub delete: Vec<(Segment, RoaringBitmap)>,
    /// Segments of `steps` that the layers count from now on.
    pub counted: Vec<Segment>,
    /// A one-line description for the list of snapshots.
    pub detail: String,
}

impl Maintenance {
    /// Begins to write the segments of a layer. A table without rows gets none. The writer has to
    /// be published or dropped before the next [`collect`](Self::collect).
    pub fn layer_writer(&self, layer: LayerId) -> LayerWriter {
        LayerWriter::new(self.lake().clone(), layer)
    }

    /// Makes a change of the layers part of the lake, in one transaction and a snapshot of its own.
    /// A reader sees all of it or nothing. Returns the snapshot, its new segments, and those that
    /// have lost rows.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The lake is then unchanged; the next process
    /// to maintain the lake removes the new files.
    ///
    /// # Panics
    ///
    /// If the newest snapshot lacks a segment that is to be retired or marked as counted. No other
    /// process can have retired it.
    pub fn publish(
        &mut self,
        change: LayerChange,
    ) -> Result<(SnapshotId, Vec<Segment>), LakeError> {
        let LayerChange { mut retire, add, delete, counted, detail } = change;
        let mut edit = VersionEdit::new(SnapshotKind::Dedup, detail);
        let known = self.layered_segments()?;
        let goes = |segment: &Segment| retire.iter().any(|gone| gone.path == segment.path);
        let is_whole = known.iter().all(goes);
        let layer = add.first().map(|writer| writer.layer).filter(|_| is_whole);
        for writer in add {
            edit.add.extend(writer.finish()?);
        }
        if let Some(layer) = layer {
            let is_empty = |table: &Table| !edit.add.iter().any(|segment| segment.table == *table);
            let derived = Table::ALL.into_iter().filter(|table| table.is_derived());
            for table in derived.filter(is_empty).collect::<Vec<_>>() {
                edit.add.push(self.empty_segment(table, layer)?);
            }
        }
        let derived = retire.iter().all(|segment| segment.table.is_derived());
        assert!(derived, "only segments of derived tables go");
        // A new file may have the content, and so the name, of an older one. All rows of that one
        // are deleted then, since the new one has them.
        let is_there = |segment: &Segment| edit.add.iter().any(|new| new.path == segment.path);
        let again = known.into_iter().filter(|segment| !goes(segment) && is_there(segment));
        let again = again.collect::<Vec<_>>();
        retire.extend(again.iter().cloned());
        // A file's row in the manifest never changes, so another one replaces it.
        for (segment, rows) in delete {
            if again.iter().any(|other| other.path == segment.path) {
                continue;
            }
            retire.push(segment.clone());
            let mut left = segment;
            left.row.deletions = Some(left.deleted().with(&rows));
            edit.add.push(left);
        }
        let derived = Derived::Made(DEDUP_INPUTS.to_owned());
        (edit.retire, edit.counted, edit.derived) = (retire, counted, derived);
        Ok((self.apply(&edit)?, edit.add))
    }

    /// The segments of the layers.
    fn layered_segments(&self) -> Result<Vec<Segment>, LakeError> {
        let newest = |log: &_| manifest::segments(log, self.lake(), SnapshotId::NEWEST);
        let mut segments = self.catalog.reading(newest)?;
        segments.retain(|segment| segment.layer.is_some());
        Ok(segments)
    }

    /// A file without rows. It shows other tools that the table was made and is empty.
    fn empty_segment(&self, table: Table, layer: LayerId) -> Result<Segment, LakeError> {
        let segment = SegmentWriter::create(self.lake(), table, self.lake().schemas.get(table))?;
        let mut segment = segment.finish()?;
        segment.row.layer = Some(layer);
        segment.row.deletions = Some(DeletionVector::NONE);
        Ok(segment)
    }
}
