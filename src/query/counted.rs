//! What a derived table does not count is said, not left out in silence.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, Statistics};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::store::{Snapshot, Table};

/// A derived table. Whoever scans it where no dedup has counted the steps of the snapshot gets an error in
/// place of a table without rows; where dedup has counted some of them, a warning says so, once.
#[derive(Debug)]
pub(super) struct CountedTable {
    pub(super) table: Table,
    pub(super) inner: Arc<dyn TableProvider>,
    pub(super) snapshot: Arc<Snapshot>,
    /// Whether the warning was given: the tables of one engine share this.
    pub(super) is_told: Arc<AtomicBool>,
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
        self.snapshot
            .demand_derived(self.table)
            .map_err(|error| DataFusionError::External(Box::new(error)))?;
        let missing = self.snapshot.uncounted_steps();
        if missing > 0 && !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{} counts not all steps: {missing} are newer than the last dedup; `steplake dedup` \
                 counts them",
                self.table
            );
        }
        self.inner.scan(state, projection, filters, limit).await
    }
}
