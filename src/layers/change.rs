//! Changes of the layers of a lake.

use super::writer::LayerWriter;
use crate::lake::edit::{Derived, VersionEdit};
use crate::lake::{LakeError, LayerId, Segment, SnapshotId, SnapshotKind};
use crate::upkeep::Maintenance;

/// What a dedup changes, all at once.
#[derive(Debug, Default)]
pub struct LayerChange {
    /// Segments of derived tables that go, as the newest snapshot has them.
    pub retire: Vec<Segment>,
    /// New layers.
    pub add: Vec<LayerWriter>,
    /// Segments of `steps` that the layers count from now on.
    pub counted: Vec<Segment>,
    /// How the layers were made, as
    /// [`Snapshot::dedup_inputs`](crate::lake::Snapshot::dedup_inputs) will return it.
    pub inputs: String,
    /// One line for the list of snapshots.
    pub detail: String,
}

impl Maintenance {
    /// Begins to write the segments of a layer. A table that gets no rows has none. The writer has
    /// to be published or dropped before the next [`collect`](Self::collect).
    pub fn layer_writer(&self, layer: LayerId) -> LayerWriter {
        LayerWriter::new(self.lake().clone(), layer)
    }

    /// Makes a change of the layers part of the lake, in one transaction and a snapshot of its own.
    /// A reader sees all of it or nothing.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The lake is then unchanged; the next process
    /// to maintain the lake removes the new files.
    ///
    /// # Panics
    ///
    /// When the newest snapshot does not have a segment that is to be retired or marked as counted:
    /// nobody else can have retired it.
    pub fn publish(&mut self, change: LayerChange) -> Result<SnapshotId, LakeError> {
        let LayerChange { retire, add, counted, inputs, detail } = change;
        let mut edit = VersionEdit::new(SnapshotKind::Dedup, detail);
        for writer in add {
            edit.add.extend(writer.finish()?);
        }
        for segment in &retire {
            assert!(segment.table.is_derived(), "{} is no derived table", segment.table);
        }
        (edit.retire, edit.counted, edit.derived) = (retire, counted, Derived::Made(inputs));
        self.apply(&edit)
    }
}
