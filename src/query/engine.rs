use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::ViewTable;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Analyzer;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};

use super::answer::Answer;
use super::backend::Backend;
use super::counted::{CountedTable, DedupCoverage};
use super::explain::{Known, explain};
use super::functions::FunctionMemory;
use super::graph::{GraphSource, Graphs};
use super::layered::LayeredLakeTable;
use super::literals::{StateComparisons, StateLists};
use super::named::Query;
use super::progress::QueryProgress;
use super::spill::SpillSpace;
use super::tables::LakeTable;
use super::views::views;
use super::yielding::YieldInJoins;
use super::{QueryError, bounded, catalog, functions, graph, nesting, statements};
use crate::lake::{Identity, Segment, Snapshot, Table};
use crate::model::StateId;

/// Shows bitcode as text. Given by the caller, since the query layer knows no compiler; an `Err` is
/// one line that says why this bitcode cannot be shown.
pub type IrRenderer = Arc<dyn Fn(&[u8]) -> Result<String, String> + Send + Sync>;

/// Makes the IR of states again that the lake does not store. Given by the caller, since the query
/// layer knows no compiler.
pub trait IrRebuilder: Send + Sync + fmt::Debug {
    /// The bitcode of each of these states, in order; none where the lake was never to hold it. It
    /// is called from the threads that work on a query, a few dozen states at a time, and may take
    /// long.
    ///
    /// # Errors
    ///
    /// [`QueryError::Store`] where the lake is damaged, else [`QueryError::NotRebuilt`]: one line
    /// that says which state cannot be had, why, and what to do.
    fn rebuild(
        &self,
        snapshot: &Snapshot,
        states: &[StateId],
    ) -> Result<Vec<Option<Vec<u8>>>, QueryError>;
}

/// Rows of a batch in a query that asks for IR.
const IR_BATCH_ROWS: usize = 64;

/// What an engine may use.
#[derive(Debug, Clone, Default)]
pub struct EngineOptions {
    /// Bytes of memory for sorts, joins and groups together; past it they spill to temporary files
    /// where they can, and fail where they cannot. `None`: as much as there is.
    pub memory_bytes_max: Option<NonZeroUsize>,
    /// The disk space for what spills. Engines may share it; clones do.
    pub spill: SpillSpace,
    /// What is kept of transition graphs from one question to the next, and the memory for it.
    /// Engines may share it; clones do.
    pub graphs: Graphs,
    /// Parts that a query is worked on in at once. `None`: as many as there are cores.
    pub threads: Option<NonZeroUsize>,
    /// Where the IR of states comes from that the lake does not store. `None`: such states have
    /// none.
    pub rebuilder: Option<Arc<dyn IrRebuilder>>,
    /// Where queries run. `None`: in this process.
    pub backend: Option<Arc<dyn Backend>>,
}

/// Answers SQL about one snapshot of a lake. It only reads, and what it says never changes: rows
/// that are recorded later are in a later snapshot.
pub struct Engine {
    pub(super) context: SessionContext,
    identity: Arc<Identity>,
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
            context: context(options).map_err(|error| explain(error, &Known::default()))?,
            identity: Arc::clone(&identity),
            tables: Vec::new(),
            rows: HashMap::new(),
            segments: HashMap::new(),
            backend: options.backend.clone(),
            counted: DedupCoverage::new(Arc::clone(&snapshot)),
        };
        for table in Table::ALL {
            let provider = engine.table(&snapshot, table).await.map_err(failed)?;
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
        let state = engine.context.state_ref();
        let source =
            functions::IrSource { snapshot, rebuilder: options.rebuilder.clone(), renderer };
        functions::register(&mut *state.write(), &identity, source).map_err(failed)?;
        bounded::register(&mut *state.write()).map_err(failed)?;
        for view in views(&identity) {
            let plan = engine.context.state().create_logical_plan(&view.sql).await;
            let plan = plan.map_err(failed)?;
            engine.register(view.name, Arc::new(ViewTable::new(plan, Some(view.sql))))?;
        }
        Ok(engine)
    }

    async fn table(
        &self,
        snapshot: &Arc<Snapshot>,
        table: Table,
    ) -> datafusion::common::Result<Arc<dyn TableProvider>> {
        if let Some(backend) = &self.backend {
            return backend.table(snapshot, table).await;
        }
        if !table.is_derived() {
            return Ok(Arc::new(LakeTable::new(snapshot, table)));
        }
        let inner: Arc<dyn TableProvider> = if self.counted.in_layers() {
            Arc::new(LayeredLakeTable::new(snapshot, table))
        } else {
            Arc::new(LakeTable::new(snapshot, table))
        };
        Ok(Arc::new(CountedTable { table, inner, counted: self.counted.clone() }))
    }

    fn at_hand(&self, batch: RecordBatch) -> datafusion::common::Result<Arc<dyn TableProvider>> {
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

    /// Begins to answer a named query. What `values` does not name takes the query's own default.
    ///
    /// # Errors
    ///
    /// [`QueryError::UnknownQuery`], [`QueryError::Parameter`].
    pub async fn named(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<Answer, QueryError> {
        let prepared = self.prepare(Query::get(name)?, values).await?;
        self.answer(&prepared.sql, prepared.values).await
    }

    /// The names of all tables and views.
    pub fn tables(&self) -> &[String] {
        &self.tables
    }

    /// How many rows a table has; a view is counted only when it is asked.
    pub(super) fn rows_of(&self, table: &str) -> Option<u64> {
        self.rows.get(table).copied()
    }

    /// What the lake is a lake of.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// How the table functions are called, by name: `reachable('STATE' [, steps])`.
    pub fn table_functions() -> impl Iterator<Item = &'static str> {
        graph::usages()
    }

    /// DataFusion's own session, for callers that build plans themselves. It has the tables, views
    /// and functions; it does not keep its user from statements that write.
    pub fn context(&self) -> &SessionContext {
        &self.context
    }

    async fn answer(
        &self,
        text: &str,
        values: Vec<(String, ScalarValue)>,
    ) -> Result<Answer, QueryError> {
        let known = self.known();
        let frame = self.plan(text, values).await;
        let frame = frame.map_err(|error| explain(error, &known))?;
        self.run(frame, known).await
    }

    /// What errors may be about, before there is a plan.
    pub(super) fn known(&self) -> Known {
        let identity = Some(Arc::clone(&self.identity));
        Known { tables: self.tables.clone(), identity, segments: Vec::new() }
    }

    /// Begins to run a plan.
    pub(super) async fn run(
        &self,
        frame: DataFrame,
        mut known: Known,
    ) -> Result<Answer, QueryError> {
        known.segments = self.segments_of(frame.logical_plan());
        let uncounted = self.counted.uncounted(frame.logical_plan());
        let answer = match &self.backend {
            Some(backend) => {
                let stream = backend.execute(frame).await;
                stream.map(|stream| (stream, QueryProgress::unknown()))
            }
            None => begin(frame).await,
        };
        match answer {
            Ok((stream, progress)) => Ok(Answer::new(stream, known, progress, uncounted)),
            Err(error) => Err(explain(error, &known)),
        }
    }

    async fn plan(
        &self,
        text: &str,
        values: Vec<(String, ScalarValue)>,
    ) -> datafusion::common::Result<DataFrame> {
        let (state, plan) = self.read(text).await?;
        let frame = DataFrame::new(state, plan);
        if values.is_empty() {
            Ok(frame)
        } else {
            frame.with_param_values(ParamValues::from(values))
        }
    }

    /// The plan of a statement that only reads, with the session that it is to run in.
    pub(super) async fn read(
        &self,
        text: &str,
    ) -> datafusion::common::Result<(SessionState, LogicalPlan)> {
        nesting::demand_shallow(text)?;
        let mut state = self.context.state();
        let dialect = state.config_options().sql_parser.dialect;
        let statement = state.sql_to_statement(text, &dialect)?;
        statements::refuse_writes(&statement)?;
        let plan = state.statement_to_plan(statement).await?;
        if let Some(backend) = &self.backend {
            backend.check(&plan)?;
            // Its tables are its own, so they are looked at here. Those in layers are views there,
            // which leave nothing but their name; and a name may be anybody's.
            let in_layers = self.counted.in_layers();
            for table in Table::ALL.into_iter().filter(|table| table.is_derived()) {
                if reads_table(&plan, table, in_layers)? {
                    self.counted.demand(table)?;
                }
            }
        }
        if functions::asks_for_ir(&plan)? {
            // The IR of thousands of states at once would not fit.
            *state.config_mut() = state.config().clone().with_batch_size(IR_BATCH_ROWS);
        }
        // The statement was looked at above; this looks at what became of it.
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
fn reads_table(
    plan: &LogicalPlan,
    table: Table,
    is_view: bool,
) -> datafusion::common::Result<bool> {
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

/// Begins to run a query in this process.
async fn begin(
    frame: DataFrame,
) -> datafusion::common::Result<(SendableRecordBatchStream, QueryProgress)> {
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let stream = execute_stream(Arc::clone(&plan), task)?;
    Ok((stream, QueryProgress::new(plan)))
}

/// An error while the engine is set up, when no text of a user is in play.
fn failed(error: datafusion::common::DataFusionError) -> QueryError {
    explain(error, &Known::default())
}

/// Memory of this size, which says who had most of it when it is used up.
pub(super) fn pool(bytes: NonZeroUsize) -> Arc<dyn MemoryPool> {
    let consumers_shown = NonZeroUsize::MIN.saturating_add(2);
    Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes.get()), consumers_shown))
}

/// Fits the settings of a session to its memory: functions find it there, and what a sort holds
/// back for its last merge must leave room for the sort itself.
pub(super) fn give(config: &mut SessionConfig, pool: &Arc<dyn MemoryPool>, bytes: NonZeroUsize) {
    let options = config.options_mut();
    options.extensions.insert(FunctionMemory(Arc::clone(pool)));
    let reserved = &mut options.execution.sort_spill_reservation_bytes;
    *reserved = (*reserved).min(bytes.get() / 8);
}

/// An empty session with our settings.
fn context(options: &EngineOptions) -> datafusion::common::Result<SessionContext> {
    let mut config = SessionConfig::new().with_information_schema(true);
    if let Some(threads) = options.threads {
        config = config.with_target_partitions(threads.get());
    }
    let settings = config.options_mut();
    // Observation spaces and rewards have capitals in their names: take names as they are written.
    settings.sql_parser.enable_ident_normalization = false;
    settings.sql_parser.collect_spans = true;
    // Plain types come out: readers of Arrow files know no views.
    settings.sql_parser.map_string_types_to_utf8view = false;
    settings.execution.parquet.schema_force_view_types = false;
    // Rows of one key are in one partition of a scan: those of one key and anything else are, too.
    settings.optimizer.subset_repartition_threshold = 1;
    // Decode the filtered columns first: vectors and bitcode are wide, and few rows are asked for.
    settings.execution.parquet.pushdown_filters = true;
    settings.execution.parquet.reorder_filters = true;
    // Over partitions by range a row's partition is found by comparing boxed values: the filters
    // that joins hand to their scans cost more than they save (`benches/queries`: `advantage` takes
    // twice as long).
    settings.optimizer.enable_join_dynamic_filter_pushdown = false;

    let mut runtime = RuntimeEnvBuilder::new();
    runtime.disk_manager = Some(Arc::clone(options.spill.files()));
    if let Some(bytes) = options.memory_bytes_max {
        let pool = pool(bytes);
        give(&mut config, &pool, bytes);
        runtime = runtime.with_memory_pool(pool);
    }
    let mut analyzer = Analyzer::new().rules;
    analyzer.insert(0, Arc::new(StateLists));
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime.build_arc()?)
        .with_default_features()
        .with_analyzer_rules(analyzer)
        .with_physical_optimizer_rule(Arc::new(YieldInJoins))
        .build();
    if let Some(backend) = &options.backend {
        state = backend.session(state)?;
    }
    let context = SessionContext::new_with_state(state);
    let planned = context.state_ref();
    datafusion::execution::FunctionRegistry::register_expr_planner(
        &mut *planned.write(),
        Arc::new(StateComparisons),
    )?;
    drop(planned);
    Ok(context)
}
