//! The functions as DataFusion knows them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan, ScalarUDF};

use super::ir::IrSource;
use super::{action_list, actions, feature, feature_delta, ir, ir_diff, states};
use crate::lake::Identity;

/// Registers the functions.
pub(in crate::query) fn register(
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

/// The functions of the field that need no lake, but at most its identity. They work in any
/// process.
#[derive(Debug)]
pub struct FieldFunctions {
    /// The scalar functions.
    pub scalars: Vec<Arc<ScalarUDF>>,
    /// The aggregate functions.
    pub aggregates: Vec<Arc<AggregateUDF>>,
}

impl FieldFunctions {
    /// The functions for lakes of this identity.
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

/// The identity of the lakes that a function is for; none if it is for all lakes.
pub fn identity_of(function: &ScalarUDF) -> Option<&Arc<Identity>> {
    let function = function.inner();
    function
        .downcast_ref::<actions::ActionName>()
        .map(actions::ActionName::identity)
        .or_else(|| Some(function.downcast_ref::<actions::CommandLine>()?.identity()))
}

/// The functions that read a lake.
pub(in crate::query) const OF_ONE_LAKE: [&str; 2] = [ir::NAME, ir_diff::NAME];

/// The functions whose meaning differs between two lakes.
pub(in crate::query) fn that_differ(one: &Identity, other: &Identity) -> Vec<&'static str> {
    let spaces =
        |identity: &Identity| (identity.environment.clone(), identity.action_space.clone());
    if spaces(one) == spaces(other) { Vec::new() } else { vec!["action_name", "commandline"] }
}

/// Whether a query calls `ir()` or `ir_diff()`, whose values are large.
pub(in crate::query) fn asks_for_ir(plan: &LogicalPlan) -> Result<bool> {
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
