//! The URIs of files: their paths, and the flags with which a compiler takes them.
//!
//! `file:///a%20b/c.c?flags=-Iinclude%20-DN=1` is the file `/a b/c.c`, compiled with `-Iinclude`
//! and `-DN=1`. Behind `#` may stand the digest of what was made of it.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::{BenchmarkUri, BenchmarkUriError};

/// What stands before the path of a file.
const SCHEME: &str = "file://";

/// What stands between the path and the flags.
const FLAGS: &str = "?flags=";

/// What is written as it is, besides letters and digits of any script: the rest means something in
/// a URI or in a pattern.
const PLAIN_IN_PATHS: &str = "-._~/!$&'()+,;=:@";

/// The same for flags: a slash in them does not make the URI longer by a folder.
const PLAIN_IN_FLAGS: &str = "-._~+,=:@";

impl BenchmarkUri {
    /// Returns the URI of the file at an absolute path, compiled with these flags.
    ///
    /// # Errors
    ///
    /// If the path is that of no file: `/`.
    pub fn of_file(path: &str, flags: &[String]) -> Result<Self, BenchmarkUriError> {
        let flags = match flags {
            [] => String::new(),
            flags => format!("{FLAGS}{}", encoded(&joined(flags), PLAIN_IN_FLAGS)),
        };
        format!("{}{flags}", file_uri(path)).parse()
    }

    /// Returns the path of a file; none for any other program.
    pub fn file(&self) -> Option<PathBuf> {
        Some(PathBuf::from(decoded(self.path_and_flags()?.0)))
    }

    /// Returns the flags with which a compiler takes a file.
    pub fn flags(&self) -> Vec<String> {
        let Some((_, Some(flags))) = self.path_and_flags() else { return Vec::new() };
        let flags = decoded(flags);
        shell_words::split(&flags).unwrap_or_else(|_open| vec![flags])
    }

    /// Returns the URI as [`of_file`](Self::of_file) writes it, if it is that of a file.
    #[must_use]
    pub fn as_written(&self) -> Self {
        let written = || -> Option<Self> {
            let file = Self::of_file(self.file()?.to_str()?, &self.flags()).ok()?;
            let (_, digest) = split_digest(self.as_str());
            let digest = digest.map(|digest| format!("#{digest}")).unwrap_or_default();
            format!("{file}{digest}").parse().ok()
        };
        written().unwrap_or_else(|| self.clone())
    }

    fn path_and_flags(&self) -> Option<(&str, Option<&str>)> {
        let (whole, _) = split_digest(self.as_str());
        whole.strip_prefix(SCHEME).map(split_flags)
    }
}

/// Joins words as a shell reads them, with quotes only where they are needed: `shell_words` puts
/// some around `=` too.
fn joined(words: &[String]) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=+:,@%~".contains(c);
    let quoted = words.iter().map(|word| match word.as_str() {
        plain if !plain.is_empty() && plain.chars().all(is_plain) => plain.into(),
        other => shell_words::quote(other),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Returns the beginning of the URIs of an absolute path, which may be that of a folder.
pub fn file_uri(path: &str) -> String {
    format!("{SCHEME}{}", encoded(path, PLAIN_IN_PATHS))
}

/// Splits the part of a URI after its scheme into a path and flags.
pub fn split_flags(rest: &str) -> (&str, Option<&str>) {
    rest.split_once(FLAGS).map_or((rest, None), |(path, flags)| (path, Some(flags)))
}

/// Splits off the digest behind `#`, which may have words before it. A name of a file may have a
/// `#` in it too.
fn split_digest(uri: &str) -> (&str, Option<&str>) {
    const DIGITS_MIN: usize = 16;
    let is_digest = |name: &str| {
        let digits = name.rsplit('-').next().unwrap_or_default();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        digits.len() >= DIGITS_MIN && digits.bytes().all(is_digit) && name.bytes().all(is_word)
    };
    match uri.rsplit_once('#') {
        Some((whole, name)) if is_digest(name) => (whole, Some(name)),
        _ => (uri, None),
    }
}

/// Returns a text with `%XX` for the bytes of all characters but letters, digits and `plain`.
pub fn encoded(text: &str, plain: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || plain.contains(c);
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            encoded.push(c);
        } else {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                write!(encoded, "%{byte:02X}").expect("a string takes it");
            }
        }
    }
    encoded
}

/// Returns a text with characters for `%XX`. A `%` that begins none stays, and so does everything
/// if the result were no text.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let digits = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_no_text| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(path: &str, flags: &[&str]) -> BenchmarkUri {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        BenchmarkUri::of_file(path, &flags).unwrap()
    }

    #[test]
    fn a_path_and_its_flags_come_back() {
        for (path, flags, written) in [
            ("/tmp/a.c", &[][..], "file:///tmp/a.c"),
            ("/my progs/a b.c", &[], "file:///my%20progs/a%20b.c"),
            ("/100%/a#1?[x]*.c", &[], "file:///100%25/a%231%3F%5Bx%5D%2A.c"),
            ("/ärger/a\nb.c", &[], "file:///ärger/a%0Ab.c"),
            ("/a.c", &["-Iinclude", "-DX=1"], "file:///a.c?flags=-Iinclude%20-DX=1"),
            (
                "/a.c",
                &["-I../my inc", "-DS=\"a/b\""],
                "file:///a.c?flags=%27-I..%2Fmy%20inc%27%20%27-DS=%22a%2Fb%22%27",
            ),
            ("/a.c?flags=x", &["-w"], "file:///a.c%3Fflags=x?flags=-w"),
        ] {
            let uri = uri(path, flags);
            assert_eq!(uri.as_str(), written);
            assert_eq!(uri.file().unwrap().to_str(), Some(path));
            assert_eq!(uri.flags(), flags);
            assert_eq!(uri.as_written(), uri);
        }
        assert!(BenchmarkUri::of_file("/", &[]).is_err());
    }

    #[test]
    fn others_may_write_it_otherwise() {
        for (text, path) in [
            ("file:///my progs/a b.c", "/my progs/a b.c"),
            ("file:///tmp/%61%2ec", "/tmp/a.c"),
            ("file:///100%.c", "/100%.c"),
            ("file:///a%zz%2", "/a%zz%2"),
            ("file:///%FF.c", "/%FF.c"),
        ] {
            let there: BenchmarkUri = text.parse().unwrap();
            assert_eq!(there.file().unwrap().to_str(), Some(path), "{text}");
            assert_eq!(there.as_written(), uri(path, &[]), "{text}");
        }
        let of_dataset: BenchmarkUri = "benchmark://a-v0/b%20c?flags=-w".parse().unwrap();
        assert_eq!((of_dataset.file(), of_dataset.flags()), (None, Vec::new()));
        assert_eq!(of_dataset.as_written(), of_dataset);
        let unclosed: BenchmarkUri = "file:///a.c?flags='-w".parse().unwrap();
        assert_eq!(unclosed.flags(), ["'-w"]);
    }

    #[test]
    fn a_state_of_a_file_has_its_path_and_flags() {
        let there = uri("/a b.c", &["-w"]).at(super::super::StateId([7; 20]));
        assert_eq!(there.file().unwrap().to_str(), Some("/a b.c"));
        assert_eq!(there.flags(), ["-w"]);
        assert_eq!(there.as_written(), there);
        let made: BenchmarkUri =
            "file:///a b.c?flags=-w#for-size-0123456789abcdef".parse().unwrap();
        assert_eq!(made.file().unwrap().to_str(), Some("/a b.c"));
        assert_eq!(made.flags(), ["-w"]);
        let written = "file:///a%20b.c?flags=-w#for-size-0123456789abcdef";
        assert_eq!(made.as_written().as_str(), written);
        let named: BenchmarkUri = "file:///tmp/a#b.c".parse().unwrap();
        assert_eq!(named.file().unwrap().to_str(), Some("/tmp/a#b.c"));
    }
}
