//! A derived table that lies in several layers.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};

use super::keys::{KeyFilter, key_filters, key_ranges};
use super::pulled::{Batches, pulled};
use crate::lake::{Snapshot, Table};
use crate::layers::KeyRange;

/// Bytes of the rows that a slice yields, about.
const SLICE_BYTES: usize = 8 << 20;
/// Rows of a slice, about: each opens its files anew and decodes whole pages, so it is not to be
/// too small.
const SLICE_ROWS: (u64, u64) = (1 << 14, 1 << 18);
/// Keys of a slice where single ones are asked for. A state has at most as many rows as there are
/// actions.
const SLICE_KEYS_MAX: usize = 256;
/// Bytes of a text, about.
const TEXT_BYTES: usize = 256;

/// One derived table over all layers of a snapshot. A scan merges them as it goes. Filters on
/// states become ranges of keys, of which it reads the pages; without one, each partition of the
/// scan has an equal share of all keys.
///
/// A partition reads slice after slice of its keys, each when the rows of the one before are taken.
/// Keys are hashes and so evenly spread: slices of equal width have about as many rows.
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

    /// The rows of all layers that a scan reads.
    fn rows(&self) -> u64 {
        match self.table {
            Table::Failures => self.snapshot.rows(Table::Failures),
            _ => self.snapshot.rows(Table::StateTransitions) + self.snapshot.rows(Table::Conflicts),
        }
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
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        let keys = key_filters(filters, &self.schema);
        let rows = self.rows();
        let shares = shares(&keys, state.config().target_partitions(), rows / slice_rows(&schema));
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

/// Ranges of keys that do not overlap and ascend.
type Slice = Vec<KeyRange>;

/// The slices that each partition of a scan reads, one after another. Without filters there are at
/// least so many as `slices` says.
fn shares(filters: &[KeyFilter], partitions: usize, slices: u64) -> Vec<Vec<Slice>> {
    let leading = filters.iter().filter(|filter| filter.column() == "state_key");
    if let Some(fewest) = leading.map(KeyFilter::keys).min_by_key(|keys| keys.len()) {
        let single: Vec<KeyRange> = fewest.iter().map(|&key| key..=key).collect();
        return vec![single.chunks(SLICE_KEYS_MAX).map(<[KeyRange]>::to_vec).collect()];
    }
    let each = usize::try_from(slices).unwrap_or(usize::MAX).div_ceil(partitions).max(1);
    let mut ranges = key_ranges(partitions.saturating_mul(each));
    let share = |_| ranges.by_ref().take(each).map(|range| vec![range]).collect();
    (0..partitions).map(share).collect()
}

/// The rows of a slice.
fn slice_rows(schema: &SchemaRef) -> u64 {
    let bytes = |kind: &DataType| match kind {
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).unwrap_or_default(),
        other => other.primitive_width().unwrap_or(TEXT_BYTES),
    };
    let row_bytes = schema.fields().iter().map(|field| bytes(field.data_type())).sum::<usize>();
    let rows = (SLICE_BYTES / row_bytes.max(1)) as u64;
    rows.clamp(SLICE_ROWS.0, SLICE_ROWS.1)
}

/// A scan of the layers. Its metrics say of how many row groups it read something, and how many
/// rows it decoded.
#[derive(Debug)]
struct LayeredScan {
    table: Table,
    snapshot: Arc<Snapshot>,
    /// What each partition reads.
    shares: Vec<Vec<Slice>>,
    projection: Option<Vec<usize>>,
    limit: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl DisplayAs for LayeredScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, partitions) = (self.table, self.shares.len());
        let ranges = self.shares.iter().flatten().map(Vec::len).sum::<usize>();
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
        let counter =
            |name: &'static str| MetricBuilder::new(&self.metrics).counter(name, partition);
        let share = Share {
            table: self.table,
            snapshot: Arc::clone(&self.snapshot),
            schema: Arc::clone(&schema),
            slices: self.shares[partition].clone().into_iter(),
            projection: self.projection.clone(),
            left: self.limit.unwrap_or(usize::MAX),
            ready: VecDeque::new(),
            row_groups: counter("row_groups_read"),
            rows_decoded: counter("rows_decoded"),
            output_rows: MetricBuilder::new(&self.metrics).output_rows(partition),
            _context: context,
        };
        let batches: Batches = Box::new(share);
        Ok(pulled(schema, std::future::ready(Ok(batches))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// What one partition of a scan reads, and where it says how much that was.
struct Share {
    table: Table,
    snapshot: Arc<Snapshot>,
    schema: SchemaRef,
    slices: std::vec::IntoIter<Slice>,
    projection: Option<Vec<usize>>,
    /// Rows that are still wanted.
    left: usize,
    /// Rows of the last slice that were not taken yet.
    ready: VecDeque<RecordBatch>,
    row_groups: Count,
    rows_decoded: Count,
    output_rows: Count,
    /// Held until the work is over, as by the functions that walk the graph.
    _context: Arc<TaskContext>,
}

impl Iterator for Share {
    type Item = Result<RecordBatch>;

    /// The next rows, none of them where the next slice has none.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty() {
            let slice = self.slices.next().filter(|_| self.left > 0)?;
            if let Err(error) = self.read(&slice) {
                return Some(Err(error));
            }
        }
        let batch = self.ready.pop_front();
        Some(Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&self.schema)))))
    }
}

impl Share {
    fn read(&mut self, slice: &Slice) -> Result<()> {
        let mut rows = self.snapshot.scan_layers_in(self.table, slice)?;
        while self.left > 0
            && let Some(batch) = rows.next()
        {
            let mut batch = batch?;
            if let Some(columns) = &self.projection {
                batch = batch.project(columns)?;
            }
            let batch = batch.slice(0, batch.num_rows().min(self.left));
            self.left -= batch.num_rows();
            self.output_rows.add(batch.num_rows());
            self.ready.push_back(batch);
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
        for (partitions, slices) in [(1, 0), (2, 1), (3, 100), (7, 7)] {
            let shares = shares(&[], partitions, slices);
            assert_eq!(shares.len(), partitions);
            let ranges = shares.concat().concat();
            assert!(ranges.len() as u64 >= slices.max(1));
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
        let of = |filters: &[Expr]| shares(&key_filters(filters, &schema), 2, 9);
        assert_eq!(of(&[col("state_key").eq(lit(7_i64))]), [[[7..=7]]]);
        let keys = (0..100_i64).map(|key| lit(3 * key)).collect();
        let many = in_list(col("state_key"), keys, false);
        let singles = (0..100_i64).map(|key| 3 * key..=3 * key).collect::<Vec<_>>();
        assert_eq!(of(std::slice::from_ref(&many)), [[singles]]);
        assert_eq!(of(&[many, col("state_key").eq(lit(9_i64))]), [[[9..=9]]]);
        let keys = (0..1000_i64).map(lit).collect();
        let slices = of(&[in_list(col("state_key"), keys, false)]).concat();
        assert!(slices.iter().all(|slice| slice.len() <= SLICE_KEYS_MAX));
        assert_eq!(slices.concat().len(), 1000);
    }
}
