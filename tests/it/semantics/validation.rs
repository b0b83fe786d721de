//! One sequence of actions, validated.

use steplake::env::SessionError;
use steplake::env::llvm::LlvmEnvironment;
use steplake::env::worker::Interrupt;
use steplake::lake::DifferenceKind;
use steplake::semantics::{SemanticsError, validate};

use super::{SPACE, actions, subtraction};
use crate::fixtures::support::steplake;

#[test]
fn a_sequence_is_validated_by_replay_and_by_its_meaning() {
    let (environment, program) = (LlvmEnvironment::planted(), subtraction());
    let validated = |names: &[&str]| {
        let actions = actions(names);
        validate(&environment, SPACE, &program, None, None, &actions, Interrupt::default()).unwrap()
    };
    let right = validated(&["mem2reg", "instcombine", "dce"]);
    assert!(right.is_okay() && right.is_checked, "{right:?}");
    assert_eq!((right.remarks.as_slice(), right.difference), ([].as_slice(), None));
    let wrong = validated(&["mem2reg", "planted-bug"]);
    assert!(!wrong.is_okay() && wrong.is_checked && wrong.not_repeated.is_none(), "{wrong:?}");
    assert_eq!(wrong.difference.unwrap().kind, DifferenceKind::Output);
    // Nobody says how it is run.
    let mute = steplake::model::Benchmark { execution: None, ..program.clone() };
    let validated = |program, interrupt| {
        validate(&environment, SPACE, program, None, None, &actions(&["mem2reg"]), interrupt)
    };
    let mute = validated(&mute, Interrupt::default()).unwrap();
    assert!(mute.is_okay() && !mute.is_checked, "{mute:?}");
    // Whoever waits gives up.
    let stopped = validated(&program, Interrupt::new(|| true));
    let stopped = matches!(stopped, Err(SemanticsError::Session(SessionError::Interrupted)));
    assert!(stopped);
}

#[test]
fn the_command_validates_a_program_with_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let output = steplake(folder.path())
        .args(["replay", "benchmark://steplake-v0/introsort", "mem2reg", "instcombine"])
        .arg("--validate")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("replay: a second worker gave the same states and rewards"), "{said}");
    assert!(said.ends_with("semantics: the program does what it does untouched\n"), "{said}");
}
