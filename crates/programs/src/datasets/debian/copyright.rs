//! Licences of a package's files, from its `debian/copyright`.

use super::control::{Paragraph, paragraphs};

const LICENCE_MAX_CHARS: usize = 80;

/// What a package's `debian/copyright` says.
#[derive(Debug)]
pub(super) struct Copyright {
    /// Patterns of files with their licences; the last match applies.
    files: Vec<(Vec<String>, String)>,
    /// The licence of a file that no pattern matches.
    fallback: String,
}

impl Copyright {
    /// Parses the text, in paragraphs (copyright-format 1.0) or in prose.
    pub(super) fn parse(text: &str) -> Self {
        let all = paragraphs(text);
        let structured = all.first().is_some_and(|head| head.get("Format").is_some());
        if !structured {
            return Self { files: Vec::new(), fallback: from_prose(text) };
        }
        let licence = |paragraph: &Paragraph| {
            let line = paragraph.get("License").and_then(|value| value.lines().next());
            line.filter(|line| !line.is_empty()).map(spdx)
        };
        let files = all.iter().filter_map(|paragraph| {
            let patterns = paragraph.get("Files")?.split_whitespace().map(str::to_owned).collect();
            Some((patterns, licence(paragraph)?))
        });
        Self { files: files.collect(), fallback: all.first().and_then(licence).unwrap_or_default() }
    }

    /// Returns the licence of a file, named relative to the source tree; empty if none is known.
    pub(super) fn licence(&self, file: &str) -> &str {
        let holds = |(patterns, _): &&(Vec<String>, String)| {
            patterns.iter().any(|pattern| matches(pattern.as_bytes(), file.as_bytes()))
        };
        self.files.iter().rev().find(holds).map_or(&self.fallback, |(_, licence)| licence)
    }
}

/// Matches the format's own wildcards: `*` and `?` match slashes too, and a backslash escapes them.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => {
            matches(rest, text) || (!text.is_empty() && matches(pattern, &text[1..]))
        }
        ([b'?', rest @ ..], [_, text @ ..]) => matches(rest, text),
        ([b'\\', escaped, rest @ ..] | [escaped, rest @ ..], [first, text @ ..]) => {
            escaped == first && matches(rest, text)
        }
        _ => false,
    }
}

/// Returns the SPDX expression for a licence line in the format's own short names.
fn spdx(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.replace(',', " ").split_whitespace() {
        words.push(match word {
            "or" => "OR".to_owned(),
            "and" => "AND".to_owned(),
            "with" => "WITH".to_owned(),
            name => identifier(name),
        });
    }
    let plain = |words: &[String]| {
        words.iter().skip(1).step_by(2).all(|word| ["OR", "AND"].contains(&word.as_str()))
    };
    if words.len() % 2 == 1 && plain(&words) {
        return words.join(" ");
    }
    // An exception, or prose: keep it as one name.
    reference(line)
}

/// Licences that Debian calls by their SPDX names, in any case.
const SPDX_NAMES: &str = "MIT Zlib ISC BSD-2-Clause BSD-3-Clause BSD-4-Clause Apache-2.0 CC0-1.0 \
                          MPL-2.0 MPL-1.1 BSL-1.0 Unlicense curl X11";

fn identifier(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    let known = match lower.as_str() {
        "expat" => Some("MIT"),
        "apache-2" => Some("Apache-2.0"),
        "cc0" => Some("CC0-1.0"),
        "artistic" => Some("Artistic-1.0-Perl"),
        "boost-1.0" => Some("BSL-1.0"),
        _ => SPDX_NAMES.split(' ').find(|known| known.eq_ignore_ascii_case(name)),
    };
    known.map_or_else(|| gnu(&lower).unwrap_or_else(|| reference(name)), str::to_owned)
}

/// Converts the name of a GNU licence: `GPL-2+` becomes `GPL-2.0-or-later`.
fn gnu(name: &str) -> Option<String> {
    let (family, version) = name.rsplit_once('-')?;
    let family = match family {
        "gpl" => "GPL",
        "lgpl" => "LGPL",
        "agpl" => "AGPL",
        _ => return None,
    };
    let (version, suffix) =
        version.strip_suffix('+').map_or((version, "only"), |version| (version, "or-later"));
    let numeric = !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let point = if version.contains('.') { "" } else { ".0" };
    numeric.then(|| format!("{family}-{version}{point}-{suffix}"))
}

/// Makes a name for a licence unknown to SPDX.
fn reference(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    let name: String = name.chars().take(LICENCE_MAX_CHARS).map(letter).collect();
    format!("LicenseRef-{}", name.trim_matches('-'))
}

/// Finds the licence in a text without structure: a well-known name, else its first line on the
/// matter.
fn from_prose(text: &str) -> String {
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for name in ["LGPL-3", "LGPL-2.1", "LGPL-2", "GPL-3", "GPL-2"] {
        if flat.contains(&format!("common-licenses/{name}")) {
            let later = if flat.contains("later version") { "+" } else { "" };
            return identifier(&format!("{name}{later}"));
        }
    }
    for (phrase, licence) in [
        ("common-licenses/Apache-2.0", "Apache-2.0"),
        ("Permission is hereby granted, free of charge", "MIT"),
        ("Permission to use, copy, modify, and/or distribute", "ISC"),
    ] {
        if flat.contains(phrase) {
            return licence.to_owned();
        }
    }
    let lower = |line: &str| line.to_ascii_lowercase();
    let speaks =
        |line: &&str| lower(line).contains("licen") || lower(line).contains("public domain");
    let line = text.lines().map(str::trim).find(speaks).unwrap_or_default();
    line.chars().take(LICENCE_MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_paragraph_that_matches_holds() {
        let copyright = Copyright::parse(
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n\
             Files: *\nCopyright: a\nLicense: BSD-2-clause\n\n\
             Files: programs/*\n tests/check?.c\nLicense: GPL-2+ or BSD-2-clause\n text\n\n\
             Files: programs/own.c\nLicense: BSD-variant\n\nLicense: GPL-2+\n text\n",
        );
        assert_eq!(copyright.licence("lib/a.c"), "BSD-2-Clause");
        assert_eq!(copyright.licence("programs/deep/b.c"), "GPL-2.0-or-later OR BSD-2-Clause");
        assert_eq!(copyright.licence("tests/check1.c"), "GPL-2.0-or-later OR BSD-2-Clause");
        assert_eq!(copyright.licence("programs/own.c"), "LicenseRef-BSD-variant");
    }

    #[test]
    fn short_names_become_spdx() {
        for (line, expected) in [
            ("Expat", "MIT"),
            ("LGPL-2.1+", "LGPL-2.1-or-later"),
            ("GPL-3", "GPL-3.0-only"),
            ("Zlib, and GPL-2", "Zlib AND GPL-2.0-only"),
            ("public-domain", "LicenseRef-public-domain"),
            ("GPL-2+ with OpenSSL exception", "LicenseRef-GPL-2--with-OpenSSL-exception"),
        ] {
            assert_eq!(spdx(line), expected);
        }
    }

    #[test]
    fn prose_is_searched() {
        let gpl = "This is free, version 2 or any later\nversion. On Debian see\n/usr/share/common-licenses/GPL-2.\n";
        assert_eq!(Copyright::parse(gpl).licence("a.c"), "GPL-2.0-or-later");
        let own = "A program.\n  The licence is: do as you like.\n";
        assert_eq!(Copyright::parse(own).licence("a.c"), "The licence is: do as you like.");
        assert_eq!(Copyright::parse("").licence("a.c"), "");
    }

    #[test]
    fn wildcards_cross_folders() {
        for (pattern, text, expected) in [
            ("*", "a/b", true),
            ("a/*", "a/b/c", true),
            ("a?c", "abc", true),
            ("a", "ab", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
