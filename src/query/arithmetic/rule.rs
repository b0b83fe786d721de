//! Puts the checked operators in place of DataFusion's.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::operators;
use crate::query::expressions::rewritten;

/// The operators of a plan, handled after the types of their operands were made equal.
#[derive(Debug)]
pub(in crate::query) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &'static str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewritten(plan, checked)
    }
}

fn checked(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_integer(&right, schema) && is_integer(&left, schema) =>
        {
            match operators::binary(op, left.as_ref().clone(), right.as_ref().clone()) {
                Some(checked) => Transformed::yes(checked),
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Negative(of) if is_integer(&of, schema) => Transformed::yes(operators::negation(*of)),
        other => Transformed::no(other),
    }
}

fn is_integer(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        // The types of a chain of operators are not looked up again and again.
        Expr::ScalarFunction(call) if operators::is_operator(&call.func) => true,
        expr => expr.get_type(schema).is_ok_and(|kind| kind.is_integer()),
    }
}

/// Constants, handled while SQL becomes a plan: those that a table function is called with are
/// computed then, and no rule sees them.
#[derive(Debug)]
pub(in crate::query) struct ConstantArithmetic;

impl ExprPlanner for ConstantArithmetic {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let operator = match expr.op {
            BinaryOperator::Plus => Operator::Plus,
            BinaryOperator::Minus => Operator::Minus,
            BinaryOperator::Multiply => Operator::Multiply,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        if !schema.fields().is_empty() {
            return Ok(PlannerResult::Original(expr));
        }
        let kinds = (kind_of(&expr.left, schema), kind_of(&expr.right, schema));
        let (Ok(left), Ok(right)) = kinds else { return Ok(PlannerResult::Original(expr)) };
        let Some(kind) = common_integer(&left, operator, &right) else {
            return Ok(PlannerResult::Original(expr));
        };
        let RawBinaryExpr { op, left, right } = expr;
        let cast = |expr: Expr| {
            let is_it = kind_of(&expr, schema)? == kind;
            if is_it { Ok(expr) } else { expr.cast_to(&kind, schema) }
        };
        let (left, right) = (cast(left)?, cast(right)?);
        Ok(match operators::binary(operator, left.clone(), right.clone()) {
            Some(checked) => PlannerResult::Planned(checked),
            None => PlannerResult::Original(RawBinaryExpr { op, left, right }),
        })
    }
}

/// The type of an expression; in a chain of operators, that of its first operand.
fn kind_of(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    match expr {
        Expr::ScalarFunction(call) if operators::is_operator(&call.func) => {
            kind_of(&call.args[0], schema)
        }
        expr => expr.get_type(schema),
    }
}

/// The type of both operands, if it is one of integers.
fn common_integer(left: &DataType, operator: Operator, right: &DataType) -> Option<DataType> {
    if !left.is_integer() || !right.is_integer() {
        return None;
    }
    let (left, right) = BinaryTypeCoercer::new(left, &operator, right).get_input_types().ok()?;
    (left == right && left.is_integer()).then_some(left)
}
