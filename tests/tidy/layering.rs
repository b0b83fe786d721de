//! Which of the library's modules may use which.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Code, by_path, crates};
use crate::made_up::code;
use crate::tree::{check, demand, demand_none, is_rust, is_source, module_of, tree};

/// The library's modules in the data's order, each with the modules that it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("sandbox", &[]),
    ("execution", &["model", "sandbox"]),
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
    ("measure", &["model", "execution", "env", "lake", "replay"]),
    ("semantics", &["model", "execution", "env", "lake", "replay", "measure"]),
    ("query", &["model", "lake", "layers"]),
    ("load", &["model", "lake", "query"]),
    ("leaderboard", &["model"]),
    (
        "assembly",
        &[
            "model",
            "datasets",
            "env",
            "record",
            "generate",
            "lake",
            "upkeep",
            "dedup",
            "transfer",
            "replay",
            "query",
            "load",
            "execution",
            "measure",
            "semantics",
            "leaderboard",
        ],
    ),
    ("console", &["datasets", "lake", "query", "assembly"]),
    (
        "cli",
        &[
            "model",
            "datasets",
            "env",
            "record",
            "generate",
            "lake",
            "upkeep",
            "layers",
            "dedup",
            "transfer",
            "replay",
            "query",
            "load",
            "leaderboard",
            "measure",
            "semantics",
            "assembly",
            "console",
        ],
    ),
];

/// The module that only `src/main.rs` may use, and those who run whole command lines.
const OF_THE_BINARY: &str = "cli";

/// Files of other programs that run command lines of `steplake`.
const COMMAND_LINES: &[&str] =
    &["crates/python/src/command_line.rs", "crates/serve/src/client/command_line.rs"];

/// The files that hold no module of their own.
const ROOTS: &[&str] = &["src/lib.rs", "src/main.rs"];

/// Uses of one of the library's modules by another that may not, and files of no module.
fn layering(code: &Code<'_>) -> Vec<String> {
    let of = |path| LAYERS.iter().find(|(layer, _)| *layer == module_of(path));
    let in_layers = |path: &&str| path.starts_with("src/") && !ROOTS.contains(path);
    let unknown = code.files.iter().copied().filter(|path| in_layers(path) && of(path).is_none());
    let unknown = unknown.map(|path| {
        format!("{path}: `{}` is not in LAYERS of tests/tidy/layering.rs", module_of(path))
    });
    let refused = code.named_from_root().into_iter().filter_map(|(path, name)| {
        let (layer, allowed) = of(path).filter(|_| in_layers(&path))?;
        (name != *layer && !allowed.contains(&name))
            .then(|| format!("{path}: `{layer}` may not use `{name}`, only {allowed:?}"))
    });
    unknown.chain(refused).collect()
}

/// Rust files of the crates that no `mod` leads to: nothing else in tests/tidy/ looks at them.
fn left_out(code: &Code<'_>, paths: &[&str]) -> Vec<String> {
    let is_code = |path: &&&str| is_rust(path) && is_source(path);
    let left_out = paths.iter().filter(is_code).filter(|path| !code.files.contains(path));
    left_out.map(|path| format!("{path}: no `mod` leads to it")).collect()
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

/// Modules whose row in the code map of `docs/ARCHITECTURE.md` lets them use others than LAYERS.
fn code_map(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for (layer, allowed) in LAYERS {
        let row = text.lines().find(|line| line.starts_with(&format!("| `{layer}` | ")));
        let cell = row.and_then(|row| row.trim_end_matches([' ', '|']).rsplit(" | ").next());
        let named: BTreeSet<&str> =
            cell.unwrap_or_default().split('`').skip(1).step_by(2).collect();
        let same = match cell {
            Some("nothing") => allowed.is_empty(),
            _ => !named.is_empty() && named == allowed.iter().copied().collect(),
        };
        if !same {
            problems.push(format!(
                "docs/ARCHITECTURE.md: `{layer}` may use {allowed:?} by LAYERS of \
                 tests/tidy/layering.rs, and {} by the code map",
                cell.unwrap_or("has no row")
            ));
        }
    }
    problems
}

#[test]
fn modules_use_only_what_stands_below_them() {
    let files = tree();
    let texts = by_path(&files);
    let code = demand(Code::read(&texts, crates(&texts), true));
    let mut problems = layering(&code);
    problems.extend(left_out(&code, &texts.keys().copied().collect::<Vec<_>>()));
    demand_none(&problems);
}

/// Files outside of the library that use the binary's own module.
fn uses_of_the_binary(code: &Code<'_>) -> Result<Vec<String>, Vec<String>> {
    let is_of_binary = |file: usize| module_of(code.files[file]) == OF_THE_BINARY;
    let uses = code.uses()?.into_keys();
    let refused = uses.filter(|&(from, to)| {
        let from = code.files[from];
        is_of_binary(to) && !from.starts_with("src/") && !COMMAND_LINES.contains(&from)
    });
    let said = |(from, to): (usize, usize)| {
        format!("{}: may not use {}: take it from `assembly`", code.files[from], code.files[to])
    };
    Ok(refused.map(said).collect())
}

#[test]
fn only_the_binary_uses_its_commands() {
    let files = tree();
    let texts = by_path(&files);
    let code = demand(Code::read(&texts, crates(&texts), false));
    demand_none(&demand(uses_of_the_binary(&code)));
}

#[test]
fn the_library_lists_its_modules_in_the_datas_order() {
    check(|_, text| module_list(text), |path| path == "src/lib.rs");
}

#[test]
fn the_code_map_says_which_module_may_use_which() {
    check(|_, text| code_map(text), |path| path == "docs/ARCHITECTURE.md");
}

#[test]
fn layering_refuses_every_way_around() {
    let problems = |path: &'static str, text: &'static str| {
        let mut files = BTreeMap::from([
            ("src/lib.rs", "mod env; mod model; mod lake; mod novel;"),
            ("src/env/mod.rs", "mod toy;"),
            ("src/env/toy.rs", ""),
            ("src/model.rs", ""),
            ("src/lake.rs", ""),
            ("src/novel.rs", ""),
        ]);
        files.insert(path, text);
        let code = code(&files.into_iter().collect::<Vec<_>>(), true).unwrap();
        let mut problems = layering(&code);
        problems.retain(|problem| !problem.contains("novel"));
        problems
    };
    for bad in [
        "use crate::lake::Lake;",
        "use crate::{model::StateId, lake::{Lake, Writer}};",
        "fn f() { crate::lake::open() }",
        "use super::super::lake;",
        "mod tests { use super::super::super::lake; }",
        "#[cfg(test)] mod tests { use crate::lake; }",
        "macro_rules! m { () => { $crate::lake::open() } }",
        "pub(in crate::lake) struct A;",
    ] {
        assert_eq!(problems("src/env/toy.rs", bad).len(), 1, "{bad}");
    }
    for good in [
        "use crate::{env::Session, model::{lake, StateId}};",
        "/// See [`crate::lake::Lake`].\nuse super::lake;",
        "const S: &str = \"crate::lake\"; // crate::lake",
        "mod tests { use super::super::lake; }",
        "use other::lake;",
    ] {
        assert_eq!(problems("src/env/toy.rs", good), [""; 0], "{good}");
    }
    assert_eq!(problems("src/env/mod.rs", "mod toy; use super::lake::Lake;").len(), 1);
    assert_eq!(problems("src/env/mod.rs", "mod toy; mod a { use super::lake; }"), [""; 0]);
}

#[test]
fn commands_of_the_binary_are_refused_to_other_programs() {
    let problems = |text: &'static str| {
        let files = [
            ("src/lib.rs", "pub mod assembly; pub mod cli;"),
            ("src/assembly.rs", "pub fn print() {}"),
            ("src/cli.rs", "use crate::assembly::print; pub fn main() { print() }"),
            ("src/main.rs", "fn main() { steplake::cli::main() }"),
            ("crates/serve/src/main.rs", text),
        ];
        uses_of_the_binary(&code(&files, false).unwrap()).unwrap()
    };
    assert_eq!(problems("use steplake::assembly::print; fn main() { print() }"), [""; 0]);
    for bad in ["fn main() { steplake::cli::main() }", "use steplake::cli::main;"] {
        assert_eq!(problems(bad).len(), 1, "{bad}");
    }
}

#[test]
fn layering_refuses_files_that_it_does_not_know() {
    let files = [("src/lib.rs", "mod env; mod novel;"), ("src/env.rs", ""), ("src/novel.rs", "")];
    let code = code(&files, true).unwrap();
    let problem = "src/novel.rs: `novel` is not in LAYERS of tests/tidy/layering.rs";
    assert_eq!(layering(&code), [problem]);
    let paths = ["benches/a.rs", "crates/a/src/b.rs", "src/env.rs", "src/a.rs", "src/a.md"];
    let problems = ["crates/a/src/b.rs", "src/a.rs"].map(|a| format!("{a}: no `mod` leads to it"));
    assert_eq!(left_out(&code, &paths), problems);
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

#[test]
fn the_code_map_is_compared_row_by_row() {
    let row = |(layer, allowed): &(&str, &[&str])| {
        let cell = allowed.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        format!("| `{layer}` | words | {} |\n", if cell.is_empty() { "nothing" } else { &cell })
    };
    let good: String = LAYERS.iter().map(row).collect();
    assert_eq!(code_map(&good), [""; 0]);
    for (from, to) in [
        ("| `model` | words | nothing |\n", ""),
        ("| `model` | words | nothing |", "| `model` | words | `env` |"),
        ("| `lake` | words | `model` |", "| `lake` | words | nothing |"),
        ("| `lake` | words | `model` |", "| `lake` | words | `model`, `env` |"),
    ] {
        let bad = good.replace(from, to);
        assert_eq!(code_map(&bad).len(), 1, "{to}");
    }
}
