//! The session of an engine: its settings, its memory and its planning rules.

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::optimizer::Analyzer;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::arithmetic::{CheckedArithmetic, ConstantArithmetic};
use super::bounded::BoundedCalls;
use super::functions::FunctionMemory;
use super::options::EngineOptions;
use crate::rules::distinct_projections;
use crate::rules::literals::{StateComparisons, StateLists};
use crate::rules::yield_in_joins::YieldInJoins;

/// An empty session with our settings.
pub(super) fn context(options: &EngineOptions) -> Result<SessionContext> {
    let mut config = SessionConfig::new().with_information_schema(true);
    if let Some(threads) = options.threads {
        config = config.with_target_partitions(threads.get());
    }
    if let Some(rows) = options.batch_rows {
        config = config.with_batch_size(rows.get());
    }
    let settings = config.options_mut();
    // Observation spaces and rewards have capitals in their names: take names as they are written.
    settings.sql_parser.enable_ident_normalization = false;
    settings.sql_parser.collect_spans = true;
    // Answers have plain types: some readers of Arrow files do not know view types.
    settings.sql_parser.map_string_types_to_utf8view = false;
    settings.execution.parquet.schema_force_view_types = false;
    // The rows of one key are in one partition of a scan; so are the rows of that key and any other
    // column.
    settings.optimizer.subset_repartition_threshold = 1;
    // Decode the filtered columns first: vectors and bitcode are wide, and few rows match.
    settings.execution.parquet.pushdown_filters = true;
    settings.execution.parquet.reorder_filters = true;
    // Scans look into the filters of keys themselves, and keep them.
    settings.execution.parquet.bloom_filter_on_read = false;
    // Joins would push filters into their scans. With range partitions, each row is compared with
    // boxed values, which costs more than it saves (`benches/queries`: `advantage` takes twice as
    // long).
    settings.optimizer.enable_join_dynamic_filter_pushdown = false;

    let mut runtime = RuntimeEnvBuilder::new();
    runtime.disk_manager = Some(Arc::clone(&options.spill.files));
    if let Some(bytes) = options.memory_bytes_max {
        let pool = pool(bytes);
        give(&mut config, &pool, bytes);
        runtime = runtime.with_memory_pool(pool);
    }
    let mut analyzer = Analyzer::new().rules;
    analyzer.insert(0, Arc::new(StateLists));
    analyzer.push(Arc::new(CheckedArithmetic));
    analyzer.push(Arc::new(BoundedCalls));
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime.build_arc()?)
        .with_default_features()
        .with_analyzer_rules(analyzer)
        .with_optimizer_rules(distinct_projections::rules())
        .with_physical_optimizer_rule(Arc::new(YieldInJoins))
        .build();
    if let Some(backend) = &options.backend {
        state = backend.session(state)?;
    }
    let context = SessionContext::new_with_state(state);
    let planned = context.state_ref();
    FunctionRegistry::register_expr_planner(&mut *planned.write(), Arc::new(StateComparisons))?;
    FunctionRegistry::register_expr_planner(&mut *planned.write(), Arc::new(ConstantArithmetic))?;
    drop(planned);
    Ok(context)
}

/// A memory pool of this size. Its errors name the largest consumers.
pub(super) fn pool(bytes: NonZeroUsize) -> Arc<dyn MemoryPool> {
    let consumers_shown = NonZeroUsize::MIN.saturating_add(2);
    Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes.get()), consumers_shown))
}

/// Fits the settings of a session to its memory. Functions find the pool there, and the memory that
/// a sort reserves for its last merge must leave room for the sort itself.
pub(super) fn give(config: &mut SessionConfig, pool: &Arc<dyn MemoryPool>, bytes: NonZeroUsize) {
    let options = config.options_mut();
    options.extensions.insert(FunctionMemory::new(pool));
    let reserved = &mut options.execution.sort_spill_reservation_bytes;
    *reserved = (*reserved).min(bytes.get() / 8);
}
