//! `sql` as a shell on a real terminal, and as what answers scripts.

mod engine;
pub(crate) mod terminal;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use self::terminal::{ROWS, Terminal};
use crate::fixtures::programs::output_of;
use crate::fixtures::support::{err, run, steplake};

/// Ctrl-C, Ctrl-D, Tab and the arrow up.
const INTERRUPT: &str = "\u{3}";
const END: &str = "\u{4}";
const TAB: &str = "\t";
const UP: &str = "\u{1b}[A";

/// A question without an answer.
const ENDLESS: &str =
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t";

/// A sealed lake called `lake`, and a folder for the shell's state.
fn lake() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (lake, state) = (folder.path().join("lake"), folder.path().join("state"));
    record(&lake, "200");
    run(&lake, &["dedup"]);
    (folder, lake, state)
}

fn record(lake: &Path, steps: &str) {
    let benchmark = "generator://toy-v0/0..3";
    run(lake, &["generate", "--env", "toy-v0", "--benchmark", benchmark, "--steps", steps]);
    run(lake, &["seal"]);
}

#[test]
fn a_statement_may_have_many_lines_and_the_history_outlives_the_shell() {
    let (_folder, lake, state) = lake();
    let mut shell = Terminal::open(&lake, &state, &[]);
    shell.enter("SELECT 40");
    shell.expect("·> ");
    shell.type_in("+ 2 AS answer;\r");
    shell.expect("| 42 ");
    shell.expect("1 row");
    shell.expect(" ms");
    shell.expect("lake> ");
    shell.type_in(END);
    assert!(shell.end().success());

    let mut shell = Terminal::open(&lake, &state, &[]);
    shell.expect("lake> ");
    shell.type_in(UP);
    shell.type_in("\r");
    shell.expect("| 42 ");
    shell.enter("\\q");
    assert!(shell.end().success());
}

#[test]
fn tab_completes_columns_tables_functions_and_commands() {
    let (_folder, lake, state) = lake();
    let mut shell = Terminal::open(&lake, &state, &[]);
    shell.expect("lake> ");
    for part in
        ["SELECT max(step_i", TAB, ") AS largest, action_na", TAB, "1) AS name FROM step", TAB]
    {
        shell.type_in(part);
    }
    // There is `steps` and `steps_with_actions`.
    shell.type_in(" GROUP BY 2;\r");
    shell.expect("| largest | name");
    shell.expect("lake> ");
    shell.type_in("\\que");
    shell.type_in(TAB);
    shell.type_in(" noop");
    shell.type_in(TAB);
    shell.type_in("\r");
    shell.expect("| action");
    shell.enter("\\quit");
    assert!(shell.end().success());
}

#[test]
fn ctrl_c_ends_a_question_or_clears_the_line_and_not_the_shell() {
    let (_folder, lake, state) = lake();
    let mut shell = Terminal::open(&lake, &state, &[]);
    for endless in [
        &format!("{ENDLESS};"),
        "SELECT count(*) FROM steps a, steps b, steps c, steps d, steps e, steps f \
         WHERE a.step_index + b.step_index + c.step_index + d.step_index + e.step_index < f.step_index;",
    ] {
        shell.enter(endless);
        shell.expect("Ctrl-C stops it");
        shell.type_in(INTERRUPT);
        shell.expect("steplake: cancelled");
        shell.enter("SELECT 6 * 7 AS answer;");
        shell.expect("| 42 ");
    }
    shell.expect("lake> ");
    shell.type_in("SELECT nonsense");
    shell.type_in(INTERRUPT);
    shell.enter("SELECT");
    shell.expect("·> ");
    shell.type_in("more nonsense");
    shell.type_in(INTERRUPT);
    shell.enter("SELECT 40 + 3;");
    shell.expect("| 43 ");
    shell.enter("exit");
    assert!(shell.end().success());
}

#[test]
fn a_question_without_a_shell_says_how_far_it_has_come_and_ends_with_ctrl_c() {
    let (_folder, lake, state) = lake();
    let mut command = Terminal::start(&lake, &state, &["sql", ENDLESS], &[]);
    command.expect(" rows, ");
    command.expect("Ctrl-C stops it");
    command.type_in(INTERRUPT);
    assert!(!command.end().success());
}

#[test]
fn ctrl_c_ends_a_file_of_statements() {
    let (folder, lake, state) = lake();
    let file = folder.path().join("endless.sql");
    std::fs::write(&file, format!("SELECT 40 + 5 AS first;\n{ENDLESS};\n")).unwrap();
    let arguments = ["sql", "-f", file.to_str().unwrap()];
    let mut command = Terminal::start(&lake, &state, &arguments, &[]);
    command.expect("| 45 ");
    command.expect("Ctrl-C stops it");
    command.type_in(INTERRUPT);
    assert!(!command.end().success());
}

#[test]
fn the_shell_tells_what_there_is() {
    let (_folder, lake, state) = lake();
    let mut shell = Terminal::open(&lake, &state, &[]);
    shell.enter("\\d");
    let tables = shell.expect("describes the columns of one");
    assert!(tables.contains("state_transitions") && tables.contains("view"), "{tables}");
    shell.enter("\\d steps");
    shell.expect("Place in the episode; 0 is the state after reset.");
    shell.enter("\\df feature");
    shell.expect("One number of an observation vector, by its name.");
    shell.enter("\\l");
    shell.expect("tells more about one");
    shell.enter("\\query mean_reward reward=Nonsense");
    shell.expect("this lake has no reward space `Nonsense`");
    shell.enter("\\x");
    shell.expect("one line for each value is on");
    shell.enter("SELECT 1 AS first, 2 AS second;");
    shell.expect("─[ row 1 ]");
    shell.expect("second │ 2");
    shell.enter("\\nope");
    shell.expect("`\\nope` is not a command");
    shell.enter("\\q");
    assert!(shell.end().success());
}

#[test]
fn a_mistake_is_said_with_its_place_and_the_shell_goes_on() {
    let (_folder, lake, state) = lake();
    let mut shell = Terminal::open(&lake, &state, &[]);
    shell.enter("SELECT nope FROM steps;");
    shell.expect("steplake: line 1, column 8: there is no column `nope`");
    shell.enter("SELECT 1 2;");
    shell.expect("steplake: line 1, column 10: expected");
    shell.enter("DROP TABLE steps; SELECT 40 + 4;");
    shell.expect("DROP is refused");
    shell.expect("| 44 ");
    shell.enter("\\q");
    assert!(shell.end().success());
}

#[test]
fn only_what_is_longer_than_the_terminal_is_paged() {
    let (_folder, lake, state) = lake();
    let mut shell = Terminal::open(&lake, &state, &[("PAGER", "sed 's/^/paged: /'")]);
    shell.enter("SELECT value FROM generate_series(1, 3);");
    let short = shell.expect("3 rows");
    assert!(!short.contains("paged: "), "{short}");
    shell.enter(&format!("SELECT value FROM generate_series(1, {ROWS});"));
    shell.expect("paged: | 1 ");
    shell.expect(&format!("paged: {ROWS} rows"));
    shell.enter("SELECT repeat('x', 300) AS wide FROM range(0, 2);");
    shell.expect("2 rows");
    shell.enter("\\format csv");
    shell.enter("SELECT repeat('x', 300) AS wide FROM range(0, 2);");
    shell.expect("paged: xxx");
    shell.enter("\\q");
    assert!(shell.end().success());
}

#[test]
fn the_shell_keeps_its_snapshot_until_it_is_told_of_another() {
    let (_folder, lake, state) = lake();
    let mut shell = Terminal::open(&lake, &state, &[]);
    let count = "SELECT 'steps: ' || count(*) FROM steps WHERE step_index > 0;";
    shell.enter(count);
    shell.expect("| steps: 200 ");
    shell.expect("lake> ");
    record(&lake, "100");
    shell.type_in(count);
    shell.type_in("\r");
    shell.expect("| steps: 200 ");
    shell.expect("this shell reads 3: `\\refresh` reads the newest");
    shell.enter("\\refresh");
    shell.expect("snapshot 4");
    shell.enter(count);
    shell.expect("| steps: 300 ");
    shell.enter("\\snapshot 2");
    shell.expect("lake@2> ");
    shell.type_in(count);
    shell.type_in("\r");
    shell.expect("| steps: 200 ");
    shell.expect("lake@2> ");
    shell.type_in("\\snapshot 99\r");
    shell.expect("steplake: ");
    shell.expect("lake@2> ");
    shell.type_in(END);
    assert!(shell.end().success());
}

#[test]
fn answers_can_go_to_a_file() {
    let (folder, lake, state) = lake();
    let (file, script) = (folder.path().join("a b.csv"), folder.path().join("more.sql"));
    std::fs::write(&script, "SELECT 2 AS n;\n\\o\nSELECT 45;\n").unwrap();
    let mut shell = Terminal::open(&lake, &state, &[]);
    shell.enter("\\format csv");
    shell.enter(&format!("\\o '{}'", file.display()));
    shell.expect("answers go to ");
    shell.enter("SELECT 1 AS n;");
    shell.expect("1 row, ");
    shell.enter(&format!("\\i {}", script.display()));
    shell.expect("answers go to the screen");
    shell.expect("45");
    shell.enter("\\q");
    assert!(shell.end().success());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "n\n1\nn\n2\n");
}

#[test]
fn an_answer_comes_as_the_ending_of_its_file_says() {
    let (folder, lake, state) = lake();
    let file = folder.path().join("rows.json");
    let mut shell = Terminal::open(&lake, &state, &[]);
    shell.enter(&format!("\\o {}", file.display()));
    shell.expect("answers go to ");
    shell.enter("\\format");
    shell.expect("json");
    shell.enter("SELECT 1 AS n;");
    shell.expect("1 row, ");
    shell.enter("\\o");
    shell.expect("answers go to the screen");
    shell.enter("SELECT 45 AS n;");
    shell.expect("| 45 ");
    shell.enter("\\q");
    assert!(shell.end().success());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "[{\"n\":1}]\n");
}

#[test]
fn a_question_that_failed_leaves_its_file_to_the_next() {
    let (folder, lake, state) = lake();
    let file = folder.path().join("rows.parquet");
    let mut shell = Terminal::open(&lake, &state, &[]);
    shell.enter("\\format parquet");
    shell.enter(&format!("\\o {}", file.display()));
    shell.expect("answers go to ");
    shell.enter("SELECT nope FROM steps;");
    shell.expect("there is no column `nope`");
    shell.enter("SELECT 1 AS n;");
    shell.expect("1 row, ");
    shell.enter("SELECT 2 AS n;");
    shell.expect("has an answer already");
    shell.enter("\\q");
    assert!(shell.end().success());
    let bytes = std::fs::read(&file).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
}

#[test]
fn a_target_whose_length_cannot_be_seen_takes_one_answer_too() {
    let (_folder, lake, state) = lake();
    let mut shell = Terminal::open(&lake, &state, &[]);
    shell.enter("\\format arrow");
    shell.enter("\\o /dev/null");
    shell.expect("answers go to ");
    shell.enter("SELECT 1 AS n;");
    shell.expect("1 row, ");
    shell.enter("SELECT 2 AS n;");
    shell.expect("has an answer already");
    shell.enter("\\q");
    assert!(shell.end().success());
}

/// Runs `sql` with these arguments and `script` as its standard input: exit code, output and
/// messages.
fn pipe(lake: &Path, arguments: &[&str], script: &str) -> (Option<i32>, String, String) {
    let mut command = steplake(lake);
    command.arg("sql").args(arguments).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = output_of(child, &format!("sql {arguments:?}"));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (output.status.code(), text, err(&output))
}

#[test]
fn a_script_is_answered_up_to_the_first_mistake() {
    let (folder, lake, _state) = lake();
    let good = "-- two questions\nSELECT 1 AS a; SELECT\n  ';' AS b;\n\\format json\nSELECT 3 AS c";
    let answers = "a\n1\nb\n;\n[{\"c\":3}]\n";
    assert_eq!(pipe(&lake, &["--format", "csv"], good), (Some(0), answers.into(), String::new()));

    let file = folder.path().join("good.sql");
    std::fs::write(&file, good).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(run(&lake, &["sql", "-f", file, "--format", "csv"]), answers);
    let include = format!("\\i {file}\nSELECT 4");
    let (_, text, _) = pipe(&lake, &["--format", "csv"], &include);
    assert_eq!(text, format!("{answers}[{{\"Int64(4)\":4}}]\n"));

    for (bad, code, said) in [
        (
            "SELECT 1;\n\nSELECT 2,\n nope FROM steps; SELECT 3;",
            2,
            "standard input: line 4, column 2: there is no column `nope`",
        ),
        (
            "SELECT 1;  SELECT nope FROM steps;",
            2,
            "standard input: line 1, column 19: there is no column",
        ),
        ("SELECT 1;\n\\nope\nSELECT 3;", 2, "standard input, line 2: `\\nope` is not a command"),
        ("SELECT 1;\nDROP TABLE steps;\nSELECT 3;", 2, "standard input, line 2: DROP is refused"),
        ("SELECT 1;\nSELECT 'open", 2, "standard input: line 2, column 8: "),
    ] {
        let (found, text, said_at) = pipe(&lake, &["--format", "csv"], bad);
        assert_eq!((found, text.as_str()), (Some(code), "Int64(1)\n1\n"), "{bad}: {said_at}");
        assert!(said_at.starts_with(&format!("steplake: {said}")), "{bad}: {said_at}");
    }
    assert_eq!(pipe(&lake, &[], "").0, Some(0));
    let endless = folder.path().join("endless.sql");
    std::fs::write(&endless, format!("\\i {}", endless.display())).unwrap();
    let (code, _, said) = pipe(&lake, &["-f", endless.to_str().unwrap()], "");
    assert!(code == Some(2) && said.contains("include one another"), "{said}");
    let (code, _, said) = pipe(&lake, &["-f", "/nowhere.sql"], "");
    assert!(code == Some(2) && said.contains("/nowhere.sql cannot be read"), "{said}");
}
