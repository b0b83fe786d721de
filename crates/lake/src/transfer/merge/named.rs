//! Measurements and miscompilations of all lakes: rows with random names.

use std::collections::HashSet;

use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};

use super::error::MergeError;
use super::source::SourceLake;
use crate::kernel::schema::decode::{benchmark_uris, state_ids, uids};
use crate::kernel::segments::segment_series::SegmentSeries;
use crate::kernel::{Lake, ScanColumns, Segment, Table};
use steplake_model::StateId;

/// Writes the rows of a table, each name once, of the benchmarks that `keeps` selects. All rows are
/// in memory at once: a measurement takes minutes, so there are few.
pub(super) fn write(
    lake: &Lake,
    sources: &[SourceLake],
    table: Table,
    keeps: &dyn Fn(&str) -> bool,
    read: &mut dyn FnMut(usize),
) -> Result<Vec<Segment>, MergeError> {
    let schema = lake.schemas.get(table);
    let (mut batches, mut known) = (Vec::new(), HashSet::new());
    for source in sources {
        source.visit(table, ScanColumns::All, schema, &mut |rows| {
            for batch in rows {
                let batch = batch?;
                read(batch.num_rows());
                let rows = uids(&batch).zip(benchmark_uris(&batch));
                let taken = rows.map(|(uid, uri)| Some(keeps(uri) && known.insert(uid.to_owned())));
                let taken = taken.collect::<BooleanArray>();
                batches.push(filter_record_batch(&batch, &taken).expect("a mask of its length"));
            }
            Ok(())
        })?;
    }
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
