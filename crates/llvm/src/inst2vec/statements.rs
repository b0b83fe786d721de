//! From lines of text to statements: what is left of a line when identifiers, numbers and strings
//! are taken out.
//!
//! These are the rules of `CompilerGym` 0.2.5, with their oddities, since the vocabulary is looked
//! up by the very text: a `#` ends a line even within a string, and the lines of a `switch` are
//! statements of their own. It differs in this: definitions of types are no statements, and a
//! type's name is replaced only where it is the whole name.

use super::structs;

/// Lines with these words are no statements.
const SKIPPED: [&str; 7] = [
    "source_filename",
    "target triple",
    "target datalayout",
    "attributes",
    "module asm ",
    "declare",
    "call void asm",
];

/// Returns the statements of a text with typed pointers.
pub(in super::super) fn statements(text: &str) -> Vec<String> {
    let (mut types, mut lines) = (Vec::new(), Vec::new());
    for line in text.lines() {
        match line.split_once(" = type ") {
            Some((name, definition)) if name.starts_with('%') => {
                types.push((name.to_owned(), definition.to_owned()));
            }
            _ => lines.push(line),
        }
    }
    let types = structs::definitions(types);
    let inlined = lines.into_iter().map(|line| structs::inline(line, &types));
    inlined.filter_map(|line| statement(&line)).collect()
}

/// Returns the statement of a line, if it is one.
fn statement(line: &str) -> Option<String> {
    if line.starts_with([';', '!']) || SKIPPED.iter().any(|word| line.contains(word)) {
        return None;
    }
    let line = line.trim();
    if line.is_empty() || line.starts_with(['{', '}', '[', ']', ';']) {
        return None;
    }
    let statement = abstracted(&without_trailer(line));
    (!statement.is_empty()).then_some(statement)
}

/// Drops metadata and groups of attributes.
fn without_trailer(line: &str) -> String {
    let mut line = line.to_owned();
    while let Some(shorter) = without_metadata_argument(&line) {
        line = shorter;
    }
    let is_in_string = |end: usize| {
        let begin = line[..end].find("c\"");
        begin.is_some_and(|begin| !line[begin + 2..end].contains('"'))
    };
    if let Some(end) = line.find('!').filter(|&end| !is_in_string(end)) {
        let kept = line[..end].trim();
        line = kept.strip_suffix(',').unwrap_or(kept).trim().to_owned();
    }
    if let Some(end) = line.find('#') {
        line = line[..end].trim().to_owned();
    }
    line
}

/// Drops the first argument that is metadata, with the commas around it.
fn without_metadata_argument(line: &str) -> Option<String> {
    const WORD: &str = "metadata !";
    let open = line.find('(')?;
    let begin = open + line[open..].find(WORD)?;
    let name = begin + WORD.len();
    let end = name + line[name..].bytes().take_while(|&byte| is_word(byte)).count();
    if end == name || !line[end..].contains(')') {
        return None;
    }
    let before = line[..begin].strip_suffix(", ").unwrap_or(&line[..begin]);
    let after = line[end..].strip_prefix(", ").unwrap_or(&line[end..]);
    Some(format!("{before}{after}"))
}

/// Takes out identifiers, labels, numbers and strings.
fn abstracted(line: &str) -> String {
    let mut text = replaced(line, "<%ID>", |_, rest| after(rest, b'%', is_of_local));
    text = replaced(&text, "<@ID>", |before, rest| {
        if before.ends_with(b"%\"") { None } else { after(rest, b'@', is_of_global) }
    });
    if label_len(text.as_bytes()).is_some() {
        text = replaced(&text, "<LABEL>:", |_, rest| label_len(rest)).replace("<%ID>", "<LABEL>");
    }
    if let Some((label, _)) = text.split_once("  ").filter(|_| text.contains("; preds = ")) {
        let last = text.rsplit("  ").next().unwrap_or_default();
        text = format!("{label} {}", last.trim_start());
    }
    let is_of = |words: [&str; 2]| {
        let operation = text.strip_prefix("<%ID> = ");
        operation.is_some_and(|operation| words.iter().any(|word| operation.starts_with(word)))
    };
    let is_of_element = is_of(["extractelement", "insertelement"]);
    let has_numbers = is_of_element || is_of(["extractvalue", "insertvalue"]);
    text = replaced(&text, "<FLOAT>", hexadecimal);
    text = replaced(&text, "<FLOAT>", scientific);
    if !has_numbers {
        text = replaced(&text, " <INT>", integer);
    }
    text = replaced(&text, " <STRING>", string);
    if is_of_element {
        text = replaced(&text, "<TYP> ", index_type);
    }
    text
}

/// Replaces every match from left to right. `len` gets the bytes before a place and those from it
/// on, and returns the length of the match there.
fn replaced(text: &str, by: &str, len: impl Fn(&[u8], &[u8]) -> Option<usize>) -> String {
    let (mut result, mut copied, mut place) = (String::new(), 0, 0);
    while place < text.len() {
        let (before, rest) = text.as_bytes().split_at(place);
        // All that matches is of ASCII, so a match begins and ends at whole characters.
        match len(before, rest) {
            Some(len) => {
                result += &text[copied..place];
                result += by;
                place += len;
                copied = place;
            }
            None => place += 1,
        }
    }
    result + &text[copied..]
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_of_local(byte: u8) -> bool {
    is_word(byte) || b"\"@.-:".contains(&byte)
}

fn is_of_global(byte: u8) -> bool {
    is_word(byte) || b"\".-$\\".contains(&byte)
}

fn count(text: &[u8], is_of: impl Fn(u8) -> bool) -> usize {
    text.iter().take_while(|&&byte| is_of(byte)).count()
}

/// The length of a sign with at least one byte of a kind after it.
fn after(rest: &[u8], sign: u8, is_of: impl Fn(u8) -> bool) -> Option<usize> {
    let name = rest.strip_prefix(&[sign])?;
    Some(count(name, is_of)).filter(|&len| len > 0).map(|len| len + 1)
}

/// The length of a label with its colon.
fn label_len(rest: &[u8]) -> Option<usize> {
    let run = &rest[..count(rest, is_of_local)];
    let colon = run.iter().rposition(|&byte| byte == b':')?;
    (colon > 0).then_some(colon + 1)
}

/// The length of the sign of a number that is not part of a word.
fn sign_len(before: &[u8], rest: &[u8]) -> Option<usize> {
    if before.last().is_some_and(|&byte| is_word(byte)) {
        return None;
    }
    Some(usize::from(rest.first() == Some(&b'-')))
}

fn hexadecimal(before: &[u8], rest: &[u8]) -> Option<usize> {
    let sign = sign_len(before, rest)?;
    let prefix = rest.get(sign..sign + 2)?;
    if !matches!(prefix, b"0x" | b"0X") {
        return None;
    }
    let digits = &rest[sign + 2..];
    let kind = usize::from(digits.first().is_some_and(|byte| b"hklmHKLM".contains(byte)));
    let len = count(&digits[kind..], |byte| byte.is_ascii_hexdigit());
    (len > 0).then_some(sign + 2 + kind + len)
}

fn scientific(before: &[u8], rest: &[u8]) -> Option<usize> {
    let digits = |text: &[u8]| Some(count(text, |byte| byte.is_ascii_digit())).filter(|&it| it > 0);
    let point = sign_len(before, rest)?;
    let point = point + digits(&rest[point..])?;
    if rest.get(point) != Some(&b'.') {
        return None;
    }
    let end = point + 1 + digits(&rest[point + 1..])?;
    let exponent = rest[end..].strip_prefix(b"e").and_then(|exponent| {
        let plus = usize::from(exponent.first() == Some(&b'+'));
        let sign = plus + usize::from(exponent.get(plus) == Some(&b'-'));
        Some(1 + sign + digits(&exponent[sign..])?)
    });
    Some(end + exponent.unwrap_or(0))
}

/// An integer after a blank; not an alignment, nor the first number in brackets.
fn integer(before: &[u8], rest: &[u8]) -> Option<usize> {
    if before.ends_with(b"align") || before.ends_with(b"[") {
        return None;
    }
    let number = rest.strip_prefix(b" ")?;
    let sign = usize::from(number.first() == Some(&b'-'));
    let len = count(&number[sign..], |byte| byte.is_ascii_digit());
    (len > 0).then_some(1 + sign + len)
}

/// A string with at least one character, up to the last quote of the line.
fn string(before: &[u8], rest: &[u8]) -> Option<usize> {
    if before.last().is_some_and(|&byte| is_word(byte)) || !rest.starts_with(b"c\"") {
        return None;
    }
    rest.iter().rposition(|&byte| byte == b'"').filter(|&end| end > 2).map(|end| end + 1)
}

/// The type of an index, with the blank behind it.
fn index_type(_: &[u8], rest: &[u8]) -> Option<usize> {
    let digits = rest.strip_prefix(b"i")?;
    let len = count(digits, |byte| byte.is_ascii_digit());
    (len > 0 && digits.get(len) == Some(&b' ')).then_some(len + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_mentions_is_taken_out() {
        for (line, wanted) in [
            ("  %3 = add nsw i32 %1, -12", "<%ID> = add nsw i32 <%ID>, <INT>"),
            ("%3 = fadd double %1, -2.500000e+00", "<%ID> = fadd double <%ID>, <FLOAT>"),
            ("store float 0x3FF0000000000000, float* @x.y", "store float <FLOAT>, float* <@ID>"),
            (
                "%2 = phi i32 [ 1, %0 ], [ %4, %3 ]",
                "<%ID> = phi i32 [ 1, <%ID> ], [ <%ID>, <%ID> ]",
            ),
            ("br label %2, !llvm.loop !5", "br label <%ID>"),
            ("call void @f(i32 %x) #7", "call void <@ID>(i32 <%ID>)"),
            ("7:              ; preds = %3, %5", "<LABEL>: ; preds = <LABEL>, <LABEL>"),
            (
                "@s = constant [3 x i8] c\"a!\\00\", align 1",
                "<@ID> = constant [3 x i8]  <STRING>, align 1",
            ),
            ("@s = constant [3 x i8] c\"a#\\00\", align 1", "<@ID> = constant [3 x i8] c\"a"),
            (
                "%4 = extractelement <4 x i32> %3, i32 0",
                "<%ID> = extractelement <4 x i32> <%ID>, <TYP> 0",
            ),
            ("%4 = extractvalue { i8*, i32 } %3, 1", "<%ID> = extractvalue { i8*, i32 } <%ID>, 1"),
            ("call void @f(metadata !1, i32 %1, metadata !x)", "call void <@ID>(i32 <%ID>)"),
        ] {
            assert_eq!(statement(line).as_deref(), Some(wanted), "{line}");
        }
    }

    #[test]
    fn lines_that_are_no_statements_are_skipped() {
        for line in
            ["", "}", "  ]", "; a comment", "declare i32 @f()", "!0 = !{}", "call void asm \"\""]
        {
            assert_eq!(statement(line), None, "{line}");
        }
    }
}
