//! Spaces that are recorded only if they are named, and observed apart from steps.

use std::path::Path;

use crate::fixtures::support::{assert_same, run};

/// A program without machine code, until a pass removes the block that the assembler rejects.
const NO_MACHINE_CODE: &str = "
define i32 @first(i32 %x) {
entry:
  %slot = alloca i32
  store i32 %x, ptr %slot
  %y = load i32, ptr %slot
  br i1 false, label %bad, label %good
bad:
  call void asm sideeffect \"no such instruction\", \"\"()
  br label %good
good:
  ret i32 %y
}
";

const SIZES: &str = "IrInstructionCount,ObjectTextSizeBytes,InstCountNorm";

fn generate(lake: &Path, program: &Path, more: &[&str]) {
    let uri = format!("file://{}", program.display());
    let plan = ["generate", "--benchmark", &uri, "--episodes", "12", "--episode-length", "12"];
    run(lake, &[&plan[..], &["--ir", "keyframes=4"], more].concat());
    run(lake, &["seal"]);
}

fn answer(lake: &Path, sql: &str) -> Vec<u64> {
    let said = run(lake, &["sql", sql, "--format", "csv"]);
    said.lines().nth(1).unwrap().split(',').map(|number| number.parse().unwrap()).collect()
}

const COUNTS: &str = "SELECT count(*), count(\"ObjectTextSizeBytes\"), count(\"InstCountNorm\"),
    (SELECT count(*) FROM steps WHERE state_id IS NULL) AS failures FROM observations";

#[test]
fn a_state_without_machine_code_has_null_and_its_episode_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program.ll");
    std::fs::write(&program, NO_MACHINE_CODE).unwrap();
    let [recorded, later] = ["recorded", "later"].map(|name| folder.path().join(name));
    generate(&recorded, &program, &["--observe", SIZES]);
    let [states, sizes, norms, failures] = answer(&recorded, COUNTS)[..] else { panic!("four") };
    assert!(0 < sizes && sizes < states, "{sizes} of {states}");
    assert_eq!((norms, failures), (states, 0));

    generate(&later, &program, &["--observe", "IrInstructionCount"]);
    for space in ["ObjectTextSizeBytes", "InstCountNorm"] {
        run(&later, &["backfill", "--space", space]);
    }
    assert_eq!(answer(&later, COUNTS), [states, sizes, norms, 0]);
    assert_same(&recorded, &later);
}

#[test]
fn a_run_that_does_not_name_them_leaves_them_null() {
    let folder = tempfile::tempdir().unwrap();
    let [program, lake] = ["program.ll", "lake"].map(|name| folder.path().join(name));
    std::fs::write(&program, NO_MACHINE_CODE.replace("no such instruction", "nop")).unwrap();
    generate(&lake, &program, &["--observe", SIZES, "--seed", "1"]);
    let before = answer(&lake, COUNTS);
    assert_eq!(before[..3], [before[0]; 3]);
    generate(&lake, &program, &["--seed", "2"]);
    let after = answer(&lake, COUNTS);
    assert!(after[0] > before[0], "{before:?} {after:?}");
    assert_eq!(after[1..], before[1..]);
    run(&lake, &["backfill", "--space", "ObjectTextSizeBytes"]);
    assert_eq!(answer(&lake, COUNTS)[..2], [after[0]; 2]);
}
