//! The functions `state` and `hex`.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, FixedSizeBinaryArray, StringBuilder};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::arguments::{bytes, state_ids};
use super::memory::demand_fit;
use steplake_model::StateId;

/// `state('<40 hex digits>')`: the state id of each row.
pub(super) fn ids(column: &ArrayRef) -> Result<ArrayRef> {
    let states = state_ids(column)?;
    let bytes = states.iter().map(|state| state.as_ref().map(|state| state.0));
    let size = i32::try_from(StateId::LEN).expect("20 is an i32");
    Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, size)?))
}

/// `hex(bytes)`: the bytes of each row as hexadecimal digits.
pub(super) fn hex(column: &ArrayRef, memory: &MemoryReservation) -> Result<ArrayRef> {
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
