//! Leaves out of DataFusion's messages what only its developers can read: syntax trees as Rust
//! prints them, and requests to report a bug to DataFusion.

use std::ops::Range;

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use super::error::{QueryError, one_line};

/// How DataFusion asks to be told of a bug.
const REQUEST: &str = "This issue was likely caused by a bug in DataFusion's code";

/// How DataFusion calls a part of a statement that it does not know, before a dump.
const UNKNOWN: &str = "Unsupported ast node";

/// How a reader of Parquet begins to tell of an error of a filter, which follows as Rust prints it.
const FILTER: &str = "Error evaluating filter predicate: ";

/// What stands in place of a dump.
const LEFT_OUT: &str = "…";

/// The error of a filter, if a message of a reader of Parquet tells of one.
pub(crate) fn of_filter(message: &str) -> Option<DataFusionError> {
    let (_, dump) = message.split_once(FILTER)?;
    let other = || DataFusionError::Execution(first_text(dump).unwrap_or_else(|| readable(dump)));
    Some(printed_error(dump).unwrap_or_else(other))
}

/// Makes an error of a text.
type Make = fn(String) -> DataFusionError;

/// Returns an error from how Rust prints it, as in a message of an executor of a cluster, if it is
/// one of a computation: its kind and its text.
pub fn printed_error(dump: &str) -> Option<DataFusionError> {
    let dump = dump.split_once(FILTER).map_or(dump, |(_, inner)| inner);
    let begin = dump.find('"').unwrap_or(dump.len());
    // Within a text, quotes are escaped.
    let dump = match dump[..begin].strip_suffix('\\') {
        Some(_) => unescaped(dump),
        None => dump.to_owned(),
    };
    let kind = dump.split(['"', ',', '{']).next().unwrap_or_default();
    if kind.contains("ArrowError(DivideByZero") {
        return Some(ArrowError::DivideByZero.into());
    }
    let text = first_text(&dump)?;
    let kinds: [(&str, Make); 5] = [
        ("External(Sql ", |text| QueryError::sql(text, None).into()),
        ("External(TooLarge(", |text| QueryError::TooLarge(text).into()),
        ("ArrowError(ArithmeticOverflow(", |text| ArrowError::ArithmeticOverflow(text).into()),
        ("ArrowError(CastError(", |text| ArrowError::CastError(text).into()),
        ("ArrowError(ComputeError(", |text| ArrowError::ComputeError(text).into()),
    ];
    let made = kinds.iter().find(|(end, _)| kind.ends_with(end));
    made.map(|(_, made)| made(text))
}

/// A part of a text as Rust prints it.
fn unescaped(printed: &str) -> String {
    let mut characters = printed.chars();
    let next = || match characters.next()? {
        '\\' => characters.next(),
        other => Some(other),
    };
    std::iter::from_fn(next).collect()
}

/// The first text in a dump.
fn first_text(dump: &str) -> Option<String> {
    let (_, text) = dump.split_once('"')?;
    let end = text.match_indices('"').find(|&(at, _)| !text[..at].ends_with('\\'))?.0;
    Some(text[..end].replace("\\\"", "\""))
}

/// A message in one line, without dumps.
pub(crate) fn readable(message: &str) -> String {
    let message = message.split_once(REQUEST).map_or(message, |(own, _)| own);
    let message = one_line(message);
    let said = without_trees(&without_intervals(message));
    if said == LEFT_OUT || said.starts_with(UNKNOWN) {
        return "a part of the statement".to_owned();
    }
    said
}

/// An interval is written as a dump, in names of columns with its type and in quotes.
fn without_intervals(mut message: String) -> String {
    const NAME: &str = "IntervalMonthDayNano";
    while let Some(start) = message.find(&format!("{NAME} {{ "))
        && let Some(length) = message[start..].find('}')
    {
        let (before, after) = (&message[..start], &message[start + length + 1..]);
        let before = before.strip_suffix(&format!("{NAME}(\"")).unwrap_or(before);
        let after = after.strip_prefix("\")").unwrap_or(after);
        message = format!("{before}an interval{after}");
    }
    message
}

fn without_trees(message: &str) -> String {
    let (mut said, mut rest) = (String::new(), message);
    while let Some(tree) = tree(rest) {
        said += &rest[..tree.start];
        said += LEFT_OUT;
        rest = &rest[tree.end..];
    }
    said + rest
}

/// Where the first tree of a message stands: `Ident { value: "x", … }`, with what is around it.
fn tree(message: &str) -> Option<Range<usize>> {
    let inner = message.match_indices(" { ").find_map(|(at, _)| {
        let (before, after) = (&message[..at], &message[at + 3..]);
        let name = before.rsplit(|c: char| !c.is_alphanumeric()).next()?;
        let is_type = name.starts_with(|c: char| c.is_ascii_uppercase());
        let (field, _) = after.split_once(": ")?;
        let is_field = !field.is_empty()
            && field.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        (is_type && is_field && !is_in_quotes(before)).then(|| at - name.len())
    })?;
    // `Identifier(Ident { …` is one tree.
    let around = |c: char| c.is_alphanumeric() || matches!(c, '(' | '[' | '_');
    let start = message[..inner].trim_end_matches(around).len();
    Some(start..start + tree_length(&message[start..]))
}

/// Whether a text in single quotes, such as one of the statement, begins before and does not end.
fn is_in_quotes(before: &str) -> bool {
    let (mut is_open, mut last) = (false, ' ');
    for c in before.chars() {
        // The other one is an apostrophe.
        if c == '\'' && (is_open || !last.is_alphanumeric()) {
            is_open = !is_open;
        }
        last = c;
    }
    is_open
}

/// The bytes of a tree, to the bracket that closes its first one.
fn tree_length(text: &str) -> usize {
    let (mut depth, mut is_text) = (0, false);
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' if is_text => {
                characters.next();
            }
            '"' => is_text = !is_text,
            _ if is_text => {}
            // A character, as in `Some('(')` or `Some('\'')`.
            '\'' => {
                if characters.next().is_some_and(|(_, c)| c == '\\') {
                    characters.next();
                }
                characters.next();
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{of_filter, printed_error, readable};

    #[test]
    fn a_tree_is_left_out_and_a_text_is_not() {
        for (message, wanted) in [
            (
                "Unsupported ast node in sqltorel: Collate { expr: Identifier(Ident { value: \"a\" }) }",
                "a part of the statement",
            ),
            (
                "Unsupported JOIN operator AsOf { match_condition: BinaryOp { left: Identifier(Ident { value: \"a\" }) } }",
                "Unsupported JOIN operator …",
            ),
            (
                "Unsupported function argument: Named { name: Ident { value: \"a\" } }",
                "Unsupported function argument: …",
            ),
            ("compound identifier: [Ident { value: \"a\" }]", "compound identifier: …"),
            ("Ident { value: \"a\" }", "a part of the statement"),
            (
                "no such thing.\nThis issue was likely caused by a bug in DataFusion's code. Please help us",
                "no such thing",
            ),
            (
                "got F(F { a: [\"it's ) \\\" \\\\\"], b: Some('('), c: '\"', d: Some('\\'') }), not G { a: 1 }, as 'x'",
                "got …, not …, as 'x'",
            ),
            (
                "\"IntervalMonthDayNano(\"IntervalMonthDayNano { months: 0, days: 1, nanoseconds: 0 }\")\" is there",
                "\"an interval\" is there",
            ),
            (
                "overflow: 1 + IntervalMonthDayNano { months: 0, days: 1, nanoseconds: 0 }",
                "overflow: 1 + an interval",
            ),
            ("cannot read 'a Foo { bar: 1 }': no", "cannot read 'a Foo { bar: 1 }': no"),
            ("Arrow's way of Foo { bar: 1 }: no", "Arrow's way of …: no"),
            ("Cannot cast string '{ a: 1 }' to value", "Cannot cast string '{ a: 1 }' to value"),
            ("struct { a: Int64 }", "struct { a: Int64 }"),
            ("f(List(non-null Int32, field: 'item'))", "f(List(non-null Int32, field: 'item'))"),
        ] {
            assert_eq!(readable(message), wanted, "{message}");
        }
    }

    #[test]
    fn the_error_of_a_filter_keeps_its_kind() {
        for (dump, wanted) in [
            (
                "External(Sql { message: \"1 of \\\"a\\\" does not fit\", position: None })",
                "External error: 1 of \"a\" does not fit",
            ),
            ("External(TooLarge(\"f() would\"))", "External error: f() would"),
            ("ArrowError(DivideByZero, Some(\"\"))", "Arrow error: Divide by zero error"),
            ("ArrowError(CastError(\"no\"), Some(\"\"))", "Arrow error: Cast error: no"),
            ("Execution(\"no\")", "Execution error: no"),
        ] {
            let message = format!("Compute error: Error evaluating filter predicate: {dump}");
            let said = of_filter(&message).map(|error| error.strip_backtrace());
            assert_eq!(said.as_deref(), Some(wanted), "{dump}");
            // An executor of a cluster tells of it within a text.
            let message = format!("DataFusionError(ParquetError(ArrowError({message:?})))");
            let said = printed_error(&message).map(|error| error.strip_backtrace());
            let is_known = !dump.starts_with("Execution");
            assert_eq!(said.as_deref(), is_known.then_some(wanted), "{message}");
        }
    }
}
