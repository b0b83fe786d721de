//! Leaves out of DataFusion's messages what only its developers can read: syntax trees as Rust
//! prints them, and requests to report a bug to DataFusion.

use super::error::one_line;

/// How DataFusion asks to be told of a bug.
const REQUEST: &str = "This issue was likely caused by a bug in DataFusion's code";

/// How DataFusion calls a part of a statement that it does not know, before a dump.
const UNKNOWN: &str = "Unsupported ast node";

/// How a reader of Parquet begins to tell of an error of a filter, which follows as Rust prints it.
const FILTER: &str = "Error evaluating filter predicate: ";

/// What an error of a filter says itself: the first text in its dump.
fn of_filter(message: &str) -> Option<String> {
    let (_, dump) = message.split_once(FILTER)?;
    let (_, text) = dump.split_once('"')?;
    let end = text.match_indices('"').find(|&(at, _)| !text[..at].ends_with('\\'))?.0;
    Some(one_line(&text[..end].replace("\\\"", "\"")))
}

/// A message in one line, without dumps.
pub(super) fn readable(message: &str) -> String {
    if let Some(own) = of_filter(message) {
        return own;
    }
    let message = message.split_once(REQUEST).map_or(message, |(own, _)| own);
    let message = one_line(message);
    if message.starts_with(UNKNOWN) {
        return "a part of the statement".to_owned();
    }
    match dump(&message) {
        Some(start) => {
            let own = message[..start].trim_end_matches([' ', ':', '\'', '`', '"', '(']);
            if own.is_empty() { "a part of the statement".to_owned() } else { own.to_owned() }
        }
        None => message,
    }
}

/// Where the first dump of a message begins: `Ident { value: "x", … }`, with what is around it.
fn dump(message: &str) -> Option<usize> {
    let start = message.match_indices(" { ").find_map(|(at, _)| {
        let (before, after) = (&message[..at], &message[at + 3..]);
        let name = before.rsplit(|c: char| !c.is_alphanumeric()).next()?;
        let is_type = name.starts_with(|c: char| c.is_ascii_uppercase());
        let (field, _) = after.split_once(": ")?;
        let is_field = !field.is_empty()
            && field.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        (is_type && is_field).then(|| at - name.len())
    })?;
    // `Identifier(Ident { …` is one dump.
    Some(message[..start].rfind(' ').map_or(0, |space| space + 1))
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn a_tree_is_left_out_and_a_text_is_not() {
        for (message, wanted) in [
            (
                "Unsupported ast node in sqltorel: Collate { expr: Identifier(Ident { value: \"a\" }) }",
                "a part of the statement",
            ),
            (
                "Unsupported JOIN operator AsOf { match_condition: BinaryOp { left: Identifier(Ident { value: \"a\" }) } }",
                "Unsupported JOIN operator",
            ),
            (
                "Unsupported function argument: Named { name: Ident { value: \"a\" } }",
                "Unsupported function argument",
            ),
            ("compound identifier: [Ident { value: \"a\" }]", "compound identifier"),
            ("Ident { value: \"a\" }", "a part of the statement"),
            (
                "Compute error: Error evaluating filter predicate: External(Sql { message: \"1 does not fit\", position: None })",
                "1 does not fit",
            ),
            (
                "no such thing.\nThis issue was likely caused by a bug in DataFusion's code. Please help us",
                "no such thing",
            ),
            ("Cannot cast string '{ a: 1 }' to value", "Cannot cast string '{ a: 1 }' to value"),
            ("struct { a: Int64 }", "struct { a: Int64 }"),
            ("f(List(non-null Int32, field: 'item'))", "f(List(non-null Int32, field: 'item'))"),
        ] {
            assert_eq!(readable(message), wanted, "{message}");
        }
    }
}
