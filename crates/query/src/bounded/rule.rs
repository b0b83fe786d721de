//! Puts bounded functions in place of those that operators and literals call.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::{bounded, operator};
use crate::rules::expressions::rewritten;

/// The calls of a plan, handled after the types of their arguments are known.
#[derive(Debug)]
pub(crate) struct BoundedCalls;

impl AnalyzerRule for BoundedCalls {
    fn name(&self) -> &'static str {
        "bounded_calls"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewritten(plan, called)
    }
}

fn called(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let call = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })
            if is_text(&right, schema) =>
        {
            ScalarFunction::new_udf(operator(), vec![*left, *right])
        }
        Expr::ScalarFunction(call) => call,
        other => return Transformed::no(other),
    };
    match bounded(&call.func) {
        Some(function) => {
            let call = ScalarFunction::new_udf(Arc::new(function), call.args);
            Transformed::yes(Expr::ScalarFunction(call))
        }
        None => Transformed::no(Expr::ScalarFunction(call)),
    }
}

/// Both operands have the same type by now, if it is one of these.
fn is_text(expr: &Expr, schema: &DFSchema) -> bool {
    use DataType::{Binary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let text = [Utf8, LargeUtf8, Utf8View, Binary, LargeBinary];
    expr.get_type(schema).is_ok_and(|kind| text.contains(&kind))
}
