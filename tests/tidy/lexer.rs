//! Just enough of Rust's grammar to tell code from comments and literals.

/// A word or one character of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Word(&'a str),
    Mark(char),
}

impl Token<'_> {
    pub(crate) fn is(self, text: &str) -> bool {
        match self {
            Self::Word(word) => word == text,
            Self::Mark(mark) => text.strip_prefix(mark) == Some(""),
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::Word(word) => word.to_owned(),
            Self::Mark(mark) => mark.to_string(),
        }
    }
}

/// The code of a Rust text, without comments, literals and lifetimes.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest));
        if let Some(bytes) = skipped {
            rest = &rest[bytes..];
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            found.push(Token::Word(&rest[..end]));
            rest = &rest[end..];
        } else {
            if !first.is_whitespace() {
                found.push(Token::Mark(first));
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

/// A Rust text without the insides of its literals. Lines stay what and where they are.
pub(crate) fn without_literals(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (bytes, is_kept) = if let Some(bytes) = comment(rest) {
            (bytes, true)
        } else if let Some(bytes) = literal(rest) {
            let is_lifetime = first == '\'' && !rest[..bytes].ends_with('\'');
            (bytes, is_lifetime)
        } else if is_word(first) {
            (rest.find(|c| !is_word(c)).unwrap_or(rest.len()), true)
        } else {
            (first.len_utf8(), true)
        };
        let (part, after) = rest.split_at(bytes);
        kept.extend(part.chars().filter(|c| is_kept || *c == '\n'));
        rest = after;
    }
    kept
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment that `text` begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let mut end = text.starts_with("/*").then_some(2)?;
    let mut depth = 1;
    while depth > 0 && end < text.len() {
        let rest = &text.as_bytes()[end..];
        let step = match rest {
            [b'/', b'*', ..] => 1,
            [b'*', b'/', ..] => -1,
            _ => 0,
        };
        depth += step;
        end += if step == 0 { 1 } else { 2 };
    }
    Some(end)
}

/// The length of the string, character or lifetime that `text` begins with.
fn literal(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c"].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(['"', '#', '\'']))
    });
    let body = &text[prefix.map_or(0, str::len)..];
    let before = text.len() - body.len();
    if prefix.is_some_and(|prefix| prefix.ends_with('r')) {
        let hashes = body.len() - body.trim_start_matches('#').len();
        if !body[hashes..].starts_with('"') {
            return None; // a raw identifier
        }
        let close = format!("\"{}", "#".repeat(hashes));
        let inner =
            body[hashes + 1..].find(&close).map_or(body.len() - hashes - 1, |at| at + close.len());
        return Some(before + hashes + 1 + inner);
    }
    match body.chars().next()? {
        '"' => Some(before + quoted(body, '"')),
        '\'' => {
            let mut chars = body[1..].chars();
            let (first, second) = (chars.next()?, chars.next());
            if first == '\\' || second == Some('\'') {
                Some(before + quoted(body, '\''))
            } else {
                let name = body[1..].find(|c| !is_word(c)).unwrap_or(body.len() - 1);
                Some(before + 1 + name)
            }
        }
        _ => None,
    }
}

fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[test]
fn code_is_told_from_the_rest() {
    let words = |text| tokens(text).into_iter().map(Token::text).collect::<Vec<_>>().join(" ");
    for (text, code) in [
        ("a /* x /* y */ z */ b // c", "a b"),
        ("a \"x \\\" y\" b", "a b"),
        ("r#\"x \" y\"# b r#type", "b r # type"),
        ("'x' '\\'' '\"' &'static str", "& str"),
        ("b'x' b\"y\" br\"z\" c", "c"),
        ("f::<'_>('{')", "f : : < > ( )"),
        ("/* never closed", ""),
    ] {
        assert_eq!(words(text), code, "{text}");
    }
}

#[test]
fn literals_are_left_out_and_lines_stay() {
    for (text, kept) in [
        ("a(\"b\\\"c\", 'd') // \"e\"", "a(, ) // \"e\""),
        ("let a: &'static str = \"b\nc\"; f", "let a: &'static str = \n; f"),
        ("bar(r#\"b\"#, br\"c\")\r\n", "bar(, )\r\n"),
    ] {
        assert_eq!(without_literals(text), kept, "{text}");
    }
}
