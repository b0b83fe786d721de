//! The session of an engine: its settings, its memory, and its own rules of planning.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::Analyzer;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::functions::FunctionMemory;
use super::literals::{StateComparisons, StateLists};
use super::options::EngineOptions;
use super::yielding::YieldInJoins;

/// An empty session with our settings.
pub(super) fn context(options: &EngineOptions) -> Result<SessionContext> {
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
    FunctionRegistry::register_expr_planner(&mut *planned.write(), Arc::new(StateComparisons))?;
    drop(planned);
    Ok(context)
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
