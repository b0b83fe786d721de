//! What a question to the graph is, and how its rows become batches.

use std::collections::BTreeSet;
use std::fmt;
use std::iter;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

use super::cancellation::CancellationToken;
use super::csr::Graph;
use super::index::Node;
use super::observations::Observations;
use crate::lake::{Identity, Snapshot};
use crate::model::StateId;
use crate::query::pulled::Batches;

/// Rows of a batch.
pub(super) const BATCH_ROWS: usize = 8192;
/// Actions in the lists of a batch, but for those of its last row: the ways of thousands of rows
/// may be thousands of steps long each.
pub(super) const LIST_ITEMS_MAX: usize = 1 << 20;

/// A question to the graph, with its arguments.
pub(super) trait Question: fmt::Debug + Send + Sync + 'static {
    /// The columns of the answer.
    fn schema(&self) -> SchemaRef;

    /// What [`Question::answer`] is to be given.
    fn needs(&self) -> Needs;

    /// Works the answer out, on a thread that may block. The batches are then made one by one as
    /// the reader takes them, each on such a thread: they own what they are made of.
    ///
    /// # Errors
    ///
    /// What keeps this question from having an answer, too little memory, and
    /// [`Cancelled`](super::cancellation::Cancelled).
    fn answer(&self, given: Given, asked: &Arc<Asked>) -> Result<Batches>;
}

/// What a question reads.
#[derive(Debug, Clone, Default)]
pub(super) struct Needs {
    /// The graph, and so what dedup has counted.
    pub(super) graph: bool,
    /// The graph, to be walked backwards too.
    pub(super) backward: bool,
    /// The rewards of this space.
    pub(super) rewards: Option<String>,
    /// The observations of this space.
    pub(super) observations: Option<String>,
}

impl Needs {
    pub(super) const GRAPH: Self =
        Self { graph: true, backward: false, rewards: None, observations: None };

    pub(super) const BOTH_WAYS: Self = Self { backward: true, ..Self::GRAPH };
}

/// What a question needs. The parts that it did not ask for are empty.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) identity: Arc<Identity>,
    pub(super) graph: Arc<Graph>,
    /// Edge by edge, NaN where there is none.
    pub(super) rewards: Arc<Vec<f64>>,
    pub(super) observations: Observations,
}

/// What is wanted of an answer, and what the work on it may use.
pub(super) struct Asked {
    /// The columns that are wanted.
    schema: SchemaRef,
    pub(super) token: CancellationToken,
    /// Rows about other states need not be made.
    keys: Option<BTreeSet<i64>>,
    /// What the question itself needs, of the memory that its statement may have.
    pub(super) memory: MemoryReservation,
    /// Held until the work is over. A server that counts running queries puts a guard into the
    /// session's extensions, which the context has.
    _context: Arc<TaskContext>,
}

impl Asked {
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
    /// When the statement may not have so much.
    pub(super) fn reserve(&self, bytes: usize) -> Result<()> {
        self.memory.try_grow(bytes)
    }

    /// The states of which rows are wanted.
    pub(super) fn nodes(&self, graph: &Graph) -> Result<Vec<Node>> {
        let Some(keys) = &self.keys else {
            self.reserve(graph.nodes() * size_of::<Node>())?;
            return Ok(graph.all_nodes().collect());
        };
        Ok(keys.iter().flat_map(|&key| graph.states.with_key(key)).collect())
    }

    /// Whether the answer is to have the column `name`.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.schema.column_with_name(name).is_some()
    }

    /// A batch of `count` rows: `column` makes each column that is wanted, by its name.
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

/// Makes room for `more` rows, which is counted before it is taken.
///
/// # Errors
///
/// When `memory` may not grow so much.
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

/// Batches of `count` rows: `column` makes each column that is wanted of some of them, by its name.
pub(super) fn in_batches(
    asked: &Arc<Asked>,
    count: usize,
    column: impl FnMut(Range<usize>, &str) -> Result<ArrayRef> + Send + 'static,
) -> Batches {
    cut(asked, count, |left| left.start..left.end.min(left.start + BATCH_ROWS), column)
}

/// The same for rows of which each has a list of so many `items` in the column `actions`.
pub(super) fn in_batches_of_lists(
    asked: &Arc<Asked>,
    count: usize,
    items: impl Fn(usize) -> usize + Send + 'static,
    column: impl FnMut(Range<usize>, &str) -> Result<ArrayRef> + Send + 'static,
) -> Batches {
    if !asked.wants("actions") {
        return in_batches(asked, count, column);
    }
    let few = move |left: Range<usize>| {
        let mut sum = 0;
        let fits = |&row: &usize| {
            sum += items(row);
            sum <= LIST_ITEMS_MAX
        };
        let rows = left.clone().take(BATCH_ROWS).take_while(fits).count().max(1);
        left.start..left.start + rows
    };
    cut(asked, count, few, column)
}

/// Batches of `count` rows, of which `some` cuts off the first ones of those that are left.
fn cut(
    asked: &Arc<Asked>,
    count: usize,
    some: impl Fn(Range<usize>) -> Range<usize> + Send + 'static,
    mut column: impl FnMut(Range<usize>, &str) -> Result<ArrayRef> + Send + 'static,
) -> Batches {
    let (asked, mut at) = (Arc::clone(asked), 0);
    Box::new(iter::from_fn(move || {
        if at == count {
            return None;
        }
        let rows = some(at..count);
        at = rows.end;
        Some(asked.batch(rows.len(), |name| column(rows.clone(), name)))
    }))
}

/// Batches of the rows that `rows_of` puts out for each of `nodes`: those of some nodes at a time,
/// so that few are in memory. `column` makes each column that is wanted, by its name.
pub(super) fn node_by_node<T: Send + 'static>(
    asked: &Arc<Asked>,
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

/// A question about a state that is not in the graph.
pub(super) fn unknown_state(state: &StateId) -> DataFusionError {
    exec_datafusion_err!(
        "state {state} is not in the transition graph: no transition that dedup counted leads to it or from it; \
         the rarer results of a conflict are none, nor is what a retracted action did"
    )
}
