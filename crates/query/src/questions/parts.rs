//! Answers that are read in parts, all at once: those of statements that only scan.

use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::{Result, exec_err};
use datafusion::datasource::physical_plan::{FileGroup, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _, Partitioning};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::prepared::Statement;
use crate::engine::{Engine, physical};
use crate::errors::error::QueryError;
use crate::errors::explain::explain;

/// A part of an answer: all parts together are the answer. The engine must be the one that counted
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerPart {
    /// Which part, from 0 on.
    pub number: usize,
    /// The number of parts.
    pub of: NonZeroUsize,
}

/// In how many parts an answer can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerParts {
    /// The number of parts.
    pub count: NonZeroUsize,
    /// Whether each part has smaller keys than the next.
    pub are_in_order: bool,
}

impl Engine {
    /// Returns in how many parts, `most` at most, an answer can be read at once: one, unless the
    /// statement only scans, in this process, and there are `bytes_min` bytes of files for each.
    ///
    /// # Errors
    ///
    /// As [`Engine::ask`].
    pub async fn parts(
        &self,
        statement: &Statement,
        most: NonZeroUsize,
        bytes_min: NonZeroU64,
    ) -> Result<AnswerParts, QueryError> {
        let whole = AnswerParts { count: NonZeroUsize::MIN, are_in_order: true };
        if most == NonZeroUsize::MIN || self.backend.is_some() {
            return Ok(whole);
        }
        let planned = async {
            let plan = physical(self.frame(statement).await?).await?.plan;
            let Some(bytes) = scanned_bytes(&plan) else { return Ok(whole) };
            let partitions = plan.output_partitioning();
            let worth = usize::try_from(bytes / bytes_min).unwrap_or(usize::MAX);
            let count = partitions.partition_count().min(worth).min(most.get());
            let count = NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
            let are_in_order = matches!(partitions, Partitioning::Range(_));
            Ok(AnswerParts { count, are_in_order: are_in_order || count == NonZeroUsize::MIN })
        };
        planned.await.map_err(|error| explain(error, &self.error_context()))
    }
}

/// Returns the bytes of files that a plan scans; none if it does more than that, or may end before
/// the last row.
fn scanned_bytes(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    if plan.fetch().is_some() {
        return None;
    }
    if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
        return Some(file_bytes(source));
    }
    let keeps_partitions = plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<UnionExec>()
        || plan.is::<CooperativeExec>();
    if !keeps_partitions {
        return None;
    }
    plan.children().into_iter().map(scanned_bytes).sum()
}

/// The bytes of the files that a scan reads; 0 for rows in memory.
fn file_bytes(source: &DataSourceExec) -> u64 {
    let Some((scan, _)) = source.downcast_to_file_source::<ParquetSource>() else { return 0 };
    let files = scan.file_groups.iter().flat_map(FileGroup::iter);
    let bytes = files.map(|file| match &file.range {
        Some(range) => u64::try_from(range.end - range.start).unwrap_or(0),
        None => file.object_meta.size,
    });
    bytes.sum()
}

/// Begins to run a part of a plan: its partitions one after the other.
pub(crate) fn execute_part(
    plan: &Arc<dyn ExecutionPlan>,
    part: AnswerPart,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let count = plan.output_partitioning().partition_count();
    if part.number >= part.of.get() || count < part.of.get() {
        return exec_err!("there is no part {} of {} of this answer", part.number, part.of);
    }
    let (plan, context) = (Arc::clone(plan), Arc::clone(context));
    let schema = plan.schema();
    let partitions = stream::iter(partitions_of(part, count).map(Ok));
    let rows = partitions
        .and_then(move |partition| {
            let begun = plan.execute(partition, Arc::clone(&context));
            futures::future::ready(begun)
        })
        .try_flatten();
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed())))
}

/// The partitions of a part, which follow those of the part before it.
fn partitions_of(part: AnswerPart, count: usize) -> Range<usize> {
    let until = |number: usize| count * number / part.of.get();
    until(part.number)..until(part.number + 1)
}
