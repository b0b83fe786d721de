//! Checks what the compiler does not: layering, sizes, names, links of the documentation.
//!
//! Every check is a function from a text to its problems, tried on bad texts below, and then run
//! over the tree. A problem is one line that says where, what, and what to do.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "tidy/lexer.rs"]
mod lexer;

use lexer::{paths_from_root, tokens};

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

/// The only files that may say `unsafe`: the ring around foreign functions and shared memory.
const UNSAFE_FILES: &[&str] = &[
    "src/env/llvm/engine.rs",
    "src/env/llvm/ffi.rs",
    "src/env/llvm/math.rs",
    "src/env/llvm/program.rs",
    "src/env/worker/flight.rs",
    "src/env/worker/limits.rs",
];

/// Names that say nothing about what a module holds.
const EMPTY_NAMES: &[&str] =
    &["common", "data", "helper", "helpers", "log", "misc", "util", "utils"];

/// What is not part of the tree although it lies there: build products, lakes.
const SKIPPED: &[&str] = &[".git", "target", "lake"];

const SOURCE_LINES_MAX: usize = 500;

// The checks.

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
        return vec![format!("{path}: `{}` has no place in LAYERS of tests/tidy.rs", module[0])];
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

/// Files that are too long to be read in one go.
fn size(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let long = lines > SOURCE_LINES_MAX;
    long.then(|| format!("{path}: {lines} lines, {SOURCE_LINES_MAX} are the most: split it"))
        .into_iter()
        .collect()
}

/// `unsafe` outside the ring.
fn unsafe_code(path: &str, text: &str, ring: &[&str]) -> Vec<String> {
    let found = !ring.contains(&path) && tokens(text).iter().any(|t| t.is("unsafe"));
    found
        .then(|| format!("{path}: `unsafe` outside of the ring that tests/tidy.rs lists"))
        .into_iter()
        .collect()
}

/// Modules, files or inline ones, that are named after nothing.
fn module_names(path: &str, text: &str) -> Vec<String> {
    let files = path.trim_end_matches(".rs").split('/').map(str::to_owned);
    let tokens = tokens(text);
    let inline = tokens.windows(2).filter(|pair| pair[0].is("mod")).map(|pair| pair[1].text());
    files
        .chain(inline)
        .filter(|name| EMPTY_NAMES.contains(&name.as_str()))
        .map(|name| format!("{path}: a module called `{name}`: name it after what it holds"))
        .collect()
}

/// Tests that are skipped, expect any panic, or wait for the clock.
fn test_habits(path: &str, text: &str) -> Vec<String> {
    let (_, tests) = text.split_once("#[cfg(test)]").unwrap_or(("", ""));
    let tokens = tokens(if is_source(path) { tests } else { text });
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.is(word));
    let mut problems = Vec::new();
    for at in 0..tokens.len() {
        let attribute = is(at, "#") && is(at + 1, "[");
        let sleep = is(at, "thread") && is(at + 1, ":") && is(at + 2, ":") && is(at + 3, "sleep");
        let habit = match () {
            () if attribute && is(at + 2, "ignore") => "#[ignore]: run it or delete it",
            () if attribute && is(at + 2, "should_panic") => "#[should_panic]: match the error",
            () if sleep => "thread::sleep: wait for the event itself",
            () => continue,
        };
        problems.push(format!("{path}: {habit}"));
    }
    problems
}

/// Paths that exist on one machine only.
fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let folders = ["work", "root", "home"].map(|name| format!("/{name}/"));
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let is_path = |(at, _): (usize, &str)| {
            !line[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.~}*".contains(c))
        };
        if folders.iter().any(|folder| line.match_indices(folder.as_str()).any(is_path)) {
            problems.push(format!("{path}:{}: a path of one machine", number + 1));
        }
    }
    problems
}

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

/// Columns of `schema/tables.json` that the section of their table in `docs/FORMAT.md` leaves out.
fn undescribed_columns(schema: &str, format: &str) -> Vec<String> {
    let schema: serde_json::Value = serde_json::from_str(schema).expect("the schema is JSON");
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut problems = Vec::new();
    for table in list(&schema["tables"]) {
        let heading = format!("**`{}`**", name(&table));
        let section = format.split_once(&heading).map_or("", |(_, rest)| rest);
        let section = section.split("\n**`").next().unwrap_or_default();
        for column in list(&table["columns"]).iter().map(name).filter(|column| column != "{}") {
            let written = format!("`{}`", column.replace("{}", "<space>"));
            if !section.contains(&written) {
                problems.push(format!("docs/FORMAT.md: {heading} says nothing about {written}"));
            }
        }
    }
    problems
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

// The tree.

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text files of the repository by their path from its root, in order.
fn tree() -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the repository can be read") {
            let path = entry.expect("the repository can be read").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if folder == root() && SKIPPED.contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let inner = path.strip_prefix(root()).expect("it was found below the root");
                files.push((inner.to_string_lossy().into_owned(), text));
            }
        }
    }
    files.sort();
    files
}

fn check(check: impl Fn(&str, &str) -> Vec<String>, concerns: impl Fn(&str) -> bool) {
    let files: Vec<_> = tree().into_iter().filter(|(path, _)| concerns(path)).collect();
    let problems: Vec<_> = files.iter().flat_map(|(path, text)| check(path, text)).collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

fn is_a(path: &str, kinds: &[&str]) -> bool {
    let kind = Path::new(path).extension().and_then(|kind| kind.to_str());
    kind.is_some_and(|kind| kinds.contains(&kind))
}

fn is_rust(path: &str) -> bool {
    is_a(path, &["rs"])
}

/// Whether a file is part of the library or of a program: `src/…`, `crates/<name>/src/…`.
fn is_source(path: &str) -> bool {
    let inner = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
    inner.map_or(path, |(_, inner)| inner).starts_with("src/")
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
fn files_can_be_read_in_one_go() {
    check(size, |path| is_a(path, &["rs", "py", "sh", "h", "cpp", "sql"]));
}

#[test]
fn unsafe_code_stays_in_its_ring() {
    check(|path, text| unsafe_code(path, text, UNSAFE_FILES), is_rust);
    for path in UNSAFE_FILES {
        let text = fs::read_to_string(root().join(path)).unwrap_or_default();
        assert_eq!(unsafe_code(path, &text, &[]).len(), 1, "{path} needs no place in the ring");
    }
}

#[test]
fn modules_are_named_after_what_they_hold() {
    check(module_names, |path| is_rust(path) && is_source(path));
}

#[test]
fn tests_are_run_and_do_not_wait() {
    check(test_habits, is_rust);
}

#[test]
fn no_file_names_a_machine() {
    check(machine_paths, |path| path != "Cargo.lock");
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
fn every_named_query_says_what_it_is() {
    check(query_header, |path| path.starts_with("queries/"));
}

#[test]
fn the_format_describes_every_column() {
    let format =
        fs::read_to_string(root().join("docs/FORMAT.md")).expect("the format is described");
    check(|_, schema| undescribed_columns(schema, &format), |path| path == "schema/tables.json");
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_default()
}

// The checks on texts that they have to refuse, and on their nearest good neighbours.

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

#[test]
fn size_refuses_the_line_too_many() {
    assert_eq!(size("a.rs", &"\n".repeat(SOURCE_LINES_MAX)), [""; 0]);
    assert_eq!(size("a.rs", &"\n".repeat(SOURCE_LINES_MAX + 1)).len(), 1);
}

#[test]
fn unsafe_code_is_told_from_talk_of_it() {
    assert_eq!(unsafe_code("src/a.rs", "fn f() { unsafe { g() } }", &[]).len(), 1);
    let talk = "// unsafe
#[expect(unsafe_code)] const A: &str = \"unsafe\";";
    assert_eq!(unsafe_code("src/a.rs", talk, &[]), [""; 0]);
    assert_eq!(unsafe_code("src/a.rs", "unsafe {}", &["src/a.rs"]), [""; 0]);
}

#[test]
fn module_names_refuses_empty_ones() {
    assert_eq!(module_names("src/utils.rs", "").len(), 1);
    assert_eq!(module_names("src/env/common/mod.rs", "").len(), 1);
    assert_eq!(module_names("src/env/mod.rs", "mod helpers;\nmod tests {}").len(), 1);
    assert_eq!(module_names("src/datasets/catalog.rs", "mod logic;"), [""; 0]);
}

#[test]
fn test_habits_refuses_each() {
    for bad in ["#[ignore]", "#[should_panic]", "#[ignore = \"slow\"]", "std::thread::sleep(d)"] {
        assert_eq!(test_habits("tests/it/a.rs", &format!("{bad} fn t() {{}}")).len(), 1, "{bad}");
    }
    let good = "#[test] fn ignore() { should_panic(sleep) } // thread::sleep";
    assert_eq!(test_habits("tests/it/a.rs", good), [""; 0]);
    let watchdog = "fn f() { thread::sleep(d) }\n#[cfg(test)]\nmod tests {";
    assert_eq!(test_habits("src/a.rs", watchdog), [""; 0]);
    assert_eq!(test_habits("src/a.rs", &format!("{watchdog} {watchdog}")).len(), 1);
    assert_eq!(test_habits("crates/serve/src/a.rs", watchdog), [""; 0]);
    assert_eq!(test_habits("crates/serve/tests/a.rs", watchdog).len(), 1);
}

#[test]
fn machine_paths_are_told_from_other_slashes() {
    for name in ["work", "root", "home"] {
        assert_eq!(machine_paths("a", &format!("see\n`/{name}/x`")).len(), 1, "{name}");
        assert_eq!(machine_paths("a", &format!("src/{name}/x ~/{name}/x {name}/")), [""; 0]);
    }
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

#[test]
fn undescribed_columns_are_found_in_their_own_table() {
    let schema = r#"{"tables": [
        {"name": "a", "columns": [{"name": "x"}, {"name": "reward_{}"}, {"name": "{}"}]},
        {"name": "b", "columns": [{"name": "y"}]}]}"#;
    let full = "\n**`a`**: `x`, `reward_<space>`\n\n**`b`**: `y`\n";
    assert_eq!(undescribed_columns(schema, full), [""; 0]);
    assert_eq!(undescribed_columns(schema, "\n**`a`**: `x`\n**`b`**: `x`\n").len(), 2);
}
