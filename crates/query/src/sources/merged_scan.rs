//! A scan of segments whose ranges of keys overlap, such as the layers of a derived table, merged
//! by their leading key.

use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::compute::interleave_record_batch;
use arrow::datatypes::Int64Type;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning,
    PhysicalExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, PlanProperties,
};
use futures::{StreamExt as _, stream};

use super::chained_segments::KeyRange;

/// Merges ordered scans by their leading key. A partition has the rows of a range of keys, in
/// order; rows of the same key come in any order.
///
/// The rows of a batch are taken in runs, as long as the keys of one scan stay below those of the
/// others: most batches of a large layer get a few rows of the small ones.
#[derive(Debug)]
pub(crate) struct MergedScan {
    /// The scans of the first partition, then those of the next, each of one partition.
    scans: Vec<Arc<dyn ExecutionPlan>>,
    /// The number of scans that a partition merges.
    scans_each: usize,
    /// The keys of each partition. Scans may have others too.
    ranges: Arc<[KeyRange]>,
    /// The place of the leading key, an `Int64`.
    key: usize,
    ordering: LexOrdering,
    properties: Arc<PlanProperties>,
}

impl MergedScan {
    /// Merges `scans`, as many of them for each range of keys, which is a partition. Each is in the
    /// order of the column `key`, which `ordering` names, and has all rows of its range.
    pub(crate) fn new(
        scans: Vec<Arc<dyn ExecutionPlan>>,
        ranges: Arc<[KeyRange]>,
        key: usize,
        ordering: LexOrdering,
        partitioning: Partitioning,
    ) -> Self {
        let schema = scans[0].schema();
        let scans_each = scans.len() / ranges.len();
        let equivalence = EquivalenceProperties::new_with_orderings(schema, [ordering.clone()]);
        let (emission, bounded) = (EmissionType::Incremental, Boundedness::Bounded);
        let properties = PlanProperties::new(equivalence, partitioning, emission, bounded);
        Self { scans, scans_each, ranges, key, ordering, properties: Arc::new(properties) }
    }
}

impl DisplayAs for MergedScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MergedScan: by=[{}], scans={}", self.ordering, self.scans_each)
    }
}

impl ExecutionPlan for MergedScan {
    fn name(&self) -> &'static str {
        "MergedScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.scans.iter().collect()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition; self.scans.len()]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![Some(OrderingRequirements::from(self.ordering.clone())); self.scans.len()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // Beyond the leading key, the order of a scan is lost.
        vec![false; self.scans.len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.scans.len()]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        scans: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let are_whole = scans.iter().all(|scan| scan.output_partitioning().partition_count() == 1);
        if scans.len() != self.scans.len() || !are_whole {
            return internal_err!("a merged scan keeps its scans, each of one partition");
        }
        let (ordering, properties) = (self.ordering.clone(), Arc::clone(&self.properties));
        let (scans_each, ranges, key) = (self.scans_each, Arc::clone(&self.ranges), self.key);
        Ok(Arc::new(Self { scans, scans_each, ranges, key, ordering, properties }))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let scans = self.scans[partition * self.scans_each..].iter().take(self.scans_each);
        let inputs = scans.map(|scan| Ok(Input::new(scan.execute(0, Arc::clone(&context))?)));
        let (inputs, range) = (inputs.collect::<Result<_>>()?, self.ranges[partition]);
        let merge = Merge { inputs, range, key: self.key };
        let batches = stream::try_unfold(merge, |mut merge| async {
            Ok(merge.next().await?.map(|batch| (batch, merge)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches.boxed())))
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None); self.scans.len()]
    }

    fn statistics_from_inputs(
        &self,
        of_scans: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let own = match args.partition() {
            Some(partition) => {
                let first = partition * self.scans_each;
                &of_scans[first..first + self.scans_each]
            }
            None => of_scans,
        };
        let schema = self.schema();
        let all = Statistics::try_merge_iter(own.iter().map(AsRef::as_ref), &schema)?;
        // Scans of different partitions may read the same file.
        Ok(Arc::new(all.to_inexact()))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        FilterDescription::from_children(filters, &self.children())
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_all(pushed))
    }
}

/// The scans of a partition while they are merged.
struct Merge {
    inputs: Vec<Input>,
    range: KeyRange,
    key: usize,
}

/// A scan, with the rows that it gave and that are not merged yet.
struct Input {
    stream: SendableRecordBatchStream,
    rows: RecordBatch,
    has_ended: bool,
}

impl Input {
    fn new(stream: SendableRecordBatchStream) -> Self {
        let rows = RecordBatch::new_empty(stream.schema());
        Self { stream, rows, has_ended: false }
    }

    /// Waits for rows with keys of a range, unless there are some or no more come.
    async fn fill(&mut self, key: usize, (from, until): KeyRange) -> Result<()> {
        while self.rows.num_rows() == 0 && !self.has_ended {
            let Some(rows) = self.stream.next().await else {
                self.has_ended = true;
                break;
            };
            let rows = rows?;
            let keys = keys(&rows, key);
            let below = |bound: i64| keys.partition_point(|&key| key < bound);
            let (start, end) = (from.map_or(0, below), until.map_or(keys.len(), below));
            self.has_ended = end < keys.len();
            self.rows = rows.slice(start, end.saturating_sub(start));
        }
        Ok(())
    }

    /// Takes the rows up to the last with this key.
    fn take_until(&mut self, key: usize, last: i64) -> RecordBatch {
        let count = keys(&self.rows, key).partition_point(|&key| key <= last);
        let taken = self.rows.slice(0, count);
        self.rows = self.rows.slice(count, self.rows.num_rows() - count);
        taken
    }
}

/// The leading keys of some rows, which are never null.
fn keys(rows: &RecordBatch, key: usize) -> &[i64] {
    rows.column(key).as_primitive::<Int64Type>().values()
}

impl Merge {
    /// Merges the next rows; `None` after the last.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        for input in &mut self.inputs {
            input.fill(self.key, self.range).await?;
        }
        self.inputs.retain(|input| input.rows.num_rows() > 0);
        // Nobody's later rows have smaller keys than this one.
        let lasts = self.inputs.iter().filter_map(|input| keys(&input.rows, self.key).last());
        let Some(&last) = lasts.min() else { return Ok(None) };
        let taken = self.inputs.iter_mut().map(|input| input.take_until(self.key, last));
        let mut taken: Vec<RecordBatch> = taken.filter(|rows| rows.num_rows() > 0).collect();
        if taken.len() == 1 {
            return Ok(taken.pop());
        }
        let by_key: Vec<&[i64]> = taken.iter().map(|rows| keys(rows, self.key)).collect();
        let order = merged(&by_key);
        Ok(Some(interleave_record_batch(&taken.iter().collect::<Vec<_>>(), &order)?))
    }
}

/// The order of ascending keys: of which list each comes, and from which place there.
fn merged(lists: &[&[i64]]) -> Vec<(usize, usize)> {
    let mut order = Vec::with_capacity(lists.iter().map(|list| list.len()).sum());
    let mut places = vec![0; lists.len()];
    loop {
        // The list with the least key, and the least key of the others.
        let (mut least, mut bound) = (None::<(i64, usize)>, i64::MAX);
        for (number, list) in lists.iter().enumerate() {
            let Some(&key) = list.get(places[number]) else { continue };
            match least {
                Some((known, _)) if known <= key => bound = bound.min(key),
                _ => {
                    bound = least.map_or(bound, |(known, _)| bound.min(known));
                    least = Some((key, number));
                }
            }
        }
        let Some((_, number)) = least else { return order };
        let left = &lists[number][places[number]..];
        let run = left.iter().take_while(|&&key| key <= bound).count();
        order.extend((places[number]..places[number] + run).map(|place| (number, place)));
        places[number] += run;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merging_gives_all_keys_in_order(
            mut lists in prop::collection::vec(prop::collection::vec(-9_i64..9, 0..20), 1..5)
        ) {
            for list in &mut lists {
                list.sort_unstable();
            }
            let slices: Vec<&[i64]> = lists.iter().map(Vec::as_slice).collect();
            let order = merged(&slices);
            let keys: Vec<i64> =
                order.iter().map(|&(list, place)| lists[list][place]).collect();
            let mut wanted = lists.concat();
            wanted.sort_unstable();
            prop_assert_eq!(keys, wanted);
            let mut places = order.clone();
            places.sort_unstable();
            places.dedup();
            prop_assert_eq!(places.len(), order.len());
        }
    }
}
