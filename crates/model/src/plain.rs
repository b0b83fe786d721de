//! What decoders say, in plain words. They name the types of the program, and the reader of a
//! message knows only their text.

/// The problem that a decoder of JSON, or of the parameters of an address, found in a text: its
/// message without the types of the program.
///
/// ```
/// use steplake_model::plain_problem;
/// let said = "invalid type: string \"a\", expected u64 at line 2 column 7";
/// let plain = "the text \"a\" stands where a whole number is wanted (line 2, column 7)";
/// assert_eq!(plain_problem(said), plain);
/// ```
pub fn plain_problem(message: &str) -> String {
    let message = PREFIXES.iter().fold(message, |rest, prefix| rest.trim_start_matches(prefix));
    let (what, place) = match message.rsplit_once(" at line ") {
        Some((what, place)) => (what, placed(place)),
        None => (message, None),
    };
    // Some decoders name the field first.
    let start = STARTS.iter().filter_map(|start| what.find(start)).min().unwrap_or_default();
    let (field, what) = what.split_at(start);
    format!("{field}{}{}", plain(what), place.unwrap_or_default())
}

/// What stands before the message of the decoder itself.
const PREFIXES: [&str; 3] = [
    "Failed to deserialize the JSON body into the target type: ",
    "Failed to parse the request body as JSON: ",
    "Failed to deserialize query string: ",
];

/// How the messages begin that are about a part of the text.
const STARTS: [&str; 7] = [
    "missing field ",
    "unknown field ",
    "unknown variant ",
    "duplicate field ",
    "invalid type: ",
    "invalid value: ",
    "invalid length ",
];

fn placed(place: &str) -> Option<String> {
    let (line, column) = place.split_once(" column ")?;
    Some(format!(" (line {line}, column {column})"))
}

fn plain(what: &str) -> String {
    let after = |start: &str| what.strip_prefix(start);
    if let Some(field) = after("missing field ") {
        format!("{field} is missing")
    } else if let Some(field) = after("duplicate field ") {
        format!("{field} stands there twice")
    } else if let Some(rest) = after("unknown field ").or_else(|| after("unknown variant ")) {
        let (name, known) = rest.split_once(", ").unwrap_or((rest, "there is none"));
        let known =
            known.replace("expected one of ", "there are ").replace("expected ", "there is ");
        format!("there is no {name}: {known}")
    } else if let Some(rest) = after("invalid type: ").or_else(|| after("invalid value: ")) {
        let (found, expected) = rest.rsplit_once(", expected ").unwrap_or((rest, "another"));
        format!("{} stands where {} is wanted", found_value(found), wanted(expected))
    } else if let Some(rest) = after("invalid length ") {
        let (length, expected) = rest.split_once(", expected ").unwrap_or((rest, "another"));
        format!("a list of {length} stands where {} is wanted", wanted(expected))
    } else if what.starts_with("EOF while parsing") {
        "it ends too early".to_owned()
    } else if NOT_JSON.iter().any(|start| what.starts_with(start)) {
        "it is not JSON".to_owned()
    } else {
        what.to_owned()
    }
}

/// How the messages about broken JSON begin.
const NOT_JSON: [&str; 12] = [
    "control character",
    "expected",
    "float key must be finite",
    "invalid escape",
    "invalid number",
    "invalid unicode",
    "key must be a string",
    "lone ",
    "number out of range",
    "recursion limit exceeded",
    "trailing c",
    "unexpected end of hex escape",
];

fn found_value(found: &str) -> String {
    let bare = |start: &str| Some(found.strip_prefix(start)?.trim_matches('`'));
    if let Some(text) = bare("string ") {
        format!("the text {text}")
    } else if let Some(number) = bare("integer ").or_else(|| bare("floating point ")) {
        format!("the number {number}")
    } else if let Some(word) = bare("boolean ") {
        word.to_owned()
    } else {
        match found {
            "map" => "an object",
            "sequence" => "a list",
            "unit value" | "Option value" => "null",
            other => other,
        }
        .to_owned()
    }
}

fn wanted(expected: &str) -> String {
    let word = match expected {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128"
        | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "a borrowed string" | "a character" => "a text",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a map" => "an object",
        "variant identifier" | "string or map" => "a word",
        other if other.starts_with("struct ") || other.starts_with("internally tagged enum ") => {
            "an object"
        }
        other if other.starts_with("enum ") => "a word",
        other if other.starts_with("tuple ") || other.starts_with("a tuple ") => "a list",
        other => other,
    };
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_type_of_the_program_is_named() {
        for (said, plain) in [
            ("missing field `digest` at line 1 column 2", "`digest` is missing (line 1, column 2)"),
            (
                "unknown field `a`, expected one of `b`, `c` at line 3 column 9",
                "there is no `a`: there are `b`, `c` (line 3, column 9)",
            ),
            ("unknown variant `a`, expected `b` or `c`", "there is no `a`: there is `b` or `c`"),
            ("unknown field `a`, there are no fields", "there is no `a`: there are no fields"),
            ("duplicate field `a`", "`a` stands there twice"),
            (
                "invalid type: string \"x, expected y\", expected struct Entry",
                "the text \"x, expected y\" stands where an object is wanted",
            ),
            ("invalid type: map, expected a sequence", "an object stands where a list is wanted"),
            (
                "invalid value: integer `-1`, expected u64",
                "the number -1 stands where a whole number is wanted",
            ),
            (
                "invalid length 1, expected a tuple of size 2",
                "a list of 1 stands where a list is wanted",
            ),
            (
                "Failed to deserialize query string: limit: invalid type: null, expected f64",
                "limit: null stands where a number is wanted",
            ),
            (
                "EOF while parsing an object at line 1 column 0",
                "it ends too early (line 1, column 0)",
            ),
            ("expected value at line 1 column 1", "it is not JSON (line 1, column 1)"),
            ("an action is its name", "an action is its name"),
        ] {
            assert_eq!(plain_problem(said), plain, "{said}");
        }
    }
}
