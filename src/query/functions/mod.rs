//! The functions of the field, for use in SQL.
//!
//! | function | gives |
//! |---|---|
//! | `state('<40 hex digits>')` | a state id |
//! | `hex(bytes)` | lower-case hexadecimal digits |
//! | `ir(state_id)` | the IR of a state as text; null where none is kept |
//! | `feature(vector, 'name')` | one number of an observation vector, by its name |
//! | `action_name(action)` | the name of an action |
//! | `commandline(actions)` | one action or a list as a command line |
//! | `action_list(step_index, action)` | aggregate: the actions of an episode in order |
//! | `action_prefix(actions, length)` | the first actions of a list |

mod action_list;
mod actions;
mod feature;
mod ir;
mod states;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, Expr, LogicalPlan, ScalarUDF};

use super::IrRenderer;
use crate::model::StateId;
use crate::store::{Identity, Snapshot};

/// Makes the functions known to `registry`.
pub(super) fn register(
    registry: &mut dyn FunctionRegistry,
    identity: &Arc<Identity>,
    snapshot: &Arc<Snapshot>,
    renderer: &IrRenderer,
) -> Result<()> {
    let scalars = [
        ScalarUDF::from(states::State::new()),
        ScalarUDF::from(states::Hex::new()),
        ScalarUDF::from(ir::Ir::new(Arc::clone(snapshot), Arc::clone(renderer))),
        ScalarUDF::from(feature::Feature::new(Arc::clone(identity))),
        ScalarUDF::from(actions::ActionName::new(Arc::clone(identity))),
        ScalarUDF::from(actions::CommandLine::new(Arc::clone(identity))),
        ScalarUDF::from(action_list::ActionPrefix::new()),
    ];
    for function in scalars {
        registry.register_udf(Arc::new(function))?;
    }
    registry.register_udaf(Arc::new(AggregateUDF::from(action_list::ActionList::new())))?;
    Ok(())
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

/// Reads a column as state ids: 20 bytes or 40 hexadecimal digits each.
fn state_ids(column: &ArrayRef) -> Result<Vec<Option<StateId>>> {
    let of_bytes = |bytes: &[u8]| {
        let state = bytes.try_into().ok().map(StateId);
        state.ok_or_else(|| exec_datafusion_err!("a state id has 20 bytes, not {}", bytes.len()))
    };
    match column.data_type() {
        DataType::Null => Ok(vec![None; column.len()]),
        DataType::FixedSizeBinary(_) => {
            let bytes: &FixedSizeBinaryArray = column.as_fixed_size_binary();
            bytes.iter().map(|bytes| bytes.map(of_bytes).transpose()).collect()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = cast(column, &DataType::Binary)?;
            let bytes = bytes.as_binary::<i32>();
            bytes.iter().map(|bytes| bytes.map(of_bytes).transpose()).collect()
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            let texts = cast(column, &DataType::Utf8)?;
            let of_text = |text: &str| {
                text.parse::<StateId>().map_err(|error| exec_datafusion_err!("{error}"))
            };
            texts.as_string::<i32>().iter().map(|text| text.map(of_text).transpose()).collect()
        }
        other => Err(wrong_type("a state id", other)),
    }
}

/// An argument of a type that a function has no use for.
fn wrong_type(wanted: &str, got: &DataType) -> DataFusionError {
    exec_datafusion_err!("{wanted} is wanted, not a value of type {got}")
}
