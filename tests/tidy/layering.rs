//! Which of the library's modules may use which.

use std::collections::BTreeSet;

use crate::lexer::{paths_from_root, tokens};
use crate::tree::{check, is_rust};

/// The library's modules in the data's order, each with the modules that it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("sandbox", &[]),
    ("datasets", &["model", "sandbox"]),
    ("env", &["model", "sandbox", "datasets"]),
    ("record", &["model", "env", "lake"]),
    ("generate", &["model", "env", "record", "lake"]),
    ("lake", &["model"]),
    ("upkeep", &["model", "lake"]),
    ("layers", &["model", "lake", "upkeep"]),
    ("dedup", &["model", "lake", "upkeep", "layers"]),
    ("transfer", &["model", "lake", "upkeep"]),
    ("replay", &["model", "env", "lake", "upkeep"]),
    ("query", &["model", "lake", "layers"]),
    (
        "cli",
        &[
            "model", "datasets", "env", "record", "generate", "lake", "upkeep", "layers", "dedup",
            "transfer", "replay", "query",
        ],
    ),
];

/// Uses of one of the library's modules by another that may not.
fn layering(path: &str, text: &str) -> Vec<String> {
    let Some(inner) = path.strip_prefix("src/") else { return Vec::new() };
    let mut module: Vec<&str> = inner.trim_end_matches(".rs").split('/').collect();
    if module.last() == Some(&"mod") {
        module.pop();
    }
    if module == ["lib"] || module == ["main"] {
        return Vec::new();
    }
    let Some((layer, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == module[0]) else {
        return vec![format!("{path}: `{}` is not in LAYERS of tests/tidy/layering.rs", module[0])];
    };
    let used: BTreeSet<String> = paths_from_root(&tokens(text), module.len()).into_iter().collect();
    used.iter()
        .filter(|name| *name != layer && !allowed.contains(&name.as_str()))
        .map(|name| format!("{path}: `{layer}` may not use `{name}`, only {allowed:?}"))
        .collect()
}

/// Modules of `lib.rs` without exactly one line that says what they are, unknown, or out of order.
/// The line is a `//` comment: rustdoc would look up a `///` comment's links in the wrong module.
fn module_list(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_doc = |index: Option<usize>| index.is_some_and(|i| lines[i].starts_with("//"));
    let mut problems = Vec::new();
    let mut last = None;
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';'))
        else {
            continue;
        };
        if !is_doc(index.checked_sub(1)) || is_doc(index.checked_sub(2)) {
            problems.push(format!("src/lib.rs: `{name}` wants exactly one line of comment"));
        }
        let place = LAYERS.iter().position(|(layer, _)| *layer == name);
        if place.is_none() || place <= last {
            problems.push(format!("src/lib.rs: `{name}` is not where LAYERS has it"));
        }
        last = place.max(last);
    }
    problems
}

#[test]
fn modules_use_only_what_stands_below_them() {
    check(layering, is_rust);
}

#[test]
fn the_library_lists_its_modules_in_the_datas_order() {
    check(|_, text| module_list(text), |path| path == "src/lib.rs");
}

#[test]
fn layering_refuses_every_way_around() {
    for bad in [
        "use crate::lake::Lake;",
        "use crate::{model::StateId, lake::{Lake, Writer}};",
        "fn f() { crate::lake::open() }",
        "use super::super::lake;",
        "mod tests { use super::super::super::lake; }",
        "macro_rules! m { () => { $crate::lake::open() } }",
    ] {
        assert_eq!(layering("src/env/toy.rs", bad).len(), 1, "{bad}");
    }
    for good in [
        "use crate::{env::Session, model::{lake, StateId}};",
        "/// See [`crate::lake::Lake`].\nuse super::lake;",
        "const S: &str = \"crate::lake\"; // crate::lake",
        "mod tests { use super::super::lake; }",
        "use other::lake;",
    ] {
        assert_eq!(layering("src/env/toy.rs", good), [""; 0], "{good}");
    }
    assert_eq!(layering("src/env/mod.rs", "use super::lake::Lake;").len(), 1);
    assert_eq!(layering("src/env/mod.rs", "mod a { use super::lake; }"), [""; 0]);
    assert_eq!(layering("src/novel.rs", "").len(), 1);
}

#[test]
fn module_list_refuses_disorder() {
    let good = "// Words.\npub mod model;\n\n// Compilers.\npub mod env;\n";
    assert_eq!(module_list(good), [""; 0]);
    for bad in [
        "pub mod model;\n",
        "// One.\n// Two.\npub mod model;\n",
        "// Compilers.\npub mod env;\n\n// Words.\npub mod model;\n",
        "// Novel.\npub mod novel;\n",
    ] {
        assert_eq!(module_list(bad).len(), 1, "{bad}");
    }
}
