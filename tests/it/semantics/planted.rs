//! A pass that miscompiles on purpose.

use steplake::record::RecordingOptions;

use crate::fixtures::support::run;

use super::{indexed, play, recorded, recorded_by, start, subtraction, verified};

const QUERY: &str = "SELECT benchmark_uri, cardinality(actions) AS length, \
    action_name(actions[1]) AS first, action_name(actions[2]) AS guilty, kind, \
    subject, expected_excerpt, actual_excerpt, minimised FROM miscompilations";

#[test]
fn a_planted_bug_is_found_minimised_and_written_down() {
    let program = subtraction();
    let long: &[&str] =
        &["planted-bug", "inferattrs", "rpo-function-attrs", "mem2reg", "dce", "planted-bug"];
    let (_folder, lake) = recorded(&[(&program, long), (&program, &["mem2reg", "simplifycfg"])]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 4, "{said}");
    let line = "file:///subtraction.bc: miscompiled by planted-bug: after `mem2reg planted-bug`, \
                its output has `42\\n` where `38\\n` is expected";
    assert!(said.contains(line), "{said}");
    assert!(said.contains("1 new row in the table `miscompilations`"), "{said}");
    let rows = run(lake.path(), &["sql", "--format", "csv", QUERY]);
    let row = "file:///subtraction.bc,2,mem2reg,planted-bug,output,,38\\n,42\\n,true";
    assert_eq!(rows.lines().skip(1).collect::<Vec<_>>(), [row]);
    // What is known is found again, and not written twice.
    let (code, said) = verified(&lake, &["--seed", "1"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains(line) && !said.contains("in the table"), "{said}");
    assert_eq!(run(lake.path(), &["sql", "--format", "csv", QUERY]), rows);
}

#[test]
fn an_access_that_nobody_sees_is_found_by_a_sanitizer() {
    let program = indexed();
    let (_folder, lake) = recorded(&[(&program, &["inferattrs", "mem2reg", "planted-bug"])]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 4, "{said}");
    let line = "after `mem2reg planted-bug`, AddressSanitizer reports: global-buffer-overflow";
    assert!(said.contains(line), "{said}");
    let rows = run(lake.path(), &["sql", "--format", "csv", QUERY]);
    assert!(rows.contains("sanitizer,AddressSanitizer,no report,global-buffer-overflow"), "{rows}");
}

#[test]
fn without_the_bug_nothing_is_found() {
    let played: &[&str] = &["inferattrs", "rpo-function-attrs", "mem2reg", "instcombine", "dce"];
    // Before memory is promoted, the bug does nothing.
    let harmless: &[&str] = &["planted-bug", "early-cse", "simplifycfg"];
    let (one, other) = (subtraction(), indexed());
    let (_folder, lake) = recorded(&[(&one, played), (&other, played), (&one, harmless)]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("of 2 programs behave as their first states do, 0 do not"), "{said}");
    assert!(!said.contains("not used"), "the sanitizers are installed: {said}");
    assert_eq!(run(lake.path(), &["sql", "--format", "csv", QUERY]).lines().count(), 1);
}

#[test]
fn a_lake_that_is_being_recorded_into_gets_no_row_but_a_report() {
    let program = subtraction();
    let (_folder, lake) = recorded(&[(&program, &["mem2reg", "planted-bug"])]);
    let writer = lake.writer().unwrap();
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("miscompiled by planted-bug"), "{said}");
    assert!(said.contains("not written to the table `miscompilations`: "), "{said}");
    drop(writer);
    let (_, said) = verified(&lake, &["--snapshot", &lake.newest().unwrap().0.to_string()]);
    assert!(said.contains("an older snapshot does not change"), "{said}");
    assert_eq!(run(lake.path(), &["sql", "--format", "csv", QUERY]).lines().count(), 1);
    let (_, said) = verified(&lake, &[]);
    assert!(said.contains("1 new row"), "{said}");
}

/// A fork's first step is its parent's state, from where its actions lead to what they do not do
/// from the first state of the program.
#[test]
fn a_fork_is_no_way_from_the_first_state() {
    let program = subtraction();
    let (_folder, lake) = recorded_by(&RecordingOptions::default(), |session, space| {
        start(session, &program);
        play(session, space, &["mem2reg"]);
        let mut fork = session.fork().unwrap();
        play(fork.as_mut(), space, &["planted-bug", "instcombine"]);
        play(session, space, &["inferattrs", "planted-bug"]);
    });
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("after `mem2reg planted-bug`, its output has"), "{said}");
    assert!(!said.contains(" led to "), "{said}");
}
