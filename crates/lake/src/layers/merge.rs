//! Merging of sorted edges from several sources.

use std::cmp::Ordering;

use arrow::array::RecordBatch;

use super::edge::{Edge, FailureText};
use super::encode::Encoder;
use super::rule::absorb;
use super::scan::{KeyRange, TableCursor, scan};
use crate::kernel::{LakeError, RecordBatches, Segment, Snapshot, Table};

/// A source of sorted edges, each of which comes once.
pub(crate) trait EdgeSource: Send {
    /// The present edge; none at the end.
    fn row(&self) -> Option<&[u64]>;

    /// The text of the present edge's failure, if it is one.
    fn text(&self) -> Option<FailureText<'_>>;

    /// Goes to the next edge.
    fn advance(&mut self) -> Result<(), LakeError>;
}

/// The edges that a layer was made of. A row of `state_transitions` that has conflicts repeats the
/// most frequent of them, so it is skipped.
pub(crate) struct LayerEdges {
    /// One for each of [`LayerEdges::TABLES`].
    cursors: [TableCursor<'static>; 3],
    /// The cursor with the present edge.
    present: Option<usize>,
}

impl LayerEdges {
    pub(super) const TABLES: [Table; 3] =
        [Table::Failures, Table::Conflicts, Table::StateTransitions];

    /// Reads the edges of a layer with keys in `range`, from the tables in `wanted`. In a layer,
    /// the segments of one table are in the order of their keys.
    pub(crate) fn of(
        snapshot: &Snapshot,
        layer: &[&Segment],
        range: &KeyRange,
        wanted: &[Table],
    ) -> Result<Self, LakeError> {
        let open = |table: Table| {
            let is_wanted = |segment: &&Segment| segment.table == table && wanted.contains(&table);
            let segments = layer.iter().copied().filter(is_wanted).cloned().collect();
            scan(snapshot.schema(table), segments, range)
        };
        Self::of_rows(snapshot, Self::TABLES.map(open))
    }

    /// Reads edges from rows of each of the [tables](Self::TABLES), in the order of their keys.
    pub(super) fn of_rows(
        snapshot: &Snapshot,
        rows: [RecordBatches<'static>; 3],
    ) -> Result<Self, LakeError> {
        let [failures, conflicts, transitions] = rows;
        let open = |table, rows| TableCursor::open(snapshot, table, rows);
        let cursors = [
            open(Table::Failures, failures)?,
            open(Table::Conflicts, conflicts)?,
            open(Table::StateTransitions, transitions)?,
        ];
        let mut edges = Self { cursors, present: None };
        edges.choose()?;
        Ok(edges)
    }

    /// Finds the least of the three present rows.
    fn choose(&mut self) -> Result<(), LakeError> {
        // Skips a transition whose conflicts come now.
        let [_, conflicts, transitions] = &mut self.cursors;
        while let (Some(transition), Some(conflict)) = (transitions.row(), conflicts.row())
            && Edge(conflict).leaves_as(Edge(transition))
        {
            transitions.advance()?;
        }
        let rows = self.cursors.iter().enumerate();
        let rows = rows.filter_map(|(place, cursor)| Some((place, cursor.row()?)));
        let least = rows.min_by(|(_, one), (_, other)| Edge(one).order(Edge(other)));
        self.present = least.map(|(place, _)| place);
        Ok(())
    }
}

impl EdgeSource for LayerEdges {
    fn row(&self) -> Option<&[u64]> {
        self.cursors[self.present?].row()
    }

    fn text(&self) -> Option<FailureText<'_>> {
        self.cursors[self.present?].text()
    }

    fn advance(&mut self) -> Result<(), LakeError> {
        self.cursors[self.present.expect("there is a present edge")].advance()?;
        self.choose()
    }
}

/// An edge, with the text of its failure if it is one.
type EdgeRow<'a> = (&'a [u64], Option<FailureText<'a>>);

/// The merge of several sources.
pub(crate) struct Merge<'a> {
    sources: Vec<Box<dyn EdgeSource + 'a>>,
    /// A heap of the sources that have an edge. The source with the least edge comes first.
    heap: Vec<usize>,
    row: Vec<u64>,
    text: Option<(String, Option<String>)>,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(sources: Vec<Box<dyn EdgeSource + 'a>>) -> Self {
        let heap = (0..sources.len()).filter(|&at| sources[at].row().is_some()).collect::<Vec<_>>();
        let mut merge = Self { sources, heap, row: Vec::new(), text: None };
        for at in (0..merge.heap.len() / 2).rev() {
            merge.sift_down(at);
        }
        merge
    }

    fn order(&self, one: usize, other: usize) -> Ordering {
        let row = |at: usize| Edge(self.sources[self.heap[at]].row().expect("it is in the heap"));
        row(one).order(row(other))
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            for child in [left, right] {
                if child < self.heap.len() && self.order(child, least).is_lt() {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    fn advance_least(&mut self) -> Result<(), LakeError> {
        let source = &mut self.sources[self.heap[0]];
        source.advance()?;
        if source.row().is_none() {
            self.heap.swap_remove(0);
        }
        self.sift_down(0);
        Ok(())
    }

    /// The next edge, with the steps of all sources; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<EdgeRow<'_>>, LakeError> {
        let Some(&least) = self.heap.first() else { return Ok(None) };
        let owned = |text: FailureText<'_>| (text.kind.to_owned(), text.detail.map(str::to_owned));
        self.row.clear();
        self.row.extend_from_slice(self.sources[least].row().expect("it is in the heap"));
        self.text = self.sources[least].text().map(owned);
        self.advance_least()?;
        while let Some(&least) = self.heap.first() {
            let source = &self.sources[least];
            let row = source.row().expect("it is in the heap");
            if !Edge(row).is_same(Edge(&self.row)) {
                break;
            }
            if absorb(&mut self.row, row) {
                self.text = source.text().map(owned);
            }
            self.advance_least()?;
        }
        let text = self.text.as_ref();
        let text = text.map(|(kind, detail)| FailureText { kind, detail: detail.as_deref() });
        Ok(Some((&self.row, text)))
    }

    /// The next batch that `encoder` makes from the edges; none at the end.
    pub(crate) fn next_batch(
        &mut self,
        encoder: &mut Encoder,
    ) -> Result<Option<(Table, RecordBatch)>, LakeError> {
        loop {
            let ready = encoder.pop();
            if ready.is_some() {
                return Ok(ready);
            }
            let Some((row, text)) = self.next()? else {
                encoder.end();
                return Ok(encoder.pop());
            };
            encoder.push(row, text);
        }
    }
}
