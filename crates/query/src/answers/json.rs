//! Numbers that JSON does not have.

use std::sync::LazyLock;

use arrow::array::{Array, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, FieldRef, Float16Type, Float32Type, Float64Type,
};
use arrow::error::ArrowError;
use arrow::json::writer::{NullableEncoder, make_encoder};
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};

/// Writes numbers that are not finite as the texts `"NaN"`, `"Infinity"` and `"-Infinity"`, also
/// within lists and structures. By itself, arrow writes null.
#[derive(Debug)]
pub struct NonFiniteAsText;

impl EncoderFactory for NonFiniteAsText {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder = match array.data_type() {
            DataType::Float16 => numbers(field, array.as_primitive::<Float16Type>())?,
            DataType::Float32 => numbers(field, array.as_primitive::<Float32Type>())?,
            DataType::Float64 => numbers(field, array.as_primitive::<Float64Type>())?,
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

/// Arrow's own encoders.
static PLAIN: LazyLock<EncoderOptions> = LazyLock::new(EncoderOptions::default);

fn numbers<'a, T: ArrowPrimitiveType>(
    field: &'a FieldRef,
    values: &'a PrimitiveArray<T>,
) -> Result<Box<dyn Encoder + 'a>, ArrowError>
where
    T::Native: Into<f64>,
{
    let finite = make_encoder(field, values, &PLAIN)?;
    Ok(Box::new(NumberEncoder { values, finite }))
}

struct NumberEncoder<'a, T: ArrowPrimitiveType> {
    values: &'a PrimitiveArray<T>,
    finite: NullableEncoder<'a>,
}

impl<T: ArrowPrimitiveType> Encoder for NumberEncoder<'_, T>
where
    T::Native: Into<f64>,
{
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value: f64 = self.values.value(row).into();
        let text: &[u8] = if value.is_finite() {
            return self.finite.encode(row, out);
        } else if value.is_nan() {
            b"\"NaN\""
        } else if value > 0.0 {
            b"\"Infinity\""
        } else {
            b"\"-Infinity\""
        };
        out.extend_from_slice(text);
    }
}
