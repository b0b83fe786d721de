//! The backend that runs the queries of an engine on a cluster.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use ballista_core::extension::{SessionConfigExt as _, SessionStateExt as _};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, not_impl_err};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner as _};
use steplake::lake::{Identity, Snapshot, Table};
use steplake::query::{Backend, FieldFunctions, QueryError, printed_error};

use crate::address::Address;
use crate::codec::{LogicalCodec, MESSAGE_BYTES_MAX, PhysicalCodec};
use crate::tables::{Mount, ShippedTable};
use crate::{layers, spool};

/// The maximum size of the unsealed rows of one table that are sent with a query, in bytes.
const HOT_BYTES_MAX: usize = 8 << 20;
/// The maximum number of attempts at a query while executors are lost.
const ATTEMPTS_MAX: u32 = 3;

/// A cluster that answers queries about one lake.
#[derive(Debug)]
pub(crate) struct Cluster {
    scheduler: Address,
    mount: Mount,
    partitions: usize,
    functions: HashSet<String>,
}

impl Cluster {
    pub(crate) fn new(
        scheduler: Address,
        mount: Mount,
        partitions: usize,
        identity: &Identity,
    ) -> Self {
        let own = FieldFunctions::of(&Arc::new(identity.clone()));
        let scalars = own.scalars.iter().map(|function| function.name().to_owned());
        let aggregates = own.aggregates.iter().map(|function| function.name().to_owned());
        let plain = SessionStateBuilder::new().with_default_features().build();
        let mut functions: HashSet<String> = scalars.chain(aggregates).collect();
        functions.extend(plain.scalar_functions().keys().cloned());
        Self { scheduler, mount, partitions, functions }
    }

    /// Runs the query once, and waits for the whole answer.
    async fn attempt(&self, query: DataFrame) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(query.schema().inner());
        spool::fetched(query.execute_stream().await?, &schema).await
    }
}

#[async_trait::async_trait]
impl Backend for Cluster {
    fn session(&self, state: SessionState) -> Result<SessionState> {
        // First of all, since the upgrade sets Ballista's own defaults.
        let config = state.config().clone().upgrade_for_ballista();
        let config = config
            .with_target_partitions(self.partitions)
            // Ballista 55's adaptive planner never ends if one side of a join proves to be empty.
            .with_ballista_adaptive_query_planner(false)
            .with_ballista_grpc_client_max_message_size(MESSAGE_BYTES_MAX as usize)
            .with_ballista_logical_extension_codec(Arc::new(LogicalCodec::default()))
            .with_ballista_physical_extension_codec(Arc::new(PhysicalCodec::default()));
        SessionStateBuilder::new_from_existing(state)
            .with_config(config)
            .build()
            .upgrade_for_ballista(format!("http://{}", self.scheduler))
    }

    async fn table(&self, snapshot: &Snapshot, table: Table) -> Result<Arc<dyn TableProvider>> {
        if table.is_derived() && snapshot.layers().len() > 1 {
            return layers::view(snapshot, table, &self.mount).await;
        }
        let hot = snapshot.hot(table);
        let bytes: usize = hot.iter().map(RecordBatch::get_array_memory_size).sum();
        if bytes > HOT_BYTES_MAX {
            return Err(DataFusionError::Plan(format!(
                "{} MiB of `{table}` are not sealed, and at most {} MiB can be sent to a cluster: run \
                 `steplake seal` first, or read the sealed rows with --snapshot {}",
                bytes >> 20,
                HOT_BYTES_MAX >> 20,
                snapshot.id().0
            )));
        }
        let schema = snapshot.schema(table);
        Ok(Arc::new(ShippedTable::new(&schema, snapshot.segments(table), &self.mount, hot)?))
    }

    fn rows(&self, batch: RecordBatch) -> Result<Arc<dyn TableProvider>> {
        Ok(Arc::new(ShippedTable::of(batch)))
    }

    fn check(&self, plan: &LogicalPlan) -> Result<()> {
        plan.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::RecursiveQuery(_) => {
                    return not_impl_err!("WITH RECURSIVE on a cluster; ask without --engine");
                }
                LogicalPlan::TableScan(scan)
                    if scan.table_name.schema() != Some("information_schema") =>
                {
                    let table = source_as_provider(&scan.source)?;
                    if table.downcast_ref::<ShippedTable>().is_none() {
                        let name = &scan.table_name;
                        return not_impl_err!("`{name}` on a cluster; ask without --engine");
                    }
                }
                _ => {}
            }
            node.apply_expressions(|expr| {
                expr.apply(|expr| match expr {
                    Expr::ScalarFunction(call) if !self.functions.contains(call.func.name()) => {
                        let name = call.func.name();
                        not_impl_err!(
                            "{name}() on a cluster: it needs the lake itself; ask without --engine"
                        )
                    }
                    _ => Ok(TreeNodeRecursion::Continue),
                })
            })
        })?;
        Ok(())
    }

    async fn execute(&self, query: DataFrame) -> Result<SendableRecordBatchStream> {
        let (state, plan) = query.into_parts();
        let plan = state.optimize(&plan)?;
        if !reads_a_lake(&plan)? {
            // There is nothing to distribute, and Ballista has no plans that read nothing.
            return run_locally(state, plan).await;
        }
        self.scheduler.demand_reachable().await?;
        let mut attempt = 1;
        loop {
            let query = DataFrame::new(state.clone(), plan.clone());
            match self.attempt(query).await {
                Err(error) if attempt < ATTEMPTS_MAX && is_loss(&error) => {
                    tracing::warn!(
                        "an executor or a file was lost ({}): the query runs again",
                        brief(&error)
                    );
                    attempt += 1;
                }
                Err(error) if is_unsupported(&error) => {
                    tracing::warn!(
                        "Ballista cannot run this query ({}): it runs in this process",
                        brief(&error)
                    );
                    return run_locally(state, plan).await;
                }
                Err(error) => return Err(explained(error, &self.scheduler)),
                answer => return answer,
            }
        }
    }
}

/// Returns whether a plan reads a table of the lake.
fn reads_a_lake(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found |= source_as_provider(&scan.source)?.downcast_ref::<ShippedTable>().is_some();
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Runs a plan in this process.
async fn run_locally(state: SessionState, plan: LogicalPlan) -> Result<SendableRecordBatchStream> {
    let planner = Arc::new(LocalPlanner);
    let state = SessionStateBuilder::new_from_existing(state).with_query_planner(planner).build();
    DataFrame::new(state, plan).execute_stream().await
}

/// Messages of executors about queries that Ballista 55 cannot cut into stages. The first is about
/// a window whose partition key a filter has reduced to one value: the stage after the cut does not
/// know that. The second is about rows that are partitioned by a function of steplake: Ballista
/// decodes the partitioning without our codec.
const UNSUPPORTED: [&str; 2] =
    ["Expects PARTITION BY expression to be ordered", "PhysicalExtensionCodec is not provided for"];

fn is_unsupported(error: &DataFusionError) -> bool {
    let text = error.strip_backtrace();
    UNSUPPORTED.iter().any(|message| text.contains(message))
}

/// Plans a query for this process.
struct LocalPlanner;

impl fmt::Debug for LocalPlanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalPlanner")
    }
}

#[async_trait::async_trait]
impl QueryPlanner for LocalPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::default().create_physical_plan(plan, session).await
    }
}

/// Names in Ballista's errors that mean that an executor was lost. Its errors reach a client as
/// text: names of error variants, around messages in quotes.
const LOSSES: [&str; 8] = [
    "FetchFailed",
    " times, most recent failure reason",
    "GrpcConnectionError",
    "TonicError",
    "transport::Error",
    "tcp connect error",
    "transport error",
    "ExecutorLost",
];
/// The beginning of an executor's message about a file that it cannot open.
const UNOPENED: &str = "Failed to fetch metadata for file ";

fn is_loss(error: &DataFusionError) -> bool {
    let text = match error.find_root() {
        DataFusionError::Execution(text) | DataFusionError::Internal(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let is_missing = |cause: String| cause.starts_with(UNOPENED) && cause.contains(" not found: ");
    let names = unquoted(&text);
    LOSSES.iter().any(|loss| names.contains(loss)) || cause(&text).is_some_and(is_missing)
}

/// Removes quoted parts from a text: an error may quote values of a query that look like the names
/// in [`LOSSES`].
fn unquoted(text: &str) -> String {
    let mut is_quoted = false;
    let mut characters = text.chars();
    let mut rest = String::new();
    while let Some(character) = characters.next() {
        match character {
            '"' => is_quoted = !is_quoted,
            // The next character is escaped, so it does not end the quotes.
            '\\' => {
                characters.next();
            }
            other if !is_quoted => rest.push(other),
            _ => {}
        }
    }
    rest
}

/// Formats an error in one short line.
fn brief(error: &DataFusionError) -> String {
    const CHARACTERS_MAX: usize = 200;
    let text = error.strip_backtrace();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{} …", &line[..end]),
        None => line,
    }
}

fn explained(error: DataFusionError, scheduler: &Address) -> DataFusionError {
    if is_loss(&error) {
        let what = format!(
            "the cluster at {scheduler} lost executors or files of the query {ATTEMPTS_MAX} times: {}; see the \
             logs of its executors",
            brief(&error)
        );
        return DataFusionError::External(Box::new(QueryError::Failed(what)));
    }
    let text = error.strip_backtrace();
    // As it arrives from an engine in this process.
    let printed = text.split_once(FAILED).and_then(|(_, dump)| printed_error(dump));
    let other = || cause(&text).map_or(error, DataFusionError::Execution);
    printed.unwrap_or_else(other)
}

/// What comes before the error of a failed task, which Ballista prints as Rust does.
const FAILED: &str = "Task failed due to runtime execution error: ";

/// Finds the cause of a failed task in Ballista's text: the innermost message, which is the last
/// quoted part.
fn cause(text: &str) -> Option<String> {
    let (_, inner) = text.split_once(FAILED)?;
    let begin = inner.rfind("(\"")? + 2;
    let end = inner.rfind("\")")?;
    Some(inner.get(begin..end)?.replace("\\\"", "\"").replace("\\n", " "))
}

#[cfg(test)]
mod tests {
    use ballista_core::error::BallistaError;

    use super::*;

    #[test]
    fn a_loss_is_told_from_what_a_query_says() {
        let failed = "Job 1 failed: Job failed due to stage 1 failed: ";
        let task = "Task failed due to runtime execution error: DataFusionError(";
        for lost in [
            "Stage 2 has failed 4 times, most recent failure reason: \"connection refused\"",
            "Task failed due to runtime execution error: DataFusionError(ParquetError(External(\"Failed to fetch \
             metadata for file steps/a: Object Store error: Object at location steps/a not found: No such file \
             or directory (os error 2)\")))",
        ] {
            assert!(is_loss(&DataFusionError::Execution(format!("{failed}{lost}"))), "{lost}");
        }
        let fetch = BallistaError::FetchFailed("executor".into(), 1, 0, "gone".into());
        assert!(is_loss(&fetch.into_datafusion().context("while it was read")));
        for said in ["transport error", "a \\\"FetchFailed\\\"", "steps/a not found: No such file"]
        {
            let cast =
                format!("{failed}{task}ArrowError(CastError(\"Cannot cast string '{said}'\")))");
            assert!(!is_loss(&DataFusionError::Execution(cast)), "{said}");
        }
    }

    #[test]
    fn the_cause_is_the_innermost_message() {
        let text = "Job 1 failed: Job failed due to stage 1 failed: Task failed due to runtime execution error: \
                    DataFusionError(Shared(External(ArrowError(CastError(\"Cannot cast 'x'\")))))";
        assert_eq!(cause(text).as_deref(), Some("Cannot cast 'x'"));
        assert_eq!(cause("Job 1 failed: no more"), None);
    }
}
