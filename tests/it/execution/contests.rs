//! Versions of one program in turns: only those count that do what the program does untouched.

use std::path::Path;

use steplake::execution::{ExecutionError, RunSettings, Untimed};
use steplake::measure::{CodeGeneration, Contest, NoTimes};
use steplake::model::{Execution, Linker};
use steplake::sandbox::Interrupt;

use super::compile;

/// The object file of a program of C.
fn object(folder: &Path, text: &str) -> Vec<u8> {
    let source = folder.join("a.c");
    std::fs::write(&source, text).unwrap();
    compile(&source, &["-c", "-fPIC"], &folder.join("a.o"))
}

/// The program that prints a text, and ends with an exit code.
fn printing(text: &str, code: u8) -> String {
    format!("int puts(const char *);\nint main(void) {{ puts(\"{text}\"); return {code}; }}\n")
}

fn contest(untouched: &[u8]) -> Result<Contest, ExecutionError> {
    let execution = Execution::linked(Linker::C, &[]);
    Contest::new(&execution, RunSettings::default(), CodeGeneration::O3, untouched)
}

#[test]
fn versions_take_turns_and_a_wrong_one_has_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let made = |text, code| object(folder.path(), &printing(text, code));
    let contest = contest(&made("one", 0)).unwrap();
    assert!(contest.compilation().starts_with("code generation of clang -O3; cc program.o; "));
    let built = |text, code| contest.oracle().build(&made(text, code)).unwrap();
    let (same, other, failing) = (built("one", 0), built("two", 0), built("one", 1));
    let samples = contest.turns(&[&same, &same], 3, &Interrupt::default()).unwrap();
    assert!(samples.len() == 2 && samples.iter().all(|one| one.len() == 3), "{samples:?}");
    for wrong in [&other, &failing] {
        let none = contest.turns(&[&same, wrong], 3, &Interrupt::default()).unwrap_err();
        let NoTimes::Of(1, Untimed { what, is_wrong: true }) = none else { panic!("{none:?}") };
        assert!(
            what.contains("it ended with exit code 1") || what.contains("its output"),
            "{what}"
        );
    }
    assert_eq!(contest.turns(&[&same], 3, &Interrupt::new(|| true)), Err(NoTimes::Stopped));
}

#[test]
fn a_program_that_cannot_be_compared_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let trap = "int main(void) { __builtin_trap(); }\n";
    let failing = contest(&object(folder.path(), trap)).unwrap_err();
    assert!(matches!(failing, ExecutionError::RunFailed { .. }), "{failing}");
    let clock = "#include <stdio.h>\n#include <time.h>\n\
                 int main(void) { printf(\"%ld\\n\", (long)time(0)); return 0; }\n";
    let changing = contest(&object(folder.path(), clock)).unwrap_err().to_string();
    assert!(changing.contains("does not do the same whenever it runs"), "{changing}");
}
