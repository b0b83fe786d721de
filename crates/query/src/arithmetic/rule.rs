//! Puts the checked operators in place of DataFusion's.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_datafusion_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::binary::BinaryTypeCoercer;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::operators;
use crate::rules::expressions::rewritten;

/// The operators of a plan, handled after the types of their operands were made equal.
#[derive(Debug)]
pub(crate) struct CheckedArithmetic;

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
pub(crate) struct ConstantArithmetic;

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
            BinaryOperator::PGBitwiseShiftLeft => Operator::BitwiseShiftLeft,
            BinaryOperator::PGBitwiseShiftRight => Operator::BitwiseShiftRight,
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
        // DataFusion's operator has the same value, and a long chain of these is planned faster.
        if value(&expr.left, operator, &expr.right).is_some_and(|value| fits(value, &kind)) {
            return Ok(PlannerResult::Original(expr));
        }
        let cast = |expr: Expr| {
            let is_it = kind_of(&expr, schema)? == kind;
            if is_it { Ok(expr) } else { expr.cast_to(&kind, schema) }
        };
        let checked = operators::binary(operator, cast(expr.left)?, cast(expr.right)?);
        checked.map(PlannerResult::Planned).ok_or_else(|| {
            internal_datafusion_err!("{operator} is an operator of integers that is not checked")
        })
    }
}

/// The value of an operator on literals, or on such values: each fits into its type, as an operator
/// whose value does not is a checked one.
fn value(left: &Expr, operator: Operator, right: &Expr) -> Option<i128> {
    let (left, right) = (constant(left)?, constant(right)?);
    match operator {
        Operator::Plus => left.checked_add(right),
        Operator::Minus => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        _ => None,
    }
}

fn constant(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Literal(literal, _) => match *literal {
            ScalarValue::Int64(value) => value.map(i128::from),
            ScalarValue::UInt64(value) => value.map(i128::from),
            _ => None,
        },
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => value(left, *op, right),
        _ => None,
    }
}

/// Whether a value is one of a type. Literals have no others.
fn fits(value: i128, kind: &DataType) -> bool {
    match kind {
        DataType::Int64 => i64::try_from(value).is_ok(),
        DataType::UInt64 => u64::try_from(value).is_ok(),
        _ => false,
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
