//! The operator `||` of texts and of bytes as a function, so that its results are bounded and
//! counted.

use std::sync::{Arc, LazyLock};

use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

static OPERATOR: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::from(Joined { signature }))
});

/// The operator. Statements cannot call it by its name; plans travel to a cluster with it.
pub(crate) fn operator() -> Arc<ScalarUDF> {
    Arc::clone(&OPERATOR)
}

/// Whether a function is the operator.
pub(crate) fn is_operator(function: &ScalarUDF) -> bool {
    function.name() == OPERATOR.name()
}

/// Two texts of one type, one after the other; null if one of them is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Joined {
    signature: Signature,
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &'static str {
        "joined_texts"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        // As DataFusion writes the operator: it is the name of a column.
        match args {
            [left, right] => Ok(format!("{} || {}", left.schema_name(), right.schema_name())),
            other => internal_err!("|| has two operands, not {}", other.len()),
        }
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
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let texts = args.args.iter().map(|arg| arg.clone().into_array(rows));
        let texts = texts.collect::<Result<Vec<_>>>()?;
        let [left, right] = texts.as_slice() else {
            return internal_err!("|| has two operands, not {}", texts.len());
        };
        let joined = concat_elements_dyn(left, right)?;
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&joined, 0)?)
        } else {
            ColumnarValue::Array(joined)
        })
    }
}
