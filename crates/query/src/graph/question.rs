//! A question to the graph, and the batches of its answer.

use std::collections::BTreeSet;
use std::fmt;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

use super::cancellation::CancellationToken;
use super::columns::ColumnSpec;
use super::csr::QueryGraph;
use super::observations::Observations;
use crate::errors::error::QueryError;
use crate::sources::blocking_stream::Batches;
use steplake_lake::graph::Node;
use steplake_lake::{Identity, Snapshot};
use steplake_model::StateId;

/// Rows of a batch.
pub(super) const BATCH_ROWS: usize = 8192;
/// The most actions in the lists of a batch, except its last row: each of thousands of rows may
/// have a path of thousands of steps.
pub(super) const LIST_ITEMS_MAX: usize = 1 << 20;

/// A question to the graph, with its arguments.
pub(super) struct GraphQuestion {
    /// The columns of the answer.
    pub(super) schema: SchemaRef,
    /// What [`GraphQuestion::answer`] needs.
    pub(super) needs: RequiredData,
    /// Computes the answer, on a thread that may block. The batches are then made one by one as the
    /// reader takes them, also on such threads, and so own their data.
    ///
    /// # Errors
    ///
    /// If this question has no answer or too little memory, and
    /// [`Cancelled`](super::cancellation::Cancelled).
    pub(super) answer: Box<AnswerFn>,
}

type AnswerFn = dyn Fn(Given, &Arc<AnswerRequest>) -> Result<Batches> + Send + Sync;

impl GraphQuestion {
    pub(super) fn new(
        columns: impl IntoIterator<Item = ColumnSpec>,
        needs: RequiredData,
        answer: impl Fn(Given, &Arc<AnswerRequest>) -> Result<Batches> + Send + Sync + 'static,
    ) -> Self {
        let field = |(name, kind, nullable)| Field::new(name, kind, nullable);
        let schema = Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()));
        Self { schema, needs, answer: Box::new(answer) }
    }
}

impl fmt::Debug for GraphQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question").field("needs", &self.needs).finish_non_exhaustive()
    }
}

/// The data that a question reads.
#[derive(Debug, Clone, Default)]
pub(super) struct RequiredData {
    /// The graph, and so the steps that dedup has counted.
    pub(super) graph: bool,
    /// The graph with its edges backwards too.
    pub(super) backward: bool,
    /// The rewards of this space.
    pub(super) rewards: Option<String>,
    /// The observations of this space.
    pub(super) observations: Option<String>,
}

impl RequiredData {
    /// The graph alone.
    pub(super) const GRAPH: Self =
        Self { graph: true, backward: false, rewards: None, observations: None };

    /// The graph with its edges backwards too.
    pub(super) const BOTH_WAYS: Self = Self { backward: true, ..Self::GRAPH };
}

/// The data of a question. The parts that it does not need are empty.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) identity: Arc<Identity>,
    pub(super) graph: Arc<QueryGraph>,
    /// The reward of each edge; NaN if there is none.
    pub(super) rewards: Arc<Vec<f64>>,
    pub(super) observations: Observations,
}

/// The wanted part of an answer, and the resources for it.
pub(super) struct AnswerRequest {
    /// The columns that are wanted.
    schema: SchemaRef,
    pub(super) token: CancellationToken,
    /// The keys of the states of which rows are wanted; none if all are.
    keys: Option<BTreeSet<i64>>,
    /// The memory of the question itself, which its statement's pool counts.
    pub(super) memory: MemoryReservation,
    /// Held until the work ends. A server that counts running queries keeps a guard in the
    /// extensions of the session, which the context holds.
    _context: Arc<TaskContext>,
}

impl AnswerRequest {
    pub(super) fn new(
        schema: SchemaRef,
        token: CancellationToken,
        keys: Option<BTreeSet<i64>>,
        context: Arc<TaskContext>,
    ) -> Self {
        let memory = MemoryConsumer::new("a walk over the transition graph");
        let memory = memory.register(context.memory_pool());
        Self { schema, token, keys, memory, _context: context }
    }

    /// Counts memory that is used until the answer is dropped.
    ///
    /// # Errors
    ///
    /// If the statement may not have so much.
    pub(super) fn reserve(&self, bytes: usize) -> Result<()> {
        self.memory.try_grow(bytes)
    }

    /// The states of which rows are wanted.
    pub(super) fn nodes(&self, graph: &QueryGraph) -> Result<Vec<Node>> {
        let Some(keys) = &self.keys else {
            self.reserve(graph.nodes() * size_of::<Node>())?;
            return Ok(graph.all_nodes().collect());
        };
        Ok(keys.iter().flat_map(|&key| graph.with_key(key)).collect())
    }

    /// Whether the column `name` is wanted.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.schema.column_with_name(name).is_some()
    }

    /// A batch of `count` rows. `column` makes each wanted column by its name.
    pub(super) fn batch(
        &self,
        count: usize,
        mut column: impl FnMut(&str) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        self.token.check()?;
        let columns = self.schema.fields().iter().map(|field| column(field.name()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// Makes room for `more` rows, and counts it before allocating it.
///
/// # Errors
///
/// If `memory` may not grow so much.
pub(super) fn make_room<T>(
    rows: &mut Vec<T>,
    more: usize,
    memory: &MemoryReservation,
) -> Result<()> {
    let wanted = rows.len() + more;
    if wanted > rows.capacity() {
        let capacity = wanted.max(2 * rows.capacity());
        memory.try_grow((capacity - rows.capacity()) * size_of::<T>())?;
        rows.reserve_exact(capacity - rows.len());
    }
    Ok(())
}

/// Batches of `count` rows. `column` makes each wanted column of some of them by its name. `items`
/// gives the length of the list that a row has in the column `actions`.
pub(super) fn in_batches(
    asked: &Arc<AnswerRequest>,
    count: usize,
    items: impl Fn(usize) -> usize + Send + 'static,
    mut column: impl FnMut(Range<usize>, &str) -> Result<ArrayRef> + Send + 'static,
) -> Batches {
    let (asked, mut at) = (Arc::clone(asked), 0);
    let has_lists = asked.wants("actions");
    Box::new(iter::from_fn(move || {
        if at == count {
            return None;
        }
        let mut sum = 0;
        let fits = |&row: &usize| {
            sum += if has_lists { items(row) } else { 0 };
            sum <= LIST_ITEMS_MAX
        };
        let few = (at..count).take(BATCH_ROWS).take_while(fits).count().max(1);
        let rows = at..at + few;
        at = rows.end;
        Some(asked.batch(few, |name| column(rows.clone(), name)))
    }))
}

/// Batches of the rows that `rows_of` makes for each of `nodes`, for some nodes at a time, so that
/// few rows are in memory. `column` makes each wanted column by its name.
pub(super) fn node_by_node<T: Send + 'static>(
    asked: &Arc<AnswerRequest>,
    nodes: Vec<Node>,
    mut rows_of: impl FnMut(Node, &mut Vec<T>) + Send + 'static,
    mut column: impl FnMut(&[T], &str) -> Result<ArrayRef> + Send + 'static,
) -> Batches {
    let (asked, mut nodes) = (Arc::clone(asked), nodes.into_iter());
    Box::new(iter::from_fn(move || {
        let mut rows = Vec::new();
        while rows.len() < BATCH_ROWS
            && let Some(node) = nodes.next()
        {
            if let Err(cancelled) = asked.token.check() {
                return Some(Err(cancelled.into()));
            }
            rows_of(node, &mut rows);
        }
        (!rows.is_empty()).then(|| asked.batch(rows.len(), |name| column(&rows, name)))
    }))
}

/// The error about a state that is not in the graph.
pub(super) fn unknown_state(state: &StateId) -> DataFusionError {
    let message = format!(
        "state {state} is not in the transition graph: no transition that dedup counted leads to it or from it; \
         the graph has neither the rarer results of a conflict nor transitions of retracted actions"
    );
    DataFusionError::External(Box::new(QueryError::sql(message, None)))
}
