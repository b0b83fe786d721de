//! One derived table, whatever layers it lies in.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::edge::EdgeShape;
use super::encode::Encoder;
use super::merge::{EdgeSource, Layer, LayerEdges, Merge, Wanted};
use super::scan::{KeyRange, Ranges};
use crate::lake::encode::Schemas;
use crate::lake::{Identity, LakeError, LayerId, Segment, Snapshot, Table};

/// The rows of one derived table over all layers, in the order of the table's key, a bounded number
/// of rows at a time. After an error there is nothing more.
///
/// Memory: a few thousand rows of each layer.
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
    pub(crate) fn open(
        table: Table,
        layers: &[Layer],
        identity: &Identity,
        schemas: &Schemas,
        keys: &[KeyRange],
    ) -> Result<Self, LakeError> {
        let shape = EdgeShape::new(identity.rewards.len());
        let ranges = Ranges::new(keys);
        let wanted = match table {
            Table::StateTransitions | Table::Conflicts => Wanted::Led,
            Table::Failures => Wanted::Failures,
            other => panic!("{other} has no layers"),
        };
        let open = |layer| {
            let edges = LayerEdges::open(layer, schemas, &ranges, shape, wanted)?;
            Ok(Box::new(edges) as Box<dyn EdgeSource>)
        };
        let sources = layers.iter().map(open).collect::<Result<Vec<_>, LakeError>>()?;
        let merge = Merge::new(sources, shape);
        let encoder = Encoder::new(schemas, shape);
        Ok(Self { table, merge, encoder, ranges, is_over: false })
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, LakeError> {
        loop {
            while let Some((table, batch)) = self.encoder.pop() {
                if table == self.table {
                    return Ok(Some(batch));
                }
            }
            if self.is_over {
                return Ok(None);
            }
            if let Some((row, text)) = self.merge.next()? {
                self.encoder.push(row, text);
            } else {
                self.encoder.end();
                self.is_over = true;
            }
        }
    }

    /// How many row groups it has opened so far, and how many of their rows they were decoded with:
    /// whole pages, of all layers.
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
    /// The segments of the derived tables by their layers. Each layer's segments of one table are
    /// sorted by its key, one after another.
    pub fn layers(&self) -> BTreeMap<LayerId, Vec<&Segment>> {
        let mut layers: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for segment in Table::ALL.into_iter().flat_map(|table| self.segments(table)) {
            if let Some(layer) = segment.layer {
                layers.entry(layer).or_default().push(segment);
            }
        }
        layers
    }

    /// The layers of the derived tables, the oldest first.
    pub fn layers_by_age(&self) -> Vec<(LayerId, Layer)> {
        let layer = |(id, segments): (LayerId, Vec<&Segment>)| {
            let mut layer = Layer::default();
            for segment in segments {
                layer.push(segment.clone());
            }
            (id, layer)
        };
        self.layers().into_iter().map(layer).collect()
    }

    /// Reads a range of a derived table over all layers, in the order of the table's key, a bounded
    /// number of rows at a time.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when a file cannot be read.
    ///
    /// # Panics
    ///
    /// When the table is not a derived one.
    pub fn scan_layers(&self, table: Table, range: &KeyRange) -> Result<LayeredTable, LakeError> {
        self.scan_layers_in(table, std::slice::from_ref(range))
    }

    /// As [`scan_layers`](Self::scan_layers), in several ranges: only pages that may hold wanted
    /// keys are read.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] when a file cannot be read.
    ///
    /// # Panics
    ///
    /// When the table is not a derived one, or the ranges do not ascend apart from each other.
    pub fn scan_layers_in(
        &self,
        table: Table,
        ranges: &[KeyRange],
    ) -> Result<LayeredTable, LakeError> {
        let layers = self.layers_by_age().into_iter().map(|(_, layer)| layer).collect::<Vec<_>>();
        LayeredTable::open(table, &layers, self.identity(), self.schemas(), ranges)
    }
}
