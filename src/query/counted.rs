//! What a derived table does not count is said, not left out in silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::lake::{Snapshot, Table};

/// What dedup has counted of the steps of a snapshot. Clones share whether the warning was given.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    snapshot: Arc<Snapshot>,
    is_told: Arc<AtomicBool>,
}

impl Counted {
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
        let missing = self.snapshot.uncounted_steps();
        if missing > 0 && !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{table} counts not all steps: {missing} are newer than the last dedup; `steplake dedup` counts them"
            );
        }
        Ok(())
    }
}

/// A derived table, for who may have it.
#[derive(Debug)]
pub(super) struct CountedTable {
    pub(super) table: Table,
    pub(super) inner: Arc<dyn TableProvider>,
    pub(super) counted: Counted,
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
