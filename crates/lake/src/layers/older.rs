//! Rows of older layers that move into a new one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::PageIndexPolicy;
use roaring::RoaringBitmap;

use super::edge::Edge;
use super::merge::LayerEdges;
use crate::kernel::schema::decode::{Actions, NO_ACTION, state_keys};
use crate::kernel::segments::pages;
use crate::kernel::segments::reading::RowChoice;
use crate::kernel::{LakeError, RecordBatches, ScanColumns, Segment, SegmentFile, Snapshot};
use steplake_model::ActionIndex;

/// The greatest number of rows in a batch of keys.
const KEY_ROWS: usize = 16_384;
/// The same of whole rows.
const BATCH_ROWS: usize = 4096;

/// The positions of the rows that move, by the path of their file.
pub(crate) type MovedRows = Mutex<BTreeMap<PathBuf, RoaringBitmap>>;

/// What a (state, action) is found by. Two states with one key are taken for one: then rows of both
/// move, each still into one layer.
pub(crate) type PairKey = (i64, ActionIndex);

/// The key of an edge's (state, action).
pub(crate) fn pair_key(edge: Edge<'_>) -> PairKey {
    (edge.key_before(), edge.action())
}

/// A layer that stays, except for the rows of each (state, action) that new edges have too.
pub(crate) struct OlderLayer<'a> {
    snapshot: &'a Snapshot,
    files: Vec<OlderFile<'a>>,
    moved: &'a MovedRows,
}

struct OlderFile<'a> {
    segment: &'a Segment,
    opened: Option<(SegmentFile, ArrowReaderMetadata)>,
}

impl<'a> OlderLayer<'a> {
    /// The files are opened once they are needed.
    pub(crate) fn new(snapshot: &'a Snapshot, layer: &[&'a Segment], moved: &'a MovedRows) -> Self {
        let files = layer.iter().map(|&segment| OlderFile { segment, opened: None });
        Self { snapshot, files: files.collect(), moved }
    }

    /// Takes the edges with one of these pairs out of the layer. The pairs ascend.
    pub(crate) fn take(&mut self, pairs: &[PairKey]) -> Result<Option<LayerEdges>, LakeError> {
        let mut found: [Vec<RecordBatches<'static>>; 3] = Default::default();
        for file in &mut self.files {
            let positions = file.find(self.snapshot, pairs)?;
            if !positions.is_empty() {
                let place = LayerEdges::TABLES.iter().position(|&it| it == file.segment.table);
                let rows = file.rows(self.snapshot, &positions)?;
                found[place.expect("a layer has derived tables")].push(rows);
                *self.moved.lock().entry(file.segment.path.clone()).or_default() |= positions;
            }
        }
        if found.iter().all(Vec::is_empty) {
            return Ok(None);
        }
        let tables = found.map(|scans| Box::new(scans.into_iter().flatten()) as RecordBatches<'_>);
        LayerEdges::of_rows(self.snapshot, tables).map(Some)
    }
}

impl OlderFile<'_> {
    fn open(&mut self) -> Result<(SegmentFile, ArrowReaderMetadata), LakeError> {
        if let Some(opened) = &self.opened {
            return Ok(opened.clone());
        }
        let file = self.segment.open()?;
        let footer = self.segment.footer(&file, PageIndexPolicy::Optional)?;
        Ok(self.opened.insert((file, footer)).clone())
    }

    /// The positions of the rows with one of these pairs. Reads the keys of the pages that may have
    /// them, and nothing else.
    fn find(&mut self, snapshot: &Snapshot, pairs: &[PairKey]) -> Result<RoaringBitmap, LakeError> {
        let mut positions = RoaringBitmap::new();
        let (Some(first), Some(last)) = (pairs.first(), pairs.last()) else { return Ok(positions) };
        let meet = |least, greatest| {
            let next = pairs.partition_point(|pair| pair.0 < least);
            pairs.get(next).is_some_and(|pair| pair.0 <= greatest)
        };
        if self.segment.key_range.is_none_or(|(least, most)| most < first.0 || last.0 < least) {
            return Ok(positions);
        }
        let (file, footer) = self.open()?;
        let schema = snapshot.schema(self.segment.table);
        let places = ScanColumns::Named(&["state_key", "action"]).places(&schema);
        let choice = pages::choose(footer.metadata(), meet)
            .without(self.segment.deleted(), footer.metadata());
        let mut rows = choice.positions(footer.metadata());
        let choose = |_: &_| RowChoice { batch_rows: Some(KEY_ROWS), ..choice.clone() };
        let mut next = 0;
        for batch in self.segment.rows_of(file, &footer, &schema, &places, choose)? {
            let batch = batch?;
            let actions = Actions::of(&batch, "action");
            for (row, key) in state_keys(&batch).values().iter().enumerate() {
                let position = rows.next().expect("each row has a position");
                while pairs.get(next).is_some_and(|pair| pair.0 < *key) {
                    next += 1;
                }
                if pairs.get(next).is_none_or(|pair| pair.0 != *key) {
                    continue;
                }
                let action = actions.get(row).unwrap_or(NO_ACTION);
                if pairs[next..].binary_search(&(*key, action)).is_ok() {
                    positions.insert(position);
                }
            }
        }
        Ok(positions)
    }

    /// The rows at these positions.
    fn rows(
        &mut self,
        snapshot: &Snapshot,
        positions: &RoaringBitmap,
    ) -> Result<RecordBatches<'static>, LakeError> {
        let (file, footer) = self.open()?;
        let schema = snapshot.schema(self.segment.table);
        let places = ScanColumns::All.places(&schema);
        let choose = |footer: &_| RowChoice {
            batch_rows: Some(BATCH_ROWS),
            ..RowChoice::at(positions, footer)
        };
        let rows = self.segment.rows_of(file, &footer, &schema, &places, choose)?;
        Ok(Box::new(rows))
    }
}
