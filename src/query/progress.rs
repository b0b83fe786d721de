//! The progress of a query while it runs.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;

/// The progress of a query. It can be read from any thread, even after the answer was dropped, and
/// keeps the plan in memory.
#[derive(Clone)]
pub struct QueryProgress {
    /// None if the query runs elsewhere.
    plan: Option<Arc<dyn ExecutionPlan>>,
}

impl QueryProgress {
    pub(super) fn new(plan: Arc<dyn ExecutionPlan>) -> Self {
        Self { plan: Some(plan) }
    }

    /// The progress of a query that runs elsewhere and does not report any.
    pub(super) fn unknown() -> Self {
        Self { plan: None }
    }

    /// The rows that the busiest operator of the plan has produced: usually a scan, or a join that
    /// makes many rows out of few.
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
