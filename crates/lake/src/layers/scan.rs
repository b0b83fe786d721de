//! The rows of one derived table of one layer, in ranges of state keys.

use std::ops::RangeInclusive;

use arrow::array::{Array as _, FixedSizeBinaryArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use parquet::file::metadata::PageIndexPolicy;

use super::edge::{EdgeHead, FailureText, StateWords, edge_words, rewards_of};
use crate::kernel::schema::decode::{EdgeColumns, state_keys};
use crate::kernel::segments::pages;
use crate::kernel::segments::reading::RowChoice;
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

/// The rows of a batch that have keys in a range.
fn cut(batch: &RecordBatch, range: &KeyRange) -> RecordBatch {
    let keys = state_keys(batch).values();
    let first = keys.partition_point(|key| key < range.start());
    let last = keys.partition_point(|key| key <= range.end());
    batch.slice(first, last - first)
}

/// The batches of a table's sorted segments, cut to a range of keys.
pub(super) fn scan(
    schema: SchemaRef,
    segments: Vec<Segment>,
    range: &KeyRange,
) -> RecordBatches<'static> {
    let is_all = *range == (i64::MIN..=i64::MAX);
    let index = if is_all { PageIndexPolicy::Skip } else { PageIndexPolicy::Optional };
    let (of_pages, of_rows) = (range.clone(), range.clone());
    let meets =
        move |least: i64, greatest: i64| *of_pages.start() <= greatest && least <= *of_pages.end();
    let has_keys = meets.clone();
    let wanted = segments.into_iter().filter(move |segment| {
        segment.key_range.is_none_or(|(least, greatest)| has_keys(least, greatest))
    });
    let places = ScanColumns::All.places(&schema);
    let open = move |segment: Segment| {
        segment.reader(&schema, &places, index, |footer| {
            let choice = pages::choose(footer, &meets);
            RowChoice { batch_rows: Some(BATCH_ROWS), ..choice }
        })
    };
    let cut = rows(wanted.map(open)).map(move |batch| batch.map(|batch| cut(&batch, &of_rows)));
    Box::new(cut.filter(|batch| !matches!(batch, Ok(batch) if batch.num_rows() == 0)))
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
pub(crate) struct TableCursor<'a> {
    scan: RecordBatches<'a>,
    table: Table,
    columns: Option<EdgeColumns>,
    at: usize,
    row: Vec<u64>,
}

impl<'a> TableCursor<'a> {
    /// Begins at the first row of a scan of the table, which is in the order of its key.
    pub(crate) fn open(
        snapshot: &Snapshot,
        table: Table,
        scan: RecordBatches<'a>,
    ) -> Result<Self, LakeError> {
        let row = vec![f64::NAN.to_bits(); edge_words(snapshot.identity().rewards.len())];
        let mut cursor = Self { scan, table, columns: None, at: 0, row };
        cursor.advance()?;
        Ok(cursor)
    }

    /// The present edge; none at the end.
    pub(crate) fn row(&self) -> Option<&[u64]> {
        self.columns.is_some().then_some(self.row.as_slice())
    }

    /// The text of the present edge's failure, if it is one.
    pub(super) fn text(&self) -> Option<FailureText<'_>> {
        let (kinds, details) = self.columns.as_ref()?.failed.as_ref()?;
        let detail = details.is_valid(self.at).then(|| details.value(self.at));
        Some(FailureText { kind: kinds.value(self.at), detail })
    }

    pub(crate) fn advance(&mut self) -> Result<(), LakeError> {
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
