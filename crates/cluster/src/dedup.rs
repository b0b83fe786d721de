//! The derived tables, made on a cluster.

use arrow::array::{Array as _, AsArray as _, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int16Type, Int64Type};
use futures::TryStreamExt as _;
use steplake::cli::failure::{Code, Failed};
use steplake::dedup::{Replacement, Report};
use steplake::lake::{Lake, LakeError, Snapshot, Table};
use steplake::query::Engine;

use crate::cli::{ClusterArgs, engine};

const CONFLICTS: &str = include_str!("conflicts.sql");
const FAILURES: &str = include_str!("failures.sql");
/// The tables that all of these read.
const COUNTED: [Table; 2] = [Table::Steps, Table::Episodes];
const STEPS: &str = "SELECT count(*) FROM steps WHERE action IS NOT NULL";

/// Counts all sealed steps on the cluster, by the SQL that defines the tables, and writes what
/// comes out as the one layer of the lake. This process alone writes, with the lake's lock, in one
/// transaction: killed before that, the lake is as it was, but for files that whoever maintains it
/// next removes. Readers see the tables as they were, or all of the new ones.
pub(crate) async fn dedup(lake: &Lake, cluster: &ClusterArgs) -> Result<Report, Failed> {
    let mut maintenance = lake.maintenance()?;
    // Only sealed steps are counted. Where somebody records, they seal when they see fit.
    match lake.writer() {
        Ok(mut writer) => drop(writer.seal()?),
        Err(LakeError::Busy { .. }) => {
            tracing::warn!(
                "another process is recording: what it has not sealed yet is counted later"
            );
        }
        Err(error) => return Err(error.into()),
    }
    let mut replacement = Replacement::begin(&mut maintenance)?;
    let id = replacement.snapshot().id();
    let retracted = replacement.snapshot().retracted_actions();
    check(replacement.snapshot())?;
    let engine = engine(lake.snapshot_at(id)?, cluster.clone()).await?;
    let steps = steps(&engine).await?;
    for table in [Table::StateTransitions, Table::Conflicts, Table::Failures] {
        let answer = match table {
            Table::StateTransitions => engine.named("dedup", &[]).await,
            Table::Conflicts => engine.sql(CONFLICTS).await,
            _ => engine.sql(FAILURES).await,
        };
        let mut answer = answer?;
        while let Some(batch) = answer.try_next().await? {
            replacement.write(table, &without(&retracted, &batch)?)?;
        }
    }
    Ok(replacement.publish(steps, &format!("{steps} steps counted on a cluster"))?)
}

/// Compares the digests of all that is going to be counted: executors do not, and what they count
/// of a damaged file would be in the lake for good.
fn check(snapshot: &Snapshot) -> Result<(), Failed> {
    for table in COUNTED {
        for segment in snapshot.segments(table) {
            segment.check()?;
        }
    }
    Ok(())
}

/// Steps with an action.
async fn steps(engine: &Engine) -> Result<u64, Failed> {
    let batches: Vec<RecordBatch> = engine.sql(STEPS).await?.try_collect().await?;
    let counts =
        batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values());
    Ok(counts.map(|count| count.unsigned_abs()).sum())
}

/// Leaves out the actions whose transitions were taken back.
fn without(retracted: &[i16], batch: &RecordBatch) -> Result<RecordBatch, Failed> {
    if retracted.is_empty() {
        return Ok(batch.clone());
    }
    let actions = batch["action"].as_primitive::<Int16Type>();
    debug_assert_eq!(actions.null_count(), 0);
    let stays = actions.values().iter().map(|action| Some(!retracted.contains(action)));
    let kept = filter_record_batch(batch, &stays.collect::<BooleanArray>());
    kept.map_err(|error| Failed::new(Code::Failed, error.to_string()))
}
