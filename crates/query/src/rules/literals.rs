//! Lets a query write a state id as answers show it: `state_id = '<40 hex digits>'` or `X'…'`.
//!
//! SQL has no literal of type `FixedSizeBinary`, so without this the column would be cast row by
//! row, and no statistics of a file could help.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_datafusion_err};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use steplake_model::StateId;

/// The Arrow type of a state id.
pub(crate) const STATE_TYPE: DataType = DataType::FixedSizeBinary(20);

/// A state id as a literal.
pub(crate) fn state_scalar(state: Option<StateId>) -> ScalarValue {
    ScalarValue::FixedSizeBinary(20, state.map(|state| state.0.to_vec()))
}

/// Reads a literal as a state id: 20 bytes or 40 hexadecimal digits. `None` if it is neither text
/// nor bytes.
fn state_literal(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::Literal(value, metadata) = expr else { return Ok(None) };
    let state = match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => {
            text.parse::<StateId>().map_err(|error| plan_datafusion_err!("{error}"))?
        }
        ScalarValue::Binary(Some(bytes)) => {
            let state = bytes.as_slice().try_into().ok().map(StateId);
            let length = bytes.len();
            state.ok_or_else(|| plan_datafusion_err!("a state id has 20 bytes, not {length}"))?
        }
        _ => return Ok(None),
    };
    Ok(Some(Expr::Literal(state_scalar(Some(state)), metadata.clone())))
}

/// Comparisons with an operator, handled while SQL becomes a plan.
#[derive(Debug)]
pub(crate) struct StateComparisons;

impl ExprPlanner for StateComparisons {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        if matches!(expr.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
            let is_state = |expr: &Expr| expr.get_type(schema).is_ok_and(|kind| kind == STATE_TYPE);
            if is_state(&expr.left)
                && let Some(literal) = state_literal(&expr.right)?
            {
                expr.right = literal;
            } else if is_state(&expr.right)
                && let Some(literal) = state_literal(&expr.left)?
            {
                expr.left = literal;
            }
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// `state_id IN ('…', '…')`, handled before types are coerced. The planner's hook above does not
/// see these lists.
#[derive(Debug)]
pub(crate) struct StateLists;

impl AnalyzerRule for StateLists {
    fn name(&self) -> &'static str {
        "state_lists"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            node.map_expressions(|expr| expr.transform_up(|expr| state_list(expr, &schema)))
        })?;
        Ok(plan.data)
    }
}

fn state_list(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::InList(InList { expr: column, mut list, negated }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let mut changed = false;
    if column.get_type(schema).is_ok_and(|kind| kind == STATE_TYPE) {
        for value in &mut list {
            if let Some(literal) = state_literal(value)? {
                *value = literal;
                changed = true;
            }
        }
    }
    let expr = Expr::InList(InList { expr: column, list, negated });
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}
