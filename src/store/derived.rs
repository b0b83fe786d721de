//! Derived tables: made from the others, layer by layer.

use arrow::array::RecordBatch;

use super::segment::{FinishedSegment, SegmentWriter};
use super::{Lake, LayerId, Segment, StoreError, Table};

/// Rows of a segment of a derived table.
const SEGMENT_ROWS_MAX: u64 = 1 << 23;

/// A new layer of the derived tables, written beside the old ones.
///
/// Nothing of it is part of the lake before [`Maintenance::publish`]; dropped before that, it
/// leaves files that whoever maintains the lake next removes.
///
/// [`Maintenance::publish`]: super::Maintenance::publish
#[derive(Debug)]
pub struct LayerWriter {
    lake: Lake,
    layer: LayerId,
    open: Vec<SegmentWriter>,
    finished: Vec<FinishedSegment>,
}

/// What a dedup pass changes, all at once.
#[derive(Debug, Default)]
pub struct LayerChange {
    /// Segments of derived tables that go, as the newest snapshot has them.
    pub retire: Vec<Segment>,
    /// New layers.
    pub add: Vec<LayerWriter>,
    /// Segments of `steps` that the layers count from now on.
    pub counted: Vec<Segment>,
    /// How the layers were made, as
    /// [`Snapshot::dedup_inputs`](super::Snapshot::dedup_inputs) will give it.
    pub inputs: String,
    /// One line for the list of snapshots.
    pub detail: String,
}

impl LayerWriter {
    pub(super) fn new(lake: Lake, layer: LayerId) -> Self {
        Self { lake, layer, open: Vec::new(), finished: Vec::new() }
    }

    /// Adds rows to a derived table. They come in the order of the table's key.
    ///
    /// # Errors
    ///
    /// [`StoreError::DiskFull`] and what else a disk does.
    ///
    /// # Panics
    ///
    /// When the table is not a derived one, or the batch has other columns.
    pub fn write(&mut self, table: Table, batch: &RecordBatch) -> Result<(), StoreError> {
        assert!(table.is_derived(), "{table} is no derived table");
        let schema = self.lake.schemas.get(table);
        assert_eq!(batch.schema_ref(), schema, "the batch has other columns than {table}");
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let known = self.open.iter().position(|writer| writer.table() == table);
        let place = known.unwrap_or(self.open.len());
        if known.is_none() {
            self.open.push(SegmentWriter::create(&self.lake.segment_place(), table, schema)?);
        }
        self.open[place].write(batch)?;
        if self.open[place].rows() >= SEGMENT_ROWS_MAX {
            let writer = self.open.swap_remove(place);
            self.finished.push(writer.finish()?);
        }
        Ok(())
    }

    /// Makes all of it durable.
    pub(super) fn finish(mut self) -> Result<Vec<Segment>, StoreError> {
        for writer in self.open.drain(..) {
            self.finished.push(writer.finish()?);
        }
        let layer = Some(self.layer);
        Ok(self
            .finished
            .into_iter()
            .map(|finished| Segment { layer, ..finished.segment })
            .collect())
    }
}
