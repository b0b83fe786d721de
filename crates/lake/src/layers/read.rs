//! Reading of a derived table over all layers, in the order of its key.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;

use super::encode::Encoder;
use super::merge::{EdgeSource, LayerEdges, Merge};
use super::scan::KeyRange;
use crate::kernel::{LakeError, LayerId, Segment, Snapshot, Table};

/// The rows of one derived table over all layers, in batches of bounded size, in the order of the
/// table's key. The iterator ends after an error.
///
/// Memory: a few thousand rows per layer.
pub struct LayeredTable {
    table: Table,
    merge: Merge<'static>,
    encoder: Encoder,
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
        // The manifest lists a file that lost rows behind the others.
        let order = |segment: &&Segment| (segment.table as usize, segment.key_range);
        for segments in layers.values_mut() {
            segments.sort_by_key(order);
        }
        layers
    }

    /// Reads a range of a derived table over all layers, in batches of bounded size, in the order
    /// of the table's key. Only pages that may hold wanted keys are read.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when a file cannot be read.
    ///
    /// # Panics
    ///
    /// If the table is not a derived one.
    pub fn scan_layers(&self, table: Table, range: &KeyRange) -> Result<LayeredTable, LakeError> {
        assert!(table.is_derived(), "{table} has no layers");
        let wanted: &[Table] = match table {
            Table::Failures => &[Table::Failures],
            _ => &[Table::StateTransitions, Table::Conflicts],
        };
        let open = |layer: Vec<&Segment>| {
            let edges = LayerEdges::of(self, &layer, range, wanted)?;
            Ok(Box::new(edges) as Box<dyn EdgeSource>)
        };
        let sources = self.layers().into_values().map(open);
        let merge = Merge::new(sources.collect::<Result<Vec<_>, LakeError>>()?);
        Ok(LayeredTable { table, merge, encoder: Encoder::of(self), is_over: false })
    }
}
