//! The small tables about the lake: its actions, runs, segments, snapshots, retractions and losses.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use crate::lake::{
    Identity, LossRow, RetractionRow, RunRow, Segment, Snapshot, SnapshotRow, Table,
};

/// `lake`, `actions`, `runs`, `segments`, `snapshots`, `retractions` and `losses`, each as one
/// batch.
pub(super) fn tables(
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

/// The lake and the state of its derived tables: one row.
fn lake(identity: &Identity, snapshot: &Snapshot) -> Result<RecordBatch> {
    let text = |text: &str| -> ArrayRef { Arc::new(StringArray::from(vec![text])) };
    batch(vec![
        ("environment", text(&identity.environment)),
        ("compiler", text(&identity.compiler)),
        ("target", text(&identity.target)),
        ("action_space", text(&identity.action_space.name)),
        ("snapshot_id", Arc::new(Int64Array::from(vec![snapshot.id().0]))),
        ("layers", numbers([snapshot.layers().len() as u64].into_iter())?),
        ("uncounted_steps", numbers([snapshot.uncounted_steps()].into_iter())?),
    ])
}

/// The runs, with their arguments.
fn runs(runs: &[RunRow]) -> Result<RecordBatch> {
    let started = runs.iter().map(|run| Some(run.started_at_ms));
    batch(vec![
        ("run_id", Arc::new(runs.iter().map(|run| Some(run.id.0)).collect::<Int32Array>())),
        (
            "arguments",
            Arc::new(runs.iter().map(|run| Some(&run.arguments)).collect::<StringArray>()),
        ),
        ("started_at", Arc::new(started.collect::<TimestampMillisecondArray>())),
        ("finished", Arc::new(runs.iter().map(|run| Some(run.finished)).collect::<BooleanArray>())),
        ("uid", Arc::new(runs.iter().map(|run| Some(&run.uid)).collect::<StringArray>())),
        ("repeated_windows", numbers(runs.iter().map(|run| run.repeated_windows.into()))?),
    ])
}

/// The Parquet files that hold the sealed rows.
fn segments(segments: &[(Table, &Segment)]) -> Result<RecordBatch> {
    let number = |of: fn(&Segment) -> u64| numbers(segments.iter().map(|(_, segment)| of(segment)));
    let files = segments.iter().map(|(_, segment)| segment.path.to_str().map(str::to_owned));
    let text = |of: fn(&(Table, &Segment)) -> String| -> ArrayRef {
        Arc::new(segments.iter().map(|segment| Some(of(segment))).collect::<StringArray>())
    };
    batch(vec![
        ("table_name", text(|(table, _)| table.name().to_owned())),
        ("file", Arc::new(files.collect::<StringArray>())),
        ("rows", number(|segment| segment.rows)?),
        ("bytes", number(|segment| segment.bytes)?),
        ("digest", text(|(_, segment)| segment.digest.clone())),
        (
            "layer",
            Arc::new(
                segments
                    .iter()
                    .map(|(_, segment)| segment.layer.map(|layer| layer.0))
                    .collect::<Int64Array>(),
            ),
        ),
    ])
}

/// The versions of the sealed part of the lake that have not expired, including versions newer than
/// the one that is read.
fn snapshots(rows: &[SnapshotRow]) -> Result<RecordBatch> {
    let text = |of: fn(&SnapshotRow) -> &str| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(of(row))).collect::<StringArray>())
    };
    let created = rows.iter().map(|row| Some(row.created_at_ms));
    batch(vec![
        ("snapshot_id", Arc::new(rows.iter().map(|row| Some(row.id.0)).collect::<Int64Array>())),
        ("kind", text(|row| row.kind.as_str())),
        ("created_at", Arc::new(created.collect::<TimestampMillisecondArray>())),
        ("rows_added", numbers(rows.iter().map(|row| row.rows_added))?),
        ("bytes_added", numbers(rows.iter().map(|row| row.bytes_added))?),
        ("detail", text(|row| &row.detail)),
    ])
}

/// The retractions, with their reasons.
fn retractions(rows: &[RetractionRow]) -> Result<RecordBatch> {
    let text = |of: fn(&RetractionRow) -> &str| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(of(row))).collect::<StringArray>())
    };
    let number = |of: fn(&RetractionRow) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(of(row))).collect::<Int64Array>())
    };
    batch(vec![
        ("retraction_id", number(|row| row.id)),
        ("kind", text(|row| row.kind.as_str())),
        ("value", text(|row| &row.value)),
        ("reason", text(|row| &row.reason)),
        ("snapshot_id", number(|row| row.snapshot.0)),
    ])
}

/// The rows that repairs had to drop.
fn losses(rows: &[LossRow]) -> Result<RecordBatch> {
    let text = |of: fn(&LossRow) -> &str| -> ArrayRef {
        Arc::new(rows.iter().map(|row| Some(of(row))).collect::<StringArray>())
    };
    let snapshots = rows.iter().map(|row| Some(row.snapshot.0)).collect::<Int64Array>();
    batch(vec![
        ("table_name", text(|row| row.table.name())),
        ("file", text(|row| &row.path)),
        ("rows", numbers(rows.iter().map(|row| row.rows))?),
        ("what", text(|row| &row.what)),
        ("snapshot_id", Arc::new(snapshots)),
    ])
}

fn numbers(counts: impl Iterator<Item = u64>) -> Result<ArrayRef> {
    let whole = |count: u64| i64::try_from(count).map_err(|e| exec_datafusion_err!("{e}"));
    Ok(Arc::new(Int64Array::from(counts.map(whole).collect::<Result<Vec<i64>>>()?)))
}
