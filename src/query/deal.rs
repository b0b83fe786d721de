//! Distributes segments over the partitions of a scan, with the order that follows from it.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue, SplitPoint, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::object_store::path::Path as StorePath;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr, RangePartitioning};

use crate::lake::Segment;

/// The most bytes of a partition, in tenths of an equal share. A scan waits for its slowest
/// partition.
const SHARE_TENTHS_MAX: u64 = 14;

/// The segments of a scan by partition.
pub(super) struct Dealt {
    pub(super) groups: Vec<FileGroup>,
    /// The order of the rows of each partition, if they have one.
    pub(super) ordering: Vec<LexOrdering>,
    /// The leading keys of each partition, if no two partitions overlap.
    pub(super) partitioning: Option<Partitioning>,
}

/// Distributes segments over partitions. If the ranges of their leading keys do not overlap, as
/// within one run or one layer, each partition gets consecutive segments, provided that the
/// partitions are then about equal. Otherwise the largest segments come first, and the order is
/// unknown.
pub(super) fn partition_segments(
    segments: &[&Segment],
    schema: &SchemaRef,
    partitions: usize,
) -> Result<Dealt> {
    if let Some(key) = leading_key(segments, schema)
        && let Some(ranges) = in_order(segments)
    {
        let ordering = key.ordering(schema);
        let shares = shares(&ranges, partitions);
        let partitioning = shares.as_deref().map(|shares| key.partitioning(shares, schema));
        if let Some(shares) = shares.or_else(|| (ranges.len() == 1).then(|| vec![ranges])) {
            let file = |ranged: &Ranged<'_>| key.file(ranged, schema);
            let group = |share: Vec<Ranged<'_>>| {
                share.iter().map(file).collect::<Result<Vec<_>>>().map(FileGroup::new)
            };
            let groups = shares.into_iter().map(group).collect::<Result<_>>()?;
            return Ok(Dealt { groups, ordering: vec![ordering], partitioning });
        }
    }
    let mut by_size = segments.to_vec();
    by_size.sort_by_key(|segment| std::cmp::Reverse(segment.bytes));
    let mut groups = vec![Vec::new(); partitions.clamp(1, segments.len().max(1))];
    let count = groups.len();
    for (index, segment) in by_size.into_iter().enumerate() {
        groups[index % count].push(file(segment)?);
    }
    let groups = groups.into_iter().map(FileGroup::new).collect();
    Ok(Dealt { groups, ordering: Vec::new(), partitioning: None })
}

fn file(segment: &Segment) -> Result<PartitionedFile> {
    let path = StorePath::from_absolute_path(&segment.path)?;
    let mut file = PartitionedFile::new("", segment.bytes).with_extension(Segment::clone(segment));
    file.object_meta.location = path;
    Ok(file)
}

/// A segment with its least and its greatest leading key.
#[derive(Clone, Copy)]
struct Ranged<'a> {
    segment: &'a Segment,
    least: i64,
    greatest: i64,
}

/// The segments in order, if no two overlap in their leading keys.
fn in_order<'a>(segments: &[&'a Segment]) -> Option<Vec<Ranged<'a>>> {
    let ranged = |segment: &&'a Segment| {
        let (least, greatest) = segment.key_range?;
        Some(Ranged { segment, least, greatest })
    };
    let mut ranges = segments.iter().map(ranged).collect::<Option<Vec<_>>>()?;
    ranges.sort_by_key(|range| range.least);
    ranges.windows(2).all(|pair| pair[0].greatest < pair[1].least).then_some(ranges)
}

/// Cuts the segments into parts of about the same size, if possible.
fn shares<'a>(ranges: &[Ranged<'a>], partitions: usize) -> Option<Vec<Vec<Ranged<'a>>>> {
    let count = partitions as u64;
    let all = ranges.iter().map(|range| range.segment.bytes).sum::<u64>();
    let mut shares = vec![Vec::new(); partitions];
    let mut before = 0;
    for range in ranges {
        // The partition of the segment's middle.
        let place = (before + range.segment.bytes / 2) * count / all.max(1);
        shares[usize::try_from(place.min(count - 1)).unwrap_or(0)].push(*range);
        before += range.segment.bytes;
    }
    let bytes =
        |share: &Vec<Ranged<'_>>| share.iter().map(|range| range.segment.bytes).sum::<u64>();
    let largest = shares.iter().map(bytes).max()?;
    let is_even = largest * count * 10 <= all * SHARE_TENTHS_MAX;
    (partitions > 1 && is_even && shares.iter().all(|share| !share.is_empty())).then_some(shares)
}

/// The leading columns that a table is sorted by, as far as they are numbers.
struct Key {
    columns: Vec<usize>,
}

/// The leading key of a table, and the integer column after it.
fn leading_key(segments: &[&Segment], schema: &SchemaRef) -> Option<Key> {
    let mut columns = Vec::new();
    for name in segments.first()?.table.key() {
        let place = schema.index_of(name).ok()?;
        match schema.field(place).data_type() {
            DataType::Int64 if columns.is_empty() => columns.push(place),
            DataType::Int32 if columns.len() == 1 => columns.push(place),
            _ => break,
        }
    }
    (!columns.is_empty()).then_some(Key { columns })
}

impl Key {
    fn ordering(&self, schema: &SchemaRef) -> LexOrdering {
        let column = |&place: &usize| {
            let column = Column::new(schema.field(place).name(), place);
            let options = SortOptions { descending: false, nulls_first: false };
            PhysicalSortExpr::new(Arc::new(column), options)
        };
        LexOrdering::new(self.columns.iter().map(column)).expect("a key has a column")
    }

    /// The ranges of keys of the partitions, each from its least key on.
    fn partitioning(&self, shares: &[Vec<Ranged<'_>>], schema: &SchemaRef) -> Partitioning {
        let least = |share: &Vec<Ranged<'_>>| share.first().map(|range| range.least);
        let points = shares
            .iter()
            .skip(1)
            .map(|share| SplitPoint::new(vec![ScalarValue::Int64(least(share))]));
        let leading = Self { columns: vec![self.columns[0]] };
        Partitioning::Range(RangePartitioning::new(leading.ordering(schema), points.collect()))
    }

    /// A file with the range of its keys, by which DataFusion proves that files do not overlap.
    fn file(&self, ranged: &Ranged<'_>, schema: &SchemaRef) -> Result<PartitionedFile> {
        let mut known = Statistics::new_unknown(schema);
        let bounds =
            (ScalarValue::Int64(Some(ranged.least)), ScalarValue::Int64(Some(ranged.greatest)));
        let any = (ScalarValue::Int32(Some(i32::MIN)), ScalarValue::Int32(Some(i32::MAX)));
        for (&place, (least, greatest)) in self.columns.iter().zip([bounds, any]) {
            let column = &mut known.column_statistics[place];
            column.min_value = Precision::Inexact(least);
            column.max_value = Precision::Inexact(greatest);
        }
        Ok(file(ranged.segment)?.with_statistics(Arc::new(known)))
    }
}

/// The statistics that are known without opening a file: rows and bytes.
pub(super) fn statistics(schema: &SchemaRef, segments: &[&Segment]) -> Statistics {
    let sum = |of: fn(&Segment) -> u64| {
        usize::try_from(segments.iter().map(|segment| of(segment)).sum::<u64>()).ok()
    };
    let mut statistics = Statistics::new_unknown(schema);
    let (rows, bytes) = (sum(|segment| segment.rows), sum(|segment| segment.bytes));
    statistics.num_rows = rows.map_or(Precision::Absent, Precision::Exact);
    statistics.total_byte_size = bytes.map_or(Precision::Absent, Precision::Inexact);
    statistics
}
