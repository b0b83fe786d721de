//! A derived table that lies in several layers.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};

use super::keys::{KeyFilter, key_filters};
use crate::store::{KeyRange, Snapshot, Table};

/// Batches that wait to be taken.
const WAITING_BATCHES_MAX: usize = 2;
/// Ranges of single keys in one scan at most; more keys are asked for as the range around them.
const RANGES_MAX: usize = 64;

/// One derived table over all layers of a snapshot. A scan merges them as it goes. Filters on states
/// become ranges of keys; without one, each partition of the scan has an equal share of all keys.
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
        let ranges = ranges(&keys, state.config().target_partitions());
        let share = |ranges: Vec<KeyRange>| {
            let (table, schema) = (self.table, Arc::clone(&self.schema));
            let snapshot = Arc::clone(&self.snapshot);
            Arc::new(Share { table, schema, snapshot, ranges }) as Arc<dyn PartitionStream>
        };
        let shares = ranges.into_iter().map(share).collect();
        let schema = Arc::clone(&self.schema);
        let plan = StreamingTableExec::try_new(schema, shares, projection, None, false, limit)?;
        Ok(Arc::new(plan))
    }
}

/// The ranges of keys that a scan reads, dealt out to partitions. Ranges do not overlap.
fn ranges(filters: &[KeyFilter], partitions: usize) -> Vec<Vec<KeyRange>> {
    let leading = filters.iter().filter(|filter| filter.column() == "state_key");
    if let Some(fewest) = leading.map(KeyFilter::keys).min_by_key(|keys| keys.len()) {
        return match (fewest.first(), fewest.last()) {
            (Some(&first), Some(&last)) if fewest.len() > RANGES_MAX => vec![vec![first..=last]],
            (Some(_), Some(_)) => vec![fewest.iter().map(|&key| key..=key).collect()],
            _ => vec![Vec::new()],
        };
    }
    let partitions = i128::try_from(partitions.max(1)).unwrap_or(1);
    let cut = |number: i128| i128::from(i64::MIN) + ((1_i128 << 64) * number) / partitions;
    let key = |cut: i128| i64::try_from(cut).expect("cuts are among the keys");
    (0..partitions).map(|number| vec![key(cut(number))..=key(cut(number + 1) - 1)]).collect()
}

/// What one partition of a scan reads.
#[derive(Debug)]
struct Share {
    table: Table,
    schema: SchemaRef,
    snapshot: Arc<Snapshot>,
    ranges: Vec<KeyRange>,
}

impl PartitionStream for Share {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let mut stream = RecordBatchReceiverStreamBuilder::new(schema, WAITING_BATCHES_MAX);
        let (batches, snapshot) = (stream.tx(), Arc::clone(&self.snapshot));
        let (table, ranges) = (self.table, self.ranges.clone());
        stream.spawn_blocking(move || {
            let failed = |error| DataFusionError::External(Box::new(error));
            for range in ranges {
                for batch in snapshot.scan_layers(table, &range).map_err(failed)? {
                    if batches.blocking_send(batch.map_err(failed)).is_err() {
                        // Nobody wants more.
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        stream.build()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, in_list, lit};

    #[test]
    fn partitions_share_all_keys() {
        for partitions in [1, 2, 3, 7] {
            let ranges = ranges(&[], partitions).concat();
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
        let of = |filters: &[Expr]| ranges(&key_filters(filters, &schema), 2);
        assert_eq!(of(&[col("state_key").eq(lit(7_i64))]), [[7..=7]]);
        let keys = (0..100_i64).map(|key| lit(3 * key)).collect();
        let many = in_list(col("state_key"), keys, false);
        assert_eq!(of(std::slice::from_ref(&many)), [[0..=297]]);
        assert_eq!(of(&[many, col("state_key").eq(lit(9_i64))]), [[9..=9]]);
    }
}
