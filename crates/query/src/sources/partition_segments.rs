//! Distributes segments over the partitions of a scan, with the order that follows from it.

use std::collections::HashMap;
use std::iter::once;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::extensions::Extensions;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, ScalarValue, SplitPoint, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, ParquetRowSelection};
use datafusion::object_store::path::Path as StorePath;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr, RangePartitioning};

use parking_lot::Mutex;
use steplake_lake::Segment;

/// The most bytes of a partition, in tenths of an equal share. A scan waits for its slowest
/// partition.
const SHARE_TENTHS_MAX: u64 = 14;

/// The segments of a scan by partition.
pub(crate) struct SegmentPartitions {
    pub(crate) groups: Vec<FileGroup>,
    /// The order of the rows of each partition, if they have one.
    pub(crate) ordering: Vec<LexOrdering>,
    /// The leading keys of each partition, if no two partitions overlap.
    pub(crate) partitioning: Option<Partitioning>,
}

/// Distributes segments over partitions. If the ranges of their leading keys do not overlap, as
/// within one run or one layer, each partition gets consecutive segments, provided that the
/// partitions are then about equal. Otherwise the largest segments come first, and the order is
/// unknown.
pub(crate) fn partition_segments(
    segments: &[&Segment],
    schema: &SchemaRef,
    live: &LiveRows,
    partitions: usize,
) -> Result<SegmentPartitions> {
    if let Some(key) = leading_key(segments, schema)
        && let Some(sorted) = in_order(segments)
    {
        let shares = shares(&sorted, partitions);
        let partitioning = shares.as_deref().map(|shares| partitioning(&key, shares, schema));
        if let Some(shares) = shares.or_else(|| (sorted.len() == 1).then(|| vec![sorted])) {
            let file = |segment: &&Segment| file_with_keys(&key, segment, schema, live);
            let group = |share: Vec<&Segment>| {
                share.iter().map(file).collect::<Result<Vec<_>>>().map(FileGroup::new)
            };
            let groups = shares.into_iter().map(group).collect::<Result<_>>()?;
            return Ok(SegmentPartitions {
                groups,
                ordering: vec![ordering(&key, schema)],
                partitioning,
            });
        }
    }
    let mut by_size = segments.to_vec();
    by_size.sort_by_key(|segment| std::cmp::Reverse(segment.bytes));
    let mut groups = vec![Vec::new(); partitions.clamp(1, segments.len().max(1))];
    let count = groups.len();
    for (index, segment) in by_size.into_iter().enumerate() {
        groups[index % count].push(file(segment, live)?);
    }
    let groups = groups.into_iter().map(FileGroup::new).collect();
    Ok(SegmentPartitions { groups, ordering: Vec::new(), partitioning: None })
}

/// The rows of segments that have lost some. A selection is made once, not once for each scan.
#[derive(Debug, Default)]
pub(crate) struct LiveRows(Mutex<HashMap<PathBuf, Arc<ParquetRowSelection>>>);

impl LiveRows {
    fn of(&self, segment: &Segment) -> Arc<ParquetRowSelection> {
        let mut known = self.0.lock();
        let selection = known.entry(segment.path.clone()).or_insert_with(|| {
            let live = segment.deleted().live_selection(once(0..segment.rows));
            Arc::new(ParquetRowSelection::new(live))
        });
        Arc::clone(selection)
    }
}

fn file(segment: &Segment, live: &LiveRows) -> Result<PartitionedFile> {
    let path = StorePath::from_absolute_path(&segment.path)?;
    let mut file = PartitionedFile::new("", segment.bytes).with_extension(Segment::clone(segment));
    file.object_meta.location = path;
    if !segment.deleted().is_empty() {
        file.extensions.insert_arc(live.of(segment));
    }
    Ok(file)
}

/// The same file, of which a scan reads these rows.
pub(crate) fn file_with_plan(file: PartitionedFile, plan: ParquetAccessPlan) -> PartitionedFile {
    let segment = file.extensions.get_arc::<Segment>();
    // A file has a plan or a selection, not both.
    let mut file = PartitionedFile { extensions: Extensions::default(), ..file };
    if let Some(segment) = segment {
        file.extensions.insert_arc(segment);
    }
    file.with_extension(plan)
}

/// The segments in order, if each has a range of leading keys and no two ranges overlap.
fn in_order<'a>(segments: &[&'a Segment]) -> Option<Vec<&'a Segment>> {
    let mut sorted = segments.to_vec();
    sorted.sort_by_key(|segment| segment.key_range);
    let ranges = sorted.iter().map(|segment| segment.key_range).collect::<Option<Vec<_>>>()?;
    ranges.windows(2).all(|pair| pair[0].1 < pair[1].0).then_some(sorted)
}

/// Cuts the segments into parts of about the same size, if possible.
pub(super) fn shares<'a>(
    segments: &[&'a Segment],
    partitions: usize,
) -> Option<Vec<Vec<&'a Segment>>> {
    let bytes = |segments: &[&Segment]| segments.iter().map(|segment| segment.bytes).sum::<u64>();
    let (count, all) = (partitions as u64, bytes(segments));
    let mut shares = vec![Vec::new(); partitions];
    let mut before = 0;
    for segment in segments {
        // The partition of the segment's middle.
        let place = (before + segment.bytes / 2) * count / all.max(1);
        shares[usize::try_from(place.min(count - 1)).unwrap_or(0)].push(*segment);
        before += segment.bytes;
    }
    let largest = shares.iter().map(|share| bytes(share)).max()?;
    let is_even = largest * count * 10 <= all * SHARE_TENTHS_MAX;
    (partitions > 1 && is_even && shares.iter().all(|share| !share.is_empty())).then_some(shares)
}

/// The columns that a table is sorted by, as far as they are numbers: the leading key, and the
/// integer column after it.
pub(super) fn leading_key(segments: &[&Segment], schema: &SchemaRef) -> Option<Vec<usize>> {
    let mut columns = Vec::new();
    for name in segments.first()?.table.key() {
        let place = schema.index_of(name).ok()?;
        match schema.field(place).data_type() {
            DataType::Int64 if columns.is_empty() => columns.push(place),
            DataType::Int32 if columns.len() == 1 => columns.push(place),
            _ => break,
        }
    }
    (!columns.is_empty()).then_some(columns)
}

pub(super) fn ordering(key: &[usize], schema: &SchemaRef) -> LexOrdering {
    let column = |&place: &usize| {
        let column = Column::new(schema.field(place).name(), place);
        let options = SortOptions { descending: false, nulls_first: false };
        PhysicalSortExpr::new(Arc::new(column), options)
    };
    LexOrdering::new(key.iter().map(column)).expect("a key has a column")
}

/// The ranges of keys of the partitions, each from its least key on.
fn partitioning(key: &[usize], shares: &[Vec<&Segment>], schema: &SchemaRef) -> Partitioning {
    let least = |share: &Vec<&Segment>| Some(share.first()?.key_range?.0);
    let points = shares.iter().skip(1);
    let points = points.map(|share| SplitPoint::new(vec![ScalarValue::Int64(least(share))]));
    Partitioning::Range(RangePartitioning::new(ordering(&key[..1], schema), points.collect()))
}

/// A file with the range of its keys, by which DataFusion proves that files do not overlap.
pub(super) fn file_with_keys(
    key: &[usize],
    segment: &Segment,
    schema: &SchemaRef,
    live: &LiveRows,
) -> Result<PartitionedFile> {
    let mut known = Statistics::new_unknown(schema);
    let (least, greatest) = segment.key_range.unzip();
    let bounds = (ScalarValue::Int64(least), ScalarValue::Int64(greatest));
    let any = (ScalarValue::Int32(Some(i32::MIN)), ScalarValue::Int32(Some(i32::MAX)));
    for (&place, (least, greatest)) in key.iter().zip([bounds, any]) {
        let column = &mut known.column_statistics[place];
        column.min_value = Precision::Inexact(least);
        column.max_value = Precision::Inexact(greatest);
    }
    Ok(file(segment, live)?.with_statistics(Arc::new(known)))
}

/// The statistics that are known without opening a file: rows and bytes.
pub(crate) fn statistics(schema: &SchemaRef, segments: &[&Segment]) -> Statistics {
    let sum = |of: fn(&Segment) -> u64| {
        usize::try_from(segments.iter().map(|segment| of(segment)).sum::<u64>()).ok()
    };
    let mut statistics = Statistics::new_unknown(schema);
    let (rows, bytes) = (sum(|segment| segment.live_rows()), sum(|segment| segment.bytes));
    statistics.num_rows = rows.map_or(Precision::Absent, Precision::Exact);
    statistics.total_byte_size = bytes.map_or(Precision::Absent, Precision::Inexact);
    statistics
}
