//! Expressions other than calls of functions.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Array, Expr, Interval, LambdaFunction, LambdaFunctionParameter, Spanned as _, TypedString,
    Value, ValueWithSpan,
};

use super::refusal::{CheckFlow, absent, refused_at};
use super::types;

/// The parts of an expression that are expressions or queries are visited by themselves.
pub(super) fn expression(expr: &Expr) -> CheckFlow {
    match expr {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::CompoundFieldAccess { root: _, access_chain: _ }
        | Expr::Wildcard(_)
        | Expr::QualifiedWildcard(_, _)
        | Expr::Nested(_)
        | Expr::Named { expr: _, name: _ }
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(_, _)
        | Expr::IsNotDistinctFrom(_, _)
        | Expr::InList { expr: _, list: _, negated: _ }
        | Expr::InSubquery { expr: _, subquery: _, negated: _ }
        | Expr::Exists { subquery: _, negated: _ }
        | Expr::Subquery(_)
        | Expr::Between { expr: _, negated: _, low: _, high: _ }
        | Expr::AnyOp { left: _, compare_op: _, right: _, is_some: _ }
        | Expr::AllOp { left: _, compare_op: _, right: _ }
        | Expr::BinaryOp { left: _, op: _, right: _ }
        | Expr::UnaryOp { op: _, expr: _ }
        // Planning refuses ANY, and escapes that it does not know.
        | Expr::Like { negated: _, any: _, expr: _, pattern: _, escape_char: _ }
        | Expr::ILike { negated: _, any: _, expr: _, pattern: _, escape_char: _ }
        | Expr::SimilarTo { negated: _, expr: _, pattern: _, escape_char: _ }
        | Expr::Case { case_token: _, end_token: _, operand: _, conditions: _, else_result: _ }
        | Expr::GroupingSets(_)
        | Expr::Cube(_)
        | Expr::Rollup(_)
        | Expr::Tuple(_)
        | Expr::Dictionary(_)
        | Expr::Map(_)
        | Expr::Array(Array { elem: _, named: _ })
        | Expr::AtTimeZone { timestamp: _, time_zone: _ }
        | Expr::Extract { field: _, syntax: _, expr: _ }
        | Expr::Ceil { expr: _, field: _ }
        | Expr::Floor { expr: _, field: _ }
        | Expr::Position { expr: _, r#in: _ }
        | Expr::Substring {
            expr: _,
            substring_from: _,
            substring_for: _,
            special: _,
            shorthand: _,
        }
        | Expr::Overlay { expr: _, overlay_what: _, overlay_from: _, overlay_for: _ } => {
            ControlFlow::Continue(())
        }
        other => with_parts(other),
    }
}

/// Expressions with parts that are not expressions.
fn with_parts(expr: &Expr) -> CheckFlow {
    match expr {
        Expr::Value(ValueWithSpan { value, span: _ }) => literal(value, expr),
        Expr::Cast { kind: _, expr: _, data_type, array, format } => {
            if *array {
                return refused_at(expr, "write the type with []", expr.span());
            }
            absent(format.as_ref(), "FORMAT", "convert a text with to_timestamp() or to_date()")?;
            types::data_type(data_type)
        }
        Expr::TypedString(TypedString { data_type, value: _, uses_odbc_syntax: _ }) => {
            types::data_type(data_type)
        }
        Expr::Struct { values: _, fields } => fields.iter().try_for_each(types::field),
        Expr::Trim { trim_where: _, trim_what: _, expr: _, trim_characters } => {
            // Planning takes the first of several.
            match trim_characters.as_deref() {
                Some([_, _, ..]) => {
                    refused_at(expr, "give all characters in one text", expr.span())
                }
                _ => ControlFlow::Continue(()),
            }
        }
        Expr::Interval(Interval {
            value: _,
            leading_field: _,
            leading_precision,
            last_field,
            fractional_seconds_precision,
        }) => {
            let parts = leading_precision.is_some()
                || last_field.is_some()
                || fractional_seconds_precision.is_some();
            if parts {
                return refused_at(expr, "write INTERVAL '1 day 2 hours'", expr.span());
            }
            ControlFlow::Continue(())
        }
        Expr::Lambda(LambdaFunction { params, body: _, syntax: _ }) => {
            params.iter().try_for_each(|LambdaFunctionParameter { name, data_type }| {
                absent(data_type.as_ref(), &name.to_string(), "leave the type out")
            })
        }
        other => refused_at(other, "write it with other functions or operators", other.span()),
    }
}

fn literal(value: &Value, expr: &Expr) -> CheckFlow {
    match value {
        Value::Number(_, _)
        | Value::SingleQuotedString(_)
        | Value::DoubleQuotedString(_)
        | Value::DollarQuotedString(_)
        | Value::EscapedStringLiteral(_)
        | Value::HexStringLiteral(_)
        | Value::Boolean(_)
        | Value::Null
        | Value::Placeholder(_) => ControlFlow::Continue(()),
        _ => refused_at(expr, "write texts in single quotes, and bytes as X'…'", expr.span()),
    }
}
