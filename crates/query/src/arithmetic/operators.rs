//! The operators as functions, which compute as arrow's checked kernels do.

use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::numeric::{add, mul, neg, sub};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;

use super::shift::{ShiftDirection, shifted};
use super::sql_type;
use crate::errors::error::QueryError;

steplake_model::named! {
    /// An operator on integers of one type.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    enum IntegerOperator {
        Add = "checked_add",
        Subtract = "checked_subtract",
        Multiply = "checked_multiply",
        ShiftLeft = "checked_shift_left",
        ShiftRight = "checked_shift_right",
        Negate = "checked_negate",
    }

    /// The name of the function. Plans travel to a cluster with it.
    fn name;
}

impl IntegerOperator {
    /// The operator in a statement.
    fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract | Self::Negate => "-",
            Self::Multiply => "*",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
        }
    }
}

static OPERATORS: LazyLock<[Arc<ScalarUDF>; 6]> = LazyLock::new(|| {
    IntegerOperator::ALL.map(|operation| {
        let operands = if operation == IntegerOperator::Negate { 1 } else { 2 };
        let signature = Signature::any(operands, Volatility::Immutable);
        Arc::new(ScalarUDF::from(CheckedOperator { operation, signature }))
    })
});

/// The operators. Statements cannot call them by their names.
pub(crate) fn operators() -> [Arc<ScalarUDF>; 6] {
    OPERATORS.clone()
}

/// Whether a function is an operator.
pub(crate) fn is_operator(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<CheckedOperator>().is_some()
}

/// The operator in place of one of DataFusion's, for integers of one type. `None` if DataFusion's
/// never wraps.
pub(super) fn binary(operator: Operator, left: Expr, right: Expr) -> Option<Expr> {
    let operation = match operator {
        Operator::Plus => IntegerOperator::Add,
        Operator::Minus => IntegerOperator::Subtract,
        Operator::Multiply => IntegerOperator::Multiply,
        Operator::BitwiseShiftLeft => IntegerOperator::ShiftLeft,
        Operator::BitwiseShiftRight => IntegerOperator::ShiftRight,
        _ => return None,
    };
    Some(call(operation, vec![left, right]))
}

/// The negation of an integer.
pub(super) fn negation(of: Expr) -> Expr {
    call(IntegerOperator::Negate, vec![of])
}

fn call(operation: IntegerOperator, args: Vec<Expr>) -> Expr {
    let function = Arc::clone(&OPERATORS[operation as usize]);
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedOperator {
    operation: IntegerOperator,
    signature: Signature,
}

impl CheckedOperator {
    /// Writes the name of a call as DataFusion writes the operator: it is the name of a column. A
    /// chain of operators is written once, and not once more for each of them.
    fn push_name(&self, name: &mut String, args: &[Expr]) -> Result<()> {
        let sign = self.operation.sign();
        match args {
            [left, right] => {
                push_operand(name, left)?;
                name.extend([" ", sign, " "]);
                push_operand(name, right)?;
            }
            [of] => {
                name.extend(["(", sign, " "]);
                push_operand(name, of)?;
                name.push(')');
            }
            _ => return internal_err!("{} of {} operands", self.name(), args.len()),
        }
        Ok(())
    }
}

fn push_operand(name: &mut String, operand: &Expr) -> Result<()> {
    if let Expr::ScalarFunction(call) = operand
        && let Some(operator) = call.func.inner().downcast_ref::<CheckedOperator>()
    {
        return operator.push_name(name, &call.args);
    }
    name.push_str(&operand.schema_name().to_string());
    Ok(())
}

impl ScalarUDFImpl for CheckedOperator {
    fn name(&self) -> &str {
        self.operation.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut name = String::new();
        self.push_name(&mut name, args)?;
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        let kind = args.arg_fields[0].data_type().clone();
        Ok(Arc::new(Field::new(self.name(), kind, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let computed = match (self.operation, args.args.as_slice()) {
            (IntegerOperator::Add, [left, right]) => apply(left, right, add),
            (IntegerOperator::Subtract, [left, right]) => apply(left, right, sub),
            (IntegerOperator::Multiply, [left, right]) => apply(left, right, mul),
            (IntegerOperator::ShiftLeft, operands) => shift(operands, ShiftDirection::Left),
            (IntegerOperator::ShiftRight, operands) => shift(operands, ShiftDirection::Right),
            (IntegerOperator::Negate, [of]) => negated(of),
            (_, args) => return internal_err!("{} of {} operands", self.name(), args.len()),
        };
        computed.map_err(|error| explained(error, args.return_field.data_type()))
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (self.operation, inputs) {
            (IntegerOperator::Add, [left, right]) => {
                left.sort_properties.add(&right.sort_properties)
            }
            (IntegerOperator::Subtract, [left, right]) => {
                left.sort_properties.sub(&right.sort_properties)
            }
            (IntegerOperator::Negate, [of]) => -of.sort_properties,
            _ => SortProperties::Unordered,
        })
    }
}

fn negated(of: &ColumnarValue) -> Result<ColumnarValue> {
    Ok(match of {
        ColumnarValue::Array(column) => ColumnarValue::Array(neg(column.as_ref())?),
        ColumnarValue::Scalar(value) => {
            let negative = neg(value.to_array()?.as_ref())?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&negative, 0)?)
        }
    })
}

fn shift(operands: &[ColumnarValue], direction: ShiftDirection) -> Result<ColumnarValue> {
    make_scalar_function(|columns| shifted(&columns[0], &columns[1], direction), vec![])(operands)
}

/// An overflow as an error about the statement.
fn explained(error: DataFusionError, kind: &DataType) -> DataFusionError {
    let DataFusionError::ArrowError(arrow, _) = &error else { return error };
    let ArrowError::ArithmeticOverflow(message) = arrow.as_ref() else { return error };
    let what = message.rsplit_once("on: ").map_or(message.as_str(), |(_, what)| what);
    let message = format!(
        "{what} does not fit into {}: compute with a wider type, as in CAST(x AS DECIMAL(38, 0))",
        sql_type(kind)
    );
    QueryError::sql(message, None).into()
}
