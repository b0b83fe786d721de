//! Measurements and miscompilations of all lakes: rows with random names.

use std::collections::{BTreeSet, HashSet};

use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};

use super::error::MergeError;
use super::kept::Kept;
use super::source::SourceLake;
use crate::kernel::schema::decode::{benchmark_uris, state_ids, uids};
use crate::kernel::segments::segment_series::SegmentSeries;
use crate::kernel::{Lake, ScanColumns, Segment, Table};
use steplake_model::StateId;

/// Writes the rows of a table, each name once, of the benchmarks that `keeps` selects, except those
/// in files that stay. All rows are in memory at once: a measurement takes minutes, so there are
/// few.
pub(super) fn write(
    lake: &Lake,
    sources: &[SourceLake],
    table: Table,
    keeps: &dyn Fn(&str) -> bool,
    kept: &mut Kept,
    read: &mut dyn FnMut(usize),
) -> Result<Vec<Segment>, MergeError> {
    let schema = lake.schemas.get(table);
    let (mut batches, mut known, mut changed) = (Vec::new(), HashSet::new(), BTreeSet::new());
    for (place, source) in sources.iter().enumerate() {
        source.visit(table, ScanColumns::All, schema, &mut |file, rows| {
            let (before, mut is_whole) = (batches.len(), true);
            for batch in rows {
                let batch = batch?;
                read(batch.num_rows());
                let rows = uids(&batch).zip(benchmark_uris(&batch));
                let taken = rows.map(|(uid, uri)| Some(keeps(uri) && known.insert(uid.to_owned())));
                let taken = taken.collect::<BooleanArray>();
                is_whole &= taken.true_count() == batch.num_rows();
                batches.push(filter_record_batch(&batch, &taken).expect("a mask of its length"));
            }
            match file.filter(|file| kept.has(place, file)) {
                Some(_) if is_whole => batches.truncate(before),
                Some(file) => drop(changed.insert(file.path.clone())),
                None => {}
            }
            Ok(())
        })?;
    }
    kept.remove(&changed);
    let all = concat_batches(schema, &batches).expect("the batches have the schema");
    let mut series = SegmentSeries::new(lake, table);
    series.write(&sorted(&all))?;
    Ok(series.finish()?)
}

/// The rows in the order of the table's key.
fn sorted(batch: &RecordBatch) -> RecordBatch {
    let states = state_ids(batch, "state_id").flatten().map(StateId::order);
    let mut rows = states.zip(uids(batch)).zip(0_u32..).collect::<Vec<_>>();
    rows.sort_unstable();
    let places = rows.into_iter().map(|(_, row)| row).collect::<Vec<_>>();
    take_record_batch(batch, &UInt32Array::from(places)).expect("the places are of the batch")
}
