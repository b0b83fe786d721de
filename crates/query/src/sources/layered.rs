//! A derived table that lies in several layers.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, project_schema,
};

use super::blocking_stream::{Batches, blocking, blocking_stream};
use crate::errors::error::stored;
use crate::forward::inexact;
use crate::rules::keys::{KeyFilter, key_filters};
use steplake_lake::layers::{KeyRange, LayeredTable, key_ranges};
use steplake_lake::{Snapshot, Table};

/// One derived table over all layers of a snapshot. A scan merges the layers as it reads them.
/// Filters on states become ranges of keys, and only the pages of these ranges are read. Without a
/// filter, each partition of the scan reads an equal share of all keys. Keys are hashes and so
/// evenly spread, so equal shares have about as many rows.
#[derive(Debug)]
pub(crate) struct LayeredLakeTable {
    table: Table,
    schema: SchemaRef,
    snapshot: Arc<Snapshot>,
}

impl LayeredLakeTable {
    pub(crate) fn new(snapshot: &Arc<Snapshot>, table: Table) -> Self {
        Self { table, schema: snapshot.schema(table), snapshot: Arc::clone(snapshot) }
    }
}

#[async_trait]
impl TableProvider for LayeredLakeTable {
    inexact!(schema, Base);

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = project_schema(&self.schema, projection)?;
        let keys = key_filters(filters, &self.schema);
        let shares = shares(&keys, state.config().target_partitions());
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

/// The ranges of keys that each partition of a scan reads. They ascend and do not overlap.
fn shares(filters: &[KeyFilter], partitions: usize) -> Vec<Vec<KeyRange>> {
    let leading = filters.iter().filter(|filter| filter.column == "state_key");
    if let Some(fewest) = leading.map(|filter| &filter.keys).min_by_key(|keys| keys.len()) {
        return vec![fewest.iter().map(|&key| key..=key).collect()];
    }
    key_ranges(partitions).map(|range| vec![range]).collect()
}

/// A scan of the layers. Its metrics are the row groups that it read from, and the rows that it
/// decoded.
#[derive(Debug)]
struct LayeredScan {
    table: Table,
    snapshot: Arc<Snapshot>,
    /// The ranges of keys that each partition reads.
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
        let gauge = |name: &'static str| MetricBuilder::new(&self.metrics).gauge(name, partition);
        let (row_groups, rows_decoded) = (gauge("row_groups_read"), gauge("rows_decoded"));
        let output_rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        let (table, snapshot) = (self.table, Arc::clone(&self.snapshot));
        let (ranges, projection) = (self.shares[partition].clone(), self.projection.clone());
        let rows_left = self.limit.unwrap_or(usize::MAX);
        let opened = blocking(move || {
            let rows = snapshot.scan_layers_in(table, &ranges).map_err(stored)?;
            let batches: Batches = Box::new(Share {
                rows,
                projection,
                rows_left,
                row_groups,
                rows_decoded,
                output_rows,
                _snapshot: snapshot,
                _context: context,
            });
            Ok(batches)
        });
        Ok(blocking_stream(schema, opened))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// The rows of one partition of a scan, and its metrics.
struct Share {
    rows: LayeredTable,
    projection: Option<Vec<usize>>,
    /// The rows that are still wanted.
    rows_left: usize,
    row_groups: Gauge,
    rows_decoded: Gauge,
    output_rows: Count,
    /// Keeps its files from being deleted until they are read.
    _snapshot: Arc<Snapshot>,
    /// Held until the work ends, as for the functions over the graph.
    _context: Arc<TaskContext>,
}

impl Iterator for Share {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rows_left == 0 {
            return None;
        }
        let batch = self.rows.next();
        let (row_groups, rows_decoded) = self.rows.read();
        self.row_groups.set(usize::try_from(row_groups).unwrap_or(usize::MAX));
        self.rows_decoded.set(usize::try_from(rows_decoded).unwrap_or(usize::MAX));
        Some(batch?.map_err(stored).and_then(|batch| self.cut(batch)))
    }
}

impl Share {
    /// The wanted columns and rows of a batch.
    fn cut(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let batch = match &self.projection {
            Some(columns) => batch.project(columns)?,
            None => batch,
        };
        let batch = batch.slice(0, batch.num_rows().min(self.rows_left));
        self.rows_left -= batch.num_rows();
        self.output_rows.add(batch.num_rows());
        Ok(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, in_list, lit};

    #[test]
    fn partitions_share_all_keys() {
        for partitions in [1, 2, 3, 7] {
            let shares = shares(&[], partitions);
            assert_eq!(shares.len(), partitions);
            let ranges = shares.concat();
            assert_eq!(*ranges[0].start(), i64::MIN);
            assert_eq!(*ranges[ranges.len() - 1].end(), i64::MAX);
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
        let keys = (0..1000_i64).map(|key| lit(3 * key)).collect();
        let many = in_list(col("state_key"), keys, false);
        let singles = (0..1000_i64).map(|key| 3 * key..=3 * key).collect::<Vec<_>>();
        assert_eq!(of(std::slice::from_ref(&many)), [singles]);
        assert_eq!(of(&[many, col("state_key").eq(lit(9_i64))]), [[9..=9]]);
    }
}
