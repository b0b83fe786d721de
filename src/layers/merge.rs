//! Sorted edges from several places, taken together.

use std::cmp::Ordering;
use std::sync::Arc;

use super::edge::{Edge, EdgeShape};
use super::encode::Encoder;
use super::rule::{absorb, stands_for};
use super::scan::{Ranges, TableCursor};
use super::text::FailureText;
use crate::lake::encode::Schemas;
use crate::lake::{LakeError, Segment, Snapshot, Table};

/// Edges in their order, each once.
pub(crate) trait EdgeSource: Send {
    /// The present edge; none at the end.
    fn row(&self) -> Option<&[u64]>;

    /// How the present edge failed, where it did.
    fn text(&self) -> Option<FailureText<'_>>;

    /// Goes to the next edge.
    fn advance(&mut self) -> Result<(), LakeError>;
}

/// The segments of one layer, by table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layer {
    pub(crate) transitions: Vec<Segment>,
    pub(crate) conflicts: Vec<Segment>,
    pub(crate) failures: Vec<Segment>,
}

impl Layer {
    /// Rows of all three tables.
    pub fn rows(&self) -> u64 {
        self.segments().map(|segment| segment.rows).sum()
    }

    /// Its files.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.transitions.iter().chain(&self.conflicts).chain(&self.failures)
    }

    /// Whether its files are there and have their lengths.
    pub fn is_whole(&self) -> bool {
        self.segments().all(|segment| segment.open().is_ok())
    }

    /// Adds a segment. Those of one table come in the order of their keys.
    pub(crate) fn push(&mut self, segment: Segment) {
        match segment.table {
            Table::StateTransitions => self.transitions.push(segment),
            Table::Conflicts => self.conflicts.push(segment),
            Table::Failures => self.failures.push(segment),
            other => panic!("{other} has no layers"),
        }
    }
}

/// Which edges of a layer are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    /// Those that led to a state.
    Led,
    Failures,
}

/// The edges that a layer was made of. A row of `state_transitions` that has rows of `conflicts`
/// stands for the most frequent of them, so it is passed over and they are taken.
pub(crate) struct LayerEdges {
    transitions: Option<TableCursor>,
    conflicts: Option<TableCursor>,
    failures: Option<TableCursor>,
    present: Option<Part>,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Transitions,
    Conflicts,
    Failures,
}

impl LayerEdges {
    /// The edges of ranges of one of a snapshot's layers.
    pub(crate) fn of(
        snapshot: &Snapshot,
        layer: &Layer,
        ranges: &Ranges,
        wanted: Wanted,
    ) -> Result<Self, LakeError> {
        let shape = EdgeShape::new(snapshot.identity().rewards.len());
        Self::open(layer, snapshot.schemas(), ranges, shape, wanted)
    }

    pub(crate) fn open(
        layer: &Layer,
        schemas: &Schemas,
        ranges: &Ranges,
        shape: EdgeShape,
        wanted: Wanted,
    ) -> Result<Self, LakeError> {
        let open = |table: Table, segments: &[Segment], is_wanted: bool| {
            if !is_wanted || segments.is_empty() {
                return Ok(None);
            }
            let schema = Arc::clone(schemas.get(table));
            TableCursor::open(schema, table, segments.to_vec(), ranges.clone(), shape).map(Some)
        };
        let (led, failed) = (wanted != Wanted::Failures, wanted != Wanted::Led);
        let mut edges = Self {
            transitions: open(Table::StateTransitions, &layer.transitions, led)?,
            conflicts: open(Table::Conflicts, &layer.conflicts, led)?,
            failures: open(Table::Failures, &layer.failures, failed)?,
            present: None,
        };
        edges.choose()?;
        Ok(edges)
    }

    fn cursor(&self, place: Part) -> Option<&TableCursor> {
        match place {
            Part::Transitions => self.transitions.as_ref(),
            Part::Conflicts => self.conflicts.as_ref(),
            Part::Failures => self.failures.as_ref(),
        }
    }

    fn row_of(&self, place: Part) -> Option<&[u64]> {
        self.cursor(place)?.row()
    }

    /// Finds the least of the three present rows.
    fn choose(&mut self) -> Result<(), LakeError> {
        self.skip_covered()?;
        let places = [Part::Failures, Part::Conflicts, Part::Transitions];
        let rows = places.into_iter().filter_map(|place| Some((place, self.row_of(place)?)));
        let least = rows.min_by(|(_, one), (_, other)| Edge(one).order(Edge(other)));
        self.present = least.map(|(place, _)| place);
        Ok(())
    }

    /// Passes over a transition whose conflicts come now.
    fn skip_covered(&mut self) -> Result<(), LakeError> {
        while let (Some(transition), Some(conflict)) =
            (self.row_of(Part::Transitions), self.row_of(Part::Conflicts))
            && stands_for(Edge(conflict), Edge(transition))
        {
            self.transitions.as_mut().expect("it has a row").advance()?;
        }
        Ok(())
    }
}

impl EdgeSource for LayerEdges {
    fn row(&self) -> Option<&[u64]> {
        self.row_of(self.present?)
    }

    fn text(&self) -> Option<FailureText<'_>> {
        self.cursor(self.present?)?.text()
    }

    fn advance(&mut self) -> Result<(), LakeError> {
        let cursor = match self.present {
            Some(Part::Transitions) => self.transitions.as_mut(),
            Some(Part::Conflicts) => self.conflicts.as_mut(),
            Some(Part::Failures) => self.failures.as_mut(),
            None => None,
        };
        cursor.expect("there is a present edge").advance()?;
        self.choose()
    }
}

/// An edge, and how it failed where it did.
type EdgeRow<'a> = (&'a [u64], Option<FailureText<'a>>);

/// Several sources as one.
pub(crate) struct Merge<'a> {
    sources: Vec<Box<dyn EdgeSource + 'a>>,
    /// The sources that have an edge, the least one first: a heap.
    heap: Vec<usize>,
    row: Vec<u64>,
    text: Option<(String, Option<String>)>,
}

impl<'a> Merge<'a> {
    pub(crate) fn new(sources: Vec<Box<dyn EdgeSource + 'a>>, shape: EdgeShape) -> Self {
        let heap = (0..sources.len()).filter(|&at| sources[at].row().is_some()).collect::<Vec<_>>();
        let row = Vec::with_capacity(shape.words());
        let mut merge = Self { sources, heap, row, text: None };
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

    /// The next edge with all its steps; none at the end.
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

    /// Puts all edges into `encoder` and hands over each batch that it makes.
    pub(crate) fn encode<E>(
        mut self,
        encoder: &mut Encoder,
        take: &mut dyn FnMut(Table, arrow::array::RecordBatch) -> Result<(), E>,
    ) -> Result<(), E>
    where
        E: From<LakeError>,
    {
        while let Some((row, text)) = self.next()? {
            encoder.push(row, text);
            while let Some((table, batch)) = encoder.pop() {
                take(table, batch)?;
            }
        }
        encoder.end();
        while let Some((table, batch)) = encoder.pop() {
            take(table, batch)?;
        }
        Ok(())
    }
}
