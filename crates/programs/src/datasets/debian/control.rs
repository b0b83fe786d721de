//! The Debian text formats that we need: control paragraphs, lists of repositories, versions.

use std::collections::BTreeSet;
use std::path::Path;

/// The fields of one paragraph of a control file, unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Paragraph {
    fields: Vec<(String, String)>,
}

impl Paragraph {
    /// Returns the value of a field, its lines joined by line feeds; names are case-insensitive.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Parses every paragraph of a control file. Skips comments and lines that are neither field nor
/// continuation.
pub(super) fn paragraphs(text: &str) -> Vec<Paragraph> {
    let mut all = vec![Paragraph::default()];
    for line in text.lines() {
        let last = all.len() - 1;
        if line.trim().is_empty() {
            if !all[last].fields.is_empty() {
                all.push(Paragraph::default());
            }
        } else if line.starts_with('#') {
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = all[last].fields.last_mut() {
                value.push('\n');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            all[last].fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }
    all.retain(|paragraph| !paragraph.fields.is_empty());
    all
}

/// A source package as described by the repository's index.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct SourceRecord {
    pub(super) package: String,
    pub(super) version: String,
    /// SHA-256 in hexadecimal digits, and name, of each file.
    pub(super) files: Vec<(String, String)>,
}

impl SourceRecord {
    /// Parses the records of an index; skips incomplete ones.
    pub(super) fn all(index: &str) -> Vec<Self> {
        paragraphs(index).iter().filter_map(Self::of).collect()
    }

    fn of(paragraph: &Paragraph) -> Option<Self> {
        let checksums = paragraph.get("Checksums-Sha256")?;
        let file = |line: &str| {
            let mut words = line.split_whitespace();
            let (digest, _size, name) = (words.next()?, words.next()?, words.next()?);
            // A name with a slash would lead out of the target folder.
            let plain = !name.contains('/') && !name.starts_with('.');
            let hexadecimal = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
            (plain && hexadecimal).then(|| (digest.to_owned(), name.to_owned()))
        };
        let lines = checksums.lines().filter(|line| !line.trim().is_empty());
        let record = Self {
            package: paragraph.get("Package")?.to_owned(),
            version: paragraph.get("Version")?.to_owned(),
            files: lines.map(file).collect::<Option<_>>()?,
        };
        record.description_file().is_some().then_some(record)
    }

    /// Returns the name of the `.dsc`, which describes the other files.
    pub(super) fn description_file(&self) -> Option<&str> {
        self.files
            .iter()
            .map(|(_, name)| name.as_str())
            .find(|name| Path::new(name).extension() == Some("dsc".as_ref()))
    }
}

/// Converts the list of repositories `text`, in one-line format, to repositories of sources.
pub(super) fn source_lines(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let sources = lines.filter_map(|line| {
        let (kind, rest) = line.split_once(char::is_whitespace)?;
        matches!(kind, "deb" | "deb-src").then(|| format!("deb-src {}", rest.trim()))
    });
    sources.collect()
}

/// Converts the list of repositories `text`, in paragraph format, to repositories of sources.
pub(super) fn source_paragraphs(text: &str) -> String {
    let is_types = |line: &str| {
        line.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case("types"))
    };
    let line = |line| if is_types(line) { "Types: deb-src" } else { line };
    text.lines().map(|text| line(text).to_owned() + "\n").collect()
}

/// A text and the number after it, as a version part is ordered by them: the weights of the text's
/// characters, and the number's digits with their count first.
type VersionPiece<'a> = (Vec<u32>, usize, &'a str);

/// Returns a key that orders versions as Debian does (deb-version(7)): by epoch, upstream version
/// and revision.
pub(super) fn version_key(version: &str) -> (u64, Vec<VersionPiece<'_>>, Vec<VersionPiece<'_>>) {
    let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
    let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, ""));
    (epoch.parse().unwrap_or(0), pieces(upstream), pieces(revision))
}

/// Splits a part of a version into texts and numbers. A tilde sorts before everything, even before
/// the end; letters sort before other characters.
fn pieces(mut part: &str) -> Vec<VersionPiece<'_>> {
    const END: u32 = 1;
    let weight = |letter: char| match letter {
        '~' => 0,
        letter if letter.is_ascii_alphabetic() => letter.into(),
        other => u32::from(other) + 256,
    };
    let mut pieces = Vec::new();
    while !part.is_empty() {
        let text = take(&mut part, |c| !c.is_ascii_digit()).chars().map(weight).chain([END]);
        let number = take(&mut part, |c| c.is_ascii_digit()).trim_start_matches('0');
        pieces.push((text.collect(), number.len(), number));
    }
    // A part that ends is equal to one that goes on with an empty text and the number 0. Only the
    // first piece may be such a one, and a tilde may follow it: two ends compare with both.
    let end: VersionPiece<'_> = (vec![END], 0, "");
    while pieces.pop_if(|last| *last == end).is_some() {}
    pieces.extend([end.clone(), end]);
    pieces
}

/// Takes the longest prefix of `text` whose characters are all `wanted`.
fn take<'a>(text: &mut &'a str, wanted: impl Fn(char) -> bool) -> &'a str {
    let end = text.find(|c| !wanted(c)).unwrap_or(text.len());
    let (taken, rest) = text.split_at(end);
    *text = rest;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_and_their_fields() {
        let text = "A: 1\nB:\n x y\n  z\n# note\n\n\nA: 2\nnonsense\n";
        let all = paragraphs(text);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].get("a"), all[0].get("B")), (Some("1"), Some("\nx y\nz")));
        assert_eq!((all[1].get("A"), all[1].get("B")), (Some("2"), None));
        assert!(paragraphs("\n\n").is_empty());
    }

    #[test]
    fn a_record_needs_checksums_and_plain_names() {
        let digest = "0123456789abcdef".repeat(4);
        let index = |file: &str| {
            format!(
                "Package: p\nVersion: 1:2-3\nChecksums-Sha256:\n {digest} 7 {file}\n {digest} 8 p.tar.xz\n"
            )
        };
        let records = SourceRecord::all(&index("p_2-3.dsc"));
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].description_file(), Some("p_2-3.dsc"));
        assert_eq!(records[0].files[1], (digest.clone(), "p.tar.xz".to_owned()));
        for bad in ["../p.dsc", "/p.dsc", ".dsc", "p.txt"] {
            assert!(SourceRecord::all(&index(bad)).is_empty(), "{bad}");
        }
        assert!(SourceRecord::all("Package: p\nVersion: 1\n").is_empty());
    }

    #[test]
    fn repositories_of_packages_become_those_of_sources() {
        let list = "# note\ndeb [trusted=yes] file:/r ./\ndeb http://h/d s main # more\ndeb-src http://h/d s main\n";
        let expected = ["deb-src [trusted=yes] file:/r ./", "deb-src http://h/d s main"];
        assert!(source_lines(list).iter().map(String::as_str).eq(expected));
        let stanza =
            "Types: deb\nURIs: http://h/d\nSuites: a b\nSigned-By: /k\n\nTypes: deb deb-src\n";
        let expected =
            "Types: deb-src\nURIs: http://h/d\nSuites: a b\nSigned-By: /k\n\nTypes: deb-src\n";
        assert_eq!(source_paragraphs(stanza), expected);
    }

    #[test]
    fn versions_are_ordered_as_dpkg_orders_them() {
        let rising = [
            "0~git1",
            "0",
            "1.0~rc1-1",
            "1.0-0~bpo1",
            "1.0",
            "1.0-1",
            "1.0-1+deb12u1",
            "1.0-2",
            "1.0-10",
            "1.0a-1",
            "1.0+dfsg-1",
            "1.0.1-1",
            "1.10-1",
            "2.0",
            "1:0.1-1",
        ];
        for (i, a) in rising.iter().enumerate() {
            for (j, b) in rising.iter().enumerate() {
                assert_eq!(version_key(a).cmp(&version_key(b)), i.cmp(&j), "{a} {b}");
            }
        }
        assert_eq!(version_key("1.01"), version_key("1.1"));
        assert_eq!(version_key("1.0"), version_key("1.0-0"));
    }
}
