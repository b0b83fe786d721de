//! The functions of the field, for use in SQL.
//!
//! | function | gives |
//! |---|---|
//! | `state('<40 hex digits>')` | a state id |
//! | `hex(bytes)` | lower-case hexadecimal digits |
//! | `ir(state_id)` | the IR of a state as text, rebuilt where it is not stored; null where none is kept |
//! | `ir_diff(before, after)` | what differs between the IR of two states, as a unified diff |
//! | `feature(vector, 'name')` | one number of an observation vector, by its name |
//! | `feature_delta(before, after)` | the numbers that differ between two vectors: a list of feature, before and after |
//! | `action_name(action)` | the name of an action |
//! | `commandline(actions)` | one action or a list as a command line |
//! | `action_list(step_index, action)` | aggregate: the actions of an episode in order |
//! | `action_prefix(actions, length)` | the first actions of a list |

mod action_list;
mod actions;
mod arguments;
mod feature;
mod feature_delta;
mod ir;
mod listed;
mod ir_diff;
mod memory;
mod states;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan, ScalarUDF};

pub(super) use self::ir::IrSource;
pub(super) use self::listed::list;
pub use self::listed::{Function, FunctionKind};
pub(super) use self::memory::FunctionMemory;
use crate::lake::Identity;

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
    let source = Arc::new(source);
    let diffed = Arc::new(ir::Ir::new(Arc::clone(&source)));
    registry.register_udf(Arc::new(ScalarUDF::from(ir::Ir::new(source))))?;
    registry.register_udf(Arc::new(ScalarUDF::from(ir_diff::IrDiff::new(diffed))))?;
    Ok(())
}

/// The functions of the field that ask for no lake: only for what it is a lake of, or not even
/// that. They work in any process.
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
            ScalarUDF::from(feature::Feature::new()),
            ScalarUDF::from(feature_delta::FeatureDelta::new()),
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
        .downcast_ref::<actions::ActionName>()
        .map(actions::ActionName::identity)
        .or_else(|| Some(function.downcast_ref::<actions::CommandLine>()?.identity()))
}

/// Whether a query calls `ir()` or `ir_diff()`, whose values are large.
pub(super) fn asks_for_ir(plan: &LogicalPlan) -> Result<bool> {
    let calls_ir = |expr: &Expr| {
        expr.exists(|expr| {
            let Expr::ScalarFunction(call) = expr else { return Ok(false) };
            Ok([ir::NAME, ir_diff::NAME].contains(&call.func.name()))
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
