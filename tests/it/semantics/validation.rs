//! One sequence of actions, validated.

use std::path::PathBuf;

use steplake::env::llvm::LlvmEnvironment;
use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::env::{Environment as _, SessionError};
use steplake::model::{DifferenceKind, Input};
use steplake::sandbox::Interrupt;
use steplake::semantics::{SemanticsError, validate};

use super::{SPACE, actions, of_memory, program, subtraction};
use crate::fixtures::programs::InTime as _;
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
fn a_program_may_end_with_any_exit_code_and_has_to_keep_it() {
    let environment = LlvmEnvironment::planted();
    let text = of_memory("difference", "sub")
        + "define i32 @main() {
           %d = call i32 @difference(i32 40, i32 2)
           ret i32 %d
         }";
    let program = program("status", &text);
    let validated = |names: &[&str]| {
        let actions = actions(names);
        validate(&environment, SPACE, &program, None, None, &actions, Interrupt::default()).unwrap()
    };
    let right = validated(&["mem2reg", "instcombine"]);
    assert!(right.is_okay() && right.is_checked && right.remarks.is_empty(), "{right:?}");
    let difference = validated(&["mem2reg", "planted-bug"]).difference.unwrap();
    assert_eq!(difference.kind, DifferenceKind::ExitStatus);
    let line = "it ended with exit code 42, where it ended with exit code 38 before";
    assert_eq!(difference.line(), line);
}

#[test]
fn the_command_validates_a_program_with_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let output = steplake(folder.path())
        .args(["replay", "benchmark://steplake-v0/introsort", "mem2reg", "instcombine"])
        .arg("--validate")
        .output_in_time();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("replay: a second worker gave the same states and rewards"), "{said}");
    assert!(said.ends_with("semantics: the program does what it does untouched\n"), "{said}");
}

#[test]
fn a_second_worker_that_plays_otherwise_is_said() {
    let toy = ToyEnvironment::unsure();
    let config = WorkerConfig::new(PathBuf::from(env!("CARGO_BIN_EXE_steplake")));
    let environment = WorkerEnvironment::new(toy.spec().clone(), config);
    let space = &toy.spec().action_spaces[0];
    let actions = ["increment", "scatter"].map(|name| space.index_of(name).unwrap());
    let program = toy::benchmark(3);
    let validated =
        validate(&environment, &space.name, &program, None, None, &actions, Interrupt::default());
    let validated = validated.unwrap();
    let wanted = format!("action {} gave another state in a second worker", actions[1].0);
    assert_eq!(validated.not_repeated, Some(wanted));
    assert!(!validated.is_okay() && !validated.is_checked);
}

#[test]
fn a_program_whose_input_is_not_there_is_not_checked() {
    let environment = LlvmEnvironment::planted();
    let mut program = subtraction();
    let blake3 = blake3::hash(b"numbers").to_hex().to_string();
    let execution = program.execution.as_mut().unwrap();
    execution.inputs = vec![Input { name: "numbers.txt".into(), blake3: blake3.clone() }];
    let folder = tempfile::tempdir().unwrap();
    let validated = |inputs| {
        let actions = actions(&["mem2reg"]);
        validate(&environment, SPACE, &program, None, inputs, &actions, Interrupt::default())
            .unwrap()
    };
    for inputs in [None, Some(folder.path().to_owned())] {
        let missing = validated(inputs);
        assert!(missing.is_okay() && !missing.is_checked, "{missing:?}");
        let [remark] = &missing.remarks[..] else { panic!("{missing:?}") };
        assert!(
            remark.contains(&format!("the program needs the input `numbers.txt` ({blake3})")),
            "{remark}"
        );
    }
    std::fs::write(folder.path().join(&blake3), "numbers").unwrap();
    let there = validated(Some(folder.path().to_owned()));
    assert!(there.is_checked && there.remarks.is_empty(), "{there:?}");
}
