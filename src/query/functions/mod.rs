//! The functions of the field, for use in SQL.
//!
//! | function | gives |
//! |---|---|
//! | `state('<40 hex digits>')` | a state id |
//! | `hex(bytes)` | lower-case hexadecimal digits |
//! | `ir(state_id)` | the IR of a state as text, rebuilt where it is not stored; null where none is kept |
//! | `feature(vector, 'name')` | one number of an observation vector, by its name |
//! | `action_name(action)` | the name of an action |
//! | `commandline(actions)` | one action or a list as a command line |
//! | `action_list(step_index, action)` | aggregate: the actions of an episode in order |
//! | `action_prefix(actions, length)` | the first actions of a list |

mod action_list;
mod actions;
mod arguments;
mod feature;
mod ir;
mod states;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan, ScalarUDF};

pub(super) use self::ir::IrSource;
use crate::store::Identity;

/// Makes the functions known to `registry`.
pub(super) fn register(
    registry: &mut dyn FunctionRegistry,
    identity: &Arc<Identity>,
    source: IrSource,
) -> Result<()> {
    let FieldFunctions { scalars, aggregates } = FieldFunctions::of(identity);
    for function in scalars {
        registry.register_udf(function)?;
    }
    for function in aggregates {
        registry.register_udaf(function)?;
    }
    registry.register_udf(Arc::new(ScalarUDF::from(ir::Ir::new(source))))?;
    Ok(())
}

/// The functions of the field that ask for no lake: only for what it is a lake of, or not even that. They
/// work in any process.
#[derive(Debug)]
pub struct FieldFunctions {
    /// Those of values.
    pub scalars: Vec<Arc<ScalarUDF>>,
    /// Those of groups of rows.
    pub aggregates: Vec<Arc<AggregateUDF>>,
}

impl FieldFunctions {
    /// Those for lakes of this identity.
    pub fn of(identity: &Arc<Identity>) -> Self {
        let scalars = [
            ScalarUDF::from(states::State::new()),
            ScalarUDF::from(states::Hex::new()),
            ScalarUDF::from(feature::Feature::new(Arc::clone(identity))),
            ScalarUDF::from(actions::ActionName::new(Arc::clone(identity))),
            ScalarUDF::from(actions::CommandLine::new(Arc::clone(identity))),
            ScalarUDF::from(action_list::ActionPrefix::new()),
        ];
        let aggregates = [AggregateUDF::from(action_list::ActionList::new())];
        Self { scalars: scalars.map(Arc::new).into(), aggregates: aggregates.map(Arc::new).into() }
    }
}

/// What the lakes are that a function is for; none where it is for all.
pub fn identity_of(function: &ScalarUDF) -> Option<&Arc<Identity>> {
    let function = function.inner();
    function
        .downcast_ref::<feature::Feature>()
        .map(feature::Feature::identity)
        .or_else(|| Some(function.downcast_ref::<actions::ActionName>()?.identity()))
        .or_else(|| Some(function.downcast_ref::<actions::CommandLine>()?.identity()))
}

/// Whether a query calls `ir()`, whose values are large.
pub(super) fn asks_for_ir(plan: &LogicalPlan) -> Result<bool> {
    let calls_ir = |expr: &Expr| {
        expr.exists(|expr| {
            Ok(matches!(expr, Expr::ScalarFunction(call) if call.func.name() == ir::NAME))
        })
    };
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= calls_ir(expr)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}
