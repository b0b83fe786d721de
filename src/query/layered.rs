//! A derived table that lies in several layers.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};

use super::keys::{KeyFilter, key_filters, key_ranges};
use crate::lake::{Snapshot, Table};
use crate::layers::KeyRange;

/// Batches that wait to be taken.
const WAITING_BATCHES_MAX: usize = 2;

/// One derived table over all layers of a snapshot. A scan merges them as it goes. Filters on
/// states become ranges of keys, of which it reads the pages; without one, each partition of the
/// scan has an equal share of all keys.
#[derive(Debug)]
pub(super) struct LayeredLakeTable {
    table: Table,
    schema: SchemaRef,
    snapshot: Arc<Snapshot>,
}

impl LayeredLakeTable {
    pub(super) fn new(snapshot: &Arc<Snapshot>, table: Table) -> Self {
        Self { table, schema: snapshot.schema(table), snapshot: Arc::clone(snapshot) }
    }
}

#[async_trait]
impl TableProvider for LayeredLakeTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    /// Inexact: ranges of keys are left out, but rows that do not match may remain.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let keys = key_filters(filters, &self.schema);
        let shares = shares(&keys, state.config().target_partitions());
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(shares.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(LayeredScan {
            table: self.table,
            snapshot: Arc::clone(&self.snapshot),
            shares,
            projection: projection.cloned(),
            limit,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }
}

/// The ranges of keys that each partition of a scan reads. Ranges do not overlap, and ascend.
fn shares(filters: &[KeyFilter], partitions: usize) -> Vec<Vec<KeyRange>> {
    let leading = filters.iter().filter(|filter| filter.column() == "state_key");
    if let Some(fewest) = leading.map(KeyFilter::keys).min_by_key(|keys| keys.len()) {
        return vec![fewest.iter().map(|&key| key..=key).collect()];
    }
    key_ranges(partitions).map(|range| vec![range]).collect()
}

/// A scan of the layers. Its metrics say of how many row groups it read something, and how many
/// rows it decoded.
#[derive(Debug)]
struct LayeredScan {
    table: Table,
    snapshot: Arc<Snapshot>,
    /// What each partition reads.
    shares: Vec<Vec<KeyRange>>,
    projection: Option<Vec<usize>>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DisplayAs for LayeredScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, partitions) = (self.table, self.shares.len());
        let ranges = self.shares.iter().map(Vec::len).sum::<usize>();
        write!(f, "LayeredScan: table={table}, partitions={partitions}, key_ranges={ranges}")?;
        self.limit.map_or(Ok(()), |limit| write!(f, ", limit={limit}"))
    }
}

impl ExecutionPlan for LayeredScan {
    fn name(&self) -> &'static str {
        "LayeredScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(self.properties.equivalence_properties().schema());
        let mut stream = RecordBatchReceiverStreamBuilder::new(schema, WAITING_BATCHES_MAX);
        let counter =
            |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, partition);
        let share = Share {
            table: self.table,
            snapshot: Arc::clone(&self.snapshot),
            ranges: self.shares[partition].clone(),
            projection: self.projection.clone(),
            limit: self.limit,
            row_groups: counter("row_groups_read"),
            rows_decoded: counter("rows_decoded"),
            output_rows: MetricBuilder::new(&self.metrics).output_rows(partition),
        };
        let batches = stream.tx();
        // Nobody wants more once a batch is not taken.
        stream.spawn_blocking(move || {
            let read = share.read(&mut |batch| batches.blocking_send(Ok(batch)).is_ok());
            // Held until here, as by the functions that walk the graph: who shares something with
            // the session's extensions sees by that when this thread is free.
            drop(context);
            read
        });
        Ok(stream.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// What one partition of a scan reads, and where it says how much that was.
struct Share {
    table: Table,
    snapshot: Arc<Snapshot>,
    ranges: Vec<KeyRange>,
    projection: Option<Vec<usize>>,
    limit: Option<usize>,
    row_groups: Count,
    rows_decoded: Count,
    output_rows: Count,
}

impl Share {
    /// Hands batch after batch to `take`, until it says that it wants no more.
    fn read(self, take: &mut dyn FnMut(RecordBatch) -> bool) -> Result<()> {
        let failed = |error| DataFusionError::External(Box::new(error));
        let mut rows = self.snapshot.scan_layers_in(self.table, &self.ranges).map_err(failed)?;
        let mut left = self.limit.unwrap_or(usize::MAX);
        while left > 0
            && let Some(batch) = rows.next()
        {
            let mut batch = batch.map_err(failed)?;
            if let Some(columns) = &self.projection {
                batch = batch.project(columns)?;
            }
            let batch = batch.slice(0, batch.num_rows().min(left));
            left -= batch.num_rows();
            self.output_rows.add(batch.num_rows());
            if !take(batch) {
                break;
            }
        }
        let (row_groups, decoded) = rows.read();
        self.row_groups.add(usize::try_from(row_groups).unwrap_or(usize::MAX));
        self.rows_decoded.add(usize::try_from(decoded).unwrap_or(usize::MAX));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, in_list, lit};

    #[test]
    fn partitions_share_all_keys() {
        for partitions in [1, 2, 3, 7] {
            let ranges = shares(&[], partitions).concat();
            assert_eq!(ranges.len(), partitions);
            assert_eq!(*ranges[0].start(), i64::MIN);
            assert_eq!(*ranges[partitions - 1].end(), i64::MAX);
            for pair in ranges.windows(2) {
                assert_eq!(pair[0].end() + 1, *pair[1].start());
            }
        }
    }

    #[test]
    fn keys_that_are_asked_for_become_ranges() {
        use arrow::datatypes::{DataType, Field, Schema};
        let schema = Schema::new(vec![Field::new("state_key", DataType::Int64, false)]);
        let of = |filters: &[Expr]| shares(&key_filters(filters, &schema), 2);
        assert_eq!(of(&[col("state_key").eq(lit(7_i64))]), [[7..=7]]);
        let keys = (0..100_i64).map(|key| lit(3 * key)).collect();
        let many = in_list(col("state_key"), keys, false);
        let singles = (0..100_i64).map(|key| 3 * key..=3 * key).collect::<Vec<_>>();
        assert_eq!(of(std::slice::from_ref(&many)), [singles]);
        assert_eq!(of(&[many, col("state_key").eq(lit(9_i64))]), [[9..=9]]);
    }
}
