//! How a question to the graph becomes a table function.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::prelude::SessionContext;
use tokio::sync::mpsc::Sender;

use super::arguments::Arguments;
use super::asker::{Asker, Gone};
use super::csr::Graph;
use super::index::Node;
use super::{GraphSource, algebra, frontier, paths, returns, worth};
use crate::lake::Table;
use crate::query::keys::key_filters;

/// Batches that wait to be taken.
const WAITING_BATCHES_MAX: usize = 2;
/// Rows of a batch.
pub(super) const BATCH_ROWS: usize = 8192;
/// Actions in the lists of a batch, but for those of its last row: the ways of thousands of rows
/// may be thousands of steps long each.
pub(super) const LIST_ITEMS_MAX: usize = 1 << 20;

/// A question to the graph, with its arguments.
pub(super) trait Question: fmt::Debug + Send + Sync + 'static {
    /// The columns of the answer.
    fn schema(&self) -> SchemaRef;

    /// Whether it is about the graph, and so about what dedup has counted.
    fn reads_graph(&self) -> bool {
        true
    }

    /// Works out the answer, batch by batch, on a thread of its own.
    ///
    /// # Errors
    ///
    /// Those of the source, of [`Rows::send`], what keeps this question from having an answer, and
    /// [`Gone`].
    fn answer(&self, source: &GraphSource, rows: &Rows<'_>) -> Result<()>;
}

/// Where an answer goes.
pub(super) struct Rows<'a> {
    /// The columns that are wanted.
    schema: SchemaRef,
    pub(super) batches: &'a Sender<Result<RecordBatch>>,
    asker: Asker<'a>,
    /// Rows about other states need not be sent.
    keys: Option<&'a BTreeSet<i64>>,
    /// What the question itself needs, of the memory that its statement may have.
    memory: MemoryReservation,
}

impl Rows<'_> {
    /// Whoever waits for the rows.
    pub(super) fn asker(&self) -> Asker<'_> {
        self.asker
    }

    /// Counts memory that is used until the answer is made.
    ///
    /// # Errors
    ///
    /// When the statement may not have so much.
    pub(super) fn reserve(&self, bytes: usize) -> Result<()> {
        self.memory.try_grow(bytes)
    }

    /// The states of which rows are wanted.
    pub(super) fn nodes(&self, graph: &Graph) -> Result<Vec<Node>> {
        let Some(keys) = self.keys else {
            self.reserve(graph.nodes() * size_of::<Node>())?;
            return Ok(graph.all_nodes().collect());
        };
        Ok(keys.iter().flat_map(|&key| graph.states.with_key(key)).collect())
    }

    /// Whether the answer is to have the column `name`.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.schema.column_with_name(name).is_some()
    }

    /// Sends a batch of `count` rows: `column` makes each column that is wanted, by its name.
    ///
    /// # Errors
    ///
    /// Those of `column`, and [`Gone`].
    pub(super) fn send(
        &self,
        count: usize,
        mut column: impl FnMut(&str) -> Result<ArrayRef>,
    ) -> Result<()> {
        let columns = self.schema.fields().iter().map(|field| column(field.name()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.batches.blocking_send(Ok(batch)).map_err(|_unsent| Gone.into())
    }

    /// Sends `rows` in batches: `column` makes each column that is wanted of some of them.
    pub(super) fn send_all<T>(
        &self,
        rows: &[T],
        mut column: impl FnMut(&[T], &str) -> Result<ArrayRef>,
    ) -> Result<()> {
        let batches = rows.chunks(BATCH_ROWS);
        batches.into_iter().try_for_each(|some| self.send(some.len(), |name| column(some, name)))
    }

    /// The same for rows of which each has a list of so many `items` in the column `actions`.
    pub(super) fn send_lists<T>(
        &self,
        rows: &[T],
        items: impl Fn(&T) -> usize,
        mut column: impl FnMut(&[T], &str) -> Result<ArrayRef>,
    ) -> Result<()> {
        if !self.wants("actions") {
            return self.send_all(rows, column);
        }
        let mut left = rows;
        while !left.is_empty() {
            let (some, others) = left.split_at(batch_rows(left, &items));
            self.send(some.len(), |name| column(some, name))?;
            left = others;
        }
        Ok(())
    }
}

/// How many of `rows`, at least one, make a batch.
fn batch_rows<T>(rows: &[T], items: impl Fn(&T) -> usize) -> usize {
    let mut sum = 0;
    let fits = |row: &&T| {
        sum += items(row);
        sum <= LIST_ITEMS_MAX
    };
    rows.iter().take(BATCH_ROWS).take_while(fits).count().max(1)
}

/// How a table function is called, what a row of it is, and how its arguments become a question.
pub(super) struct Call {
    pub(super) usage: &'static str,
    /// One line: what its rows are.
    about: &'static str,
    pub(super) question: fn(&Arguments<'_>) -> Result<Arc<dyn Question>>,
}

/// All of them, by name.
const CALLS: [Call; 11] = [
    Call {
        usage: "advantage('REWARD SPACE' [, gamma])",
        about: "For each transition Q, and its advantage over the best known and over what was done.",
        question: worth::advantage,
    },
    Call {
        usage: "algebra(['REWARD SPACE'])",
        about: "Laws about actions and pairs of them, with how often each could be tested and held.",
        question: algebra::question,
    },
    Call {
        usage: "best_cost('OBSERVATION SPACE')",
        about: "For each state the lowest cost that it reaches, and the shortest way there.",
        question: worth::best_cost,
    },
    Call {
        usage: "best_known('REWARD SPACE' [, gamma])",
        about: "For each state its best-known value, and the shortest way to it.",
        question: worth::best_known,
    },
    Call {
        usage: "best_sequences('OBSERVATION SPACE')",
        about: "For each benchmark the lowest cost that it reaches, and the shortest way there.",
        question: worth::best_sequences,
    },
    Call {
        usage: "frontier('REWARD SPACE' [, actions])",
        about: "For each state its most promising untried actions.",
        question: frontier::question,
    },
    Call {
        usage: "reachable('STATE' [, steps])",
        about: "The states that can be reached from a state, and in how many steps.",
        question: paths::reachable,
    },
    Call {
        usage: "returns('REWARD SPACE' [, steps [, gamma]])",
        about: "For each step the discounted sum of its reward and those after it in its episode.",
        question: returns::question,
    },
    Call {
        usage: "sequence_to('STATE')",
        about: "For each benchmark the shortest sequence of actions to a state.",
        question: paths::sequence_to,
    },
    Call {
        usage: "sequences([steps])",
        about: "For each benchmark the shortest sequence of actions to each state.",
        question: paths::sequences,
    },
    Call {
        usage: "shortest_path('FROM', 'TO')",
        about: "The shortest way from one state to another, step by step.",
        question: paths::shortest_path,
    },
];

impl Call {
    fn name(&self) -> &'static str {
        self.usage.split('(').next().unwrap_or_default()
    }
}

/// How a table function is called and what it gives, if there is one of this name.
pub(in crate::query) fn described(name: &str) -> Option<(&'static str, &'static str)> {
    CALLS.iter().find(|call| call.name() == name).map(|call| (call.usage, call.about))
}

/// How the table functions are called.
pub(in crate::query) fn usages() -> impl Iterator<Item = &'static str> {
    CALLS.iter().map(|call| call.usage)
}

/// Makes the table functions known.
pub(in crate::query) fn register(context: &SessionContext, source: &Arc<GraphSource>) {
    for call in &CALLS {
        let function = GraphFunction { call, source: Arc::clone(source) };
        context.register_udtf(call.name(), Arc::new(function));
    }
}

struct GraphFunction {
    call: &'static Call,
    source: Arc<GraphSource>,
}

impl fmt::Debug for GraphFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.call.usage)
    }
}

impl TableFunctionImpl for GraphFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let arguments = Arguments::new(self.call.usage, args.exprs(), &self.source.identity)?;
        let question = (self.call.question)(&arguments)?;
        Ok(Arc::new(GraphTable { question, source: Arc::clone(&self.source) }))
    }
}

/// The answer to one question. Every scan works it out anew.
#[derive(Debug)]
struct GraphTable {
    question: Arc<dyn Question>,
    source: Arc<GraphSource>,
}

#[async_trait]
impl TableProvider for GraphTable {
    fn schema(&self) -> SchemaRef {
        self.question.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    /// Inexact: states that do not match are left out, but rows that do not match may remain.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.question.reads_graph() {
            self.source.counted.demand(Table::StateTransitions)?;
        }
        let schema = self.question.schema();
        let keys = key_filters(filters, &schema).into_iter();
        let keys = keys.filter(|filter| filter.column() == "state_key");
        let keys = keys.min_by_key(|filter| filter.keys().len());
        let keys = keys.map(|filter| filter.keys().clone());
        let schema = match projection {
            Some(places) => Arc::new(schema.project(places)?),
            None => schema,
        };
        let (question, source) = (Arc::clone(&self.question), Arc::clone(&self.source));
        let share = Arc::new(Work { schema: Arc::clone(&schema), question, source, keys });
        let plan = StreamingTableExec::try_new(schema, vec![share], None, None, false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// The work on an answer, of which these columns are wanted.
#[derive(Debug)]
struct Work {
    schema: SchemaRef,
    question: Arc<dyn Question>,
    source: Arc<GraphSource>,
    keys: Option<BTreeSet<i64>>,
}

impl PartitionStream for Work {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let mut stream =
            RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), WAITING_BATCHES_MAX);
        let (question, source) = (Arc::clone(&self.question), Arc::clone(&self.source));
        let (batches, keys) = (stream.tx(), self.keys.clone());
        stream.spawn_blocking(move || {
            let memory = MemoryConsumer::new("a walk over the transition graph");
            let memory = memory.register(context.memory_pool());
            let has_left = || batches.is_closed();
            let (asker, keys) = (Asker::new(&has_left), keys.as_ref());
            let answered =
                question.answer(&source, &Rows { schema, batches: &batches, asker, keys, memory });
            // A thread goes on for a while after its stream was dropped. Who has to know when it is
            // free, as a server that counts what runs, puts something shared into the session's
            // extensions: the context has them, and is held until here.
            drop(context);
            answered
        });
        stream.build()
    }
}

/// A question about a state that is not in the graph.
pub(super) fn unknown_state(state: &crate::model::StateId) -> DataFusionError {
    datafusion::common::exec_datafusion_err!(
        "state {state} is not in the transition graph: no transition that dedup counted leads to it or from it; \
         the rarer results of a conflict are none, nor is what a retracted action did"
    )
}
