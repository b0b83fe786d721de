//! The length of lines.

use crate::tree::{demand_none, is_a, is_rust, tree};

const CODE_COLUMNS_MAX: usize = 100;
const PROSE_COLUMNS_MAX: usize = 120;

/// The lines of a Rust file or a Markdown file that are too long. Rows of tables and blocks of
/// code in prose stay whole. In Rust, only comments are measured: rustfmt breaks the rest.
fn long_lines(path: &str, text: &str) -> Vec<usize> {
    let is_code = is_rust(path);
    let columns_max = if is_code { CODE_COLUMNS_MAX } else { PROSE_COLUMNS_MAX };
    let mut is_fenced = false;
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let doc = ["//! ", "/// "].iter().find_map(|mark| line.trim_start().strip_prefix(mark));
        let prose = if is_code { doc } else { Some(line) };
        let is_fence = prose.is_some_and(|prose| prose.trim_start().starts_with("```"));
        is_fenced ^= is_fence;
        let by_rustfmt = is_code && !line.trim_start().starts_with("//");
        let whole = by_rustfmt || is_fenced || prose.is_some_and(|prose| prose.starts_with('|'));
        if line.chars().count() > columns_max && !whole {
            found.push(number + 1);
        }
    }
    found
}

/// Files that have lines that are too long.
fn problems(files: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| is_a(path, &["rs", "md"])) {
        let lines = long_lines(path, text);
        if !lines.is_empty() {
            let columns_max = if is_rust(path) { CODE_COLUMNS_MAX } else { PROSE_COLUMNS_MAX };
            found.push(format!("{path}: more than {columns_max} columns in {lines:?}: break them"));
        }
    }
    found
}

#[test]
fn lines_fit_the_screen() {
    demand_none(&problems(&tree()));
}

#[test]
fn long_lines_are_told_from_what_stays_whole() {
    let long = |count: usize| "x".repeat(count);
    for (path, text, numbers) in [
        ("a.rs", format!("//{}", long(98)), vec![]),
        ("a.rs", format!("\n// {}", long(98)), vec![2]),
        ("a.rs", format!("//{}", "ä".repeat(98)), vec![]),
        ("a.rs", format!("    let a = \"{}\";", long(100)), vec![]),
        ("a.rs", format!("// \"{}\"", long(100)), vec![1]),
        ("a.rs", format!("//! | {} |\n// | {} |", long(100), long(100)), vec![2]),
        ("a.rs", format!("/// ```text\n/// {0}\n/// ```\n/// {0}", long(100)), vec![4]),
        ("a.md", long(120), vec![]),
        ("a.md", long(121), vec![1]),
        ("a.md", format!("| {0}\n```\n{0}\n```\n{0}", long(121)), vec![5]),
    ] {
        assert_eq!(long_lines(path, &text), numbers, "{text}");
    }
}

#[test]
fn only_code_and_prose_are_measured() {
    let files = [("a.rs", format!("//{0}\n//{0}\n", "x".repeat(101))), ("b.sh", "x".repeat(200))];
    let files = files.map(|(path, text)| (path.to_owned(), text));
    assert_eq!(problems(&files), ["a.rs: more than 100 columns in [1, 2]: break them"]);
}
