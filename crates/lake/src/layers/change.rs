//! Changes of the layers of a lake.

use super::writer::LayerWriter;
use crate::kernel::segments::segment_writer::SegmentWriter;
use crate::kernel::versions::edit::VersionEdit;
use crate::kernel::versions::manifest;
use crate::kernel::versions::manifest::Derived;
use crate::kernel::{LakeError, LayerId, Segment, SnapshotId, SnapshotKind, Table};
use crate::upkeep::Maintenance;

/// What one dedup changes, in one version edit.
#[derive(Debug, Default)]
pub struct LayerChange {
    /// Segments of derived tables to retire. The newest snapshot has them.
    pub retire: Vec<Segment>,
    /// New layers.
    pub add: Vec<LayerWriter>,
    /// Segments of `steps` that the layers count from now on.
    pub counted: Vec<Segment>,
    /// How the layers were made, as
    /// [`Snapshot::dedup_inputs`](crate::kernel::Snapshot::dedup_inputs) will return it.
    pub inputs: String,
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
    /// A reader sees all of it or nothing. Returns the snapshot and its new segments.
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
        let LayerChange { retire, add, counted, inputs, detail } = change;
        let mut edit = VersionEdit::new(SnapshotKind::Dedup, detail);
        let is_whole = self.is_whole(&retire)?;
        let layer = add.first().map(|writer| writer.layer).filter(|_| is_whole);
        for writer in add {
            edit.add.extend(writer.finish()?);
        }
        // Only the oldest layer is shown to other tools.
        if let Some(layer) = layer {
            let is_empty = |table: &Table| !edit.add.iter().any(|segment| segment.table == *table);
            let derived = Table::ALL.into_iter().filter(|table| table.is_derived());
            for table in derived.filter(is_empty).collect::<Vec<_>>() {
                edit.add.push(self.empty_segment(table, layer)?);
            }
        }
        let derived = retire.iter().all(|segment| segment.table.is_derived());
        assert!(derived, "only segments of derived tables go");
        (edit.retire, edit.counted, edit.derived) = (retire, counted, Derived::Made(inputs));
        Ok((self.apply(&edit)?, edit.add))
    }

    /// Whether no layer is left once these segments are retired.
    fn is_whole(&self, retire: &[Segment]) -> Result<bool, LakeError> {
        let newest = |log: &_| manifest::segments(log, self.lake(), SnapshotId::NEWEST);
        let segments = self.catalog.reading(newest)?;
        let mut layered = segments.into_iter().filter(|segment| segment.layer.is_some());
        Ok(layered.all(|segment| retire.iter().any(|gone| gone.path == segment.path)))
    }

    /// A file without rows. It shows other tools that the table was made and is empty.
    fn empty_segment(&self, table: Table, layer: LayerId) -> Result<Segment, LakeError> {
        let segment = SegmentWriter::create(self.lake(), table, self.lake().schemas.get(table))?;
        let mut segment = segment.finish()?;
        segment.row.layer = Some(layer);
        Ok(segment)
    }
}
