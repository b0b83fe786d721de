//! One set of features for what DataFusion stands on, whichever command builds it.
//!
//! Cargo builds a crate anew for each set of features that a command asks for, and so commands with
//! other packages, or with tests, could each spend minutes on DataFusion. `crates/query` asks for
//! the features that any member wants of the crates that DataFusion stands on.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::{demand, demand_none, is_a, root, tree};

/// By a crate: the features that it is built with.
type Features = BTreeMap<Crate, String>;

/// A crate as it is built: once for programs, and once more for what runs during the build.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
    runs_in_build: bool,
}

/// Packages that build a DataFusion of their own, and why.
const OWN_DATAFUSION: &[(&str, &str)] =
    &[("steplake-cluster", "Ballista asks for features that cost a plain build 14 crates")];

/// What a command builds, as arguments for `cargo tree`.
type Selection = Vec<String>;

/// Subcommands of cargo that build, and whether they build tests or benches.
const BUILDING: &[(&str, bool)] = &[
    ("bench", true),
    ("build", false),
    ("clippy", false),
    ("doc", false),
    ("run", false),
    ("test", true),
];

/// Arguments that make a command build tests, benches or examples.
const WITH_TESTS: &[&str] =
    &["--all-targets", "--bench", "--benches", "--example", "--examples", "--test", "--tests"];

/// Whether cargo commands are looked for in a file.
fn has_commands(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    match folder {
        "" => path == "Makefile" || is_a(path, &["md"]),
        "docs" => is_a(path, &["md"]),
        "scripts" => is_a(path, &["sh"]),
        _ => path == ".ci/run",
    }
}

/// The parts of a file that hold commands: lines of scripts and of code blocks, spans of code.
fn code_of(path: &str, text: &str) -> Vec<String> {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    if !is_a(path, &["md"]) {
        return lines(&text.replace("\\\n", " "));
    }
    let mut found = Vec::new();
    for (place, part) in text.split("```").enumerate() {
        if place % 2 == 1 {
            found.extend(lines(&part.replace("\\\n", " ")));
        } else {
            found.extend(part.replace('\n', " ").split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

/// What the cargo commands of a file build, each with the command, or what cannot be read.
fn commands(path: &str, text: &str, packages: &str) -> Result<Vec<(Selection, String)>, String> {
    let mut found = Vec::new();
    for line in code_of(path, text) {
        let line = line.replace("\"${packages[@]}\"", packages).replace("$(PACKAGES)", packages);
        for part in line.split(['`', ';', '|', '&', '#', '(', ')']) {
            let words: Vec<&str> =
                part.split_whitespace().map(|w| w.trim_matches(QUOTES)).collect();
            let Some(start) = words.iter().position(|word| *word == "cargo") else { continue };
            let is_toolchain = |word: &&&str| word.starts_with('+') || word.contains("toolchain");
            let mut words = words[start + 1..].iter().skip_while(is_toolchain).copied();
            let name = words.next().unwrap_or_default();
            let Some((_, with_tests)) = BUILDING.iter().find(|(known, _)| *known == name) else {
                continue;
            };
            let arguments: Vec<&str> = words.take_while(|word| *word != "--").collect();
            let command = format!("cargo {name} {}", arguments.join(" "));
            let selection = selection(&arguments, *with_tests)
                .map_err(|what| format!("{path}: `{command}`: tests/tidy/ cannot read {what}"))?;
            found.push((selection, format!("`{}` ({path})", command.trim_end())));
        }
    }
    Ok(found)
}

const QUOTES: [char; 3] = ['"', '\'', '\\'];

/// What `cargo tree` has to be asked for a command with these arguments.
fn selection(arguments: &[&str], mut with_tests: bool) -> Result<Selection, String> {
    let mut wanted = BTreeSet::new();
    let mut rest = arguments.iter();
    while let Some(&argument) = rest.next() {
        let (name, value) = argument.split_once('=').unzip();
        let name = match name.unwrap_or(argument) {
            "-p" => "--package",
            "-F" => "--features",
            "--all" => "--workspace",
            other => other,
        };
        match name {
            "--package" | "--features" | "--exclude" => {
                let value = value.or_else(|| rest.next().copied()).unwrap_or_default();
                if value.is_empty() || value.contains('$') {
                    return Err(format!("{name} {value}"));
                }
                wanted.insert(format!("{name}={value}"));
            }
            "--workspace" | "--all-features" | "--no-default-features" => {
                wanted.insert(name.to_owned());
            }
            // Levels of optimisation are no features.
            "--profile" if value.is_none() => _ = rest.next(),
            "--manifest-path" => return Err(name.to_owned()),
            _ if name.contains('$') || name.starts_with("-p") => return Err(argument.to_owned()),
            _ => with_tests |= WITH_TESTS.contains(&name),
        }
    }
    let edges = if with_tests { "normal,build,dev" } else { "normal,build" };
    wanted.insert(format!("--edges={edges}"));
    Ok(wanted.into_iter().collect())
}

/// The crates of other people in the lines that `cargo tree` prints for [`FORMAT`].
fn features(lines: &str) -> Features {
    /// A line that further ones hang from.
    struct Above {
        runs_in_build: bool,
        build_dependencies: bool,
    }
    let mut found = Features::new();
    let mut above: Vec<Above> = Vec::new();
    for line in lines.lines() {
        let text = line.trim_start_matches(['|', '`', '-', ' ']);
        let depth = (line.len() - text.len()) / 4;
        if text.starts_with('[') {
            if let Some(above) = above.get_mut(depth) {
                above.build_dependencies = text == "[build-dependencies]";
            }
            continue;
        }
        let Some((package, features)) = text.trim_end_matches(" (*)").split_once(" [") else {
            continue;
        };
        above.truncate(depth);
        let runs_in_build = package.ends_with(" (proc-macro)")
            || above.last().is_some_and(|above| above.runs_in_build || above.build_dependencies);
        above.push(Above { runs_in_build, build_dependencies: false });
        if !package.contains("(/") {
            let mut words = package.split(' ').map(str::to_owned);
            let (name, version) = (words.next().unwrap_or_default(), words.next());
            let key = Crate { name, version: version.unwrap_or_default(), runs_in_build };
            found.insert(key, features.trim_end_matches(']').to_owned());
        }
    }
    found
}

const FORMAT: &str = "{p} [{f}]";

/// By name: crates that two commands build with other features, each with what to do.
fn differences(builds: &[(String, Features)]) -> BTreeMap<&str, String> {
    let mut found = BTreeMap::new();
    for (place, (first, features)) in builds.iter().enumerate() {
        for (second, others) in &builds[place + 1..] {
            for (built, one) in features {
                let Some(other) = others.get(built).filter(|other| *other != one) else { continue };
                let Crate { name, version, runs_in_build } = built;
                let section = if *runs_in_build { "build-dependencies" } else { "dependencies" };
                let problem = format!(
                    "{name} {version} is built with the features\n    [{one}] by {first}\n    \
                     [{other}] by {second}\n  and so is DataFusion, which stands on it: name the \
                     features in the [{section}] of crates/query/Cargo.toml"
                );
                found.entry(name.as_str()).or_insert(problem);
            }
        }
    }
    found
}

/// The packages that `scripts/paths.sh` lists for other scripts.
fn listed_packages(text: &str) -> Option<&str> {
    let list = text.lines().find_map(|line| line.strip_prefix("packages=("));
    list.and_then(|list| list.strip_suffix(')'))
}

#[expect(clippy::disallowed_methods, reason = "asks cargo what it would build, and builds nothing")]
fn cargo_tree(selection: &Selection) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(cargo);
    command.current_dir(root()).args([
        "tree",
        "--locked",
        "--color",
        "never",
        "--charset",
        "ascii",
    ]);
    command.args(["--format", FORMAT, "--target", "x86_64-unknown-linux-gnu"]).args(selection);
    let output = command.output().expect("cargo runs the tests, so it can be run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree {}: {said}", selection.join(" "));
    String::from_utf8(output.stdout).expect("cargo tree prints text")
}

#[test]
fn every_command_builds_shared_crates_with_the_same_features() {
    let files = tree();
    let paths = files.iter().find(|(path, _)| path == "scripts/paths.sh");
    let packages = paths.and_then(|(_, text)| listed_packages(text));
    let packages = packages.expect("scripts/paths.sh has a line `packages=(...)`");
    let mut builds: BTreeMap<Selection, String> = BTreeMap::new();
    for (path, text) in files.iter().filter(|(path, _)| has_commands(path)) {
        for (selection, command) in demand(commands(path, text, packages).map_err(|e| vec![e])) {
            builds.entry(selection).or_insert(command);
        }
    }
    let beneath = features(&cargo_tree(&vec![
        "--package=steplake-query".to_owned(),
        "--edges=normal,build".to_owned(),
    ]));
    let is_beneath = |built: &Crate| {
        beneath.keys().any(|one| (&one.name, &one.version) == (&built.name, &built.version))
    };
    let has_own = |selection: &Selection| {
        let package = |name| selection.contains(&format!("--package={name}"));
        OWN_DATAFUSION.iter().any(|(name, _)| package(name))
    };
    let mut built = Vec::new();
    for (selection, command) in builds.into_iter().filter(|(selection, _)| !has_own(selection)) {
        let mut features = features(&cargo_tree(&selection));
        if features.keys().any(|built| built.name == "datafusion") {
            features.retain(|built, _| is_beneath(built));
            built.push((command, features));
        }
    }
    assert!(built.len() > 1, "commands build DataFusion");
    demand_none(&differences(&built).into_values().collect::<Vec<_>>());
}

#[test]
fn commands_are_found_where_people_and_scripts_run_them() {
    let plain = || vec!["--edges=normal,build".to_owned()];
    let tests = || vec!["--edges=normal,build,dev".to_owned()];
    let two = |edges: Vec<String>| {
        let packages = ["--package=a", "--package=b"].map(str::to_owned);
        edges.into_iter().chain(packages).collect::<Vec<_>>()
    };
    for (path, text, found) in [
        ("Makefile", "\tcargo build --release $(PACKAGES)\n\t@scripts/a.sh", vec![two(plain())]),
        (
            "a.sh",
            "cargo test --locked \"${packages[@]}\" \\\n  --test it -- -p c",
            vec![two(tests())],
        ),
        ("a.sh", "A=b cargo clippy --all-targets && cargo doc", vec![tests(), plain()]),
        ("a.sh", "[[ -x a ]] || fail \"$a: cargo build\"", vec![plain()]),
        ("a.sh", "cargo +nightly bench # cargo build", vec![tests(), plain()]),
        ("a.sh", "cargo tree; cargo fuzz run; cargo install b; cargo fmt; a-cargo test", vec![]),
        (
            "a.sh",
            "cargo \"${toolchain[@]}\" fuzz run; x=$(cargo run -p b -p=a)",
            vec![two(plain())],
        ),
        (
            "a.md",
            "`cargo\nbuild` cargo test ```sh\n$ cargo test # b\n```\n",
            vec![plain(), tests()],
        ),
    ] {
        let selections = commands(path, text, "--package a --package b")
            .map(|found| found.into_iter().map(|(selection, _)| selection).collect::<Vec<_>>());
        assert_eq!(selections, Ok(found), "{text}");
    }
    for text in [
        "cargo build $a",
        "cargo build -p $a",
        "cargo test --manifest-path a",
        "cargo run -p",
        "cargo run -pa",
    ] {
        let problem = commands("a.sh", text, "").expect_err(text);
        assert!(problem.starts_with("a.sh: `cargo "), "{problem}");
    }
    let listed = listed_packages("a=b\npackages=(--package a -p b)\n");
    assert_eq!(listed, Some("--package a -p b"));
}

#[test]
fn other_features_are_told_from_fewer_builds() {
    let tree = "me v0.1.0 (/me) [x]\n|-- a v1.0.0 [std]\n|   |-- b v1.0.0 (proc-macro) []\n\
                |   |   `-- a v1.0.0 []\n|   `-- d v1.0.0 []\n|   [build-dependencies]\n\
                |   `-- c v1.0.0 [x]\n|-- a v1.0.0 [std] (*)\n`-- d v1.0.0 []\n\
                [build-dependencies]\n`-- a v1.0.0 [] (*)\n[dev-dependencies]\n`-- e v1.0.0 []\n";
    let one = features(tree);
    let told = |built: (&Crate, &String)| {
        let place = if built.0.runs_in_build { " in the build" } else { "" };
        format!("{} [{}]{place}", built.0.name, built.1)
    };
    let found: Vec<_> = one.iter().map(told).collect();
    let expected =
        ["a [std]", "a [] in the build", "b [] in the build", "c [x] in the build", "d []", "e []"];
    assert_eq!(found, expected);
    for (tree, different, section) in [
        ("a v1.0.0 [std]", "", ""),
        ("a v1.0.0 [alloc,std]", "a", "[dependencies]"),
        ("a v2.0.0 [alloc]\nf v1.0.0 [g]", "", ""),
        ("d v1.0.0 []\n[build-dependencies]\n`-- a v1.0.0 [std]", "a", "[build-dependencies]"),
        ("b v1.0.0 (proc-macro) [c]", "b", "[build-dependencies]"),
    ] {
        let commands = ["`cargo build`", "`cargo test`"].map(str::to_owned);
        let builds: Vec<_> = commands.into_iter().zip([one.clone(), features(tree)]).collect();
        let found = differences(&builds);
        assert_eq!(found.keys().copied().collect::<String>(), different, "{tree}");
        for problem in found.values() {
            for word in ["`cargo build`", "`cargo test`", "crates/query/", section] {
                assert!(problem.contains(word), "{problem}");
            }
        }
    }
}
