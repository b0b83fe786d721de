//! Programs of recorded states are run, and their times and wrong results are found in the lake.

use std::path::Path;

use steplake::env::Environment as _;
use steplake::env::llvm::LlvmEnvironment;
use steplake::lake::{
    BenchmarkRow, EpisodeRow, Lake, ObservationRow, Rows, StepRow, Table, to_the_end,
};
use steplake::model::{
    ActionIndex, BenchmarkUri, EpisodeId, Execution, Linker, RunId, StateId, Value,
};
use steplake::record::{SpaceChoice, identity};

use super::compile;
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{rows, run, steplake};
use crate::fixtures::toy_lake::ir_row;

#[test]
fn the_first_and_the_best_state_of_a_program_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let played = ["--episodes", "2", "--episode-length", "8", "--policy", "explore"];
    let of = ["generate", "--ir", "keyframes=4", "-b", "benchmark://steplake-v0/huffman"];
    run(&lake, &[&of[..], &played].concat());
    let measure = |more: &[&str]| run(&lake, &[&["measure"][..], more].concat());
    let said = measure(&["--samples", "4", "--warmups", "1", "--machine", "a test"]);
    assert!(said.starts_with("Runtime: 2 measurements of 1 program (8 samples) on "), "{said}");
    assert!(said.trim_end().ends_with("named a test; 0 states left out"), "{said}");
    // Measuring again adds rows.
    let said = measure(&["--samples", "1", "--states", "initial", "--machine", "a test"]);
    assert!(said.contains("1 measurement of 1 program (1 sample)"), "{said}");
    let said = measure(&["--samples", "2", "--space", "Buildtime"]);
    assert!(said.starts_with("Buildtime: 2 measurements"), "{said}");
    let asked = |sql: &str| run(&lake, &["sql", "--format", "csv", sql]);
    let counted = "SELECT space, count(*), sum(cardinality(samples)) FROM measurements \
                   GROUP BY space ORDER BY space";
    assert!(asked(counted).ends_with("Buildtime,2,4\nRuntime,3,9\n"), "{}", asked(counted));
    assert!(asked("SELECT execution FROM benchmarks").contains("a.out"));
    let speedups = run(&lake, &["query", "speedups", "--format", "csv"]);
    assert_eq!(speedups.lines().count(), 3, "{speedups}");
    let report = Lake::open(&lake).unwrap().verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// The program of C that prints a text.
fn printing(text: &str) -> String {
    format!("int puts(const char *);\nint main(void) {{ puts(\"{text}\"); return 0; }}\n")
}

/// A lake of one program of C, whose only step leads to a state that is another program. Both are
/// run as `execution` says.
fn with_two_states(lake: &Path, programs: [&str; 2], execution: &str) -> [StateId; 2] {
    let folder = tempfile::tempdir().unwrap();
    let compiled = |text: &str| {
        let source = folder.path().join("a.c");
        std::fs::write(&source, text).unwrap();
        compile(&source, &["-c", "-emit-llvm"], &folder.path().join("a.bc"))
    };
    let programs = programs.map(compiled);
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    let states = [0, 1].map(|place| session.identify(&programs[place]).unwrap());
    let spec = environment.spec();
    let names = ["IrInstructionCount".to_owned()];
    let choice = SpaceChoice { observations: Some(&names), rewards: Some(&[]) };
    let identity = identity(spec, &spec.action_spaces[0], &choice).unwrap();
    let lake = Lake::create(lake, &identity).unwrap();
    let uri: BenchmarkUri = "file:///right.bc".parse().unwrap();
    let episode = EpisodeId::new(RunId(1), 0);
    let step = |(index, state): (u32, &StateId)| StepRow {
        action: (index > 0).then_some(ActionIndex(0)),
        state: Some(*state),
        keyframe: true,
        ..StepRow::new(episode, index, uri.clone())
    };
    let observed = |(cost, state): (i64, &StateId)| ObservationRow {
        state: *state,
        values: vec![Some(Value::Int(cost))],
    };
    let rows = Rows {
        benchmarks: vec![BenchmarkRow {
            program_digest: blake3::hash(&programs[0]).to_hex().to_string(),
            execution: Some(execution.to_owned()),
            ..BenchmarkRow::new(uri.clone(), states[0])
        }],
        episodes: vec![EpisodeRow {
            policy: "random".into(),
            steps: 1,
            ..EpisodeRow::new(episode, uri.clone())
        }],
        steps: (0..).zip(&states).map(step).collect(),
        observations: [7, 6].into_iter().zip(&states).map(observed).collect(),
        ir: states.iter().zip(&programs).map(|(state, program)| ir_row(*state, program)).collect(),
        ..Rows::default()
    };
    let mut writer = lake.writer().unwrap();
    writer.begin_run("{}", 0).unwrap();
    writer.append(&rows).unwrap();
    states
}

#[test]
fn a_wrong_result_has_no_time_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let programs = [printing("right"), printing("wrong")];
    let [right, wrong] = with_two_states(&lake, programs.each_ref().map(|it| &**it), &linked());
    let output = steplake(&lake).args(["measure", "--samples", "2"]).output_in_time();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = format!(
        "file:///right.bc, state {wrong}: its output has `wrong\\n` where `right\\n` is expected"
    );
    assert!(said.starts_with(&line), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 measurement of 1 program (2 samples)"), "{said}");
    assert_eq!(output.status.code(), Some(4));
    let [row] = &rows(&lake, Table::Measurements)[..] else { panic!("one row") };
    assert!(row.contains(&right.to_string()), "{row}");
}

#[test]
fn a_program_may_end_with_any_exit_code_and_has_to_keep_it() {
    let folder = tempfile::tempdir().unwrap();
    let ending = |code: i32| {
        format!("int puts(const char *);\nint main(void) {{ puts(\"one\"); return {code}; }}\n")
    };
    let lake = folder.path().join("same");
    let other = format!("int unused;\n{}", ending(1));
    with_two_states(&lake, [&ending(1), &other], &linked());
    let (said, code) = measured(&lake, &["--samples", "2"]);
    assert!(said.contains("Runtime: 2 measurements of 1 program (4 samples)"), "{said}");
    assert_eq!(code, Some(0), "{said}");
    let lake = folder.path().join("changed");
    let [_, wrong] = with_two_states(&lake, [&ending(1), &ending(0)], &linked());
    let (said, code) = measured(&lake, &["--samples", "2"]);
    let line =
        format!("state {wrong}: it ended with exit code 0, where it ended with exit code 1 before");
    assert!(said.contains(&line), "{said}");
    assert_eq!(code, Some(4), "{said}");
}

#[test]
fn a_program_that_could_not_open_its_files_has_no_times() {
    let folder = tempfile::tempdir().unwrap();
    let reader = "#include <stdio.h>\nint main(void) { return fopen(\"a.txt\", \"r\") ? 0 : 1; }\n";
    let lake = folder.path().join("lake");
    let [first, _] = with_two_states(&lake, [reader, &format!("int x;\n{reader}")], &linked());
    let (said, code) = measured(&lake, &["--samples", "2"]);
    let line = format!(
        "file:///right.bc, state {first}: a run of the program failed: untouched, it ended with exit \
         code 1; it could not open `a.txt`; files outside of its own folder are not there, unless \
         they are inputs\n"
    );
    assert_eq!(said.matches(&line).count(), 1, "{said}");
    assert!(said.contains("Runtime: 0 measurements of 1 program"), "{said}");
    assert_eq!(code, Some(0), "{said}");
}

fn linked() -> String {
    Execution::linked(Linker::C, &[]).to_json()
}

/// What `measure` says, with its exit code.
fn measured(lake: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    words_of(lake, &[&["measure"], arguments].concat())
}

/// What a command says, with its exit code.
fn words_of(lake: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let output = steplake(lake).args(arguments).output_in_time();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap());
    (said.concat(), output.status.code())
}

#[test]
fn a_program_that_changes_by_itself_shows_nothing_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let changing = "#include <stdio.h>\nint main(void) { FILE *f = fopen(\"runs\", \"a\");\n\
                    fputc('x', f); puts(ftell(f) > 2 ? \"late\" : \"early\"); return 0; }\n";
    let [first, other] = with_two_states(&lake, [changing, &printing("wrong")], &linked());
    let (said, code) = measured(&lake, &["--samples", "3"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("state {other}: its output has `wrong")), "{said}");
    assert!(said.contains(&format!("state {first}: it does not do the same when")), "{said}");
    assert!(said.contains("0 measurements of 1 program (0 samples)"), "{said}");
    assert!(said.contains("; 2 states left out"), "{said}");
}

/// Two builds lie in two folders, whatever the state.
#[test]
fn a_program_that_prints_its_folder_shows_nothing_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let printing = "#include <stdio.h>\n#include <unistd.h>\n\
                    int main(void) { char at[4096]; puts(getcwd(at, sizeof at)); return 0; }\n";
    let [first, _] = with_two_states(&lake, [printing, &format!("int x;\n{printing}")], &linked());
    let (said, code) = measured(&lake, &["--samples", "2"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("state {first}: it does not do the same when")), "{said}");
    assert!(said.contains("; 2 states left out"), "{said}");
}

/// The second program does otherwise in its first run alone.
#[test]
fn what_is_seen_once_is_no_wrong_result() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let once = "#include <stdio.h>\nint main(void) { FILE *f = fopen(\"runs\", \"a\");\n\
                fputc('x', f); puts(ftell(f) > 1 ? \"right\" : \"wrong\"); return 0; }\n";
    let [_, other] = with_two_states(&lake, [&printing("right"), once], &linked());
    let (said, code) = measured(&lake, &["--samples", "2"]);
    assert_eq!(code, Some(0), "{said}");
    let line =
        format!("state {other}: seen once, and not when it ran again: its output has `wrong");
    assert!(said.contains(&line), "{said}");
}

#[test]
fn what_never_ran_has_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("missing");
    let programs = [&*printing("right"), "int main(void) { return 0; }\n"];
    let mut missing = Execution::linked(Linker::C, &[]);
    missing.run.as_mut().unwrap().arguments = vec!["./b.out".to_owned()];
    with_two_states(&lake, programs, &missing.to_json());
    let (said, code) = measured(&lake, &[]);
    assert!(said.contains("it ended with exit code 127, and said: "), "{said}");
    assert!(said.contains("; 2 states left out"), "{said}");
    assert_eq!((code, rows(&lake, Table::Measurements).len()), (Some(0), 0), "{said}");

    let lake = folder.path().join("damaged");
    with_two_states(&lake, programs, "{}");
    let (said, code) = measured(&lake, &[]);
    assert!(said.contains("what the lake says of how it is built and run is damaged"), "{said}");
    assert_eq!((code, rows(&lake, Table::Measurements).len()), (Some(0), 0), "{said}");
    let (verified, _) = words_of(&lake, &["verify", "--semantics", "1"]);
    assert!(verified.contains("right.bc: what the lake says of how it is built"), "{verified}");

    let (said, code) = measured(&lake, &["--pin", "999"]);
    assert!(said.contains("nothing can be pinned to core 999"), "{said}");
    assert_eq!(code, Some(2));
    let (said, code) = measured(&lake, &["--pin", "0", "--space", "Buildtime"]);
    assert!(said.contains("only runs are pinned to a core"), "{said}");
    assert_eq!(code, Some(2));
}

#[test]
fn a_lake_without_runnable_programs_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let toy = ["--env", "toy-v0", "--benchmark", "generator://toy-v0/0", "--steps", "1"];
    run(&lake, &[&["generate"][..], &toy].concat());
    let output = steplake(&lake).args(["measure", "--states", "initial"]).output_in_time();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the environment toy-v0 makes no machine code"), "{said}");
}

#[test]
fn states_of_gcc_are_linked_and_timed() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let walk = ["-b", "benchmark://steplake-v0/huffman", "--episodes", "3", "--seed", "3"];
    let short = ["--episode-length", "12", "--observe", "choices,text_size"];
    run(&lake, &[&["generate", "--env", "gcc-v0"][..], &walk, &short].concat());
    let (said, code) = measured(&lake, &["--states", "initial", "--samples", "3"]);
    assert_eq!(code, Some(0), "{said}");
    let compilation = "SELECT DISTINCT compilation FROM measurements";
    let rows = run(&lake, &["sql", compilation, "--format", "csv"]);
    assert!(
        rows.contains("code generation by the options of the state; cc program.o -lm"),
        "{rows}"
    );
    let said = run(&lake, &["verify", "--semantics", "2"]);
    assert!(said.contains(" of 1 program behave") && said.contains(", 0 do not"), "{said}");
}
