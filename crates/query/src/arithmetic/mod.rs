//! Arithmetic on integers whose results fit, or that is an error. DataFusion's operators, its `sum`
//! and its `avg` of durations wrap: the result of `9223372036854775807 + 1` would be negative.
//!
//! Three places change that, for every statement and every backend: [`ConstantArithmetic`] while
//! SQL becomes a plan, for the constants that are computed then; [`CheckedArithmetic`] after the
//! types of a plan are known; and [`Sum`] and [`Average`] in place of DataFusion's functions.

mod average;
mod operators;
mod rule;
mod shift;
mod sum;

use arrow::datatypes::DataType;

pub(super) use self::average::Average;
pub(super) use self::operators::{is_operator, operators};
pub(super) use self::rule::{CheckedArithmetic, ConstantArithmetic};
pub(super) use self::sum::Sum;

/// A type as SQL calls it.
fn sql_type(kind: &DataType) -> String {
    let name = match kind {
        DataType::Int8 => "TINYINT",
        DataType::Int16 => "SMALLINT",
        DataType::Int32 => "INT",
        DataType::Int64 => "BIGINT",
        DataType::UInt8 => "TINYINT UNSIGNED",
        DataType::UInt16 => "SMALLINT UNSIGNED",
        DataType::UInt32 => "INT UNSIGNED",
        DataType::UInt64 => "BIGINT UNSIGNED",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return format!("DECIMAL({precision}, {scale})");
        }
        other => return other.to_string().to_uppercase(),
    };
    name.to_owned()
}
