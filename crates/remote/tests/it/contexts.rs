//! The contexts of a lake, published and fetched by the program.

use std::path::Path;

use steplake_lake::{CONTEXTS, Lake, Table};

use crate::programs::{InTime as _, program};
use crate::support::{lake, record, toy_identity};

/// Runs the program, which must succeed; its standard output.
fn run(arguments: &[&str]) -> String {
    let mut command = program(env!("CARGO_BIN_EXE_steplake-remote"));
    let output = command.args(arguments).output_in_time();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn steps(lake: &Path) -> Vec<(String, u64)> {
    let contexts = Lake::contexts(lake).unwrap().into_iter();
    let steps = |lake: &Lake| lake.snapshot().unwrap().rows(Table::Steps);
    contexts.map(|context| (context.name, steps(&context.lake))).collect()
}

#[test]
fn all_contexts_are_published_and_fetched_or_the_one_that_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let own = at("lake");
    record(&lake(&own), 1, 2);
    let other = own.join(CONTEXTS).join("other");
    let mut identity = toy_identity();
    identity.compiler = "another build".into();
    record(&Lake::create(&other, &identity).unwrap(), 2, 3);
    let address = format!("file://{}", at("store").display());
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let said = run(&["publish", &address, "--lake", &path(&own)]);
    assert!(said.contains("version 1 of") && said.contains("/contexts/other:"), "{said}");
    let (all, one) = (at("all"), at("one"));
    run(&["fetch", &address, "--into", &path(&all)]);
    assert_eq!(steps(&all), steps(&own));
    assert_eq!(steps(&all).len(), 2);
    run(&["fetch", &address, "--into", &path(&one), "--context", "other"]);
    assert_eq!(steps(&one), [("toy-v0".to_owned(), steps(&own)[1].1)]);
    // What is new is sent and fetched, context by context.
    record(&Lake::open(&other).unwrap(), 3, 2);
    let said = run(&["publish", &address, "--lake", &path(&own)]);
    assert!(said.contains("nothing to publish: version 1 of"), "{said}");
    assert!(said.contains("published version 2 of"), "{said}");
    run(&["fetch", &address, "--into", &path(&all)]);
    assert_eq!(steps(&all), steps(&own));
    let said = run(&["publish", &address, "--gc"]);
    assert_eq!(said.matches("forgot 0 versions").count(), 2, "{said}");
}

#[test]
fn a_context_is_fetched_to_where_the_lake_has_its_identity() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let of_compiler = |compiler: &str| {
        let mut identity = toy_identity();
        identity.compiler = compiler.into();
        identity
    };
    let address = format!("file://{}", at("store").display());
    // Both have a context of this name, of another compiler each.
    let (first, second) = (at("first"), at("second"));
    for (own, compiler, run) in [(&first, "a build", 1), (&second, "another build", 4)] {
        record(&lake(own), run, 2);
        let beside = own.join(CONTEXTS).join("beside");
        record(&Lake::create(&beside, &of_compiler(compiler)).unwrap(), run + 1, 3);
    }
    // The contexts of the third stand in the other order.
    let third = at("third");
    record(&Lake::create(&third, &of_compiler("a build")).unwrap(), 7, 2);
    let beside = third.join(CONTEXTS).join("toy");
    record(&Lake::create(&beside, &toy_identity()).unwrap(), 8, 2);
    for own in [&first, &second, &third] {
        run(&["publish", &address, "--merge", "--lake", &path(own)]);
    }
    let counted = |lake: &Path| {
        let contexts = Lake::contexts(lake).unwrap().into_iter().map(|context| context.lake);
        let mut counted: Vec<(String, u64)> = contexts
            .map(|lake| {
                let steps = lake.snapshot().unwrap().rows(Table::Steps);
                (lake.identity().compiler.clone(), steps)
            })
            .collect();
        counted.sort();
        counted
    };
    let whole = at("whole");
    run(&["fetch", &address, "--into", &path(&whole)]);
    let wanted = counted(&whole);
    assert_eq!(wanted.len(), 3);
    for own in [&second, &third, &first] {
        run(&["fetch", &address, "--into", &path(own)]);
        assert_eq!(counted(own), wanted, "{}", own.display());
    }
}

#[test]
fn a_context_is_published_where_the_store_has_its_identity() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let mut identity = toy_identity();
    identity.compiler = "another build".into();
    let (first, second) = (at("first"), at("second"));
    record(&lake(&first), 1, 2);
    let beside = first.join(CONTEXTS).join("toy-v0-other");
    record(&Lake::create(&beside, &identity).unwrap(), 2, 3);
    let address = format!("file://{}", at("store").display());
    run(&["publish", &address, "--lake", &path(&first)]);
    // A lake whose first context is the other's second.
    run(&["fetch", &address, "--into", &path(&second), "--context", "toy-v0-other"]);
    record(&Lake::open(&second).unwrap(), 3, 2);
    let said = run(&["publish", &address, "--lake", &path(&second)]);
    assert!(said.contains("version 2 of") && said.contains("/contexts/toy-v0-other:"), "{said}");
    // The list of its newest version is gone: what is published next is whole again.
    let lists = at("store").join(CONTEXTS).join("toy-v0-other").join("lists");
    let lists = std::fs::read_dir(lists).unwrap().map(Result::unwrap);
    let newest = lists.max_by_key(|list| list.metadata().unwrap().modified().unwrap()).unwrap();
    std::fs::write(newest.path(), "{").unwrap();
    run(&["publish", &address, "--lake", &path(&second), "--replace-damaged"]);
    run(&["fetch", &address, "--into", &path(&at("again"))]);
    assert_eq!(steps(&at("again"))[1].1, steps(&second)[0].1);
}
