//! The rows of a range of state keys, of one derived table of one layer.

use std::ops::RangeInclusive;

use arrow::array::{
    Array as _, AsArray as _, FixedSizeBinaryArray, Float64Array, Int16Array, Int32Array,
    Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::{Int16Type, Int32Type, Int64Type, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics;

use super::FailureText;
use super::edge::{EdgeHead, EdgeShape, StateWords, rewards_of};
use crate::store::reading::guarded;
use crate::store::{Segment, SegmentFile, StoreError, Table};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 4096;

/// A range of state keys.
pub type KeyRange = RangeInclusive<i64>;

/// The batches of a table's segments, which lie in the order of their keys, cut to a range.
struct RangeScan {
    schema: SchemaRef,
    segments: std::vec::IntoIter<Segment>,
    range: KeyRange,
    reader: Option<(SegmentFile, ParquetRecordBatchReader)>,
}

impl RangeScan {
    fn next(&mut self) -> Result<Option<RecordBatch>, StoreError> {
        loop {
            while let Some((file, reader)) = &mut self.reader {
                let batch = guarded(|| reader.next().transpose());
                let Some(batch) = batch.map_err(|error| file.unreadable(&error))? else {
                    self.reader = None;
                    break;
                };
                let keys = batch["state_key"].as_primitive::<Int64Type>().values();
                if keys.first().is_some_and(|first| first > self.range.end()) {
                    // So is all that follows.
                    (self.reader, self.segments) = (None, Vec::new().into_iter());
                    return Ok(None);
                }
                let first = keys.partition_point(|key| key < self.range.start());
                let end = keys.partition_point(|key| key <= self.range.end());
                if first < end {
                    return Ok(Some(batch.slice(first, end - first)));
                }
            }
            let Some(segment) = self.segments.next() else { return Ok(None) };
            let apart = segment.key_range.is_some_and(|(least, greatest)| {
                greatest < *self.range.start() || least > *self.range.end()
            });
            if !apart {
                self.reader = Some(self.open(&segment)?);
            }
        }
    }

    fn open(
        &self,
        segment: &Segment,
    ) -> Result<(SegmentFile, ParquetRecordBatchReader), StoreError> {
        segment.reader(&self.schema, PageIndexPolicy::Skip, |builder| {
            let groups = self.groups(builder.metadata());
            builder.with_row_groups(groups).with_batch_size(BATCH_ROWS)
        })
    }

    /// The row groups that may hold keys of the range.
    fn groups(&self, footer: &ParquetMetaData) -> Vec<usize> {
        let column = self.schema.index_of("state_key").expect("a derived table has state keys");
        let may_hold = |group: &RowGroupMetaData| match group.column(column).statistics() {
            Some(Statistics::Int64(keys)) => {
                keys.max_opt().is_none_or(|greatest| greatest >= self.range.start())
                    && keys.min_opt().is_none_or(|least| least <= self.range.end())
            }
            _ => true,
        };
        let groups = footer.row_groups().iter().enumerate();
        groups.filter(|(_, group)| may_hold(group)).map(|(place, _)| place).collect()
    }
}

/// A batch by its columns.
struct Columns {
    from: FixedSizeBinaryArray,
    action: Int16Array,
    count: Int64Array,
    first_episode: Int64Array,
    first_index: Int32Array,
    led: Option<Led>,
    failed: Option<(StringArray, StringArray)>,
}

/// What the rows have that led to a state.
struct Led {
    to: FixedSizeBinaryArray,
    wall_time_us: Int64Array,
    rewards: Vec<Float64Array>,
}

impl Columns {
    fn new(batch: &RecordBatch, table: Table, shape: EdgeShape) -> Self {
        let int64 = |name: &str| batch[name].as_primitive::<Int64Type>().clone();
        let text = |name: &str| batch[name].as_string::<i32>().clone();
        // Rewards stand behind the two states and the action.
        let rewards = || batch.columns()[5..5 + shape.rewards()].iter();
        let failed = table == Table::Failures;
        Self {
            from: batch["state_id"].as_fixed_size_binary().clone(),
            action: batch["action"].as_primitive::<Int16Type>().clone(),
            count: int64("count"),
            first_episode: int64("first_episode_id"),
            first_index: batch["first_step_index"].as_primitive::<Int32Type>().clone(),
            led: (!failed).then(|| Led {
                to: batch["next_state_id"].as_fixed_size_binary().clone(),
                wall_time_us: int64("wall_time_us"),
                rewards: rewards().map(|column| column.as_primitive().clone()).collect(),
            }),
            failed: failed.then(|| (text("kind"), text("detail"))),
        }
    }

    fn decode(&self, at: usize, row: &mut [u64]) {
        let head = EdgeHead {
            from: StateWords::of(self.from.value(at)),
            action: self.action.value(at),
            to: self.led.as_ref().map(|led| StateWords::of(led.to.value(at))),
            first_episode: self.first_episode.value(at),
            first_index: self.first_index.value(at),
            wall_time_us: self.led.as_ref().map_or(0, |led| led.wall_time_us.value(at)),
            count: self.count.value(at),
        };
        head.write(row);
        if let Some(led) = &self.led {
            for (word, column) in rewards_of(row).iter_mut().zip(&led.rewards) {
                let reward = if column.is_valid(at) { column.value(at) } else { f64::NAN };
                *word = reward.to_bits();
            }
        }
    }
}

/// The rows of a table one after another, each as an edge.
pub(super) struct TableCursor {
    scan: RangeScan,
    shape: EdgeShape,
    table: Table,
    columns: Option<Columns>,
    at: usize,
    row: Vec<u64>,
}

impl TableCursor {
    /// Begins with the first row of the range. `segments` are those of the table in one layer.
    pub(super) fn open(
        schema: SchemaRef,
        table: Table,
        segments: Vec<Segment>,
        range: KeyRange,
        shape: EdgeShape,
    ) -> Result<Self, StoreError> {
        let scan = RangeScan { schema, segments: segments.into_iter(), range, reader: None };
        let row = vec![f64::NAN.to_bits(); shape.words()];
        let mut cursor = Self { scan, shape, table, columns: None, at: 0, row };
        cursor.advance()?;
        Ok(cursor)
    }

    /// The present edge; none at the end.
    pub(super) fn row(&self) -> Option<&[u64]> {
        self.columns.is_some().then_some(self.row.as_slice())
    }

    /// How the present edge failed, where it did.
    pub(super) fn text(&self) -> Option<FailureText<'_>> {
        let (kinds, details) = self.columns.as_ref()?.failed.as_ref()?;
        let detail = details.is_valid(self.at).then(|| details.value(self.at));
        Some(FailureText { kind: kinds.value(self.at), detail })
    }

    pub(super) fn advance(&mut self) -> Result<(), StoreError> {
        self.at += 1;
        if self.columns.as_ref().is_none_or(|columns| self.at == columns.count.len()) {
            let batch = self.scan.next()?;
            self.columns = batch.map(|batch| Columns::new(&batch, self.table, self.shape));
            self.at = 0;
        }
        if let Some(columns) = &self.columns {
            columns.decode(self.at, &mut self.row);
        }
        Ok(())
    }
}
