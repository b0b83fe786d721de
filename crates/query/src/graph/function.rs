//! Table functions that ask questions about the graph.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, project_schema};
use datafusion::prelude::SessionContext;
use futures::StreamExt as _;

use super::arguments::CallArguments;
use super::cancellation::CancellationToken;
use super::question::{AnswerRequest, GraphQuestion};
use super::source::GraphSource;
use super::table_functions::TableFunction;
use crate::forward::inexact;
use crate::rules::keys::key_filters;
use crate::sources::blocking_stream::{blocking, blocking_stream, not_joined};
use crate::sources::dedup_coverage::DedupCoverage;
use steplake_lake::Table;

/// Registers the table functions.
pub(crate) fn register(context: &SessionContext, source: &Arc<GraphSource>) {
    for function in TableFunction::ALL {
        let implementation = GraphFunction { function, source: Arc::clone(source) };
        context.register_udtf(function.name, Arc::new(implementation));
    }
}

struct GraphFunction {
    function: TableFunction,
    source: Arc<GraphSource>,
}

impl fmt::Debug for GraphFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.function.name)
    }
}

impl TableFunctionImpl for GraphFunction {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let usage = self.function.usage();
        let arguments = CallArguments::new(usage, args.exprs(), &self.source.identity)?;
        let question = Arc::new((self.function.question)(&arguments)?);
        Ok(Arc::new(GraphTable { question, source: Arc::clone(&self.source) }))
    }
}

/// The coverage of the graph that a table walks; none for any other table, and for a question that
/// needs no graph.
pub(crate) fn walked(table: &dyn TableProvider) -> Option<&DedupCoverage> {
    let table: &GraphTable = table.downcast_ref()?;
    table.question.needs.graph.then_some(&table.source.counted)
}

/// The answer to one question. Every scan computes it again.
#[derive(Debug)]
struct GraphTable {
    question: Arc<GraphQuestion>,
    source: Arc<GraphSource>,
}

#[async_trait]
impl TableProvider for GraphTable {
    inexact!(question.schema, Temporary);

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.question.needs.graph {
            self.source.counted.demand(Table::StateTransitions)?;
        }
        let keys = key_filters(filters, &self.question.schema).into_iter();
        let keys = keys.filter(|filter| filter.column == "state_key");
        let keys = keys.map(|filter| filter.keys).min_by_key(BTreeSet::len);
        let schema = project_schema(&self.question.schema, projection)?;
        let (question, source) = (Arc::clone(&self.question), Arc::clone(&self.source));
        let share = Arc::new(AnswerTask { schema: Arc::clone(&schema), question, source, keys });
        let plan = StreamingTableExec::try_new(schema, vec![share], None, None, false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// The work on the wanted columns of an answer.
#[derive(Debug)]
struct AnswerTask {
    schema: SchemaRef,
    question: Arc<GraphQuestion>,
    source: Arc<GraphSource>,
    keys: Option<BTreeSet<i64>>,
}

impl PartitionStream for AnswerTask {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let token = CancellationToken::default();
        let guard = token.clone().drop_guard();
        let asked = AnswerRequest::new(Arc::clone(&self.schema), token, self.keys.clone(), context);
        let (question, source) = (Arc::clone(&self.question), Arc::clone(&self.source));
        // This starts at once, so that the questions of a statement run in parallel.
        let begun = SpawnedTask::spawn(async move {
            let asked = Arc::new(asked);
            let given = source.prepare(question.needs.clone(), &asked).await?;
            blocking(move || (question.answer)(given, &asked)).await
        });
        let begun = async move { begun.join_unwind().await.map_err(not_joined)? };
        let batches = blocking_stream(Arc::clone(&self.schema), begun).inspect(move |_| {
            // The stream owns the guard, which cancels the work when it is dropped.
            let _ = &guard;
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}
