//! What differs between two behaviours of a program.

use crate::execution::behaviour::{Behaviour, OutputFile, ProgramEnd};
use steplake_model::{DifferenceKind, Excerpt};

/// How much of an output an excerpt shows, in bytes.
const EXCERPT_BYTES: usize = 120;

/// How much of it comes before the first difference, in bytes.
const BEFORE_BYTES: usize = 40;

/// A difference between what a program should do and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub kind: DifferenceKind,
    /// The file or the sanitizer; none for other kinds.
    pub subject: Option<String>,
    /// What was expected.
    pub expected: Excerpt,
    /// What was found.
    pub actual: Excerpt,
}

impl Difference {
    /// A difference that consists of two texts.
    pub fn of_texts(kind: DifferenceKind, expected: &str, actual: &str) -> Self {
        Self { kind, subject: None, expected: of_text(expected), actual: of_text(actual) }
    }

    /// A report of a sanitizer where there should be none.
    pub fn reported(sanitizer: &str, report: &str) -> Self {
        let kind = DifferenceKind::Sanitizer;
        Self { subject: Some(sanitizer.to_owned()), ..Self::of_texts(kind, "no report", report) }
    }

    /// Returns the most telling difference: how the program ends, then its output, then its files.
    pub(super) fn between(expected: &Behaviour, actual: &Behaviour) -> Option<Self> {
        if expected.end != actual.end {
            let kind = match actual.end {
                ProgramEnd::TimedOut => DifferenceKind::TimeOut,
                _ => DifferenceKind::ExitStatus,
            };
            let (expected, actual) = (expected.end.to_string(), actual.end.to_string());
            return Some(Self::of_texts(kind, &expected, &actual));
        }
        if expected.stdout != actual.stdout {
            let pairs = expected.stdout.iter().zip(&actual.stdout);
            let place = pairs.take_while(|(one, other)| one == other).count();
            return Some(Self {
                kind: DifferenceKind::Output,
                subject: None,
                expected: of_output(&expected.stdout, place),
                actual: of_output(&actual.stdout, place),
            });
        }
        let differs = |name: &&String| expected.files.get(*name) != actual.files.get(*name);
        let name = expected.files.keys().chain(actual.files.keys()).find(differs)?;
        let file = |behaviour: &Behaviour| of_file(behaviour.files.get(name).copied().flatten());
        Some(Self {
            kind: DifferenceKind::File,
            subject: Some(name.clone()),
            expected: file(expected),
            actual: file(actual),
        })
    }

    /// One line for people, as the end of "after these actions, …".
    pub fn line(&self) -> String {
        let (expected, actual) = (&self.expected.excerpt, &self.actual.excerpt);
        match self.kind {
            DifferenceKind::Output => {
                format!("its output has `{actual}` where `{expected}` is expected")
            }
            DifferenceKind::Sanitizer => {
                let sanitizer = self.subject.as_deref().unwrap_or("a sanitizer");
                format!("{sanitizer} reports: {actual}")
            }
            DifferenceKind::File => {
                let name = self.subject.as_deref().unwrap_or_default();
                format!("its file `{name}` is {actual}, and {expected} is expected")
            }
            DifferenceKind::Build => format!("it cannot be built: {actual}"),
            _ => format!("{actual}, where {expected} before"),
        }
    }
}

fn of_text(text: &str) -> Excerpt {
    Excerpt { digest: digest(text.as_bytes()), excerpt: text.to_owned() }
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The excerpt of an output around a place.
fn of_output(output: &[u8], place: usize) -> Excerpt {
    let from = place.saturating_sub(BEFORE_BYTES);
    let to = (from + EXCERPT_BYTES).min(output.len());
    let text = String::from_utf8_lossy(&output[from.min(to)..to]);
    let excerpt = text.chars().flat_map(|character| match character {
        '\u{fffd}' => vec![character],
        other => other.escape_debug().collect(),
    });
    Excerpt { digest: digest(output), excerpt: excerpt.collect() }
}

/// The content of a file is not kept, so its size stands for it.
fn of_file(file: Option<OutputFile>) -> Excerpt {
    match file {
        Some(OutputFile { bytes, digest }) => Excerpt {
            digest: blake3::Hash::from(digest).to_hex().to_string(),
            excerpt: format!("{bytes} bytes"),
        },
        None => of_text("not there"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn behaviour(end: ProgramEnd, stdout: &[u8], file: Option<u8>) -> Behaviour {
        let file = file.map(|byte| OutputFile { bytes: 1, digest: [byte; 32] });
        let files = BTreeMap::from([("out".to_owned(), file)]);
        Behaviour { end, stdout: stdout.to_vec(), files }
    }

    #[test]
    fn the_most_telling_difference_is_named() {
        let expected = behaviour(ProgramEnd::Exit(0), b"sum 42\n", Some(1));
        let kind = |actual: &Behaviour| {
            Difference::between(&expected, actual).map(|difference| difference.kind)
        };
        assert_eq!(kind(&expected), None);
        let crash = behaviour(ProgramEnd::Signal(11), b"sum", None);
        assert_eq!(kind(&crash), Some(DifferenceKind::ExitStatus));
        let endless = behaviour(ProgramEnd::TimedOut, b"sum 42\n", Some(1));
        assert_eq!(kind(&endless), Some(DifferenceKind::TimeOut));
        let wrong = behaviour(ProgramEnd::Exit(0), b"sum 43\n", None);
        let found = Difference::between(&expected, &wrong).unwrap();
        let line = "its output has `sum 43\\n` where `sum 42\\n` is expected";
        assert_eq!((found.kind, found.line().as_str()), (DifferenceKind::Output, line));
        assert_eq!(found.expected.digest, digest(b"sum 42\n"));
        for file in [None, Some(2)] {
            let other = behaviour(ProgramEnd::Exit(0), b"sum 42\n", file);
            let found = Difference::between(&expected, &other).unwrap();
            assert_eq!(found.kind, DifferenceKind::File);
            assert_eq!(found.subject.as_deref(), Some("out"));
            assert_ne!(found.expected.digest, found.actual.digest);
        }
    }

    #[test]
    fn an_excerpt_is_short_and_shows_the_difference() {
        let mut long = vec![b'a'; 10_000];
        long.push(0xff);
        let Excerpt { excerpt, .. } = of_output(&long, 10_000);
        assert_eq!(excerpt, format!("{}\u{fffd}", "a".repeat(BEFORE_BYTES)));
        assert_eq!(of_output(b"", 0).excerpt, "");
        assert_eq!(of_output(b"ab", 2).excerpt, "ab");
    }
}
