//! The tables that say what the numbers of the others mean and who wrote them.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use crate::model::ActionFlags;
use crate::store::{Identity, RunRow, Segment, Snapshot, Table};

/// `actions`, `runs` and `segments`, each as one batch.
pub(super) fn tables(
    identity: &Identity,
    snapshot: &Snapshot,
) -> Result<[(&'static str, RecordBatch); 3]> {
    let segments: Vec<(Table, &Segment)> = Table::ALL
        .into_iter()
        .flat_map(|table| snapshot.segments(table).iter().map(move |segment| (table, segment)))
        .collect();
    Ok([
        ("actions", actions(identity)?),
        ("runs", runs(snapshot.runs())?),
        ("segments", self::segments(&segments)?),
    ])
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    RecordBatch::try_from_iter(columns).map_err(DataFusionError::from)
}

/// The action space of the lake. Flags are what a probe of the compiler found out.
fn actions(identity: &Identity) -> Result<RecordBatch> {
    let actions = &identity.action_space.actions;
    let text = |of: fn(&crate::model::ActionSpec) -> &str| -> ArrayRef {
        Arc::new(actions.iter().map(|action| Some(of(action))).collect::<StringArray>())
    };
    let flag = |of: fn(&ActionFlags) -> bool| -> ArrayRef {
        Arc::new(actions.iter().map(|action| Some(of(&action.flags))).collect::<BooleanArray>())
    };
    let indices = (0..actions.len()).map(|index| i16::try_from(index).ok());
    batch(vec![
        ("action", Arc::new(indices.collect::<Int16Array>())),
        ("name", text(|action| &action.name)),
        ("pipeline", text(|action| &action.pipeline)),
        ("replayable", flag(|flags| flags.replayable)),
        ("crashes", flag(|flags| flags.crashes)),
        ("slow", flag(|flags| flags.slow)),
        ("never_changes", flag(|flags| flags.never_changes)),
    ])
}

/// Who recorded, and with which arguments.
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
    ])
}

/// The Parquet files that hold the sealed rows.
fn segments(segments: &[(Table, &Segment)]) -> Result<RecordBatch> {
    let number = |of: fn(&Segment) -> u64| -> Result<ArrayRef> {
        let whole = |count: u64| i64::try_from(count).map_err(|e| exec_datafusion_err!("{e}"));
        let numbers = segments.iter().map(|(_, segment)| whole(of(segment)));
        Ok(Arc::new(Int64Array::from(numbers.collect::<Result<Vec<i64>>>()?)))
    };
    let files = segments.iter().map(|(_, segment)| segment.path.to_str());
    let text = |of: fn(&(Table, &Segment)) -> String| -> ArrayRef {
        Arc::new(segments.iter().map(|segment| Some(of(segment))).collect::<StringArray>())
    };
    batch(vec![
        ("table_name", text(|(table, _)| table.name().to_owned())),
        ("file", Arc::new(files.collect::<StringArray>())),
        ("rows", number(|segment| segment.rows)?),
        ("bytes", number(|segment| segment.bytes)?),
        ("digest", text(|(_, segment)| segment.digest.clone())),
    ])
}
