//! The path of a pattern: everything, a range, a glob, or one name.

use globset::{GlobBuilder, GlobMatcher};

use crate::datasets::DatasetError;
use steplake_model::decoded;

/// The most URIs that one pattern may name.
pub(in crate::datasets) const NAMED_MAX: u64 = 1_000_000;

/// Parses a range `first..last` with both ends included; `None` if the text is no range.
pub(in crate::datasets) fn range(
    pattern: &str,
    path: &str,
    max: u64,
) -> Result<Option<(u64, u64)>, DatasetError> {
    let Some((first, last)) = path.split_once("..") else { return Ok(None) };
    let bad = |detail: String| DatasetError::bad_pattern(pattern, detail);
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.then(|| text.parse::<u64>().ok()).flatten().filter(|n| *n <= max);
        number.ok_or_else(|| bad(format!("`{text}` is no number from 0 to {max}")))
    };
    let (first, last) = (number(first)?, number(last)?);
    if first > last {
        return Err(bad(format!("the range runs backwards: write {last}..{first}")));
    }
    let count = last - first + 1;
    if count > NAMED_MAX {
        return Err(DatasetError::TooMany { pattern: pattern.to_owned(), count, most: NAMED_MAX });
    }
    Ok(Some((first, last)))
}

/// Returns whether a text contains `*`, `?`, `[` or `{`.
pub(in crate::datasets) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Splits a path before its first part with a wildcard: `a/b/*.c` becomes `("a/b", "*.c")`.
pub(in crate::datasets) fn split_at_wildcard(path: &str) -> (&str, &str) {
    let wild = path.find(['*', '?', '[', '{']).unwrap_or(path.len());
    match path[..wild].rfind('/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => ("", path),
    }
}

/// Compiles a glob. As in a shell, `*` and `?` stay within one folder; `**` crosses folders.
pub(in crate::datasets) fn matcher(pattern: &str, glob: &str) -> Result<GlobMatcher, DatasetError> {
    let built = GlobBuilder::new(glob).literal_separator(true).build();
    let bad = |error: globset::Error| DatasetError::bad_pattern(pattern, error.kind().to_string());
    Ok(built.map_err(bad)?.compile_matcher())
}

/// Returns the glob in the path of a file's URI. What is written as `%XX` there means itself.
pub(in crate::datasets) fn decoded_glob(path: &str) -> String {
    let mut glob = path.to_owned();
    for c in "*?[]{}".chars() {
        let code = u32::from(c);
        for written in [format!("%{code:02X}"), format!("%{code:02x}")] {
            glob = glob.replace(&written, &format!("[{c}]"));
        }
    }
    decoded(&glob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(range("p", "0..99", 1000).unwrap(), Some((0, 99)));
        assert_eq!(range("p", "7..7", 7).unwrap(), Some((7, 7)));
        assert_eq!(range("p", "7", 7).unwrap(), None);
        for (path, message) in [
            ("9..1", "`p` cannot be read as a pattern: the range runs backwards: write 1..9"),
            ("1..", "`p` cannot be read as a pattern: `` is no number from 0 to 5000000"),
            ("1..+2", "`p` cannot be read as a pattern: `+2` is no number from 0 to 5000000"),
            (
                "1..5000001",
                "`p` cannot be read as a pattern: `5000001` is no number from 0 to 5000000",
            ),
            ("0..1000000", "`p` names 1000001 benchmarks; at most 1000000 are taken at a time"),
        ] {
            assert_eq!(range("p", path, 5_000_000).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn globs_stay_in_their_folder() {
        let matches = |glob: &str, path: &str| matcher("p", glob).unwrap().is_match(path);
        assert!(matches("*.c", "a.c") && !matches("*.c", "lib/a.c"));
        assert!(
            matches("**", "lib/a.c")
                && matches("**/*.c", "a.c")
                && matches("l?b/[a-c].c", "lib/a.c")
        );
        assert!(matcher("p", "[").is_err());
    }

    #[test]
    fn what_is_written_with_digits_means_itself() {
        for (path, name, is_it) in [
            ("a%20*.c", "a b.c", true),
            ("a%2A*.c", "a*b.c", true),
            ("a%2a*.c", "ab.c", false),
            ("%5Bx%5d?.c", "[x]1.c", true),
            ("%5Bx%5d?.c", "x1.c", false),
            ("100%25%2A.c", "100%*.c", true),
        ] {
            let glob = matcher("p", &decoded_glob(path)).unwrap();
            assert_eq!(glob.is_match(name), is_it, "{path} {name}");
        }
    }

    #[test]
    fn the_plain_part_comes_first() {
        assert_eq!(split_at_wildcard("a/b/*.c"), ("a/b", "*.c"));
        assert_eq!(split_at_wildcard("a/b*/c"), ("a", "b*/c"));
        assert_eq!(split_at_wildcard("*"), ("", "*"));
        assert_eq!(split_at_wildcard("a/b"), ("a", "b"));
    }
}
