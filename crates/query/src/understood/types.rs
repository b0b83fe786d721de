//! Types in casts and literals.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, ExactNumberInfo, StructField, TimezoneInfo,
};

use super::refusal::{CheckFlow, absent, refused};

/// Planning leaves the length of a text, the precision of a number and the zone of a time out.
pub(super) fn data_type(kind: &DataType) -> CheckFlow {
    use DataType as T;
    match kind {
        T::Boolean
        | T::Bool
        | T::TinyInt(None)
        | T::SmallInt(None)
        | T::Int2(None)
        | T::Int(None)
        | T::Int4(None)
        | T::Integer(None)
        | T::BigInt(None)
        | T::Int8(None)
        | T::TinyIntUnsigned(None)
        | T::SmallIntUnsigned(None)
        | T::Int2Unsigned(None)
        | T::IntUnsigned(None)
        | T::IntegerUnsigned(None)
        | T::Int4Unsigned(None)
        | T::BigIntUnsigned(None)
        | T::Int8Unsigned(None)
        | T::Float(ExactNumberInfo::None)
        | T::Real
        | T::Float4
        | T::Double(ExactNumberInfo::None)
        | T::DoublePrecision
        | T::Float8
        | T::Numeric(_)
        | T::Decimal(_)
        | T::Varchar(None)
        | T::Char(None)
        | T::Text
        | T::String(None)
        | T::Bytea
        // Planning refuses the precisions that it does not know.
        | T::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
        | T::Date
        | T::Time(None, _)
        | T::Interval { fields: None, precision: None } => ControlFlow::Continue(()),
        T::Array(
            ArrayElemTypeDef::AngleBracket(item) | ArrayElemTypeDef::SquareBracket(item, _),
        ) => data_type(item),
        T::Struct(fields, _) => fields.iter().try_for_each(field),
        T::Varchar(Some(_)) | T::Char(Some(_)) | T::String(Some(_)) => {
            refused(kind, "leave the length out, and cut the text with left(text, characters)")
        }
        T::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => refused(
            kind,
            "write AT TIME ZONE after a plain one, as in CAST(x AS TIMESTAMP) AT TIME ZONE 'UTC'",
        ),
        _ => refused(
            kind,
            "there are BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, REAL, DOUBLE, DECIMAL(digits, scale), VARCHAR, \
             BYTEA, DATE, TIME, TIMESTAMP and INTERVAL, and arrays and structs of them",
        ),
    }
}

pub(super) fn field(field: &StructField) -> CheckFlow {
    let StructField { field_name: _, field_type, options } = field;
    let options = options.as_ref().and_then(|options| options.first());
    absent(options, "OPTIONS", "leave it out")?;
    data_type(field_type)
}
