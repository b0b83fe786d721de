//! Where rows and graphs go: standard output, and files that are there whole or not at all.

use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

use super::shell::terminal::Terminal;
use super::{folder, toy};
use crate::fixtures::programs::{InTime as _, end_of};
use crate::fixtures::support::{err, fail, run, steplake};

#[test]
fn machine_readable_output_is_all_there_is_on_standard_output() {
    let (folder, lake) = folder();
    toy(&lake, &["--steps", "50"]);
    let question =
        "SELECT state_id, action, reward_Cost FROM steps ORDER BY episode_id, step_index";
    let json = run(&lake, &["-vv", "sql", question, "--format", "json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(rows.len(), 51);
    assert_eq!(rows[0]["state_id"].as_str().unwrap().len(), 40);
    assert!(rows[0]["action"].is_null());
    let csv = run(&lake, &["sql", question, "--format", "csv"]);
    assert_eq!(csv.lines().count(), 52);
    let file = folder.path().join("rows.parquet");
    let output = ["sql", question, "--format", "parquet", "--output", file.to_str().unwrap()];
    assert_eq!(run(&lake, &output), "");
    assert_eq!(&std::fs::read(file).unwrap()[..4], b"PAR1");
}

#[test]
fn a_table_on_standard_output_is_cut_and_one_in_a_file_is_whole() {
    let (folder, lake) = folder();
    toy(&lake, &["--steps", "100"]);
    let many = "SELECT unnest(range(0, 1200)) AS n, repeat('x', 100) AS long";
    let output = steplake(&lake).args(["sql", many]).output_in_time();
    let text = String::from_utf8_lossy(&output.stdout);
    let footer = "the first 1000 rows; a file and the formats for programs have all of them; the \
                  format `expanded` shows what … stands for\n";
    assert!(text.ends_with(footer), "{text}");
    assert!(text.contains(&format!("{}… ", "x".repeat(59))), "{text}");
    let said = err(&output);
    let says = "steplake: warning: the table shows only the first 1000 rows: --rows shows more";
    assert!(said.starts_with(says) && said.lines().count() == 1, "{said}");
    let output = steplake(&lake).args(["sql", many, "-v"]).output_in_time();
    assert!(err(&output).contains(" WARN "), "with -v, the time and the place are said as well");

    let output = steplake(&lake).args(["sql", many, "--rows", "7"]).output_in_time();
    assert!(String::from_utf8_lossy(&output.stdout).contains("\nthe first 7 rows;"));
    assert_eq!(err(&output), "", "nobody is told what was asked for");
    let seven = run(&lake, &["query", "noop_rate", "--rows", "1"]);
    assert!(seven.contains("\nthe first 1 row;"), "{seven}");

    let file = folder.path().join("table.txt");
    run(&lake, &["sql", many, "--output", file.to_str().unwrap()]);
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.ends_with("\n1200 rows\n") && text.contains(&"x".repeat(100)));
    let (code, text) = fail(&lake, &["sql", many, "--rows", "7", "--format", "csv"]);
    assert_eq!((code, text.lines().count()), (2, 1), "{text}");
}

#[test]
fn two_columns_of_one_name_are_refused_before_a_file_is_touched() {
    let (folder, lake) = folder();
    toy(&lake, &["--steps", "100"]);
    run(&lake, &["dedup"]);
    let joined = "FROM state_transitions AS t JOIN observations AS o USING (state_id)";
    let twice = format!("SELECT * {joined}");
    let file = folder.path().join("rows");
    std::fs::write(&file, "mine").unwrap();
    let to_file = ["--output", file.to_str().unwrap()];
    for format in ["json", "arrow", "parquet"] {
        let (code, text) =
            fail(&lake, &[&["sql", &twice, "--format", format], &to_file[..]].concat());
        assert!(code == 2 && text.contains("two columns are called `state_key`"), "{text}");
        assert!(text.contains(" AS,") && text.contains("b.* EXCLUDE (state_key)"), "{text}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    }
    assert!(run(&lake, &["sql", &twice, "--format", "csv"]).matches("state_key").count() > 1);
    run(&lake, &["sql", &twice]);
    let once = format!("SELECT t.*, o.* EXCLUDE (state_id, state_key) {joined}");
    run(&lake, &[&["sql", &once, "--format", "parquet"], &to_file[..]].concat());
    assert_eq!(&std::fs::read(&file).unwrap()[..4], b"PAR1");
}

/// What fails after many rows.
const LATE: &str = "SELECT CASE WHEN value < 90000 THEN value ELSE CAST('row ' || value AS BIGINT) END AS n \
                    FROM generate_series(1, 100000)";

#[test]
fn an_answer_that_fails_on_its_way_leaves_the_file_as_it_was() {
    let (folder, lake) = folder();
    toy(&lake, &["--steps", "100"]);
    run(&lake, &["dedup"]);
    let answers = folder.path().join("answers");
    std::fs::create_dir(&answers).unwrap();
    let file = answers.join("rows");
    let to_file = ["--output", file.to_str().unwrap()];
    let asked = |arguments: &[&str]| fail(&lake, &[arguments, &to_file[..]].concat()).1;
    let only = |wanted: Option<&str>| {
        let found = std::fs::read_to_string(&file).ok();
        assert_eq!(found.as_deref(), wanted);
        assert_eq!(std::fs::read_dir(&answers).unwrap().count(), usize::from(wanted.is_some()));
    };
    for before in [None, Some("mine")] {
        if let Some(text) = before {
            std::fs::write(&file, text).unwrap();
        }
        for format in ["csv", "json", "arrow", "parquet", "expanded"] {
            assert!(asked(&["sql", LATE, "--format", format]).contains("row 9"), "{format}");
            only(before);
        }
    }
    run(&lake, &[&["sql", "SELECT 1 AS n", "--format", "csv"], &to_file[..]].concat());
    only(Some("n\n1\n"));

    run(&lake, &[&["export"], &to_file[..]].concat());
    let graph = std::fs::read_to_string(&file).unwrap();
    assert!(graph.ends_with("</graphml>\n"), "{graph}");
    truncate(&lake.join("data/observations"));
    assert!(asked(&["export"]).contains("observations"));
    only(Some(&graph));
}

#[test]
fn a_pipe_with_a_name_that_closes_early_is_an_error_and_standard_output_is_not() {
    let (folder, lake) = folder();
    toy(&lake, &["--steps", "10"]);
    let many = ["sql", "SELECT * FROM generate_series(1, 1000000)", "--format", "csv"];
    let pipe = folder.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || {
            let mut open = std::fs::File::open(pipe).unwrap();
            open.read_exact(&mut [0; 9]).unwrap();
        })
    };
    let to_pipe = ["--output", pipe.to_str().unwrap()];
    let (code, text) = fail(&lake, &[&many[..], &to_pipe[..]].concat());
    reader.join().unwrap();
    assert!(code == 1 && text.contains("roken pipe"), "{code} {text}");

    let mut child = steplake(&lake).args(many).stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.take().unwrap().read_exact(&mut [0; 9]).unwrap();
    assert!(end_of(&mut child, "a question whose reader has seen enough").success());
}

#[test]
fn a_number_that_is_not_finite_is_in_every_format() {
    let (folder, lake) = folder();
    toy(&lake, &["--steps", "10"]);
    let sql = "SELECT CAST('NaN' AS DOUBLE) AS a, CAST('inf' AS DOUBLE) AS b, CAST('-inf' AS REAL) AS c, \
               [CAST('NaN' AS DOUBLE), 0.5] AS d, CAST(NULL AS DOUBLE) AS e, 0.1 AS f";
    let as_format = |format: &str| run(&lake, &["sql", sql, "--format", format]);
    let json: serde_json::Value = serde_json::from_str(&as_format("json")).unwrap();
    let wanted = serde_json::json!([{
        "a": "NaN", "b": "Infinity", "c": "-Infinity", "d": ["NaN", 0.5], "e": null, "f": 0.1,
    }]);
    assert_eq!(json, wanted);
    assert_eq!(as_format("csv"), "a,b,c,d,e,f\nNaN,inf,-inf,\"[NaN, 0.5]\",,0.1\n");
    let table = as_format("table");
    assert!(table.contains("| NaN | inf | -inf | [NaN, 0.5] |"), "{table}");
    let file = folder.path().join("numbers.parquet");
    run(&lake, &["sql", sql, "--output", file.to_str().unwrap()]);
    assert_eq!(&std::fs::read(&file).unwrap()[..4], b"PAR1");
}

#[test]
fn a_file_is_written_as_its_name_ends() {
    let (folder, lake) = folder();
    toy(&lake, &["--steps", "100"]);
    run(&lake, &["dedup"]);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for (name, start) in [
        ("a.csv", "n\n1\n"),
        ("a.json", "[{\"n\":1}]"),
        ("a.parquet", "PAR1"),
        ("a.arrow", "ARROW1"),
        ("a.feather", "ARROW1"),
        ("a.txt", "+---+"),
        ("a", "+---+"),
    ] {
        run(&lake, &["sql", "SELECT 1 AS n", "--output", &path(name)]);
        let text = std::fs::read(path(name)).unwrap();
        assert!(text.starts_with(start.as_bytes()), "{name}: {}", String::from_utf8_lossy(&text));
    }
    // A named format counts more.
    run(&lake, &["sql", "SELECT 1 AS n", "--format", "csv", "--output", &path("b.json")]);
    assert_eq!(std::fs::read_to_string(path("b.json")).unwrap(), "n\n1\n");

    for (name, start) in [
        ("g.graphml", "<?xml"),
        ("g.xml", "<?xml"),
        ("g", "<?xml"),
        ("g.csv", "state_id,action,name,"),
        ("g.json", "[{\"state_id\":"),
        ("g.parquet", "PAR1"),
        ("g.arrow", "ARROW1"),
    ] {
        run(&lake, &["export", "--output", &path(name)]);
        let text = std::fs::read(path(name)).unwrap();
        assert!(text.starts_with(start.as_bytes()), "{name}: {}", String::from_utf8_lossy(&text));
    }
    let rows = run(&lake, &["query", "transition_graph", "--format", "csv"]);
    assert_eq!(std::fs::read_to_string(path("g.csv")).unwrap(), rows);
    let (code, said) = fail(&lake, &["export", "--output", &path("g.gexf")]);
    assert!(code == 2 && said.contains("end it in .graphml, .csv"), "{said}");
    assert!(!Path::new(&path("g.gexf")).exists());
}

#[test]
fn a_terminal_gets_no_bytes() {
    let (folder, lake) = folder();
    toy(&lake, &["--steps", "100"]);
    run(&lake, &["dedup"]);
    for asked in [
        &["sql", "SELECT 1 AS n", "--format", "parquet"][..],
        &["query", "coverage", "--format", "arrow"],
        &["export", "--format", "arrow"],
    ] {
        let mut terminal = Terminal::start(&lake, folder.path(), asked, &[]);
        terminal.expect("is not text, and standard output is a terminal");
        assert_eq!(terminal.end().code(), Some(2), "{asked:?}");
    }
    let mut shell = Terminal::start(&lake, folder.path(), &["sql", "--format", "parquet"], &[]);
    shell.enter("SELECT 1 AS n;");
    shell.expect("is not text, and standard output is a terminal");
    let file = folder.path().join("n.parquet");
    shell.enter(&format!("\\o {}", file.display()));
    shell.enter("SELECT 1 AS n;");
    shell.expect("1 row, ");
    shell.enter("\\q");
    assert!(shell.end().success());
    assert_eq!(&std::fs::read(&file).unwrap()[..4], b"PAR1");
}

/// Cuts the files of a folder short.
fn truncate(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 3]).unwrap();
    }
}
