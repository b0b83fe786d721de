//! Reading of a derived table over all layers.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::encode::Encoder;
use super::merge::{EdgeSource, LayerEdges, Merge};
use super::scan::{KeyRange, Ranges};
use crate::kernel::{LakeError, LayerId, Segment, Snapshot, Table};

/// The rows of one derived table over all layers, in batches of bounded size, in the order of the
/// table's key. The iterator ends after an error.
///
/// Memory: a few thousand rows per layer.
pub struct LayeredTable {
    table: Table,
    merge: Merge<'static>,
    encoder: Encoder,
    ranges: Ranges,
    is_over: bool,
}

impl std::fmt::Debug for LayeredTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayeredTable").field("table", &self.table).finish_non_exhaustive()
    }
}

impl LayeredTable {
    fn advance(&mut self) -> Result<Option<RecordBatch>, LakeError> {
        while !self.is_over {
            match self.merge.next_batch(&mut self.encoder)? {
                Some((table, batch)) if table == self.table => return Ok(Some(batch)),
                Some(_) => {}
                None => self.is_over = true,
            }
        }
        Ok(None)
    }

    /// The numbers of row groups and of rows that were read so far, over all layers. Pages are read
    /// whole.
    pub fn read(&self) -> (u64, u64) {
        self.ranges.read()
    }

    /// The columns of the batches.
    pub fn schema(&self) -> SchemaRef {
        self.encoder.schema(self.table)
    }
}

impl Iterator for LayeredTable {
    type Item = Result<RecordBatch, LakeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        self.is_over |= next.is_err();
        next.transpose()
    }
}

impl Snapshot {
    /// The segments of the derived tables by layer, oldest first. In a layer, the segments of one
    /// table are sorted by its key.
    pub fn layers(&self) -> BTreeMap<LayerId, Vec<&Segment>> {
        let mut layers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for segment in Table::ALL.into_iter().flat_map(|table| self.segments(table)) {
            if let Some(layer) = segment.layer {
                layers.entry(layer).or_default().push(segment);
            }
        }
        layers
    }

    /// Reads a range of a derived table over all layers, in batches of bounded size, in the order
    /// of the table's key.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when a file cannot be read.
    ///
    /// # Panics
    ///
    /// If the table is not a derived one.
    pub fn scan_layers(&self, table: Table, range: &KeyRange) -> Result<LayeredTable, LakeError> {
        self.scan_layers_in(table, std::slice::from_ref(range))
    }

    /// As [`scan_layers`](Self::scan_layers), for several ranges. Only pages that may hold wanted
    /// keys are read.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when a file cannot be read.
    ///
    /// # Panics
    ///
    /// If the table is not a derived one, or if the ranges are not ascending and disjoint.
    pub fn scan_layers_in(
        &self,
        table: Table,
        ranges: &[KeyRange],
    ) -> Result<LayeredTable, LakeError> {
        let ranges = Ranges::new(ranges);
        assert!(table.is_derived(), "{table} has no layers");
        let wanted: &[Table] = match table {
            Table::Failures => &[Table::Failures],
            _ => &[Table::StateTransitions, Table::Conflicts],
        };
        let open = |layer: Vec<&Segment>| {
            let edges = LayerEdges::of(self, &layer, &ranges, wanted)?;
            Ok(Box::new(edges) as Box<dyn EdgeSource>)
        };
        let sources = self.layers().into_values().map(open);
        let sources = sources.collect::<Result<Vec<_>, LakeError>>()?;
        let merge = Merge::new(sources);
        Ok(LayeredTable { table, merge, encoder: Encoder::of(self), ranges, is_over: false })
    }
}
