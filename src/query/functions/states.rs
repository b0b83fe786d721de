use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::{state_ids, wrong_type};
use crate::model::StateId;
use crate::query::literals::{STATE_TYPE, state_scalar};

/// `state('<40 hex digits>')`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    signature: Signature,
}

impl State {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for State {
    fn name(&self) -> &'static str {
        "state"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(STATE_TYPE)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &args.args[0] {
            ColumnarValue::Scalar(value) => {
                let states = state_ids(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(state_scalar(states[0])))
            }
            ColumnarValue::Array(column) => {
                let states = state_ids(column)?;
                let bytes = states.iter().map(|state| state.as_ref().map(|state| state.0));
                let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    bytes,
                    i32::try_from(StateId::LEN).expect("20 is an i32"),
                )?;
                Ok(ColumnarValue::Array(Arc::new(array)))
            }
        }
    }
}

/// `hex(bytes)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Hex {
    signature: Signature,
}

impl Hex {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Hex {
    fn name(&self) -> &'static str {
        "hex"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match &args.args[0] {
            ColumnarValue::Scalar(value) => {
                let texts = hex(&value.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?))
            }
            ColumnarValue::Array(column) => Ok(ColumnarValue::Array(hex(column)?)),
        }
    }
}

/// The bytes of each row as hexadecimal digits.
fn hex(column: &ArrayRef) -> Result<ArrayRef> {
    let bytes = match column.data_type() {
        DataType::Null
        | DataType::FixedSizeBinary(_)
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Utf8
        | DataType::Utf8View => cast(column, &DataType::Binary)?,
        other => return Err(wrong_type("a value of bytes", other)),
    };
    let bytes = bytes.as_binary::<i32>();
    let mut texts = StringBuilder::with_capacity(bytes.len(), 2 * bytes.values().len());
    for row in bytes {
        match row {
            Some(row) => {
                for byte in row {
                    write!(texts, "{byte:02x}")?;
                }
                texts.append_value("");
            }
            None => texts.append_null(),
        }
    }
    Ok(Arc::new(texts.finish()))
}
