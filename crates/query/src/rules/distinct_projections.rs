//! Keeps projections that look alike apart.
//!
//! `DataFusion` 55 drops a projection whose expressions are those of the projection below it. But
//! `SELECT a + 1 AS a FROM (SELECT a + 1 AS a FROM t)` adds 1 twice. So, before that rule runs,
//! each projection below another one gets its names once more for each level of the chain that it
//! is in: names within names change no value, and no two projections of a chain are equal.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::optimizer::Optimizer;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// The rule that drops projections.
const BEFORE: &str = "optimize_projections";

/// The optimizer's rules, with this one before the rule that drops projections.
pub(crate) fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let own = || Arc::new(DistinctProjections) as Arc<dyn OptimizerRule + Send + Sync>;
    let with_own = |rule: Arc<dyn OptimizerRule + Send + Sync>| {
        let before = (rule.name() == BEFORE).then(own);
        before.into_iter().chain([rule])
    };
    Optimizer::new().rules.into_iter().flat_map(with_own).collect()
}

#[derive(Debug)]
struct DistinctProjections;

impl OptimizerRule for DistinctProjections {
    fn name(&self) -> &'static str {
        "distinct_projections"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Projection(upper) = plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Projection(lower) = upper.input.as_ref() else {
            return Ok(Transformed::no(LogicalPlan::Projection(upper)));
        };
        let times = levels(lower);
        if lower.expr.iter().all(|expr| names_of(expr).is_none_or(|names| names == times + 1)) {
            return Ok(Transformed::no(LogicalPlan::Projection(upper)));
        }
        let expr = lower.expr.iter().map(|expr| named_again(expr, times)).collect();
        let (input, schema) = (Arc::clone(&lower.input), Arc::clone(&lower.schema));
        let lower = Projection::try_new_with_schema(expr, input, schema)?;
        let lower = Arc::new(LogicalPlan::Projection(lower));
        let upper = Projection::try_new_with_schema(upper.expr, lower, upper.schema)?;
        Ok(Transformed::yes(LogicalPlan::Projection(upper)))
    }
}

/// The projections of a chain from the lowest to this one.
fn levels(projection: &Projection) -> usize {
    let below = |plan: &LogicalPlan| match plan {
        LogicalPlan::Projection(projection) => Some(Arc::clone(&projection.input)),
        _ => None,
    };
    let inputs = std::iter::successors(Some(Arc::clone(&projection.input)), |plan| below(plan));
    inputs.count()
}

/// How often the expression has a name; none if it has none of its own.
fn names_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Alias(alias) => Some(1 + names_of(&alias.expr).unwrap_or(0)),
        _ => None,
    }
}

/// The expression with its name, and with the same name `times` within it.
fn named_again(expr: &Expr, times: usize) -> Expr {
    let Expr::Alias(Alias { expr, relation, name, metadata }) = expr else { return expr.clone() };
    let mut value = expr.as_ref();
    while let Expr::Alias(inner) = value {
        value = &inner.expr;
    }
    let named = |value, metadata| {
        let (relation, name) = (relation.clone(), name.clone());
        Expr::Alias(Alias { expr: Box::new(value), relation, name, metadata })
    };
    let within = (0..times).fold(value.clone(), |value, _| named(value, None));
    named(within, metadata.clone())
}
