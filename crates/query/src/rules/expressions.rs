//! Rewrites the expressions of a plan.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Rewrites every expression of a plan and its subqueries, operands first. Columns keep their
/// names. `rewrite` gets the columns that an expression reads.
pub(crate) fn rewritten(
    plan: LogicalPlan,
    rewrite: fn(Expr, &DFSchema) -> Transformed<Expr>,
) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        // The name of an aggregate has its filter in it.
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_up(|expr| Ok(rewrite(expr, &schema)))?;
            Ok(expr.update_data(|expr| name.restore(expr)))
        })
    })?;
    Ok(plan.data)
}
