//! The progress of a query while it runs.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;

/// The progress of a query. It can be read from any thread, even after the answer was dropped, and
/// keeps the plan in memory.
#[derive(Clone)]
pub struct QueryProgress {
    /// `None` for a query that runs elsewhere, whose progress is unknown.
    pub(super) plan: Option<Arc<dyn ExecutionPlan>>,
}

impl QueryProgress {
    /// The rows that the busiest operator of the plan has produced: usually a scan, or a join that
    /// makes many rows out of few.
    pub fn rows(&self) -> u64 {
        self.metrics().filter_map(|node| node.output_rows()).max().unwrap_or(0) as u64
    }

    /// The bytes that were read from Parquet files.
    pub fn bytes(&self) -> u64 {
        let bytes = self.metrics().filter_map(|node| node.sum_by_name("bytes_scanned"));
        bytes.map(|value| value.as_usize() as u64).sum()
    }

    /// The metrics of each operator of the plan.
    fn metrics(&self) -> impl Iterator<Item = MetricsSet> {
        let mut left: Vec<&Arc<dyn ExecutionPlan>> = self.plan.iter().collect();
        std::iter::from_fn(move || {
            let node = left.pop()?;
            left.extend(node.children());
            Some(node.metrics())
        })
        .flatten()
    }
}

impl fmt::Debug for QueryProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryProgress")
            .field("plan", &self.plan.as_ref().map(|plan| plan.name()))
            .finish()
    }
}
