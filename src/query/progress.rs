//! How far a question has come, while it is being answered.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// What the work on an answer has come to so far. It may be read from any thread, also when the
/// answer is gone; it keeps what the plan holds in memory.
#[derive(Clone)]
pub struct QueryProgress {
    /// None where the work is done elsewhere.
    plan: Option<Arc<dyn ExecutionPlan>>,
}

impl QueryProgress {
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self { plan: Some(plan) }
    }

    /// Of work that is done elsewhere, and of which nothing is heard before it is done.
    pub(super) fn unknown() -> Self {
        Self { plan: None }
    }

    /// The rows that the busiest step of the plan has handed on: those of a scan in most questions,
    /// those of a join where it makes many out of few.
    pub fn rows(&self) -> u64 {
        let rows = |node: &dyn ExecutionPlan| node.metrics().and_then(|all| all.output_rows());
        let mut most = 0;
        self.visit(&mut |node| most = most.max(rows(node).unwrap_or(0)));
        most as u64
    }

    /// The bytes that were read from Parquet files.
    pub fn bytes(&self) -> u64 {
        let bytes = |node: &dyn ExecutionPlan| {
            node.metrics().and_then(|all| all.sum_by_name("bytes_scanned"))
        };
        let mut sum = 0;
        self.visit(&mut |node| {
            sum += bytes(node).map_or(0, |value| value.as_usize() as u64);
        });
        sum
    }

    fn visit(&self, see: &mut impl FnMut(&dyn ExecutionPlan)) {
        if let Some(plan) = &self.plan {
            visit(plan.as_ref(), see);
        }
    }
}

impl fmt::Debug for QueryProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryProgress")
            .field("plan", &self.plan.as_ref().map(|plan| plan.name()))
            .finish()
    }
}

fn visit(node: &dyn ExecutionPlan, see: &mut impl FnMut(&dyn ExecutionPlan)) {
    see(node);
    for child in node.children() {
        visit(child.as_ref(), see);
    }
}
