//! The functions as DataFusion knows them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ExprSchema, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};

use super::arguments::apply;
use super::ir::{IrSource, texts};
use super::memory::memory_of;
use super::{
    action_list, actions, extremes, feature, feature_delta, ir_diff, mode, samples, states,
};
use crate::arithmetic::{self, Average, Sum};
use crate::bounded;
use crate::rules::literals::STATE_TYPE;
use steplake_lake::Identity;

/// A scalar function of the field, whose type does not depend on its arguments.
struct FieldFunction {
    name: &'static str,
    signature: Signature,
    returns: DataType,
    /// The identity of the lakes that it is for; `None` if it is for all lakes.
    identity: Option<Arc<Identity>>,
    body: Box<ScalarFn>,
}

/// Computes a call. The memory is that of this call.
type ScalarFn = dyn Fn(&[ColumnarValue], &MemoryReservation) -> Result<ColumnarValue> + Send + Sync;

impl FieldFunction {
    /// A pure function of `arguments` arguments.
    fn new(
        name: &'static str,
        arguments: usize,
        returns: DataType,
        body: impl Fn(&[ColumnarValue], &MemoryReservation) -> Result<ColumnarValue>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let signature = Signature::any(arguments, Volatility::Immutable);
        Self { name, signature, returns, identity: None, body: Box::new(body) }
    }
}

impl ScalarUDFImpl for FieldFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        (self.body)(&args.args, &memory_of(self.name, &args.config_options))
    }
}

impl fmt::Debug for FieldFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for FieldFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.identity == other.identity
    }
}

impl Eq for FieldFunction {}

impl Hash for FieldFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The identity of a context, with its name.
#[derive(Debug, Clone)]
pub(crate) struct ContextIdentity {
    pub(crate) name: String,
    pub(crate) identity: Arc<Identity>,
}

impl ContextIdentity {
    /// That of the only context, whose name nobody asks for.
    pub(crate) fn alone(identity: &Arc<Identity>) -> Self {
        Self { name: String::new(), identity: Arc::clone(identity) }
    }

    fn has_actions_of(&self, other: &Self) -> bool {
        let (one, other) = (&self.identity, &other.identity);
        one.environment == other.environment && one.action_space == other.action_space
    }
}

/// Registers the functions for contexts, of which there is at least one.
pub(crate) fn register(
    registry: &mut dyn FunctionRegistry,
    contexts: &[ContextIdentity],
    sources: Vec<Arc<IrSource>>,
) -> Result<()> {
    let first = &contexts[0];
    let FieldFunctions { scalars, aggregates } = FieldFunctions::of(&first.identity);
    for function in scalars.into_iter().filter(|function| !is_operator(function)) {
        registry.register_udf(function)?;
    }
    for function in aggregates {
        registry.register_udaf(function)?;
    }
    if !contexts.iter().all(|context| context.has_actions_of(first)) {
        for (name, texts) in ACTION_TEXTS {
            registry.register_udf(Arc::new(of_context(name, texts, contexts)))?;
        }
    }
    let sources = Arc::new(sources);
    let diffed = Arc::clone(&sources);
    let [ir, ir_diff] = READ_IR;
    let ir = FieldFunction::new(ir, 1, DataType::Utf8, move |args, memory| {
        apply(&args[0], |states| texts(&sources, states, ir, memory))
    });
    let ir_diff = FieldFunction::new(ir_diff, 2, DataType::Utf8, move |args, memory| {
        let states = ColumnarValue::values_to_arrays(args)?;
        let diffs = ir_diff::diffs(&diffed, ir_diff, &states[0], &states[1], memory)?;
        Ok(ColumnarValue::Array(diffs))
    });
    for mut function in [ir, ir_diff] {
        // DataFusion would compute an immutable function of a constant while planning, before any
        // limit applies.
        function.signature.volatility = Volatility::Stable;
        registry.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}

/// The functions of actions, whose meaning is that of an action space.
const ACTION_TEXTS: [(&str, actions::ActionTextFn); 2] =
    [("action_name", actions::names), ("commandline", actions::command_lines)];

/// A function of the name of a context and of its actions.
fn of_context(
    name: &'static str,
    texts: actions::ActionTextFn,
    contexts: &[ContextIdentity],
) -> ScalarUDF {
    let contexts = contexts.to_vec();
    ScalarUDF::from(FieldFunction::new(name, 2, DataType::Utf8, move |args, memory| {
        let columns = ColumnarValue::values_to_arrays(args)?;
        let texts = actions::of_contexts(&contexts, texts, &columns[0], &columns[1], memory)?;
        Ok(ColumnarValue::Array(texts))
    }))
}

/// Whether a function stands for an operator, and has no name in statements.
fn is_operator(function: &ScalarUDF) -> bool {
    arithmetic::is_operator(function) || bounded::is_operator(function)
}

/// The functions that plans call, beyond DataFusion's, and that need no lake, but at most its
/// identity: those of the field, and operators. They work in any process.
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
        let state =
            FieldFunction::new("state", 1, STATE_TYPE, |args, _| apply(&args[0], states::ids));
        let hex = FieldFunction::new("hex", 1, DataType::Utf8, |args, memory| {
            apply(&args[0], |column| states::hex(column, memory))
        });
        let prefix =
            FieldFunction::new("action_prefix", 2, action_list::list_type(), action_list::prefix);
        let of_actions = |(name, texts): (&'static str, actions::ActionTextFn)| {
            let own = Arc::clone(identity);
            let function = FieldFunction::new(name, 1, DataType::Utf8, move |args, memory| {
                apply(&args[0], |column| texts(&own, column, memory))
            });
            ScalarUDF::from(FieldFunction { identity: Some(Arc::clone(identity)), ..function })
        };
        let of_samples = |name, arguments, returns, body: samples::SampleFn| {
            ScalarUDF::from(FieldFunction::new(name, arguments, returns, body))
        };
        let (number, interval) = (DataType::Float64, samples::interval_type());
        let scalars = [
            of_samples("sample_median", 1, number.clone(), samples::medians),
            of_samples("median_interval", 2, interval.clone(), samples::median_intervals),
            of_samples("speedup", 2, number, samples::speedups),
            of_samples("speedup_interval", 3, interval, samples::speedup_intervals),
            ScalarUDF::from(state),
            ScalarUDF::from(hex),
            ScalarUDF::from(feature::Feature::new()),
            ScalarUDF::from(feature_delta::FeatureDelta::new()),
            of_actions(ACTION_TEXTS[0]),
            of_actions(ACTION_TEXTS[1]),
            ScalarUDF::from(prefix),
        ];
        let aggregates = [
            AggregateUDF::from(action_list::ActionList::new()),
            AggregateUDF::from(extremes::ArgExtreme::least()),
            AggregateUDF::from(extremes::ArgExtreme::greatest()),
            AggregateUDF::from(mode::Mode::new()),
            AggregateUDF::from(Average::new()),
            AggregateUDF::from(Sum::new()),
        ];
        let operators = arithmetic::operators().into_iter().chain([bounded::operator()]);
        let scalars = scalars.map(Arc::new).into_iter().chain(operators);
        Self { scalars: scalars.collect(), aggregates: aggregates.map(Arc::new).into() }
    }
}

/// The identity of the lakes that a function is for; none if it is for all lakes.
pub fn identity_of(function: &ScalarUDF) -> Option<&Arc<Identity>> {
    function.inner().downcast_ref::<FieldFunction>()?.identity.as_ref()
}

/// The functions that read the IR of a lake.
const READ_IR: [&str; 2] = ["ir", "ir_diff"];

/// Whether a query reads large values: calls `ir()` or `ir_diff()`, or reads program graphs.
pub(crate) fn reads_large_values(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let inputs = node.inputs();
        let is_graph = |column: &Column| {
            let mut fields = inputs.iter().map(|input| input.schema().field_from_column(column));
            fields.any(|found| {
                found.is_ok_and(|field| matches!(field.data_type(), DataType::Struct(_)))
            })
        };
        let is_large = |expr: &Expr| {
            expr.exists(|expr| match expr {
                Expr::ScalarFunction(call) => Ok(READ_IR.contains(&call.func.name())),
                Expr::Column(column) => Ok(is_graph(column)),
                _ => Ok(false),
            })
        };
        node.apply_expressions(|expr| {
            found |= is_large(expr)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}
