//! Rows of the derived tables from edges.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;

use super::edge::{Edge, FailureText};
use super::rule::RowMaker;
use crate::kernel::schema::decode::{ActionArray, ActionNumber, NO_ACTION, action_number};
use crate::kernel::schema::encode::{self, Schemas};
use crate::kernel::{Snapshot, Table};
use steplake_model::StateId;

/// The greatest number of rows in a batch.
const BATCH_ROWS: usize = 16_384;

/// The derived tables, in the order of their numbers.
pub(super) const TABLES: [Table; 3] = [Table::StateTransitions, Table::Conflicts, Table::Failures];

/// Makes batches of the derived tables from edges by the [rule](super::rule). The edges come
/// sorted, each once.
#[derive(Debug)]
pub(crate) struct Encoder {
    schemas: Schemas,
    /// The number of reward columns.
    rewards: usize,
    maker: RowMaker,
    rows: [RowBuffer; 3],
    ready: VecDeque<(Table, RecordBatch)>,
}

/// The place of a derived table in [`TABLES`].
pub(super) fn place(table: Table) -> usize {
    table as usize - Table::StateTransitions as usize
}

impl Encoder {
    /// For the tables of a snapshot's lake.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        Self {
            schemas: snapshot.schemas.clone(),
            rewards: snapshot.identity().rewards.len(),
            maker: RowMaker::default(),
            rows: Default::default(),
            ready: VecDeque::new(),
        }
    }

    /// Takes the next edge, with the text of its failure if it is one.
    pub(crate) fn push(&mut self, row: &[u64], text: Option<FailureText<'_>>) {
        let Self { maker, rows, .. } = self;
        maker.push(row, |table, edge| {
            let rows = &mut rows[place(table)];
            rows.push(edge);
            if table == Table::Failures {
                let text = text.expect("a failure has a kind");
                rows.kind.push(text.kind.to_owned());
                rows.detail.push(text.detail.map(str::to_owned));
            }
        });
        for table in TABLES {
            if self.rows[place(table)].count.len() >= BATCH_ROWS {
                self.flush(table);
            }
        }
    }

    /// Ends the input and flushes all rows.
    pub(crate) fn end(&mut self) {
        let Self { maker, rows, .. } = self;
        maker.end(|table, edge| rows[place(table)].push(edge));
        for table in TABLES {
            self.flush(table);
        }
    }

    /// The columns of a derived table.
    pub(crate) fn schema(&self, table: Table) -> SchemaRef {
        Arc::clone(self.schemas.get(table))
    }

    /// The next batch that is complete.
    pub(crate) fn pop(&mut self) -> Option<(Table, RecordBatch)> {
        self.ready.pop_front()
    }

    fn flush(&mut self, table: Table) {
        let rows = std::mem::take(&mut self.rows[place(table)]);
        if rows.count.is_empty() {
            return;
        }
        let batch = RecordBatch::try_new(self.schema(table), rows.columns(table, self.rewards));
        self.ready.push_back((table, batch.expect("the columns are made to the schema")));
    }
}

/// Rows of one table, column by column.
#[derive(Debug, Default)]
struct RowBuffer {
    from: Vec<u8>,
    from_key: Vec<i64>,
    action: Vec<ActionNumber>,
    to: Vec<u8>,
    to_key: Vec<i64>,
    kind: Vec<String>,
    detail: Vec<Option<String>>,
    rewards: Vec<f64>,
    count: Vec<i64>,
    wall_time_us: Vec<i64>,
    first_episode: Vec<i64>,
    first_index: Vec<i32>,
}

impl RowBuffer {
    fn push(&mut self, edge: Edge<'_>) {
        if self.count.capacity() == 0 {
            self.from.reserve_exact(BATCH_ROWS * StateId::LEN);
            self.to.reserve_exact(BATCH_ROWS * StateId::LEN);
        }
        self.from.extend_from_slice(&edge.id_before());
        self.from_key.push(edge.key_before());
        self.action.push(action_number(edge.action()));
        if edge.led() {
            self.to.extend_from_slice(&edge.id_after());
            self.to_key.push(edge.key_after());
            self.rewards.extend(edge.rewards());
            self.wall_time_us.push(edge.wall_time_us());
        }
        self.count.push(edge.count());
        self.first_episode.push(edge.first_episode());
        self.first_index.push(edge.first_index());
    }

    fn columns(self, table: Table, rewards: usize) -> Vec<ArrayRef> {
        let rows = self.count.len();
        let integers = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let mut columns = vec![
            encode::ids(self.from, None),
            integers(self.from_key),
            if table == Table::Failures {
                let none = action_number(NO_ACTION);
                let action = |number| Some(number).filter(|&number| number != none);
                Arc::new(self.action.into_iter().map(action).collect::<ActionArray>())
            } else {
                Arc::new(ActionArray::from(self.action))
            },
        ];
        if table == Table::Failures {
            columns.push(Arc::new(StringArray::from(self.kind)));
            columns.push(Arc::new(StringArray::from(self.detail)));
            columns.push(integers(self.count));
        } else {
            columns.push(encode::ids(self.to, None));
            columns.push(integers(self.to_key));
            columns.push(integers(self.count));
            columns.push(integers(self.wall_time_us));
        }
        columns.push(integers(self.first_episode));
        columns.push(Arc::new(Int32Array::from(self.first_index)));
        if table != Table::Failures {
            let reward = |place| (0..rows).map(|row| self.rewards[row * rewards + place]).collect();
            columns.extend((0..rewards).map(|place| encode::rewards(reward(place))));
        }
        columns
    }
}
