//! Makes every query cancellable.
//!
//! When an answer is dropped, its tasks end at their next await. Scans await often, but a join can
//! make billions of rows out of one batch of each side without an await.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

/// Makes operators that multiply rows yield regularly, as scans do. It must be the last rule,
/// because other rules recognise joins by their type.
#[derive(Debug)]
pub(crate) struct YieldInJoins;

impl PhysicalOptimizerRule for YieldInJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let yielding = plan.transform_up(|node| {
            let multiplies = node.name().contains("Join") || node.name() == "UnnestExec";
            Ok(if multiplies {
                Transformed::yes(Arc::new(CooperativeExec::new(node)) as _)
            } else {
                Transformed::no(node)
            })
        })?;
        Ok(yielding.data)
    }

    fn name(&self) -> &'static str {
        "yield_in_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
