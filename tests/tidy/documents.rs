//! Links and headers of what is written for people.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tree::{check, is_a, is_rust, root};

/// Links and pictures of a Markdown text that point nowhere in the repository. `read` gives the
/// text of a file of the repository, empty for a folder.
fn links(path: &str, text: &str, read: &dyn Fn(&Path) -> Option<String>) -> Vec<String> {
    let prose = without_code(text);
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let pictures = ["src=\"", "srcset=\"", "href=\""];
    let html = pictures.iter().flat_map(|name| prose.split(*name).skip(1));
    let targets = inline.map(|(t, _)| t).chain(html.filter_map(|rest| rest.split('"').next()));
    let mut problems = Vec::new();
    for target in targets {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let file = if file.is_empty() { PathBuf::from(path) } else { clean(&folder.join(file)) };
        match read(&file) {
            None => problems.push(format!("{path}: the link to `{target}` leads nowhere")),
            Some(there) if !anchor.is_empty() && !slugs(&there).contains(anchor) => {
                problems.push(format!("{path}: `{target}`: there is no such heading"));
            }
            Some(_) => {}
        }
    }
    problems
}

/// Named queries that do not say what they are and take: a first line `-- <title>`, then for each
/// parameter `-- param <name>: <kind> [= <default>] -- <what it is>`.
fn query_header(path: &str, text: &str) -> Vec<String> {
    let comments: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("-- ")).collect();
    let mut problems = Vec::new();
    if comments.first().is_none_or(|title| title.trim().is_empty() || title.starts_with("param ")) {
        problems.push(format!("{path}: the first line is not `-- <title>`"));
    }
    for parameter in comments.iter().filter_map(|line| line.strip_prefix("param ")) {
        let (name, rest) = parameter.split_once(": ").unwrap_or_default();
        let (kind, about) = rest.split_once(" -- ").unwrap_or_default();
        if [name, kind, about].iter().any(|part| part.trim().is_empty()) {
            problems.push(format!("{path}: `param {parameter}` lacks name, kind or explanation"));
        }
    }
    problems
}

/// Rust files whose first line does not say what they hold.
fn module_header(path: &str, text: &str) -> Vec<String> {
    let is_said = text.strip_prefix("//! ").is_some_and(|rest| !rest.starts_with('\n'));
    let problem =
        (!is_said).then(|| format!("{path}: the first line is not `//! <what it holds>`"));
    problem.into_iter().collect()
}

fn without_code(text: &str) -> String {
    let mut prose = String::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            // Odd pieces of a line split at backticks are code.
            prose.extend(line.split('`').step_by(2));
            prose.push('\n');
        }
    }
    prose
}

/// The anchors that a Markdown text offers.
fn slugs(text: &str) -> BTreeSet<String> {
    let slug = |heading: &str| -> String {
        let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    text.lines().filter(|l| l.starts_with('#')).map(|l| slug(l.trim_start_matches('#'))).collect()
}

/// A path with its `..` resolved in the text.
fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for part in path {
        if part == ".." {
            cleaned.pop();
        } else if part != "." {
            cleaned.push(part);
        }
    }
    cleaned
}

#[test]
fn every_link_leads_somewhere() {
    let read = |path: &Path| {
        let path = root().join(path);
        if path.is_dir() { Some(String::new()) } else { fs::read(path).ok().map(lossy) }
    };
    check(|path, text| links(path, text, &read), |path| is_a(path, &["md"]));
}

#[test]
fn every_file_says_what_it_holds() {
    check(module_header, is_rust);
}

#[test]
fn every_named_query_says_what_it_is() {
    check(query_header, |path| path.starts_with("queries/"));
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

#[test]
fn links_are_followed() {
    let read = |path: &Path| match path.to_str() {
        Some("docs/A.md") => Some("# The top\n## `a_b`: two, three\n".to_owned()),
        Some("README.md") => Some("# steplake\n".to_owned()),
        _ => None,
    };
    let good = "[a](A.md) [b](A.md#the-top) [c](#a_b-two-three) [d](https://e.org/x) \
                [r](../README.md) `[code](gone)`\n```\n[code](gone)\n```\n";
    assert_eq!(links("docs/A.md", good, &read), [""; 0]);
    for bad in ["[a](B.md)", "[a](README.md)", "[a](#bottom)", "<img src=\"gone.svg\">"] {
        assert_eq!(links("docs/A.md", bad, &read).len(), 1, "{bad}");
    }
}

#[test]
fn module_header_refuses_silence() {
    assert_eq!(module_header("a.rs", "//! Actions.\nuse b;"), [""; 0]);
    for bad in ["", "use b;", "/// Actions.\nfn a() {}", "//! \n", "\n//! Actions."] {
        assert_eq!(module_header("a.rs", bad).len(), 1, "{bad}");
    }
}

#[test]
fn query_header_refuses_silence() {
    let good = "-- Mean reward\n-- param tries: integer = 1 -- the fewest tries\n-- Why.\nSELECT 1";
    assert_eq!(query_header("queries/a.sql", good), [""; 0]);
    for bad in [
        "",
        "SELECT 1",
        "-- \nSELECT 1",
        "-- param a: text -- b\nSELECT 1",
        "-- Title\n-- param a: text\nSELECT 1",
        "-- Title\n-- param a -- b\nSELECT 1",
    ] {
        assert_eq!(query_header("queries/a.sql", bad).len(), 1, "{bad}");
    }
}
