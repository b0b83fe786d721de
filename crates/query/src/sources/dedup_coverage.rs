//! Warnings and errors about steps that the derived tables do not count.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{
    Expr, LogicalPlan, TableProviderFilterPushDown, TableScan, TableType,
};
use datafusion::physical_plan::ExecutionPlan;

use crate::errors::error::stored;
use crate::forward::forward;
use crate::graph::walked;
use steplake_lake::{Snapshot, Table};

/// The steps that a derived table or a function over the graph does not count, for a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uncounted {
    /// The table.
    pub table: Table,
    /// The rows of `steps` that are newer than the last dedup.
    pub steps: u64,
}

impl fmt::Display for Uncounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, steps } = self;
        let are = if *steps == 1 { "is" } else { "are" };
        write!(
            f,
            "{table} does not count all steps: {steps} {are} newer than the last dedup; the next one counts \
             them"
        )
    }
}

/// The part of a snapshot's steps that dedup has counted. Clones give one warning together.
#[derive(Debug, Clone)]
pub(crate) struct DedupCoverage {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The schema of the tables, if there are several.
    schema: Arc<OnceLock<String>>,
    is_told: Arc<AtomicBool>,
}

impl DedupCoverage {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self { snapshot, schema: Arc::default(), is_told: Arc::default() }
    }

    /// Sets the schema that warnings name.
    pub(crate) fn name_schema(&self, name: &str) {
        self.schema.get_or_init(|| name.to_owned());
    }

    /// Whether the derived tables lie in several layers.
    pub(crate) fn in_layers(&self) -> bool {
        self.snapshot.layers().len() > 1
    }

    /// Refuses a derived table if no dedup has counted steps of the snapshot: it would have no
    /// rows. If dedup has counted only some, it logs one warning.
    pub(crate) fn demand(&self, table: Table) -> Result<()> {
        self.snapshot.demand_derived(table).map_err(stored)?;
        if let Some(uncounted) = self.missing_in(table)
            && !self.is_told.swap(true, Ordering::Relaxed)
        {
            let schema = self.schema.get().map(|schema| format!("{schema}."));
            tracing::warn!("{}{uncounted}", schema.unwrap_or_default());
        }
        Ok(())
    }

    fn missing_in(&self, table: Table) -> Option<Uncounted> {
        let steps = self.snapshot.uncounted_steps();
        (steps > 0).then_some(Uncounted { table, steps })
    }
}

/// The steps that the first derived table of a plan, or the first function over the graph, does not
/// count.
pub(crate) fn uncounted(plan: &LogicalPlan) -> Option<Uncounted> {
    let mut found = None;
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            found = missing_in_scan(scan)?;
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.ok()?;
    found
}

fn missing_in_scan(scan: &TableScan) -> Result<Option<Uncounted>> {
    let provider = source_as_provider(&scan.source)?;
    if let Some(CountedTable { table, counted, .. }) = provider.downcast_ref() {
        return Ok(counted.missing_in(*table));
    }
    Ok(walked(provider.as_ref()).and_then(|of| of.missing_in(Table::StateTransitions)))
}

/// A derived table that checks on each scan that dedup has counted steps.
#[derive(Debug)]
pub(crate) struct CountedTable {
    pub(crate) table: Table,
    pub(crate) inner: Arc<dyn TableProvider>,
    pub(crate) counted: DedupCoverage,
}

#[async_trait]
impl TableProvider for CountedTable {
    forward! { inner:
        fn schema() -> SchemaRef;
        fn table_type() -> TableType;
        fn supports_filters_pushdown(filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>>;
        fn statistics() -> Option<Statistics>;
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.counted.demand(self.table)?;
        self.inner.scan(state, projection, filters, limit).await
    }
}
