//! Edges to the rows of the derived tables.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, FixedSizeBinaryArray, Float64Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::SchemaRef;

use super::edge::{Edge, EdgeShape};
use super::text::FailureText;
use crate::lake::encode::Schemas;
use crate::lake::table::STATE_ID_LEN;
use crate::lake::{Snapshot, Table};
use crate::model::StateId;

/// Rows of a batch at most.
const BATCH_ROWS: usize = 16_384;

/// Makes batches of the derived tables from edges that come in their order, each once.
///
/// The edges of one (state, action) that led somewhere are one row of `state_transitions`, that of
/// the edge with the most steps and among equals the smallest next state; where there are several,
/// each is a row of `conflicts` besides. Those that failed are a row of `failures`.
#[derive(Debug)]
pub(crate) struct Encoder {
    schemas: [SchemaRef; 3],
    shape: EdgeShape,
    /// The edges of the present (state, action) that led somewhere: how many, and the best of them.
    led: usize,
    best: Vec<u64>,
    transitions: Rows,
    conflicts: Rows,
    failures: Rows,
    texts: Texts,
    ready: VecDeque<(Table, RecordBatch)>,
}

#[derive(Debug, Default)]
struct Texts {
    kinds: Vec<String>,
    details: Vec<Option<String>>,
}

impl Encoder {
    /// For the tables of a snapshot's lake.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        Self::new(snapshot.schemas(), EdgeShape::new(snapshot.identity().rewards.len()))
    }

    pub(crate) fn new(schemas: &Schemas, shape: EdgeShape) -> Self {
        let tables = [Table::StateTransitions, Table::Conflicts, Table::Failures];
        Self {
            schemas: tables.map(|table| Arc::clone(schemas.get(table))),
            shape,
            led: 0,
            best: Vec::with_capacity(shape.words()),
            transitions: Rows::default(),
            conflicts: Rows::default(),
            failures: Rows::default(),
            texts: Texts::default(),
            ready: VecDeque::new(),
        }
    }

    /// Takes the next edge; `text` says how the compiler failed where it did.
    pub(crate) fn push(&mut self, row: &[u64], text: Option<FailureText<'_>>) {
        let edge = Edge(row);
        if self.led > 0 && !edge.leaves_as(Edge(&self.best)) {
            self.end_group();
        }
        if !edge.led() {
            let text = text.expect("a failure has a kind");
            self.failures.push(edge);
            self.texts.kinds.push(text.kind.to_owned());
            self.texts.details.push(text.detail.map(str::to_owned));
            if self.failures.count.len() >= BATCH_ROWS {
                self.flush_failures();
            }
            return;
        }
        self.led += 1;
        if self.led == 2 {
            self.conflicts.push(Edge(&self.best));
        }
        if self.led >= 2 {
            self.conflicts.push(edge);
            if self.conflicts.count.len() >= BATCH_ROWS {
                self.flush_conflicts();
            }
        }
        // Among equals the first, which is the smallest.
        if self.led == 1 || edge.count() > Edge(&self.best).count() {
            self.best.clear();
            self.best.extend_from_slice(row);
        }
    }

    fn end_group(&mut self) {
        self.transitions.push(Edge(&self.best));
        self.led = 0;
        if self.transitions.count.len() >= BATCH_ROWS {
            self.flush_transitions();
        }
    }

    /// There are no more edges.
    pub(crate) fn end(&mut self) {
        if self.led > 0 {
            self.end_group();
        }
        self.flush_transitions();
        self.flush_conflicts();
        self.flush_failures();
    }

    /// The columns of a derived table.
    pub(crate) fn schema(&self, table: Table) -> SchemaRef {
        let place = table as usize - Table::StateTransitions as usize;
        Arc::clone(&self.schemas[place])
    }

    /// The next batch that is complete.
    pub(crate) fn pop(&mut self) -> Option<(Table, RecordBatch)> {
        self.ready.pop_front()
    }

    fn flush_transitions(&mut self) {
        let rows = std::mem::take(&mut self.transitions);
        let columns = rows.columns(self.shape.rewards());
        self.flush(Table::StateTransitions, 0, columns);
    }

    fn flush_conflicts(&mut self) {
        let rows = std::mem::take(&mut self.conflicts);
        let columns = rows.columns(self.shape.rewards());
        self.flush(Table::Conflicts, 1, columns);
    }

    fn flush_failures(&mut self) {
        let rows = std::mem::take(&mut self.failures);
        let texts = std::mem::take(&mut self.texts);
        let columns = rows.failure_columns(texts);
        self.flush(Table::Failures, 2, columns);
    }

    fn flush(&mut self, table: Table, place: usize, columns: Vec<ArrayRef>) {
        let batch = RecordBatch::try_new(Arc::clone(&self.schemas[place]), columns)
            .expect("the columns are made to the schema");
        if batch.num_rows() > 0 {
            self.ready.push_back((table, batch));
        }
    }
}

/// Rows of one table, column by column.
#[derive(Debug, Default)]
struct Rows {
    from: Vec<u8>,
    from_key: Vec<i64>,
    action: Vec<i16>,
    to: Vec<u8>,
    to_key: Vec<i64>,
    rewards: Vec<f64>,
    count: Vec<i64>,
    wall_time_us: Vec<i64>,
    first_episode: Vec<i64>,
    first_index: Vec<i32>,
}

impl Rows {
    fn push(&mut self, edge: Edge<'_>) {
        if self.count.capacity() == 0 {
            self.from.reserve_exact(BATCH_ROWS * StateId::LEN);
            self.to.reserve_exact(BATCH_ROWS * StateId::LEN);
        }
        self.from.extend_from_slice(&edge.id_before());
        self.from_key.push(edge.key_before());
        self.action.push(edge.action());
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
            Arc::new(Int16Array::from(self.action)),
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
            Arc::new(Int16Array::from(self.action)),
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
