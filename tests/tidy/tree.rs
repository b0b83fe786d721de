//! The files of the repository, and a check run over them.

use std::fs;
use std::path::Path;

/// What is not part of the tree although it lies there: build products, lakes. A folder of the
/// same name elsewhere, say `src/lake`, is part of it.
const SKIPPED: &[&str] = &[
    ".git",
    ".release.part",
    "fuzz/target",
    "lake",
    "million",
    "release",
    "release.work",
    "target",
    "web/node_modules",
];

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text files of the repository by their path from its root, in order.
pub(crate) fn tree() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the repository can be read") {
            let path = entry.expect("the repository can be read").path();
            let inner = path.strip_prefix(root()).expect("it was found below the root");
            if is_skipped(inner) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                files.push((inner.to_string_lossy().into_owned(), text));
            }
        }
    }
    files.sort();
    files
}

fn is_skipped(path: &Path) -> bool {
    SKIPPED.iter().any(|skipped| path == Path::new(skipped))
}

pub(crate) fn check(check: impl Fn(&str, &str) -> Vec<String>, concerns: impl Fn(&str) -> bool) {
    let files: Vec<_> = tree().into_iter().filter(|(path, _)| concerns(path)).collect();
    let problems: Vec<_> = files.iter().flat_map(|(path, text)| check(path, text)).collect();
    demand_none(&problems);
}

pub(crate) fn demand_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// What was found, where there were no problems.
pub(crate) fn demand<T>(found: Result<T, Vec<String>>) -> T {
    found.unwrap_or_else(|problems| panic!("\n{}\n", problems.join("\n")))
}

pub(crate) fn is_a(path: &str, kinds: &[&str]) -> bool {
    let kind = Path::new(path).extension().and_then(|kind| kind.to_str());
    kind.is_some_and(|kind| kinds.contains(&kind))
}

pub(crate) fn is_rust(path: &str) -> bool {
    is_a(path, &["rs"])
}

/// Whether a file is part of the library or of a program: `src/…`, `crates/<name>/src/…`.
pub(crate) fn is_source(path: &str) -> bool {
    let inner = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    inner.map_or(path, |(_, inner)| inner).starts_with("src/")
}

#[test]
fn only_what_lies_at_the_root_is_skipped() {
    for skipped in ["lake", "target", "fuzz/target"] {
        assert!(is_skipped(Path::new(skipped)), "{skipped}");
    }
    for part in ["src/lake", "src/store/target", "data/compat/v2/toy/lake"] {
        assert!(!is_skipped(Path::new(part)), "{part}");
    }
}
