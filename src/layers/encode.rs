//! Edges to the rows of the derived tables.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, FixedSizeBinaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::SchemaRef;

use super::edge::{Edge, EdgeShape};
use super::rule::RowMaker;
use super::text::FailureText;
use crate::lake::decode::{ActionArray, ActionNumber, action_number};
use crate::lake::encode::Schemas;
use crate::lake::table::STATE_ID_LEN;
use crate::lake::{Snapshot, Table};
use crate::model::StateId;

/// Rows of a batch at most.
const BATCH_ROWS: usize = 16_384;

/// The derived tables, in the order of their numbers.
const TABLES: [Table; 3] = [Table::StateTransitions, Table::Conflicts, Table::Failures];

/// Makes batches of the derived tables from edges that come in their order, each once, by the
/// [rule](super::rule).
#[derive(Debug)]
pub(crate) struct Encoder {
    schemas: [SchemaRef; 3],
    shape: EdgeShape,
    maker: RowMaker,
    rows: [RowBuffer; 3],
    texts: Texts,
    ready: VecDeque<(Table, RecordBatch)>,
}

#[derive(Debug, Default)]
struct Texts {
    kinds: Vec<String>,
    details: Vec<Option<String>>,
}

/// The place of a derived table in [`TABLES`].
fn place(table: Table) -> usize {
    table as usize - Table::StateTransitions as usize
}

impl Encoder {
    /// For the tables of a snapshot's lake.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        Self::new(snapshot.schemas(), EdgeShape::new(snapshot.identity().rewards.len()))
    }

    pub(crate) fn new(schemas: &Schemas, shape: EdgeShape) -> Self {
        Self {
            schemas: TABLES.map(|table| Arc::clone(schemas.get(table))),
            shape,
            maker: RowMaker::default(),
            rows: Default::default(),
            texts: Texts::default(),
            ready: VecDeque::new(),
        }
    }

    /// Takes the next edge; `text` says how the compiler failed, if it did.
    pub(crate) fn push(&mut self, row: &[u64], text: Option<FailureText<'_>>) {
        let Self { maker, rows, texts, .. } = self;
        maker.push(row, |table, edge| {
            rows[place(table)].push(edge);
            if table == Table::Failures {
                let text = text.expect("a failure has a kind");
                texts.kinds.push(text.kind.to_owned());
                texts.details.push(text.detail.map(str::to_owned));
            }
        });
        for table in TABLES {
            if self.rows[place(table)].count.len() >= BATCH_ROWS {
                self.flush(table);
            }
        }
    }

    /// There are no more edges.
    pub(crate) fn end(&mut self) {
        let Self { maker, rows, .. } = self;
        maker.end(|table, edge| rows[place(table)].push(edge));
        for table in TABLES {
            self.flush(table);
        }
    }

    /// The columns of a derived table.
    pub(crate) fn schema(&self, table: Table) -> SchemaRef {
        Arc::clone(&self.schemas[place(table)])
    }

    /// The next batch that is complete.
    pub(crate) fn pop(&mut self) -> Option<(Table, RecordBatch)> {
        self.ready.pop_front()
    }

    fn flush(&mut self, table: Table) {
        let rows = std::mem::take(&mut self.rows[place(table)]);
        let columns = if table == Table::Failures {
            rows.failure_columns(std::mem::take(&mut self.texts))
        } else {
            rows.columns(self.shape.rewards())
        };
        let batch = RecordBatch::try_new(Arc::clone(&self.schemas[place(table)]), columns)
            .expect("the columns are made to the schema");
        if batch.num_rows() > 0 {
            self.ready.push_back((table, batch));
        }
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

    /// As `state_transitions` and `conflicts` have them.
    fn columns(self, rewards: usize) -> Vec<ArrayRef> {
        let rows = self.count.len();
        let mut columns = vec![
            ids(self.from),
            integers(self.from_key),
            Arc::new(ActionArray::from(self.action)),
            ids(self.to),
            integers(self.to_key),
        ];
        columns.push(integers(self.count));
        columns.push(integers(self.wall_time_us));
        columns.push(integers(self.first_episode));
        columns.push(Arc::new(Int32Array::from(self.first_index)));
        for place in 0..rewards {
            let values =
                (0..rows).map(|row| self.rewards[row * rewards + place]).collect::<Vec<_>>();
            let nulls = values.iter().any(|value| value.is_nan());
            let nulls =
                nulls.then(|| values.iter().map(|value| !value.is_nan()).collect::<NullBuffer>());
            columns.push(Arc::new(Float64Array::new(values.into(), nulls)));
        }
        columns
    }

    fn failure_columns(self, texts: Texts) -> Vec<ArrayRef> {
        vec![
            ids(self.from),
            integers(self.from_key),
            Arc::new(ActionArray::from(self.action)),
            Arc::new(StringArray::from(texts.kinds)),
            Arc::new(StringArray::from(texts.details)),
            integers(self.count),
            integers(self.first_episode),
            Arc::new(Int32Array::from(self.first_index)),
        ]
    }
}

fn ids(bytes: Vec<u8>) -> ArrayRef {
    Arc::new(FixedSizeBinaryArray::new(STATE_ID_LEN, Buffer::from_vec(bytes), None))
}

fn integers(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}
