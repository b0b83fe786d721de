//! Spaces and rewards that are recorded only if they are named, and observed apart from steps.

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

const REWARDS: &str =
    "IrInstructionCountOz,ObjectTextSizeBytes,ObjectTextSizeNorm,ObjectTextSizeO3,ObjectTextSizeOz";

/// For each reward of the size: the steps, those with a reward, and those whose reward is that of
/// the recorded sizes and baselines.
fn rewards_of_sizes(lake: &Path) -> Vec<[u64; 3]> {
    let divisors = [
        ("Bytes", "1"),
        ("Norm", "greatest(\"ObjectTextSizeO0\", 1)"),
        ("O3", "greatest(\"ObjectTextSizeO0\" - \"ObjectTextSizeO3\", 1)"),
        ("Oz", "greatest(\"ObjectTextSizeO0\" - \"ObjectTextSizeOz\", 1)"),
    ];
    let count = |(scale, divisor): (&str, &str)| {
        let reward = format!("\"reward_ObjectTextSize{scale}\"");
        let size = |alias: &str| format!("CAST({alias}.\"ObjectTextSizeBytes\" AS DOUBLE)");
        let sql = format!(
            "SELECT count(*), count({reward}),
                 count(*) FILTER (WHERE {reward} = ({} - {}) / CAST({divisor} AS DOUBLE))
             FROM transitions_taken AS step
             JOIN observations AS before ON before.state_id = step.state_id
             JOIN observations AS after ON after.state_id = step.next_state_id
             JOIN benchmarks USING (benchmark_uri)",
            size("before"),
            size("after"),
        );
        let [steps, rewarded, right] = answer(lake, &sql)[..] else { panic!("three") };
        [steps, rewarded, right]
    };
    divisors.into_iter().map(count).collect()
}

#[test]
fn rewards_are_those_of_the_recorded_sizes_and_baselines() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let record = |seed: &str, more: &[&str]| {
        let plan = ["generate", "--benchmark", "benchmark://steplake-v0/huffman", "--seed", seed];
        let plan = [&plan[..], &["--episodes", "4", "--episode-length", "20"], more].concat();
        run(&lake, &plan);
        run(&lake, &["dedup"]);
    };
    record("1", &["--rewards", REWARDS, "--observe", SIZES]);
    for [steps, rewarded, right] in rewards_of_sizes(&lake) {
        assert_eq!([steps, rewarded, right], [80, 80, 80]);
    }
    let said = "SELECT CAST(\"ObjectTextSizeO0\" = \"ObjectTextSizeBytes\" AS INT) AS same,
        count(\"ObjectTextSizeO3\"), count(\"ObjectTextSizeOz\")
        FROM benchmarks JOIN observations ON state_id = initial_state_id GROUP BY same";
    assert_eq!(answer(&lake, said), [1, 1, 1]);
    let verified = run(&lake, &["verify", "--replay", "10"]);
    assert!(verified.contains("1 program"), "{verified}");
    // A later run that does not name them leaves them null, and goes on with the others.
    record("2", &[]);
    let later = "SELECT count(*), count(\"reward_ObjectTextSizeOz\"),
        count(\"reward_IrInstructionCountOz\") FROM steps WHERE action IS NOT NULL";
    assert_eq!(answer(&lake, later), [160, 80, 160]);
}

#[test]
fn a_reward_whose_cost_or_baseline_is_null_is_null() {
    let folder = tempfile::tempdir().unwrap();
    let [program, lake] = ["program.ll", "lake"].map(|name| folder.path().join(name));
    std::fs::write(&program, NO_MACHINE_CODE).unwrap();
    generate(&lake, &program, &["--rewards", REWARDS, "--observe", SIZES]);
    let [bytes, norm, o3, _] = rewards_of_sizes(&lake)[..] else { panic!("four") };
    assert!(0 < bytes[1] && bytes[1] < bytes[0], "{bytes:?}");
    assert_eq!(bytes[1], bytes[2]);
    // The program itself has no machine code, so no reward is scaled by it.
    assert_eq!([norm[1], o3[1]], [0, 0]);
    let baselines = "SELECT count(*), count(\"ObjectTextSizeO0\"), count(\"ObjectTextSizeO3\"),
        (SELECT count(*) FROM steps WHERE state_id IS NULL) AS failures FROM benchmarks";
    assert_eq!(answer(&lake, baselines), [1, 0, 1, 0]);
}

/// Spaces that follow from the program alone.
const OF_PROGRAMS: [&str; 6] = [
    "IR2Vec",
    "ProgramlJson",
    "LexedIr",
    "Inst2vecPreprocessedText",
    "Inst2vecEmbeddingIndices",
    "Inst2vec",
];

#[test]
fn what_is_recorded_is_what_is_computed_later() {
    let folder = tempfile::tempdir().unwrap();
    let [recorded, later] = ["recorded", "later"].map(|name| folder.path().join(name));
    let observed = format!("IrInstructionCount,{}", OF_PROGRAMS.join(","));
    for (lake, observed) in [(&recorded, observed.as_str()), (&later, "IrInstructionCount")] {
        let huffman = ["generate", "--benchmark", "benchmark://steplake-v0/huffman"];
        let plan = ["--episodes", "4", "--episode-length", "12", "--ir", "keyframes=4"];
        run(lake, &[&huffman[..], &plan, &["--observe", observed]].concat());
        run(lake, &["seal"]);
    }
    run(&later, &[&["backfill", "--space"], &OF_PROGRAMS[..]].concat());
    assert_same(&recorded, &later);
    for space in OF_PROGRAMS {
        let sql = format!("SELECT count(*), count(\"{space}\") FROM observations");
        let [states, values] = answer(&recorded, &sql)[..] else { panic!("two") };
        assert!(states > 10 && values == states, "{space}: {values} of {states}");
    }
    run(&recorded, &["verify"]);
}
