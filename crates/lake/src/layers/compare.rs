//! Comparison of the derived tables, as they are stored, with edges.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::edge::{Edge, FailureText};
use super::encode::{TABLES, place};
use super::rule::RowMaker;
use super::scan::{KeyRange, TableCursor, scan};
use crate::kernel::{LakeError, Segment, Snapshot, Table};

/// How a stored row differs from what follows from the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Difference {
    /// No such row follows.
    Foreign,
    /// It follows, and is not there.
    Missing,
    /// It has other values.
    Other,
}

/// Differences by table and kind: the first of each, in words, and their number.
#[derive(Debug, Default)]
pub(crate) struct Differences(pub(crate) BTreeMap<(Table, Difference), (String, u64)>);

impl Differences {
    fn add(&mut self, table: Table, kind: Difference, edge: Edge<'_>) {
        let what = || format!("action {} of {}", edge.action().0, edge.state_before());
        self.0.entry((table, kind)).or_insert_with(|| (what(), 0)).1 += 1;
    }

    /// Adds those of greater keys.
    pub(crate) fn extend(&mut self, other: Self) {
        for (key, (what, count)) in other.0 {
            self.0.entry(key).or_insert((what, 0)).1 += count;
        }
    }
}

/// Compares a range of derived tables with edges, which come sorted, each once.
pub(crate) struct Comparison {
    maker: RowMaker,
    stored: [StoredTable; 3],
    found: Differences,
}

impl Comparison {
    /// Opens the tables of these layers, which need not be of the snapshot.
    pub(crate) fn of(
        snapshot: &Snapshot,
        layers: &[Vec<&Segment>],
        range: &KeyRange,
    ) -> Result<Self, LakeError> {
        let open = |table| StoredTable::of(snapshot, layers, table, range);
        let [transitions, conflicts, failures] = TABLES.map(open);
        let stored = [transitions?, conflicts?, failures?];
        Ok(Self { maker: RowMaker::default(), stored, found: Differences::default() })
    }

    /// Takes the next edge, with the text of its failure if it is one.
    pub(crate) fn push(
        &mut self,
        row: &[u64],
        text: Option<FailureText<'_>>,
    ) -> Result<(), LakeError> {
        let Self { maker, stored, found } = self;
        let mut done = Ok(());
        maker.push(row, |table, edge| {
            // A transition may be handed over when the next edge comes, which may be a failure.
            let text = text.filter(|_| table == Table::Failures);
            if done.is_ok() {
                done = stored[place(table)].meet(edge, text, found);
            }
        });
        done
    }

    /// Ends the edges. Returns how the tables differ from them.
    pub(crate) fn end(self) -> Result<Differences, LakeError> {
        let Self { mut maker, mut stored, mut found } = self;
        let mut done = Ok(());
        maker.end(|table, edge| done = stored[place(table)].meet(edge, None, &mut found));
        done?;
        stored.iter_mut().try_for_each(|table| table.pass_all(&mut found))?;
        Ok(found)
    }
}

/// The rows of a derived table as they are stored, over all layers, in the order of edges.
struct StoredTable {
    table: Table,
    /// One for each layer.
    layers: Vec<TableCursor<'static>>,
}

impl StoredTable {
    fn of(
        snapshot: &Snapshot,
        layers: &[Vec<&Segment>],
        table: Table,
        range: &KeyRange,
    ) -> Result<Self, LakeError> {
        let open = |layer: &Vec<&Segment>| {
            let own = layer.iter().copied().filter(|segment| segment.table == table).cloned();
            let rows = scan(snapshot.schema(table), own.collect(), range);
            TableCursor::open(snapshot, table, rows)
        };
        let layers = layers.iter().map(open);
        Ok(Self { table, layers: layers.collect::<Result<_, _>>()? })
    }

    /// The layer with the least row, and that row.
    fn least(&self) -> Option<(usize, &[u64])> {
        let rows = self.layers.iter().enumerate();
        let rows = rows.filter_map(|(layer, cursor)| Some((layer, cursor.row()?)));
        rows.min_by(|(_, one), (_, other)| Edge(one).order(Edge(other)))
    }

    /// Compares the next rows with one that follows from the steps.
    fn meet(
        &mut self,
        edge: Edge<'_>,
        text: Option<FailureText<'_>>,
        found: &mut Differences,
    ) -> Result<(), LakeError> {
        while let Some((layer, row)) = self.least() {
            match Edge(row).order(edge) {
                Ordering::Greater => break,
                Ordering::Less => found.add(self.table, Difference::Foreign, Edge(row)),
                Ordering::Equal => {
                    let is_equal = row == edge.0 && self.layers[layer].text() == text;
                    if !is_equal {
                        found.add(self.table, Difference::Other, edge);
                    }
                    return self.layers[layer].advance();
                }
            }
            self.layers[layer].advance()?;
        }
        found.add(self.table, Difference::Missing, edge);
        Ok(())
    }

    /// Passes the rows that are left: none of them follows from the steps.
    fn pass_all(&mut self, found: &mut Differences) -> Result<(), LakeError> {
        while let Some((layer, row)) = self.least() {
            found.add(self.table, Difference::Foreign, Edge(row));
            self.layers[layer].advance()?;
        }
        Ok(())
    }
}
