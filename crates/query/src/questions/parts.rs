//! Answers that are read in parts, all at once: those of statements that only scan.

use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::Range;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result, exec_err};
use datafusion::datasource::physical_plan::{FileGroup, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
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
use crate::rules::computed_arguments::is_unknown;

/// A part of an answer: all parts together are the answer. The engine must be the one that counted
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerPart {
    /// Which part, from 0 on.
    pub number: usize,
    /// The number of parts.
    pub of: NonZeroUsize,
}

impl Engine {
    /// Returns in how many parts, `most` at most, an answer can be read at once, each with smaller
    /// keys than the next: one, unless the statement only scans ranges of keys, in this process,
    /// says the same at any time, and has `bytes_min` bytes of files for each part.
    ///
    /// # Errors
    ///
    /// As [`Engine::ask`].
    pub async fn parts(
        &self,
        statement: &Statement,
        most: NonZeroUsize,
        bytes_min: NonZeroU64,
    ) -> Result<NonZeroUsize, QueryError> {
        if most == NonZeroUsize::MIN || self.backend.is_some() {
            return Ok(NonZeroUsize::MIN);
        }
        let planned = async {
            let frame = self.frame(statement).await?;
            let is_fixed = says_the_same_at_any_time(frame.logical_plan())?;
            let plan = physical(frame).await?.plan;
            let partitions = plan.output_partitioning();
            let (true, Partitioning::Range(_), Some(bytes)) =
                (is_fixed, partitions, scanned_bytes(&plan))
            else {
                return Ok(NonZeroUsize::MIN);
            };
            let worth = usize::try_from(bytes / bytes_min).unwrap_or(usize::MAX);
            let count = partitions.partition_count().min(worth).min(most.get());
            Ok(NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN))
        };
        planned.await.map_err(|error| explain(error, &self.error_context()))
    }
}

/// Whether no expression of a plan depends on when it is computed, as `now()` does.
fn says_the_same_at_any_time(plan: &LogicalPlan) -> Result<bool> {
    let mut is_fixed = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            is_fixed &= !expression.exists(|part| Ok(is_unknown(part)))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(is_fixed)
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

/// Begins to run a part of a plan: its partitions one after the other. In the context, no partition
/// may take the files of another.
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
