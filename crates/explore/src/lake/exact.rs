//! Numbers that a page cannot read as numbers.
//!
//! JavaScript reads every number of JSON as a double, which has 53 bits: the last digits of the key
//! of a state, or of a seed, would be others. Such numbers are sent as texts, and so are those that
//! are not finite.

use arrow::array::{Array, AsArray as _, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, FieldRef, Int64Type, UInt64Type};
use arrow::error::ArrowError;
use arrow::json::writer::NullableEncoder;
use arrow::json::{Encoder, EncoderFactory, EncoderOptions};
use serde_json::Value;
use steplake::query::NonFiniteAsText;

/// The largest number up to which doubles have every whole number.
const EXACT_MAX: u64 = 1 << 53;

/// Doubles have every decimal number of so many digits.
const EXACT_DIGITS: usize = 15;

fn is_exact(magnitude: u64) -> bool {
    magnitude <= EXACT_MAX
}

/// Returns a whole number as JSON that a page reads exactly: a text if it is large. Anything else
/// is no whole number.
pub(super) fn whole(value: &Value) -> Option<Value> {
    let magnitude = value.as_u64().or_else(|| Some(value.as_i64()?.unsigned_abs()))?;
    Some(if is_exact(magnitude) { value.clone() } else { Value::String(value.to_string()) })
}

/// Writes large whole numbers, long decimal numbers and numbers that are not finite as texts, also
/// within lists and structures.
#[derive(Debug)]
pub(super) struct ExactNumbers;

impl EncoderFactory for ExactNumbers {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Int64 => Box::new(Whole(array.as_primitive::<Int64Type>())),
            DataType::UInt64 => Box::new(Whole(array.as_primitive::<UInt64Type>())),
            kind if kind.is_decimal() => Box::new(Decimals(cast(array, &DataType::Utf8)?)),
            _ => return NonFiniteAsText.make_default_encoder(field, array, options),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}

struct Whole<'a, T: ArrowPrimitiveType>(&'a PrimitiveArray<T>);

impl<T: ArrowPrimitiveType> Encoder for Whole<'_, T>
where
    T::Native: std::fmt::Display,
{
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let digits = self.0.value(row).to_string();
        let magnitude = digits.trim_start_matches('-').parse();
        push(&digits, magnitude.is_ok_and(is_exact), out);
    }
}

/// Decimal numbers, already written.
struct Decimals(arrow::array::ArrayRef);

impl Encoder for Decimals {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let digits = self.0.as_string::<i32>().value(row);
        let count = digits.bytes().filter(u8::is_ascii_digit).count();
        push(digits, count <= EXACT_DIGITS, out);
    }
}

/// Adds a number, which needs no escapes, as itself or as a text.
fn push(digits: &str, is_number: bool, out: &mut Vec<u8>) {
    let quote: &[u8] = if is_number { b"" } else { b"\"" };
    for part in [quote, digits.as_bytes(), quote] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_that_a_double_has_stays_a_number() {
        for exact in [json!(0), json!(-7), json!(1_u64 << 53), json!(-(1_i64 << 53))] {
            assert_eq!(whole(&exact), Some(exact));
        }
        assert_eq!(whole(&json!((1_u64 << 53) + 1)), Some(json!("9007199254740993")));
        assert_eq!(whole(&json!(u64::MAX)), Some(json!("18446744073709551615")));
        assert_eq!(whole(&json!(i64::MIN)), Some(json!("-9223372036854775808")));
        assert_eq!(whole(&json!("7")), None);
        assert_eq!(whole(&json!(null)), None);
    }
}
