use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, FixedSizeBinaryArray, StringBuilder};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{apply, bytes, state_ids};
use super::memory::{demand_fit, memory_of};
use crate::model::StateId;
use crate::query::literals::STATE_TYPE;

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
        apply(&args.args[0], ids)
    }
}

/// The state id of each row.
fn ids(column: &ArrayRef) -> Result<ArrayRef> {
    let states = state_ids(column)?;
    let bytes = states.iter().map(|state| state.as_ref().map(|state| state.0));
    let size = i32::try_from(StateId::LEN).expect("20 is an i32");
    Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, size)?))
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
        let memory = memory_of(self.name(), &args.config_options);
        apply(&args.args[0], |column| hex(column, &memory))
    }
}

/// The bytes of each row as hexadecimal digits.
fn hex(column: &ArrayRef, memory: &MemoryReservation) -> Result<ArrayRef> {
    // The bytes once, and two digits for each byte.
    let slice_bytes = column.to_data().get_slice_memory_size()?;
    memory.try_grow(slice_bytes.saturating_mul(3))?;
    let bytes = bytes(column)?;
    let digits = 2 * bytes.iter().flatten().map(<[u8]>::len).sum::<usize>();
    demand_fit("hex", digits)?;
    let mut texts = StringBuilder::with_capacity(bytes.len(), digits);
    for row in &bytes {
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
