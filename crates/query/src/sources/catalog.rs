//! The small tables about the lake: its actions, runs, segments, snapshots, retractions and losses.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use steplake_lake::{
    Identity, LossRow, RetractionRow, RunRow, Segment, Snapshot, SnapshotRow, Table,
};

/// `lake`, `actions`, `runs`, `segments`, `snapshots`, `retractions` and `losses`, each as one
/// batch.
pub(crate) fn tables(
    identity: &Identity,
    snapshot: &Snapshot,
) -> Result<[(&'static str, RecordBatch); 7]> {
    let segments: Vec<(Table, &Segment)> = Table::ALL
        .into_iter()
        .flat_map(|table| snapshot.segments(table).iter().map(move |segment| (table, segment)))
        .collect();
    Ok([
        ("lake", lake(identity, snapshot)?),
        ("actions", snapshot.actions()),
        ("runs", runs(snapshot.runs())?),
        ("segments", self::segments(&segments)?),
        ("snapshots", snapshots(snapshot.history())?),
        ("retractions", retractions(snapshot.retractions())?),
        ("losses", losses(snapshot.losses())?),
    ])
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    RecordBatch::try_from_iter(columns).map_err(DataFusionError::from)
}

fn texts<'a, R, T: AsRef<str>>(rows: &'a [R], of: impl Fn(&'a R) -> T) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(of(row))).collect::<StringArray>())
}

fn numbers<R>(rows: &[R], of: impl Fn(&R) -> i64) -> ArrayRef {
    Arc::new(rows.iter().map(of).collect::<Int64Array>())
}

fn times<R>(rows: &[R], of: impl Fn(&R) -> i64) -> ArrayRef {
    Arc::new(rows.iter().map(|row| Some(of(row))).collect::<TimestampMillisecondArray>())
}

/// Numbers that are not negative.
fn counts<R>(rows: &[R], of: impl Fn(&R) -> u64) -> Result<ArrayRef> {
    let whole = |row| i64::try_from(of(row)).map_err(|e| exec_datafusion_err!("{e}"));
    Ok(Arc::new(Int64Array::from(rows.iter().map(whole).collect::<Result<Vec<i64>>>()?)))
}

/// The lake and the state of its derived tables: one row.
fn lake(identity: &Identity, snapshot: &Snapshot) -> Result<RecordBatch> {
    let row = &[()];
    batch(vec![
        ("environment", texts(row, |()| &identity.environment)),
        ("compiler", texts(row, |()| &identity.compiler)),
        ("target", texts(row, |()| &identity.target)),
        ("action_space", texts(row, |()| &identity.action_space.name)),
        ("state_scheme", counts(row, |()| identity.state_scheme.into())?),
        ("snapshot_id", numbers(row, |()| snapshot.id().0)),
        ("layers", counts(row, |()| snapshot.layers().len() as u64)?),
        ("uncounted_steps", counts(row, |()| snapshot.uncounted_steps())?),
    ])
}

/// The runs, with their arguments.
fn runs(rows: &[RunRow]) -> Result<RecordBatch> {
    let finished = rows.iter().map(|run| Some(run.finished)).collect::<BooleanArray>();
    batch(vec![
        ("run_id", Arc::new(rows.iter().map(|run| run.id.0).collect::<Int32Array>())),
        ("arguments", texts(rows, |run| &run.arguments)),
        ("started_at", times(rows, |run| run.started_at_ms)),
        ("finished", Arc::new(finished)),
        ("uid", texts(rows, |run| &run.uid)),
        ("repeated_windows", counts(rows, |run| run.repeated_windows.into())?),
        ("audited_steps", counts(rows, |run| run.audited_steps)?),
        ("differing_steps", counts(rows, |run| run.differing_steps)?),
    ])
}

/// The Parquet files that hold the sealed rows.
fn segments(rows: &[(Table, &Segment)]) -> Result<RecordBatch> {
    let files = rows.iter().map(|(_, segment)| segment.path.to_str());
    let layers = rows.iter().map(|(_, segment)| segment.layer.map(|layer| layer.0));
    batch(vec![
        ("table_name", texts(rows, |(table, _)| table.name())),
        ("file", Arc::new(files.collect::<StringArray>())),
        ("rows", counts(rows, |(_, segment)| segment.rows)?),
        ("deleted_rows", counts(rows, |(_, segment)| segment.deleted().len())?),
        ("bytes", counts(rows, |(_, segment)| segment.bytes)?),
        ("digest", texts(rows, |(_, segment)| &segment.digest)),
        ("layer", Arc::new(layers.collect::<Int64Array>())),
    ])
}

/// The versions of the sealed part of the lake that have not expired, including versions newer than
/// the one that is read.
fn snapshots(rows: &[SnapshotRow]) -> Result<RecordBatch> {
    batch(vec![
        ("snapshot_id", numbers(rows, |row| row.id.0)),
        ("kind", texts(rows, |row| row.kind.as_str())),
        ("created_at", times(rows, |row| row.created_at_ms)),
        ("rows_added", counts(rows, |row| row.rows_added)?),
        ("bytes_added", counts(rows, |row| row.bytes_added)?),
        ("detail", texts(rows, |row| &row.detail)),
    ])
}

/// The retractions, with their reasons.
fn retractions(rows: &[RetractionRow]) -> Result<RecordBatch> {
    batch(vec![
        ("retraction_id", numbers(rows, |row| row.id)),
        ("kind", texts(rows, |row| row.kind.as_str())),
        ("value", texts(rows, |row| &row.value)),
        ("reason", texts(rows, |row| &row.reason)),
        ("snapshot_id", numbers(rows, |row| row.snapshot.0)),
    ])
}

/// The rows that repairs had to drop.
fn losses(rows: &[LossRow]) -> Result<RecordBatch> {
    batch(vec![
        ("table_name", texts(rows, |row| row.table.name())),
        ("file", texts(rows, |row| &row.path)),
        ("rows", counts(rows, |row| row.rows)?),
        ("what", texts(rows, |row| &row.what)),
        ("snapshot_id", numbers(rows, |row| row.snapshot.0)),
    ])
}
