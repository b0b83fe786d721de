//! `scripts/demo.sh` with a stand-in for the binary, which does nothing but note how it was called.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::fixtures::programs::{InTime as _, program};
use crate::fixtures::support::err;

/// The calls of a demo in which `datasets install` ends with `status`, and what the demo says.
fn demo(status: u8) -> (Vec<String>, String) {
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("release/steplake");
    let (calls, lake) = (folder.path().join("calls"), folder.path().join("lake"));
    fs::create_dir_all(binary.parent().unwrap()).unwrap();
    fs::create_dir_all(lake.join("data/steps")).unwrap();
    let script =
        format!("#!/bin/sh\necho \"$*\" >> \"$calls\"\ntest \"$1\" != datasets || exit {status}\n");
    fs::write(&binary, script).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let output = program(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/demo.sh"))
        .envs([("CARGO_TARGET_DIR", folder.path()), ("STEPLAKE_LAKE", &lake), ("calls", &calls)])
        .output_in_time();
    assert!(output.status.success(), "{}", err(&output));
    let calls = fs::read_to_string(calls).unwrap();
    (calls.lines().map(str::to_owned).collect(), err(&output))
}

/// How often it asked for Debian packages, on how many it plays, and the lines about what it leaves
/// out.
fn debian(status: u8) -> (usize, usize, usize) {
    let (calls, said) = demo(status);
    let asked = calls.iter().filter(|call| call.starts_with("datasets install")).count();
    let generate = calls.iter().find(|call| call.starts_with("generate")).unwrap();
    let played = generate.matches("benchmark://debian-v0/").count();
    (asked, played, said.matches("Going on without").count())
}

#[test]
fn the_demo_waits_once_for_a_network_that_is_not_there() {
    assert_eq!(debian(5), (1, 0, 1));
}

#[test]
fn the_demo_leaves_out_only_what_it_cannot_have() {
    assert_eq!(debian(0), (3, 8, 0));
    assert_eq!(debian(2), (3, 0, 3));
}

#[test]
fn the_demo_asks_three_questions_in_words_and_shows_ten_rows_of_each_answer() {
    let (calls, said) = demo(0);
    let asked: Vec<_> = calls.iter().filter(|call| call.starts_with("query ")).collect();
    assert_eq!(
        asked,
        [
            "query best_episode --rows 10",
            "query mean_reward --rows 10",
            "query noop_rate --rows 10"
        ]
    );
    assert_eq!(said.lines().filter(|line| line.ends_with('?')).count(), 3, "{said}");
}
