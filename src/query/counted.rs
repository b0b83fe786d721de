//! What a derived table does not count is said, not left out in silence.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{
    Expr, LogicalPlan, TableProviderFilterPushDown, TableScan, TableType,
};
use datafusion::physical_plan::ExecutionPlan;

use super::graph;
use crate::lake::{Snapshot, Table};

/// What a derived table does not count, or a function that walks the graph: for a warning.
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
            "{table} does not count all steps: {steps} {are} newer than the last dedup; `steplake dedup` counts \
             them"
        )
    }
}

/// What dedup has counted of the steps of a snapshot. Clones share whether the warning was given.
#[derive(Debug, Clone)]
pub(super) struct DedupCoverage {
    snapshot: Arc<Snapshot>,
    is_told: Arc<AtomicBool>,
}

impl DedupCoverage {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> Self {
        Self { snapshot, is_told: Arc::default() }
    }

    /// What it is about.
    pub(super) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// Whether the derived tables lie in several layers.
    pub(super) fn in_layers(&self) -> bool {
        self.snapshot.layers().len() > 1
    }

    /// Refuses a derived table where no dedup has counted the steps of the snapshot, in place of a
    /// table without rows; where dedup has counted some of them, a warning says so, once.
    pub(super) fn demand(&self, table: Table) -> Result<()> {
        self.snapshot
            .demand_derived(table)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        if let Some(uncounted) = self.missing_in(table)
            && !self.is_told.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("{uncounted}");
        }
        Ok(())
    }

    fn missing_in(&self, table: Table) -> Option<Uncounted> {
        let steps = self.snapshot.uncounted_steps();
        (steps > 0).then_some(Uncounted { table, steps })
    }

    /// What the first derived table that a plan reads, itself or through a function that walks the
    /// graph, does not count.
    pub(super) fn uncounted(&self, plan: &LogicalPlan) -> Option<Uncounted> {
        let mut found = None;
        let visited = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                found = derived(scan)?;
            }
            Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        });
        visited.ok()?;
        self.missing_in(found?)
    }
}

/// The derived table that a scan reads.
fn derived(scan: &TableScan) -> Result<Option<Table>> {
    let provider = source_as_provider(&scan.source)?;
    if let Some(counted) = provider.downcast_ref::<CountedTable>() {
        return Ok(Some(counted.table));
    }
    // A scan of a table function is called after it, as no table is. `returns` reads steps.
    let name = scan.table_name.table().trim_end_matches("()");
    let walks = name != "returns" && graph::described(name).is_some();
    Ok(walks.then_some(Table::StateTransitions))
}

/// A derived table, for who may have it.
#[derive(Debug)]
pub(super) struct CountedTable {
    pub(super) table: Table,
    pub(super) inner: Arc<dyn TableProvider>,
    pub(super) counted: DedupCoverage,
}

#[async_trait]
impl TableProvider for CountedTable {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn table_type(&self) -> TableType {
        self.inner.table_type()
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        self.inner.supports_filters_pushdown(filters)
    }

    fn statistics(&self) -> Option<Statistics> {
        self.inner.statistics()
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
