//! The rows of one derived table of one layer, in ranges of state keys.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array as _, FixedSizeBinaryArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use parquet::file::metadata::PageIndexPolicy;

use super::edge::{EdgeHead, FailureText, StateWords, edge_words, rewards_of};
use crate::kernel::schema::decode::{EdgeColumns, state_keys};
use crate::kernel::segments::pages;
use crate::kernel::segments::scan::rows;
use crate::kernel::{LakeError, RecordBatches, ScanColumns, Segment, Snapshot, Table};
use steplake_model::StateId;

/// The greatest number of rows in a batch.
const BATCH_ROWS: usize = 4096;

/// A range of state keys.
pub type KeyRange = RangeInclusive<i64>;

/// Divides all keys into `count` ranges of equal width, at least one, in ascending order.
pub fn key_ranges(count: usize) -> impl Iterator<Item = KeyRange> {
    let count = i128::try_from(count.max(1)).unwrap_or(1);
    let cut = move |number: i128| i128::from(i64::MIN) + ((1_i128 << 64) * number) / count;
    let key = |cut: i128| i64::try_from(cut).expect("cuts are among the keys");
    (0..count).map(move |number| key(cut(number))..=key(cut(number + 1) - 1))
}

/// The wanted ranges of keys, ascending and disjoint, and counters of what was read for them in all
/// files.
#[derive(Debug, Clone)]
pub(crate) struct Ranges {
    keys: Arc<[KeyRange]>,
    row_groups: Arc<AtomicU64>,
    rows: Arc<AtomicU64>,
}

impl Ranges {
    pub(crate) fn new(keys: &[KeyRange]) -> Self {
        let is_before = |pair: &[KeyRange]| pair[0].end() < pair[1].start();
        assert!(keys.windows(2).all(is_before), "ranges ascend apart from each other");
        Self { keys: keys.into(), row_groups: Arc::default(), rows: Arc::default() }
    }

    /// The numbers of row groups and of rows that were read. Pages are read whole.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.row_groups.load(Ordering::Relaxed), self.rows.load(Ordering::Relaxed))
    }

    /// Whether there may be wanted keys from `least` to `greatest`.
    fn meet(&self, least: i64, greatest: i64) -> bool {
        let first = self.keys.partition_point(|range| *range.end() < least);
        self.keys.get(first).is_some_and(|range| *range.start() <= greatest)
    }

    fn are_all_keys(&self) -> bool {
        matches!(&*self.keys, [range] if *range == (i64::MIN..=i64::MAX))
    }

    /// The rows of a batch that have wanted keys.
    fn cut(&self, batch: &RecordBatch) -> Vec<RecordBatch> {
        let keys = state_keys(batch).values();
        let (Some(least), Some(greatest)) = (keys.first(), keys.last()) else {
            return Vec::new();
        };
        let first = self.keys.partition_point(|range| range.end() < least);
        let meeting = self.keys[first..].iter().take_while(|range| range.start() <= greatest);
        let rows = meeting.map(|range| {
            let first = keys.partition_point(|key| key < range.start());
            first..keys.partition_point(|key| key <= range.end())
        });
        let rows = rows.filter(|rows| !rows.is_empty());
        rows.map(|rows| batch.slice(rows.start, rows.len())).collect()
    }
}

/// The batches of a table's sorted segments, cut to ranges.
fn scan(schema: SchemaRef, segments: Vec<Segment>, ranges: Ranges) -> RecordBatches<'static> {
    let index =
        if ranges.are_all_keys() { PageIndexPolicy::Skip } else { PageIndexPolicy::Optional };
    let (of_segments, of_rows) = (ranges.clone(), ranges.clone());
    let wanted = segments.into_iter().filter(move |segment| {
        segment.key_range.is_none_or(|(least, greatest)| of_segments.meet(least, greatest))
    });
    let places = ScanColumns::All.places(&schema);
    let open = move |segment: Segment| {
        segment.reader(&schema, &places, index, |builder| {
            let meet = |least, greatest| ranges.meet(least, greatest);
            let (builder, groups, rows) = pages::choose(builder, meet);
            ranges.row_groups.fetch_add(groups as u64, Ordering::Relaxed);
            ranges.rows.fetch_add(rows as u64, Ordering::Relaxed);
            builder.with_batch_size(BATCH_ROWS)
        })
    };
    Box::new(rows(wanted.map(open)).flat_map(move |batch| match batch {
        Ok(batch) => of_rows.cut(&batch).into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }))
}

/// Writes a row of a derived table as words.
fn decode(columns: &EdgeColumns, at: usize, row: &mut [u64]) {
    let words = |ids: &FixedSizeBinaryArray| StateWords::of(&StateId::from_slice(ids.value(at)).0);
    let led = columns.led.as_ref();
    let head = EdgeHead {
        from: words(&columns.states),
        action: columns.action(at),
        to: led.map(|led| words(&led.states)),
        first_episode: columns.first_episodes.value(at),
        first_index: columns.first_indexes.value(at),
        wall_time_us: led.map_or(0, |led| led.wall_times.value(at)),
        count: columns.counts.value(at),
    };
    head.write(row);
    for (word, column) in rewards_of(row).iter_mut().zip(led.iter().flat_map(|led| &led.rewards)) {
        let reward = if column.is_valid(at) { column.value(at) } else { f64::NAN };
        *word = reward.to_bits();
    }
}

/// A cursor over the rows of a table, as edges.
pub(super) struct TableCursor {
    scan: RecordBatches<'static>,
    table: Table,
    columns: Option<EdgeColumns>,
    at: usize,
    row: Vec<u64>,
}

impl TableCursor {
    /// Begins at the first row of the ranges. `segments` are those of the table in one layer.
    pub(super) fn open(
        snapshot: &Snapshot,
        table: Table,
        segments: Vec<Segment>,
        ranges: Ranges,
    ) -> Result<Self, LakeError> {
        let scan = scan(snapshot.schema(table), segments, ranges);
        let row = vec![f64::NAN.to_bits(); edge_words(snapshot.identity().rewards.len())];
        let mut cursor = Self { scan, table, columns: None, at: 0, row };
        cursor.advance()?;
        Ok(cursor)
    }

    /// The present edge; none at the end.
    pub(super) fn row(&self) -> Option<&[u64]> {
        self.columns.is_some().then_some(self.row.as_slice())
    }

    /// The text of the present edge's failure, if it is one.
    pub(super) fn text(&self) -> Option<FailureText<'_>> {
        let (kinds, details) = self.columns.as_ref()?.failed.as_ref()?;
        let detail = details.is_valid(self.at).then(|| details.value(self.at));
        Some(FailureText { kind: kinds.value(self.at), detail })
    }

    pub(super) fn advance(&mut self) -> Result<(), LakeError> {
        self.at += 1;
        if self.columns.as_ref().is_none_or(|columns| self.at == columns.rows()) {
            let batch = self.scan.next().transpose()?;
            self.columns = batch.map(|batch| EdgeColumns::of(&batch, self.table));
            self.at = 0;
        }
        if let Some(columns) = &self.columns {
            decode(columns, self.at, &mut self.row);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_keys_leave_nothing_out() {
        for count in [2, 3, 4, 7, 64] {
            let ranges: Vec<_> = key_ranges(count).collect();
            assert_eq!(ranges.first().map(|range| *range.start()), Some(i64::MIN));
            assert_eq!(ranges.last().map(|range| *range.end()), Some(i64::MAX));
            let adjoin = |pair: &[KeyRange]| pair[0].end().checked_add(1) == Some(*pair[1].start());
            assert!(ranges.windows(2).all(adjoin), "{count}");
        }
    }
}
