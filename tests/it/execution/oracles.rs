//! What programs have to do, as they do it untouched.

use steplake::execution::{ExecutionError, Oracle, RunSettings, Untimed};
use steplake::model::Input;
use steplake::sandbox::Interrupt;

use super::{object_of, oracle_of, script};

/// The program that prints a text, and ends with an exit code.
fn printing(text: &str, code: u8) -> String {
    format!("int puts(const char *);\nint main(void) {{ puts(\"{text}\"); return {code}; }}\n")
}

#[test]
fn a_program_may_end_with_any_exit_code_and_has_to_keep_it() {
    for code in [0, 1, 42] {
        let oracle = oracle_of(&printing("one", code), &RunSettings::default()).unwrap();
        assert_eq!(oracle.remark(), None);
        let built = |text, code| oracle.build(&object_of(&printing(text, code))).unwrap();
        let (same, silent, failing) = (built("one", code), built("", code), built("one", code + 1));
        assert!(!oracle.run(&same).unwrap().is_zero() && !oracle.time(&same).unwrap().is_zero());
        let what = format!(
            "it ended with exit code {}, where it ended with exit code {code} before",
            code + 1
        );
        let error = oracle.run(&failing).unwrap_err();
        assert!(
            matches!(&error, ExecutionError::Differs { what: said } if *said == what),
            "{error}"
        );
        assert_eq!(oracle.time(&failing), Err(Untimed { what, is_wrong: true }));
        let Err(Untimed { what, is_wrong: true }) = oracle.time(&silent) else { panic!("{code}") };
        assert_eq!(what, "its output has `\\n` where `one\\n` is expected");
    }
}

#[test]
fn a_program_that_does_not_do_the_same_again_has_no_oracle() {
    let text = "#include <stdio.h>\n#include <unistd.h>\n\
                int main(void) { printf(\"%d\\n\", getpid()); return 1; }\n";
    let error = oracle_of(text, &RunSettings::default()).unwrap_err();
    assert!(matches!(error, ExecutionError::Unsteady { .. }), "{error}");
    assert!(error.to_string().starts_with("it does not do the same whenever it runs: its output"));
}

#[test]
fn whoever_gives_up_gets_no_oracle() {
    let execution = script(": > out", "exit 1");
    let of = |interrupt| {
        let settings = RunSettings::default();
        Oracle::of(&execution, b"program", &settings, &interrupt)
    };
    let stopped = of(Interrupt::new(|| true)).unwrap_err();
    assert!(matches!(stopped, ExecutionError::Stopped), "{stopped}");
    assert_eq!(of(Interrupt::default()).unwrap().remark(), None);
}

#[test]
fn what_is_at_fault_is_told_apart() {
    let mut execution = script(": > out", "true");
    let of = |execution: &_| {
        let (settings, interrupt) = (RunSettings::default(), Interrupt::default());
        Oracle::of(execution, b"program", &settings, &interrupt).unwrap_err()
    };
    execution.inputs =
        vec![Input { name: "a".into(), blake3: blake3::hash(b"a").to_hex().to_string() }];
    let missing = of(&execution);
    assert!(matches!(missing, ExecutionError::MissingInput { .. }), "{missing}");
    let unset = RunSettings { cpu: Some(999), ..RunSettings::default() };
    let machine = oracle_of("int main(void) { return 0; }\n", &unset).unwrap_err();
    assert!(machine.is_of_machine() && !missing.is_of_machine(), "{machine}");
}
