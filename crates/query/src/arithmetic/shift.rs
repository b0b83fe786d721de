//! Shifts of integers. Those of arrow wrap the number of bits: `1 << 64` would be 1.

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, downcast_integer};
use datafusion::common::{Result, internal_err};

use super::sql_type;
use crate::errors::error::QueryError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShiftDirection {
    Left,
    Right,
}

/// Shifts integers by numbers of bits of the same type.
pub(super) fn shifted(
    values: &ArrayRef,
    counts: &ArrayRef,
    direction: ShiftDirection,
) -> Result<ArrayRef> {
    macro_rules! of_type {
        ($kind:ty) => {
            shifted_column::<$kind>(values, counts, direction)
        };
    }
    downcast_integer! {
        values.data_type() => (of_type),
        other => internal_err!("a shift of {other}"),
    }
}

fn shifted_column<T>(
    values: &ArrayRef,
    counts: &ArrayRef,
    direction: ShiftDirection,
) -> Result<ArrayRef>
where
    T: ArrowPrimitiveType,
    T::Native: Into<i128> + TryFrom<i128>,
{
    let rows = values.as_primitive::<T>().iter().zip(counts.as_primitive::<T>());
    let shifted = rows.map(|row| match row {
        (Some(value), Some(count)) => shift::<T>(value.into(), count.into(), direction).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(shifted.collect::<Result<PrimitiveArray<T>>>()?))
}

fn shift<T>(value: i128, count: i128, direction: ShiftDirection) -> Result<T::Native>
where
    T: ArrowPrimitiveType,
    T::Native: TryFrom<i128>,
{
    let (sign, other) = match direction {
        ShiftDirection::Left => ("<<", ">>"),
        ShiftDirection::Right => (">>", "<<"),
    };
    if count < 0 {
        let message = format!(
            "{value} {sign} {count} shifts by a negative number of bits: shift the other way, with \
             {other}"
        );
        return Err(QueryError::sql(message, None).into());
    }
    // No integer has as many bits.
    let bits = count.min(126);
    let shifted = match direction {
        ShiftDirection::Left => value.checked_mul(1 << bits),
        ShiftDirection::Right => Some(value >> bits),
    };
    shifted.and_then(|shifted| T::Native::try_from(shifted).ok()).ok_or_else(|| {
        let message = format!(
            "{value} {sign} {count} does not fit into {}: multiply in a wider type, as in \
             CAST(x AS DECIMAL(38, 0)) * 16",
            sql_type(&T::DATA_TYPE)
        );
        QueryError::sql(message, None).into()
    })
}
