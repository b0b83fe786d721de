//! The engine: SQL about snapshots of lakes.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::catalog::{
    CatalogProvider, MemTable, MemorySchemaProvider, SchemaProvider, TableProvider,
};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as PlanResult, ScalarValue};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::ViewTable;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SQLOptions, SessionContext};

use super::backend::Backend;
use super::functions::IrSource;
use super::graph::{GraphSource, TableFunction};
use super::options::{EngineOptions, IrRenderer};
use super::progress::QueryProgress;
use super::{bounded, functions, graph, session};
use crate::answers::answer::Answer;
use crate::errors::error::QueryError;
use crate::errors::explain::{CATALOG, ErrorContext, SCHEMA, explain, needs_one_lake};
use crate::questions::nesting;
use crate::questions::statements;
use crate::rules::computed_arguments;
use crate::rules::plan_size;
use crate::sources::catalog;
use crate::sources::dedup_coverage::{CountedTable, DedupCoverage};
use crate::sources::tables::LakeTable;
use crate::sources::views::views;
use steplake_lake::{Identity, Segment, Snapshot, Table};

/// Rows of a batch in a query that calls `ir()` or reads program graphs.
const LARGE_BATCH_ROWS: usize = 64;

/// Answers SQL about one snapshot of a lake, or of each of several lakes. It only reads, and its
/// answers never change: rows that are recorded later are in a later snapshot.
pub struct Engine {
    pub(super) context: SessionContext,
    /// The names of several lakes; empty for one lake.
    lakes: Vec<String>,
    pub(super) identity: Arc<Identity>,
    tables: Vec<String>,
    rows: HashMap<String, u64>,
    segments: HashMap<&'static str, Vec<Segment>>,
    backend: Option<Arc<dyn Backend>>,
    pub(super) counted: DedupCoverage,
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
            lakes: Vec::new(),
            identity: Arc::clone(&identity),
            tables: Vec::new(),
            rows: HashMap::new(),
            segments: HashMap::new(),
            backend: options.backend.clone(),
            counted: DedupCoverage::new(Arc::clone(&snapshot)),
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
        let source = IrSource { snapshot, rebuilder: options.rebuilder.clone(), renderer };
        functions::register(&mut *state.write(), &identity, source).map_err(failed)?;
        bounded::register(&mut *state.write()).map_err(failed)?;
        for (name, sql) in views(&identity) {
            let plan = engine.context.state().create_logical_plan(&sql).await.map_err(failed)?;
            engine.register(name, Arc::new(ViewTable::new(plan, Some(sql))))?;
        }
        Ok(engine)
    }

    /// Joins engines to one that answers about all their lakes. Each lake is a schema of its name,
    /// with its tables and views. The graph functions, `ir()` and named queries are refused, and so
    /// is a function whose meaning differs between the lakes. An engine that is alone keeps
    /// everything that it has, and its lake is a schema as well.
    ///
    /// # Errors
    ///
    /// [`QueryError::Sql`] if there is no engine.
    pub fn over(engines: Vec<(String, Self)>) -> Result<Self, QueryError> {
        let mut engines = engines.into_iter();
        let Some((first, mut all)) = engines.next() else {
            return Err(QueryError::sql("there is no lake to ask", None));
        };
        let (catalog, schema) = all.catalog();
        catalog.register_schema(&first, schema).map_err(failed)?;
        if engines.len() == 0 {
            return Ok(all);
        }
        catalog.register_schema(SCHEMA, Arc::new(MemorySchemaProvider::new())).map_err(failed)?;
        let (tables, rows) = (std::mem::take(&mut all.tables), std::mem::take(&mut all.rows));
        all.add_lake(&first, tables, rows);
        all.counted.name_schema(&first);
        let mut removed: Vec<&str> = functions::OF_ONE_LAKE.to_vec();
        for (name, mut other) in engines {
            catalog.register_schema(&name, other.catalog().1).map_err(failed)?;
            removed.extend(functions::that_differ(&all.identity, &other.identity));
            for table in Table::ALL.map(Table::name) {
                let segments = other.segments.remove(table).unwrap_or_default();
                all.segments.entry(table).or_default().extend(segments);
            }
            other.counted.name_schema(&name);
            all.add_lake(&name, other.tables, other.rows);
        }
        for name in removed {
            all.context.deregister_udf(name);
        }
        for function in TableFunction::ALL {
            all.context.deregister_udtf(function.name);
        }
        Ok(all)
    }

    /// The catalog, and its schema with the tables of the lake.
    fn catalog(&self) -> (Arc<dyn CatalogProvider>, Arc<dyn SchemaProvider>) {
        let catalog = self.context.catalog(CATALOG).expect("a session has a catalog");
        let schema = catalog.schema(SCHEMA).expect("a catalog has a schema");
        (catalog, schema)
    }

    fn add_lake(&mut self, name: &str, tables: Vec<String>, rows: HashMap<String, u64>) {
        let qualified = |table: String| format!("{name}.{table}");
        self.tables.extend(tables.into_iter().map(qualified));
        self.rows.extend(rows.into_iter().map(|(table, rows)| (qualified(table), rows)));
        self.lakes.push(name.to_owned());
    }

    /// The names of the lakes, if there are several.
    pub fn lakes(&self) -> &[String] {
        &self.lakes
    }

    /// The identity of the lake.
    ///
    /// # Errors
    ///
    /// [`QueryError::Sql`] if there are several lakes, of which `what` needs one.
    pub(super) fn one_identity(&self, what: &str) -> Result<&Identity, QueryError> {
        if self.lakes.is_empty() {
            return Ok(&self.identity);
        }
        Err(QueryError::sql(needs_one_lake(what, &self.lakes), None))
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
        self.run(frame, context).await
    }

    /// The context of errors before there is a plan.
    pub(super) fn error_context(&self) -> ErrorContext {
        let identity = self.lakes.is_empty().then(|| Arc::clone(&self.identity));
        let (tables, lakes) = (self.tables.clone(), self.lakes.clone());
        ErrorContext { tables, lakes, identity, segments: Vec::new() }
    }

    /// Begins to run a plan.
    pub(super) async fn run(
        &self,
        frame: DataFrame,
        mut context: ErrorContext,
    ) -> Result<Answer, QueryError> {
        context.segments = self.segments_of(frame.logical_plan());
        let uncounted = self.counted.uncounted(frame.logical_plan());
        let (stream, progress, memory) = if let Some(backend) = &self.backend {
            let stream = backend.execute(frame).await;
            let stream = stream.map_err(|error| explain(error, &context))?;
            (stream, QueryProgress { plan: None }, None)
        } else {
            let begun = begin(frame).await.map_err(|error| explain(error, &context))?;
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

/// Begins to run a query in this process.
async fn begin(frame: DataFrame) -> PlanResult<RunningQuery> {
    let (mut state, plan) = frame.into_parts();
    let (plan, planning) = plan_size::optimized(&mut state, &plan)?;
    let plan = state.query_planner().create_physical_plan(&plan, &state).await?;
    planning.end();
    let memory = planning.constants;
    let stream = execute_stream(Arc::clone(&plan), state.task_ctx())?;
    Ok(RunningQuery { stream, progress: QueryProgress { plan: Some(plan) }, memory })
}

/// An error while the engine is set up, which is not about a user's text.
fn failed(error: DataFusionError) -> QueryError {
    explain(error, &ErrorContext::default())
}
