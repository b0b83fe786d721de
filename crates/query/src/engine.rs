//! The engine: SQL about snapshots of lakes.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::catalog::{CatalogProvider, MemTable, SchemaProvider, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as PlanResult, ScalarValue};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::ViewTable;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::{SQLOptions, SessionContext};

use super::backend::Backend;
use super::functions::{ContextIdentity, IrSource};
use super::graph::{GraphSource, TableFunction};
use super::options::{EngineOptions, IrRenderer};
use super::progress::QueryProgress;
use super::{bounded, functions, graph, session};
use crate::answers::answer::Answer;
use crate::errors::error::QueryError;
use crate::errors::explain::{CATALOG, ErrorContext, SCHEMA, explain, needs_one_context};
use crate::questions::nesting;
use crate::questions::parts::{AnswerPart, execute_part};
use crate::questions::statements;
use crate::rules::computed_arguments;
use crate::rules::plan_size;
use crate::sources::catalog;
use crate::sources::dedup_coverage::{CountedTable, DedupCoverage, uncounted};
use crate::sources::tables::LakeTable;
use crate::sources::views::views;
use steplake_lake::{Identity, Segment, Snapshot, Table};

/// Rows of a batch in a query that calls `ir()` or reads program graphs.
const LARGE_BATCH_ROWS: usize = 64;

/// Answers SQL about one snapshot of a lake, or of each of several contexts. It only reads, and its
/// answers never change: rows that are recorded later are in a later snapshot.
pub struct Engine {
    pub(super) context: SessionContext,
    /// The names of several contexts; empty for one.
    pub(super) contexts: Vec<String>,
    pub(super) identity: Arc<Identity>,
    pub(super) tables: Vec<String>,
    pub(super) rows: HashMap<String, u64>,
    pub(super) segments: HashMap<&'static str, Vec<Segment>>,
    pub(super) backend: Option<Arc<dyn Backend>>,
    pub(super) counted: DedupCoverage,
    /// The IR of each context.
    pub(super) ir: Vec<Arc<IrSource>>,
}

impl Engine {
    /// Registers the tables, views and functions of `snapshot`.
    ///
    /// # Errors
    ///
    /// [`QueryError::Failed`] when the engine cannot be set up, e.g. without a temporary folder.
    pub async fn new(
        snapshot: Snapshot,
        renderer: IrRenderer,
        options: &EngineOptions,
    ) -> Result<Self, QueryError> {
        let snapshot = Arc::new(snapshot);
        let identity = Arc::new(snapshot.identity().clone());
        let mut engine = Self {
            context: session::context(options)
                .map_err(|error| explain(error, &ErrorContext::default()))?,
            contexts: Vec::new(),
            identity: Arc::clone(&identity),
            tables: Vec::new(),
            rows: HashMap::new(),
            segments: HashMap::new(),
            backend: options.backend.clone(),
            counted: DedupCoverage::new(Arc::clone(&snapshot)),
            ir: vec![Arc::new(IrSource {
                snapshot: Arc::clone(&snapshot),
                rebuilder: options.rebuilder.clone(),
                renderer,
            })],
        };
        // The actions come from `lake.json`, which may have more than the file of the table.
        for table in Table::ALL.into_iter().filter(|&table| table != Table::Actions) {
            let provider = engine.table(&snapshot, table, options).await.map_err(failed)?;
            engine.rows.insert(table.name().to_owned(), snapshot.rows(table));
            engine.register(table.name(), provider)?;
            engine.segments.insert(table.name(), snapshot.segments(table).to_vec());
        }
        for (name, batch) in catalog::tables(&identity, &snapshot).map_err(failed)? {
            engine.rows.insert(name.to_owned(), batch.num_rows() as u64);
            let table = engine.at_hand(batch).map_err(failed)?;
            engine.register(name, table)?;
        }
        let walked = GraphSource::new(engine.counted.clone(), options);
        graph::register(&engine.context, &Arc::new(walked));
        computed_arguments::register(&engine.context);
        let state = engine.context.state_ref();
        let alone = [ContextIdentity::alone(&identity)];
        functions::register(&mut *state.write(), &alone, engine.ir.clone()).map_err(failed)?;
        bounded::register(&mut *state.write()).map_err(failed)?;
        for (name, sql) in views(&identity) {
            let plan = engine.context.state().create_logical_plan(&sql).await.map_err(failed)?;
            engine.register(name, Arc::new(ViewTable::new(plan, Some(sql))))?;
        }
        Ok(engine)
    }

    /// The catalog, and its schema with the tables of the lake.
    pub(super) fn catalog(&self) -> (Arc<dyn CatalogProvider>, Arc<dyn SchemaProvider>) {
        let catalog = self.context.catalog(CATALOG).expect("a session has a catalog");
        let schema = catalog.schema(SCHEMA).expect("a catalog has a schema");
        (catalog, schema)
    }

    /// The names of the contexts, if there are several.
    pub fn contexts(&self) -> &[String] {
        &self.contexts
    }

    /// The identity of the context.
    ///
    /// # Errors
    ///
    /// [`QueryError::Sql`] if there are several contexts, of which `what` needs one.
    pub(super) fn one_identity(&self, what: &str) -> Result<&Identity, QueryError> {
        if self.contexts.is_empty() {
            return Ok(&self.identity);
        }
        Err(QueryError::sql(needs_one_context(what, &self.contexts), None))
    }

    async fn table(
        &self,
        snapshot: &Arc<Snapshot>,
        table: Table,
        options: &EngineOptions,
    ) -> PlanResult<Arc<dyn TableProvider>> {
        if let Some(backend) = &self.backend {
            return backend.table(snapshot, table).await;
        }
        let inner = Arc::new(LakeTable::new(snapshot, table, options));
        if !table.is_derived() {
            return Ok(inner);
        }
        Ok(Arc::new(CountedTable { table, inner, counted: self.counted.clone() }))
    }

    fn at_hand(&self, batch: RecordBatch) -> PlanResult<Arc<dyn TableProvider>> {
        match &self.backend {
            Some(backend) => backend.rows(batch),
            None => Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)),
        }
    }

    fn register(&mut self, name: &str, table: Arc<dyn TableProvider>) -> Result<(), QueryError> {
        self.context.register_table(name, table).map_err(failed)?;
        self.tables.push(name.to_owned());
        Ok(())
    }

    /// Begins to answer one statement: SELECT, EXPLAIN, SHOW or DESCRIBE.
    ///
    /// # Errors
    ///
    /// [`QueryError::Sql`] for a mistake in `text`, [`QueryError::ReadOnly`] for a statement that
    /// would change something.
    pub async fn sql(&self, text: &str) -> Result<Answer, QueryError> {
        self.answer(text, Vec::new()).await
    }

    /// The names of all tables and views.
    pub fn tables(&self) -> &[String] {
        &self.tables
    }

    /// The number of rows of a table; none for a view.
    pub(super) fn rows_of(&self, table: &str) -> Option<u64> {
        self.rows.get(table).copied()
    }

    /// How the table functions are called, by name: `reachable('STATE' [, steps])`.
    pub fn table_functions() -> impl Iterator<Item = &'static str> {
        TableFunction::ALL.into_iter().map(TableFunction::usage)
    }

    /// DataFusion's own session, for callers that build plans themselves. It has the tables, views
    /// and functions; it does not refuse statements that write.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    pub(super) async fn answer(
        &self,
        text: &str,
        values: Vec<(String, ScalarValue)>,
    ) -> Result<Answer, QueryError> {
        let context = self.error_context();
        let frame = async {
            let (state, plan) = self.read(text).await?;
            let frame = DataFrame::new(state, plan);
            if values.is_empty() { Ok(frame) } else { frame.with_param_values(values) }
        };
        let frame = frame.await.map_err(|error| explain(error, &context))?;
        self.run(frame, context, None).await
    }

    /// The context of errors before there is a plan.
    pub(super) fn error_context(&self) -> ErrorContext {
        let identity = self.contexts.is_empty().then(|| Arc::clone(&self.identity));
        ErrorContext { tables: self.tables.clone(), identity, segments: Vec::new() }
    }

    /// Begins to run a plan, or a part of it.
    pub(super) async fn run(
        &self,
        frame: DataFrame,
        mut context: ErrorContext,
        part: Option<AnswerPart>,
    ) -> Result<Answer, QueryError> {
        context.segments = self.segments_of(frame.logical_plan());
        let uncounted = uncounted(frame.logical_plan());
        let (stream, progress, memory) = if let Some(backend) = &self.backend {
            let stream = backend.execute(frame).await;
            let stream = stream.map_err(|error| explain(error, &context))?;
            (stream, QueryProgress { plan: None }, None)
        } else {
            let begun = begin(frame, part).await.map_err(|error| explain(error, &context))?;
            (begun.stream, begun.progress, Some(begun.memory))
        };
        Ok(Answer { stream, error_context: context, progress, uncounted, memory })
    }

    /// The plan of a statement that only reads, with the session to run it in.
    pub(super) async fn read(&self, text: &str) -> PlanResult<(SessionState, LogicalPlan)> {
        nesting::demand_shallow(text)?;
        let mut state = self.context.state();
        let dialect = state.config_options().sql_parser.dialect;
        let statement = state.sql_to_statement(text, &dialect)?;
        statements::refuse(&statement, &state)?;
        let plan = state.statement_to_plan(statement).await?;
        if let Some(backend) = &self.backend {
            backend.check(&plan)?;
            // The backend has tables of its own, so the plan is checked here. Its tables in layers
            // are views, which appear in a plan by their name alone, and an alias may have the same
            // name.
            let in_layers = self.counted.in_layers();
            for table in Table::ALL.into_iter().filter(|table| table.is_derived()) {
                if reads_table(&plan, table, in_layers)? {
                    self.counted.demand(table)?;
                }
            }
        }
        if functions::reads_large_values(&plan)? {
            // The IR or the graphs of thousands of states at once would not fit.
            *state.config_mut() = state.config().clone().with_batch_size(LARGE_BATCH_ROWS);
        }
        // The statement was checked above; this checks the plan.
        let reads = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        reads.verify_plan(&plan)?;
        Ok((state, plan))
    }

    /// The segments of the tables that `plan` reads.
    fn segments_of(&self, plan: &LogicalPlan) -> Vec<Segment> {
        let mut segments = Vec::new();
        let visited = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node
                && let Some(own) = self.segments.get(scan.table_name.table())
            {
                segments.extend_from_slice(own);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(visited.is_ok(), "the visit above never fails");
        segments
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("tables", &self.tables).finish_non_exhaustive()
    }
}

/// Whether a plan reads a table, which may be a view, itself or in a subquery.
fn reads_table(plan: &LogicalPlan, table: Table, is_view: bool) -> PlanResult<bool> {
    let mut reads = false;
    plan.apply_with_subqueries(|node| {
        let name = match node {
            LogicalPlan::TableScan(scan) => scan.table_name.table(),
            LogicalPlan::SubqueryAlias(alias) if is_view => alias.alias.table(),
            _ => "",
        };
        reads |= name == table.name();
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(reads)
}

/// A query that runs in this process.
struct RunningQuery {
    stream: SendableRecordBatchStream,
    progress: QueryProgress,
    /// The memory of its constants and expressions.
    memory: Arc<MemoryReservation>,
}

/// Begins to run a query, or a part of it, in this process.
async fn begin(frame: DataFrame, part: Option<AnswerPart>) -> PlanResult<RunningQuery> {
    let PhysicalQuery { plan, mut state, memory } = physical(frame).await?;
    let stream = match part {
        Some(part) => {
            // Partitions would take one another's files, as they come to them.
            let options = state.config_mut().options_mut();
            options.execution.enable_file_stream_work_stealing = false;
            execute_part(&plan, part, &state.task_ctx())?
        }
        None => execute_stream(Arc::clone(&plan), state.task_ctx())?,
    };
    Ok(RunningQuery { stream, progress: QueryProgress { plan: Some(plan) }, memory })
}

/// A query that can be run.
pub(crate) struct PhysicalQuery {
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    state: SessionState,
    memory: Arc<MemoryReservation>,
}

/// Plans how a query runs in this process.
pub(crate) async fn physical(frame: DataFrame) -> PlanResult<PhysicalQuery> {
    let (mut state, plan) = frame.into_parts();
    let (plan, planning) = plan_size::optimized(&mut state, &plan)?;
    let plan = state.query_planner().create_physical_plan(&plan, &state).await?;
    planning.end();
    Ok(PhysicalQuery { plan, state, memory: planning.constants })
}

/// An error while the engine is set up, which is not about a user's text.
fn failed(error: DataFusionError) -> QueryError {
    explain(error, &ErrorContext::default())
}
