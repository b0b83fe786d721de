//! Lets every question be stopped.
//!
//! Dropping an answer ends the work on it where its tasks next wait for something. Scans do that
//! all the time, but a join can make billions of rows out of one batch of each side and never wait.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

/// Makes what multiplies rows give way to others now and then, as scans do. It is to be the last
/// rule: those before it look for joins by their kind.
#[derive(Debug)]
pub(super) struct YieldInJoins;

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
