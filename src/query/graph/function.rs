//! How a question to the graph becomes a table function.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::prelude::SessionContext;
use futures::StreamExt as _;

use super::arguments::Arguments;
use super::cancellation::CancellationToken;
use super::question::{Asked, Question};
use super::{GraphSource, algebra, frontier, paths, returns, value_queries};
use crate::lake::Table;
use crate::query::QueryError;
use crate::query::keys::key_filters;
use crate::query::pulled::{blocking, not_joined, pulled};

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
        question: value_queries::advantage,
    },
    Call {
        usage: "algebra(['REWARD SPACE'])",
        about: "Laws about actions and pairs of them, with how often each could be tested and held.",
        question: algebra::question,
    },
    Call {
        usage: "best_cost('OBSERVATION SPACE')",
        about: "For each state the lowest cost that it reaches, and the shortest way there.",
        question: value_queries::best_cost,
    },
    Call {
        usage: "best_known('REWARD SPACE' [, gamma])",
        about: "For each state its best-known value, and the shortest way to it.",
        question: value_queries::best_known,
    },
    Call {
        usage: "best_sequences('OBSERVATION SPACE')",
        about: "For each benchmark the lowest cost that it reaches, and the shortest way there.",
        question: value_queries::best_sequences,
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
        if self.question.needs().graph {
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
        let token = CancellationToken::default();
        let guard = token.clone().drop_guard();
        let asked = Asked::new(Arc::clone(&self.schema), token, self.keys.clone(), context);
        let (question, source) = (Arc::clone(&self.question), Arc::clone(&self.source));
        // At once, so that the questions of a statement are worked on side by side.
        let begun = SpawnedTask::spawn(async move {
            let asked = Arc::new(asked);
            let given = source.prepare(question.needs(), &asked).await?;
            blocking(move || question.answer(given, &asked)).await
        });
        let begun = async move { begun.join_unwind().await.map_err(not_joined)? };
        let batches = pulled(Arc::clone(&self.schema), begun).inspect(move |_| {
            // The stream owns the guard: dropped, it cancels the work.
            let _ = &guard;
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

/// A question about a state that is not in the graph.
pub(super) fn unknown_state(state: &crate::model::StateId) -> DataFusionError {
    let message = format!(
        "state {state} is not in the transition graph: no transition that dedup counted leads to it or from it; \
         the rarer results of a conflict are none, nor is what a retracted action did"
    );
    DataFusionError::External(Box::new(QueryError::sql(message, None)))
}
