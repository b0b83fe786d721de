//! Describes in words what a function takes and what it was given. DataFusion describes it with the
//! names of its types, and with an error for each signature of the function.

use arrow::datatypes::DataType;

use steplake_lake::Identity;

/// The most ways to call a function that a message lists.
const WAYS_MAX: usize = 4;

/// Explains DataFusion's message about a function that was given arguments of wrong types. `None`
/// if the message is about something else. `identity` names the vectors of the lake.
pub(crate) fn explained(message: &str, identity: Option<&Identity>) -> Option<String> {
    const GIVEN: &str = "No function matches the given name and argument types '";
    let (_, call) = message.split_once(GIVEN)?;
    let (call, candidates) = call.split_once("'. You might need to add explicit type casts.")?;
    let (name, given) = call.split_once('(')?;
    let given: Vec<Option<DataType>> =
        split(given.strip_suffix(')')?).map(|kind| kind.parse().ok()).collect();
    let words: Vec<String> = given
        .iter()
        .map(|kind| kind.as_ref().map_or_else(|| "a value of another type".to_owned(), described))
        .collect();
    let ways = ways(name, candidates);
    let got = listed(&words);
    let mut text = match &ways[..] {
        [] => format!("`{name}` was given {got}, which it does not take"),
        ways => format!("`{name}` takes {}; it was given {got}", ways.join(" or ")),
    };
    let is_vector = |kind: &DataType| matches!(kind, DataType::List(_));
    if given.iter().flatten().any(is_vector)
        && let Some(example) = identity.and_then(|identity| example(name, identity))
    {
        text += &example;
    }
    let is_duration = |kind: &DataType| matches!(kind, DataType::Duration(_));
    if given.iter().flatten().any(is_duration) && ways.iter().any(|way| way == "a number") {
        text += "; CAST(x AS BIGINT) makes a number of a duration";
    }
    Some(text)
}

/// How to give a function one number of an observation vector.
fn example(function: &str, identity: &Identity) -> Option<String> {
    let space = identity.observations.iter().find(|space| !space.features.is_empty())?;
    let (column, feature) = (&space.name, space.features.first()?);
    Some(format!(
        "; of a vector such as `{column}`, take one number, as in `{function}(feature({column}, \
         '{feature}'))` or `{function}({column}[1])`"
    ))
}

/// The ways to call a function that DataFusion lists, each once.
fn ways(name: &str, candidates: &str) -> Vec<String> {
    let calls = candidates.split_once("Candidate functions:").map_or("", |(_, calls)| calls);
    let arguments = calls
        .lines()
        .filter_map(|line| line.trim().strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')'));
    let mut ways: Vec<String> = Vec::new();
    for arguments in arguments {
        let Some(words) = split(arguments).map(taken).collect::<Option<Vec<_>>>() else { continue };
        let way = listed(&words.concat());
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    if ways.len() > WAYS_MAX {
        ways.truncate(WAYS_MAX);
        ways.push("…".to_owned());
    }
    ways
}

/// Arguments as a reader calls them: `a number`, `(text, integer)`, `nothing`.
fn listed(words: &[String]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [word] => with_article(word),
        words => format!("({})", words.join(", ")),
    }
}

/// A type in words: `a state id`, `text`.
pub(crate) fn named(kind: &DataType) -> String {
    with_article(&described(kind))
}

fn with_article(word: &str) -> String {
    if ["text", "bytes", "null", "any value", "…"].contains(&word) || word.starts_with("a ") {
        return word.to_owned();
    }
    let article = if word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {word}")
}

/// The parts of a list between its own commas.
fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    list.split(move |character| {
        match character {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        character == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
}

/// The words for a part of a signature, which stands for one or several arguments. `None` if
/// DataFusion does not say.
fn taken(part: &str) -> Option<Vec<String>> {
    let kind = part.split_once(": ").map_or(part, |(_, kind)| kind);
    let counted = kind.strip_suffix(')').and_then(|kind| kind.split_once('('));
    if let Some((of, count)) = counted
        && let Ok(count) = count.parse::<usize>()
        && let Some(word) = ["String", "Numeric", "Comparable"].contains(&of).then(|| class(of))
    {
        return Some(vec![word; count]);
    }
    match kind {
        "UserDefined" => None,
        "NullAry()" => Some(Vec::new()),
        kind => {
            let mut words: Vec<String> = Vec::new();
            for word in kind.split('/').map(class) {
                if !words.contains(&word) {
                    words.push(word);
                }
            }
            Some(vec![words.join(" or ")])
        }
    }
}

/// The word for a class of types, or for a type.
fn class(name: &str) -> String {
    let word = match name {
        "Any" | "Comparable" => "any value",
        "Decimal" | "Float" | "Numeric" => "number",
        "Integer" | "index" => "integer",
        "String" | "string" => "text",
        "Binary" => "bytes",
        "array" | "recursive_array" => "list",
        "element" => "item",
        "map_array" => "map",
        ".." => "…",
        other => {
            return other.parse().map_or_else(|_| other.to_lowercase(), |kind| described(&kind));
        }
    };
    word.to_owned()
}

/// The word for a type.
fn described(kind: &DataType) -> String {
    let word = match kind {
        kind if kind.is_integer() => "integer",
        kind if kind.is_numeric() => "number",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::Dictionary(_, values) => return described(values),
        DataType::FixedSizeBinary(20) => "state id",
        DataType::FixedSizeBinary(_)
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView => "bytes",
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            return match described(item.data_type()).as_str() {
                "bytes" => "list of bytes".to_owned(),
                "null" => "list".to_owned(),
                item => format!("list of {item}s"),
            };
        }
        DataType::Timestamp(..) => "timestamp",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Duration(_) => "duration",
        DataType::Interval(_) => "interval",
        DataType::Struct(_) => "struct",
        other => return other.to_string().to_lowercase(),
    };
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(call: &str, candidates: &[&str]) -> String {
        let candidates: Vec<String> =
            candidates.iter().map(|candidate| format!("\t{candidate}")).collect();
        format!(
            "Internal error: a page of it. No function matches the given name and argument types '{call}'. You \
             might need to add explicit type casts.\n\tCandidate functions:\n{}",
            candidates.join("\n")
        )
    }

    #[test]
    fn types_are_said_in_words() {
        let cases: [(&str, &[&str], &str); 10] = [
            (
                "sum(List(non-null Int32, field: 'element'))",
                &["sum(Decimal)", "sum(Duration)", "sum(Float64)"],
                "`sum` takes a number or a duration; it was given a list of integers",
            ),
            (
                "avg(Duration(ns))",
                &["avg(Float64)", "avg(Decimal)"],
                "`avg` takes a number; it was given a duration; CAST(x AS BIGINT) makes a number of a duration",
            ),
            (
                "round(Dictionary(Int32, Utf8))",
                &["round(Decimal, Int32)", "round(Decimal)", "round(Integer)", "round(Float32)"],
                "`round` takes (number, integer) or a number or an integer; it was given text",
            ),
            ("hex()", &["hex(Any)"], "`hex` takes any value; it was given nothing"),
            ("ir(Int64, Utf8)", &["ir(Any)"], "`ir` takes any value; it was given (integer, text)"),
            (
                "corr(Utf8, Int64)",
                &["corr(y: Float64, x: Float64)"],
                "`corr` takes (number, number); it was given (text, integer)",
            ),
            (
                "array_length(Int64)",
                &["array_length(array)", "array_length(array, index)"],
                "`array_length` takes a list or (list, integer); it was given an integer",
            ),
            (
                "coalesce()",
                &["coalesce(UserDefined)"],
                "`coalesce` was given nothing, which it does not take",
            ),
            (
                "f(List(Int64))",
                &["f(Utf8/LargeUtf8, ..)", "f(String(2))", "f(NullAry())"],
                "`f` takes (text, …) or (text, text) or nothing; it was given a list of integers",
            ),
            (
                "f(FixedSizeBinary(20))",
                &["f(Date32)", "f(Boolean)", "f(Binary)", "f(Time)", "f(Interval)"],
                "`f` takes a date or a boolean or bytes or a time or …; it was given a state id",
            ),
        ];
        for (call, candidates, wanted) in cases {
            assert_eq!(explained(&message(call, candidates), None).as_deref(), Some(wanted));
        }
        assert_eq!(explained("there is no table `a`", None), None);
    }
}
