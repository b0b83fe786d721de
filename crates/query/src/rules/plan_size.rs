//! The memory that the expressions of a plan take, and how many rows they may compute at once.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::functions::{FunctionMemory, Planning};

/// The bytes of all columns that the expressions of a plan make of one batch, where their size can
/// be known.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// The bytes of an expression, logical and physical.
const EXPRESSION_BYTES: usize = 1024;

/// The bytes of a value that an expression computes, at least.
const VALUE_BYTES: usize = 64;

/// The size of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PlanSize {
    /// Of all literals and expressions.
    bytes: usize,
    /// Of the values that the expressions compute of one row, and of the literals that are repeated
    /// for each row.
    row_bytes: usize,
}

impl PlanSize {
    fn of(plan: &LogicalPlan) -> Result<Self> {
        let mut size = Self::default();
        plan.apply_with_subqueries(|node| {
            let computes = matches!(
                node,
                LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)
            );
            // The rows of VALUES are there once.
            let repeats = !matches!(node, LogicalPlan::Values(_));
            node.apply_expressions(|expr| {
                if computes && !matches!(expr, Expr::Column(_)) {
                    size.row_bytes += VALUE_BYTES;
                }
                size.add(expr, repeats)?;
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(size)
    }

    fn add(&mut self, expr: &Expr, repeats: bool) -> Result<()> {
        expr.apply(|expr| {
            self.bytes += EXPRESSION_BYTES;
            match expr {
                Expr::Literal(value, _) => {
                    let bytes = own_bytes(value);
                    self.bytes += bytes;
                    if repeats && bytes > VALUE_BYTES {
                        self.row_bytes = self.row_bytes.saturating_add(bytes);
                    }
                }
                // A list becomes a set, and no columns.
                Expr::InList(InList { expr: _, list, negated: _ }) => {
                    self.bytes += list.iter().map(listed_bytes).sum::<usize>();
                    return Ok(TreeNodeRecursion::Jump);
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(())
    }

    /// The most rows of a batch, of `configured`.
    fn batch_rows(self, configured: usize) -> usize {
        let fitting = BATCH_BYTES_MAX.checked_div(self.row_bytes).unwrap_or(configured);
        configured.min(fitting.max(1))
    }
}

/// The bytes of a value beside those that every value has.
fn own_bytes(value: &ScalarValue) -> usize {
    value.size().saturating_sub(size_of::<ScalarValue>())
}

fn listed_bytes(item: &Expr) -> usize {
    match item {
        Expr::Literal(value, _) => EXPRESSION_BYTES + own_bytes(value),
        _ => EXPRESSION_BYTES,
    }
}

/// Optimises a plan in its session, and fits the session to it: the constants and the expressions
/// of the plan are counted in the memory of the statement, until the planning is dropped, and
/// batches have so few rows that literals can be repeated in them.
///
/// # Errors
///
/// Those of DataFusion, which are about the memory too.
pub(crate) fn optimized(
    state: &mut SessionState,
    plan: &LogicalPlan,
) -> Result<(LogicalPlan, Planning)> {
    let (memory, planning) = FunctionMemory::of(state.config_options()).of_planning();
    state.config_mut().options_mut().extensions.insert(memory);
    // What computes constants and rows takes its settings from here.
    state.mark_start_execution();
    let plan = state.optimize(plan)?;
    let size = PlanSize::of(&plan)?;
    planning.constants.try_resize(size.bytes)?;
    let rows = size.batch_rows(state.config().batch_size());
    *state.config_mut() = state.config().clone().with_batch_size(rows);
    Ok((plan, planning))
}
