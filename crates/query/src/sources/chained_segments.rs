//! Distributes segments whose ranges of keys overlap, for a scan that merges them.

use std::iter::once;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, ScalarValue, SplitPoint};
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::logical_expr::{Expr, ident, lit};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr, RangePartitioning};

use super::partition_segments::{
    LiveRows, SegmentPartitions, file_with_keys, leading_key, ordering, shares,
};
use steplake_lake::Segment;

/// The most chains that are merged: beyond, it costs more than sorting again.
const CHAINS_MAX: usize = 8;

/// The most scans that are merged, of all partitions together: each is planned.
const SCANS_MAX: usize = 256;

/// Segments as chains, within each of which the ranges of keys follow one another, as those of a
/// layer do.
pub(crate) struct ChainedSegments<'a> {
    chains: Vec<Vec<&'a Segment>>,
    /// The places of the leading keys in the schema of the table.
    key: Vec<usize>,
    schema: &'a SchemaRef,
    live: &'a LiveRows,
    /// The least keys of the partitions after the first.
    splits: Vec<i64>,
}

/// The keys of a partition: from the first, up to the second.
pub(crate) type KeyRange = (Option<i64>, Option<i64>);

/// What a partition reads of a chain.
pub(crate) struct ChainPart<'a> {
    pub(crate) segments: Vec<&'a Segment>,
    /// The files, in order.
    pub(crate) files: SegmentPartitions,
    /// The keys of the partition, if a file has others too: pages without them need not be read.
    pub(crate) filter: Option<Expr>,
}

impl<'a> ChainedSegments<'a> {
    /// Chains segments, and cuts their keys into as many ranges as there are partitions. `None` if
    /// the keys are no numbers, or there are too many chains.
    pub(crate) fn new(
        segments: &[&'a Segment],
        schema: &'a SchemaRef,
        live: &'a LiveRows,
        partitions: usize,
    ) -> Option<Self> {
        let key = leading_key(segments, schema)?;
        let with_rows = segments.iter().copied().filter(|segment| segment.live_rows() > 0);
        let chains = chains(with_rows.collect())?;
        let splits = splits(&chains, partitions.min(SCANS_MAX / chains.len()));
        Some(Self { chains, key, schema, live, splits })
    }

    /// The keys of each partition.
    pub(crate) fn ranges(&self) -> Arc<[KeyRange]> {
        let least = once(None).chain(self.splits.iter().copied().map(Some));
        let until = self.splits.iter().copied().map(Some).chain(once(None));
        least.zip(until).collect()
    }

    /// What the partition with these keys reads of each chain.
    pub(crate) fn within(&self, range: KeyRange) -> Result<Vec<ChainPart<'a>>> {
        self.chains.iter().map(|chain| self.part(chain, range)).collect()
    }

    fn part(&self, chain: &[&'a Segment], (from, until): KeyRange) -> Result<ChainPart<'a>> {
        let is_below = |key: i64| from.is_some_and(|from| key < from);
        let is_above = |key: i64| until.is_some_and(|until| key >= until);
        let keys = |segment: &Segment| segment.key_range.expect("the keys of a chain are known");
        let own = chain.iter().filter(|segment| {
            let (least, greatest) = keys(segment);
            !is_below(greatest) && !is_above(least)
        });
        let segments: Vec<&Segment> = own.copied().collect();
        let has_others = segments.iter().any(|segment| {
            let (least, greatest) = keys(segment);
            is_below(least) || is_above(greatest)
        });
        let column = || ident(self.schema.field(self.key[0]).name());
        let bounds = [
            from.map(|from| column().gt_eq(lit(from))),
            until.map(|until| column().lt(lit(until))),
        ];
        let filter = bounds.into_iter().flatten().reduce(Expr::and).filter(|_| has_others);
        let file = |segment: &&Segment| file_with_keys(&self.key, segment, self.schema, self.live);
        let files = segments.iter().map(file);
        let files = SegmentPartitions {
            groups: vec![FileGroup::new(files.collect::<Result<_>>()?)],
            ordering: vec![ordering(&self.key, self.schema)],
            // DataFusion does not divide the files of a declared partition further.
            partitioning: Some(Partitioning::UnknownPartitioning(1)),
        };
        Ok(ChainPart { segments, files, filter })
    }

    /// The order and the partitions of what is merged, whose leading key is the column of this name
    /// and place.
    pub(crate) fn merged(&self, name: &str, place: usize) -> (LexOrdering, Partitioning) {
        let options = SortOptions { descending: false, nulls_first: false };
        let key = PhysicalSortExpr::new(Arc::new(Column::new(name, place)), options);
        let ordering = LexOrdering::new([key]).expect("there is a key");
        let points = self.splits.iter().map(|&key| SplitPoint::new(vec![ScalarValue::from(key)]));
        let ranges = RangePartitioning::new(ordering.clone(), points.collect());
        (ordering, Partitioning::Range(ranges))
    }
}

/// Chains segments: each goes to the first chain that ends before it begins.
fn chains(mut segments: Vec<&Segment>) -> Option<Vec<Vec<&Segment>>> {
    segments.sort_by_key(|segment| segment.key_range);
    let mut chains: Vec<Vec<&Segment>> = Vec::new();
    for segment in segments {
        let (least, _) = segment.key_range?;
        let ends_before = |chain: &&mut Vec<&Segment>| {
            let last = chain.last().and_then(|last| last.key_range);
            last.is_some_and(|(_, greatest)| greatest < least)
        };
        match chains.iter_mut().find(ends_before) {
            Some(chain) => chain.push(segment),
            None => chains.push(vec![segment]),
        }
    }
    (1..=CHAINS_MAX).contains(&chains.len()).then_some(chains)
}

/// The least keys of the partitions after the first: where the files of the largest chain begin, or
/// at equal distances. There may be fewer than wanted.
fn splits(chains: &[Vec<&Segment>], partitions: usize) -> Vec<i64> {
    let bytes = |chain: &&Vec<&Segment>| chain.iter().map(|segment| segment.bytes).sum::<u64>();
    let Some(largest) = chains.iter().max_by_key(bytes) else { return Vec::new() };
    if let Some(shares) = shares(largest, partitions) {
        let starts = shares.iter().skip(1);
        return starts.filter_map(|share| Some(share.first()?.key_range?.0)).collect();
    }
    let ranges = chains.iter().flatten().filter_map(|segment| segment.key_range);
    let (least, greatest) = ranges.fold((i64::MAX, i64::MIN), |(least, greatest), range| {
        (least.min(range.0), greatest.max(range.1))
    });
    let (width, count) = (i128::from(greatest) - i128::from(least), partitions as i128);
    let at = |number: i128| i64::try_from(i128::from(least) + width * number / count).ok();
    let mut splits: Vec<i64> = (1..count).filter_map(at).collect();
    splits.dedup();
    splits
}
