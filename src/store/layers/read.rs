//! One derived table, whatever layers it lies in.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::edge::EdgeShape;
use super::encode::Encoder;
use super::merge::{EdgeSource, Layer, LayerEdges, Merge, Wanted};
use super::scan::{KeyRange, Ranges};
use crate::store::batch::Schemas;
use crate::store::{Identity, StoreError, Table};

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
    pub(in crate::store) fn open(
        table: Table,
        layers: &[Layer],
        identity: &Identity,
        schemas: &Schemas,
        keys: &[KeyRange],
    ) -> Result<Self, StoreError> {
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
        let sources = layers.iter().map(open).collect::<Result<Vec<_>, StoreError>>()?;
        let merge = Merge::new(sources, shape);
        let encoder = Encoder::new(schemas, shape);
        Ok(Self { table, merge, encoder, ranges, is_over: false })
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, StoreError> {
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
    type Item = Result<RecordBatch, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance();
        self.is_over |= next.is_err();
        next.transpose()
    }
}
