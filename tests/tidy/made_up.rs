//! The following of paths, on crates that are made up for it.

use std::collections::BTreeMap;

use crate::imports::{Code, Crate};
use crate::knots::problems;

/// Reads files as the crate `steplake`, which depends on `arrow`, and as one that depends on it.
pub(crate) fn code<'a>(files: &[(&'a str, &'a str)], tests: bool) -> Result<Code<'a>, Vec<String>> {
    let texts: BTreeMap<&str, &str> = files.iter().copied().collect();
    let mut crates = Vec::new();
    for (name, root, on) in [
        ("steplake", "src/lib.rs", "arrow"),
        ("steplake_serve", "crates/serve/src/main.rs", "steplake"),
    ] {
        if texts.contains_key(root) {
            let dependencies = [on.to_owned()].into();
            crates.push(Crate { name: name.to_owned(), root: root.to_owned(), dependencies });
        }
    }
    Code::read(&texts, crates, tests)
}

/// Each use of a file by another: `a.rs > b.rs: Item, item`.
fn uses(files: &[(&str, &str)]) -> Result<Vec<String>, Vec<String>> {
    let code = code(files, false)?;
    let short = |file: usize| code.files[file].trim_start_matches("src/");
    let uses = code.uses()?;
    let lines = uses.iter().map(|(&(from, to), items)| {
        let items: Vec<_> = items.iter().copied().collect();
        format!("{} > {}: {}", short(from), short(to), items.join(", "))
    });
    Ok(lines.collect())
}

/// What `src/store/toy.rs` uses in a lake that is made up of few files.
fn used_by(text: &str) -> Result<Vec<String>, Vec<String>> {
    uses(&[
        ("src/lib.rs", "pub mod model;\npub mod store;"),
        ("src/model.rs", "pub struct StateId; pub fn state() {}"),
        (
            "src/store/mod.rs",
            "mod disk; mod identity; mod lake; pub mod merge; mod toy;
             pub use disk::*; pub use identity::{Identity as Id, identity}; pub use lake::Lake;
             pub use self::merge::Folder; pub(crate) struct Here;",
        ),
        ("src/store/disk.rs", "pub struct Disk; pub trait Drive {} pub const DISKS: usize = 1;"),
        (
            "src/store/identity.rs",
            "pub struct Identity; pub const FILE: &str = \"\"; pub fn identity() {}",
        ),
        ("src/store/lake.rs", "pub struct Lake; pub enum Kind { Hot } make! { Made }"),
        ("src/store/merge/mod.rs", "mod folder; pub use folder::Folder; pub static ONE: u8 = 1;"),
        (
            "src/store/merge/folder.rs",
            "pub struct Folder<const N: usize>; pub(crate) mod inner {
             pub type Inner = u8; }",
        ),
        ("src/store/toy.rs", text),
    ])
}

/// What `src/store/toy.rs` uses, in short: `lake: Lake; model: StateId`.
fn short(text: &str) -> String {
    let uses = used_by(text).unwrap_or_else(|problems| panic!("{text}: {problems:?}"));
    let used = uses.iter().map(|line| line.strip_prefix("store/toy.rs > ").unwrap_or(line));
    let plain = |line: &str| line.trim_start_matches("store/").replacen(".rs", "", 1);
    used.map(plain).collect::<Vec<_>>().join("; ")
}

#[test]
fn imports_lead_to_where_things_are_defined() {
    for (text, used) in [
        ("use super::lake::Lake;", "lake: Lake"),
        ("use super::Lake;", "lake: Lake"),
        ("use crate::store::Lake;", "lake: Lake"),
        ("use super::super::store::{Lake, Folder};", "lake: Lake; merge/folder: Folder"),
        ("use crate::{model::{StateId, state}, store::Lake};", "model: StateId, state; lake: Lake"),
        ("use super::Id;", "identity: Identity"),
        ("use super::identity;", "identity: identity"), // a module and a function
        ("use super::identity::{self, FILE};", "identity: FILE, identity"),
        ("use super::Here;", "mod: Here"),
        ("use super::Disk;", "disk: Disk"),
        ("use super::{Drive as _, DISKS as COUNT};", "disk: DISKS, Drive"),
        ("use super::*; fn f(_: Disk, _: Here) {}", "mod: Here; disk: Disk"),
        ("use super::disk::*; fn f() { Drive::f(DISKS) }", "disk: DISKS, Drive"),
        ("use super::lake::Kind::{self, Hot};", "lake: Kind"),
        ("use super::lake::Made;", "lake: Made"),
        ("use super::merge;", ""), // what it is used for counts
        (
            "use super::merge; fn f() { merge::ONE; merge::Folder::new() }",
            "merge/mod: ONE; merge/folder: Folder",
        ),
        ("use super::merge as m; use m::Folder as F; fn f() { F::new() }", "merge/folder: Folder"),
        ("pub(crate) use super::Lake;", ""), // handed on
        ("pub use super::Lake; fn f(_: &Lake) {}", "lake: Lake"),
        ("use arrow::Lake; use std::fs;", ""),
    ] {
        assert_eq!(short(text), used, "{text}");
    }
}

#[test]
fn paths_in_code_are_uses_as_well() {
    for (text, used) in [
        ("fn f() { super::identity::FILE }", "identity: FILE"),
        ("fn f(_: Vec<crate::store::Lake>) {}", "lake: Lake"),
        (
            "fn f() { Vec::<super::Lake>::new().map(super::identity) }",
            "identity: identity; lake: Lake",
        ),
        ("fn f() { g(0..super::DISKS, x.f::<u8>()) }", "disk: DISKS"),
        ("fn f() { use super::lake; { lake::Kind::Hot } }", "lake: Kind"),
        ("fn f() { { use super::disk as lake; lake::DISKS } }", "disk: DISKS"),
        ("impl A { fn merge() { } fn f() { merge::ONE } } use super::merge;", "merge/mod: ONE"),
        ("macro_rules! m { ($a:expr) => { $a::f(); $crate::store::Lake } }", "lake: Lake"),
        ("#[derive(super::Drive)] struct A;", "disk: Drive"),
        ("fn f() { super::merge::folder::inner::Inner::MAX }", "merge/folder: Inner"),
        (
            "mod a { fn f() { super::super::Lake; crate::model::StateId } }",
            "model: StateId; lake: Lake",
        ),
        ("mod a { pub struct B; } fn f() { a::B; self::a::B }", ""),
        ("extern \"C\" { fn foreign(); } fn f() { self::foreign() }", ""),
        ("fn f<T: Into<u8>>() { T::into; Self::X; u8::MAX; std::fs::read; Vec::new }", ""),
        ("/// [`super::Lake`]\nconst A: &str = \"super::Lake\"; // super::Lake", ""),
        ("pub(in crate::store) fn f() {}", ""),
    ] {
        assert_eq!(short(text), used, "{text}");
    }
}

#[test]
fn what_only_tests_use_does_not_count() {
    for text in [
        "#[cfg(test)] mod tests { use super::super::Lake; }",
        "#[cfg(test)] use super::Lake; ",
        "#[cfg(test)] #[expect(dead_code)] pub(crate) fn f(_: super::Lake) { super::Id }",
        "#[cfg(test)] const A: [super::Lake; 1] = [super::Lake {}];",
        "struct A { #[cfg(test)] a: (super::Lake, u8), b: u8 }",
        "fn f() { #[cfg(test)] super::identity(); #[cfg(test)] let a = B { c: super::Lake }; }",
        "#[cfg(test)] impl A { fn f(_: super::Lake) {} }",
        "#[cfg(test)] struct A(super::Lake);",
        "#[cfg(test)] mod gone;",
    ] {
        assert_eq!(short(text), "", "{text}");
        assert_eq!(short(&format!("{text} use super::Id;")), "identity: Identity", "{text}");
    }
    assert_eq!(short("#[cfg(not(test))] use super::Lake;"), "lake: Lake");
}

#[test]
fn paths_that_lead_nowhere_are_named_with_their_file() {
    for (text, path) in [
        ("use super::Gone;", "super::Gone"),
        ("use crate::store::lake::Gone;", "crate::store::lake::Gone"),
        ("use crate::{model::{StateId, Gone}};", "crate::model::Gone"),
        ("use super::super::super::store;", "super::super::super::store"),
        ("use super::gone::*;", "super::gone"),
        ("use other::Lake;", "other::Lake"),
        ("fn f() { super::gone() }", "super::gone"),
        ("use super::lake; fn f() { lake::Gone::new() }", "lake::Gone::new"),
        ("fn f() { gone::Lake }", "gone::Lake"),
        ("use a::A; use b::A as B; fn f() {}", "a::A"),
        ("use super::merge::ONE::MAX;", "super::merge::ONE::MAX"),
    ] {
        let expected = format!("src/store/toy.rs: `{path}` leads nowhere");
        let problems = used_by(text).expect_err(text);
        assert!(problems.contains(&expected), "{text}: {problems:?}");
    }
    for (text, problem) in [
        (
            "mod gone;",
            "`mod gone;` is in none of [\"src/store/toy/gone.rs\", \"src/store/toy/gone/mod.rs\"]",
        ),
        ("#[path = \"lake.rs\"] mod a {}", "tests/tidy/ does not follow `path`"),
        ("#[macro_use] mod a {}", "tests/tidy/ does not follow `macro_use`"),
        ("include!(\"a.rs\");", "tests/tidy/ does not follow `include`"),
    ] {
        assert_eq!(used_by(text), Err(vec![format!("src/store/toy.rs: {problem}")]), "{text}");
    }
}

#[test]
fn what_is_made_from_protocol_buffers_is_its_files() {
    let files = |text| {
        [
            ("src/lib.rs", "mod wire; mod service;"),
            ("src/wire.rs", "pub mod proto { arrow::include_proto!(\"lake\"); } pub mod own {}"),
            ("src/service.rs", text),
        ]
    };
    let text = "use crate::wire::proto::{Step, step}; fn f(_: Step) { step::Kind::Hot; }";
    assert_eq!(uses(&files(text)), Ok(vec!["service.rs > wire.rs: proto".to_owned()]));
    let nowhere = "src/service.rs: `crate::wire::own::Step` leads nowhere".to_owned();
    assert_eq!(uses(&files("use crate::wire::own::Step;")), Err(vec![nowhere]));
}

#[test]
fn other_crates_use_what_the_library_shows() {
    let files = [
        ("src/lib.rs", "pub mod store;"),
        ("src/store/mod.rs", "mod lake; pub use lake::Lake;"),
        ("src/store/lake.rs", "pub struct Lake;"),
        ("crates/serve/src/main.rs", "mod wire; use steplake::store::Lake;"),
        ("crates/serve/src/wire.rs", "fn f(_: steplake::store::Lake) { crate::main() }"),
    ];
    let main = "crates/serve/src/main.rs";
    let problem = "crates/serve/src/wire.rs: `crate::main` leads nowhere".to_owned();
    assert_eq!(uses(&files), Err(vec![problem]));
    let files = files.map(|(path, text)| {
        (
            path,
            if path == main { "mod wire; use steplake::store::Lake; fn main() {}" } else { text },
        )
    });
    let wire = "crates/serve/src/wire.rs > ";
    assert_eq!(
        uses(&files),
        Ok(vec![
            format!("{main} > store/lake.rs: Lake"),
            format!("{wire}store/lake.rs: Lake"),
            format!("{wire}{main}: main"),
        ])
    );
}

#[test]
fn imports_in_a_circle_end() {
    let uses = uses(&[
        ("src/lib.rs", "mod a; mod b; mod c;"),
        ("src/a.rs", "pub use super::b::*; pub use super::c::Other as Name;"),
        ("src/b.rs", "pub use super::a::*; pub use super::c::Thing;"),
        ("src/c.rs", "pub use super::a::Name as Other; use super::a::{Thing, Gone}; struct Thing;"),
    ]);
    let nowhere = |path: &str| format!("src/{path}` leads nowhere");
    let problems = ["a.rs: `super::c::Other", "c.rs: `super::a::Gone", "c.rs: `super::a::Name"];
    assert_eq!(uses, Err(problems.map(nowhere).to_vec()));
}

#[test]
fn a_circle_is_shown_with_what_closes_it() {
    let files = [
        ("src/lib.rs", "mod model; mod store;"),
        ("src/model.rs", "use crate::store::a::A; pub struct Id;"),
        ("src/store/mod.rs", "pub mod a; mod b; mod c; mod d; pub use b::B; pub use c::C;"),
        ("src/store/a.rs", "use super::B; pub struct A;"),
        ("src/store/b.rs", "use super::{C, d::D}; pub struct B;"),
        ("src/store/c.rs", "fn f() -> super::a::A {} pub struct C; use crate::model::Id;"),
        ("src/store/d.rs", "pub struct D;"),
    ];
    let code = code(&files, false).unwrap();
    let uses = code.uses().unwrap();
    assert_eq!(problems(&code, &uses, &[("store", 3, "a circle")]), [""; 0]);
    let found = problems(&code, &uses, &[("store", 2, "a pair")]);
    let (first, rest) = found[0].split_once('\n').unwrap();
    assert!(
        first.starts_with("store: 3 files use one another in a circle, at most 2 may"),
        "{first}"
    );
    let shown = "    src/store/a.rs\n        uses of src/store/b.rs: B
    src/store/b.rs\n        uses of src/store/c.rs: C
    src/store/c.rs\n        uses of src/store/a.rs: A\n";
    assert_eq!((rest, found.len()), (shown, 1));
    assert_eq!(problems(&code, &uses, &[]).len(), 1);
    // A list that allows what is not there hides the next knot.
    assert_eq!(problems(&code, &uses, &[("store", 3, ""), ("gone", 2, "")]).len(), 1);
}
