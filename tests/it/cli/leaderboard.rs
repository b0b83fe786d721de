//! `leaderboard`: rows are played again, and only what they say is what is shown.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::folder;
use crate::fixtures::programs::{InTime as _, end_of, line_of, program};
use crate::fixtures::support::{err, fail, run, signal, steplake};

pub(super) const HEAD: &str = "benchmark,reward,walltime,commandline\n";

/// A board about one task, in a folder.
pub(super) fn board(folder: &Path, task: &Value) -> PathBuf {
    let board = folder.join("boards");
    fs::create_dir_all(board.join("tasks")).unwrap();
    let name = task["name"].as_str().unwrap();
    fs::write(board.join(format!("tasks/{name}.json")), task.to_string()).unwrap();
    board
}

/// Two toys, whose costs are the ones in a number: ten of `generator://toy-v0/1`, nine of
/// `generator://toy-v0/2`. `clear-lowest-bit` takes one away.
pub(super) fn toys(environment: &str) -> Value {
    json!({
        "name": "toys-v0",
        "title": "Two toys",
        "environment": environment,
        "compiler": "toy 1",
        "action_spaces": ["toy-v0"],
        "reward": "CostNorm",
        "reference": "untouched",
        "rows_per_benchmark": 2,
        "benchmarks": ["generator://toy-v0/1", "generator://toy-v0/2"],
    })
}

pub(super) fn results(folder: &Path, rows: &[(u32, f64, usize)]) -> String {
    let path = folder.join("clearing.csv");
    let mut text = HEAD.to_owned();
    for (seed, reward, times) in rows {
        let line = vec!["clear-lowest-bit"; *times].join(" ");
        writeln!(text, "generator://toy-v0/{seed},{reward},2.5,{line}").unwrap();
    }
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Half and all of the first toy's bits, a third and two thirds of the second one's.
pub(super) const RIGHT: [(u32, f64, usize); 4] =
    [(2, 3.0 / 9.0, 3), (1, 0.5, 5), (1, 1.0, 10), (2, 6.0 / 9.0, 6)];

pub(super) fn read_json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn rows_that_are_what_they_say_are_added_with_both_scores() {
    let (folder, lake) = folder();
    let board = board(folder.path(), &toys("toy-v0"));
    let (at, file) = (board.to_str().unwrap(), results(folder.path(), &RIGHT));
    let said = run(&lake, &["leaderboard", "add", &file, "--board", at, "--method", "Clear bits"]);
    // (1/2 · 1 · 1/3 · 2/3)^(1/4) = (1/9)^(1/4), and (1 · 2/3)^(1/2); what is left of ten is 5 and
    // at least 1 of 0, and of nine 6 and 3: (2 · 10 · 3/2 · 3)^(1/4).
    let wanted = "Clear bits: 0.577 over 4 rows, 0.816 best of 2, untouched / result 3.080\n";
    assert!(said.starts_with(wanted), "{said}");
    assert!(said.contains("all rows played again, 0 results run; wall times are self-reported"));
    let entry = read_json(&board.join("toys-v0/clear-bits.json"));
    for (field, wanted) in [
        ("task", "toys-v0"),
        ("method", "Clear bits"),
        ("wall_time", "self-reported"),
        ("environment", "toy-v0"),
        ("compiler", "toy 1"),
        ("steplake", env!("CARGO_PKG_VERSION")),
    ] {
        assert_eq!(entry[field], wanted, "{entry:#}");
    }
    assert_eq!(entry["action_spaces"], json!(["toy-v0"]));
    for digest in ["task_digest", "programs_digest", "rows_digest"] {
        assert_eq!(entry[digest].as_str().unwrap().len(), 64, "{entry:#}");
    }
    // The rows are those of the task's order, and can be sent again, but not as the same method.
    let kept = board.join("toys-v0/clear-bits.csv");
    let text = fs::read_to_string(&kept).unwrap();
    let benchmarks: Vec<&str> = text.lines().skip(1).map(|line| &line[..20]).collect();
    assert_eq!(benchmarks, [1, 1, 2, 2].map(|seed| format!("generator://toy-v0/{seed}")));
    let kept = kept.to_str().unwrap();
    let (code, said) = fail(&lake, &["leaderboard", "add", kept, "--board", at]);
    assert!(code == 2 && said.contains("clear-bits.json is there already"), "{said}");
    let again = run(&lake, &["leaderboard", "add", kept, "--board", at, "--method", "2"]);
    assert!(again.starts_with("2: 0.577 over 4 rows"), "{again}");
    let shown = run(&lake, &["leaderboard", "show", "toys-v0", "--board", at]);
    assert!(shown.contains("| Clear bits |"), "{shown}");
    let (code, said) = fail(&lake, &["leaderboard", "show", "toys", "--board", at]);
    assert!(code == 2 && said.contains("there is no task `toys`: write toys-v0"), "{said}");
}

#[test]
fn a_row_that_does_not_reproduce_is_refused_with_what_was_found() {
    let (folder, lake) = folder();
    let board = board(folder.path(), &toys("toy-v0"));
    let mut rows = RIGHT;
    rows[1].1 = 0.500_02;
    let file = results(folder.path(), &rows);
    let line = ["leaderboard", "add", &file, "--board", board.to_str().unwrap()];
    let output = steplake(&lake).args(line).output_in_time();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(
        String::from_utf8(output.stdout.clone()).unwrap(),
        "line 3, generator://toy-v0/1: its reward is 0.5, not 0.50002\n"
    );
    assert!(err(&output).contains("nothing is added: 1 of 4 rows"), "{}", err(&output));
    assert!(!board.join("toys-v0").exists());
    // A hundred-thousandth is CompilerGym's bound.
    rows[1].1 = 0.500_004;
    run(&lake, &["leaderboard", "add", &results(folder.path(), &rows), line[3], line[4]]);
}

#[test]
fn results_that_are_not_those_of_the_task_are_a_usage_error() {
    let (folder, lake) = folder();
    let board = board(folder.path(), &toys("toy-v0"));
    let at = board.to_str().unwrap();
    let refused = |file: &str| fail(&lake, &["leaderboard", "add", file, "--board", at]);
    let said = refused(&results(folder.path(), &RIGHT[..3]));
    assert!(said.1.contains("`toys-v0` wants 2 rows for each of its 2 benchmarks"), "{said:?}");
    assert!(said.0 == 2 && said.1.contains("generator://toy-v0/2 has 1"), "{said:?}");
    let other = [&RIGHT[..], &[(3, 1.0, 1)]].concat();
    let file = results(folder.path(), &other);
    let said = fail(&lake, &["leaderboard", "add", &file, "--board", at, "--task", "toys-v0"]);
    assert!(said.0 == 2 && said.1.contains("line 6 has generator://toy-v0/3"), "{said:?}");
    let said = refused(&file);
    assert!(said.0 == 2 && said.1.contains("benchmarks of no task"), "{said:?}");
    let path = folder.path().join("other.csv");
    for (text, wanted) in [
        ("uri,score\na,1\n", "has the columns `uri,score`: write `benchmark,reward,walltime,comm"),
        (&format!("{HEAD}generator://toy-v0/1,much,1,halve\n"), "line 2: reward: "),
    ] {
        fs::write(&path, text).unwrap();
        let said = refused(path.to_str().unwrap());
        assert!(said.0 == 2 && said.1.contains(wanted), "{said:?}");
    }
    let text = fs::read_to_string(results(folder.path(), &RIGHT)).unwrap();
    fs::write(&path, text.replacen("clear", "shear", 1)).unwrap();
    let said = refused(path.to_str().unwrap());
    let wanted = "line 4, generator://toy-v0/1: `shear-lowest-bit` is no action of toy-v0";
    let wanted = wanted.replace("line 4, generator://toy-v0/1", "line 2, generator://toy-v0/2");
    assert!(said.0 == 2 && said.1.contains(&wanted), "{said:?}");
    assert!(!board.join("toys-v0").exists());
    let said = refused("no-such-file.csv");
    assert!(said.0 == 2 && said.1.contains("no-such-file.csv cannot be read"), "{said:?}");
}

#[test]
fn a_compiler_that_is_another_or_unsure_is_found_out() {
    let (folder, lake) = folder();
    let mut task = toys("toy-unsure-v0");
    let board = board(folder.path(), &task);
    let text = fs::read_to_string(results(folder.path(), &RIGHT)).unwrap();
    let path = folder.path().join("scattered.csv");
    // It ends at 0, and scatters before: which way it came differs by the worker.
    let scattered = format!("scatter {}", vec!["halve"; 16].join(" "));
    let (head, _) = text.rsplit_once("generator").unwrap();
    fs::write(&path, format!("{head}generator://toy-v0/2,1,1,{scattered}\n")).unwrap();
    let line = ["leaderboard", "add", path.to_str().unwrap(), "--board", board.to_str().unwrap()];
    let output = steplake(&lake).args(line).output_in_time();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}{}", err(&output));
    assert!(said.contains("gave another state in a second worker"), "{said}");
    task["compiler"] = "toy 2".into();
    fs::write(board.join("tasks/toys-v0.json"), task.to_string()).unwrap();
    let (code, said) = fail(&lake, &line);
    assert!(code == 1 && said.contains("`toys-v0` is about toy 2, and what is here is toy 1"));
}

/// What GCC prints for an argument.
pub(super) fn gcc_says(argument: &str) -> String {
    let asked = program("gcc").arg(argument).output_in_time();
    String::from_utf8(asked.stdout).unwrap().trim().to_owned()
}

/// A task about one of the project's programs, compiled by this `gcc`.
pub(super) fn flags(gcc: &str) -> Value {
    let version = gcc_says("-dumpfullversion");
    let major = version.split('.').next().unwrap();
    json!({
        "name": "flags-v0",
        "title": "Flags",
        "environment": format!("gcc-v0/{gcc}"),
        "compiler": format!("GCC {version}"),
        "action_spaces": [format!("gcc{major}-v0")],
        "reward": "obj_size_Os",
        "reference": "-Os",
        "rows_per_benchmark": 1,
        "benchmarks": ["benchmark://steplake-v0/bit_tricks"],
    })
}

#[test]
fn choices_are_played_and_what_is_wrong_with_them_is_said() {
    let (folder, lake) = folder();
    let board = board(folder.path(), &flags("gcc"));
    let file = folder.path().join("flags.csv");
    let line = ["leaderboard", "add", file.to_str().unwrap(), "--board", board.to_str().unwrap()];
    let row = |reward: &str, line: &str| {
        let row = format!("{HEAD}benchmark://steplake-v0/bit_tricks,{reward},1,{line}\n");
        fs::write(&file, row).unwrap();
    };
    let own = "line 2, benchmark://steplake-v0/bit_tricks: ";
    for (reward, call, code, wanted) in [
        ("1.01", "gcc -Os -w -c src.c -o obj.o", 4, "its reward is 1, not 1.01"),
        ("1", "gcc -Os -fno-nonsense", 2, "there is no option `-fno-nonsense`"),
        ("1", "-Os -fno-nonsense", 2, "`-fno-nonsense` is no action of gcc"),
    ] {
        row(reward, call);
        let output = steplake(&lake).args(line).output_in_time();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &err(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(&format!("{own}{wanted}")), "{said}");
        assert!(!board.join("flags-v0").exists());
    }
    row("1", "gcc -Os -w -c src.c -o obj.o");
    let said = run(&lake, &line);
    assert!(said.contains("1.000 over 1 row, 1.000 best of 1, -Os / result 1.000"), "{said}");
}

#[test]
fn choices_that_a_second_worker_makes_something_else_of_are_refused() {
    let (folder, lake) = folder();
    let cc1 = gcc_says("-print-prog-name=cc1");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // Each run of the compiler makes an object of another size.
    let more = ".section more, \"\", @progbits\\n.skip 8 * %s\\n";
    let script = format!(
        "{cc1} \"$@\" || exit\nwhile [ $# -gt 1 ]; do\n  case \"$1 $2\" in \
         (\"-o \"*.s) printf '{more}' $$ >>\"$2\";; esac\n  shift\ndone"
    );
    for (name, script) in [("cc1", script), ("gcc", format!("exec gcc -B{}/ \"$@\"", path("")))] {
        fs::write(path(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let board = board(folder.path(), &flags(&path("gcc")));
    let (at, file) = (board.to_str().unwrap(), path("rows.csv"));
    let add = ["leaderboard", "add", &file, "--board", at, "--task", "flags-v0", "--method", "sh"];
    let method = ["--", "echo", "gcc -Os -w -c src.c -o obj.o # {benchmark}"];
    let output = steplake(&lake).args([&add[..], &method].concat()).output_in_time();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}{}", err(&output));
    assert!(said.contains(" in a second worker"), "{said}");
    assert!(!board.join("flags-v0").exists());
}

#[test]
fn a_command_is_run_for_its_rows_and_timed() {
    let (folder, lake) = folder();
    let board = board(folder.path(), &toys("toy-v0"));
    let (at, file) = (board.to_str().unwrap(), folder.path().join("rows.csv"));
    let file = file.to_str().unwrap();
    let add = ["leaderboard", "add", file, "--board", at, "--task", "toys-v0", "--method", "sh"];
    let method = |script| [&add[..], &["--", "sh", "-c", script, "{benchmark}", "{seed}"]].concat();
    let script = "test -z \"$(ls)\" && touch a; echo halve; echo clear-lowest-bit; echo $0 $1";
    let said = run(&lake, &method(script));
    // A tenth, and a ninth.
    assert!(said.starts_with("sh: 0.105 over 4 rows, 0.105 best of 2"), "{said}");
    assert!(said.contains("wall times are measured"), "{said}");
    let text = fs::read_to_string(file).unwrap();
    let rows: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(rows.len(), 4, "{text}");
    for row in rows {
        let [benchmark, reward, walltime, line] = row.split(',').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let seed = benchmark.strip_prefix("generator://toy-v0/").unwrap();
        assert_eq!(reward, if seed == "1" { "0.1" } else { "0.1111111111111111" });
        assert!(walltime.parse::<f64>().unwrap() > 0.0 && line == "clear-lowest-bit", "{row}");
    }
    let entry = read_json(&board.join("toys-v0/sh.json"));
    assert_eq!(entry["wall_time"], "measured");
    assert!(entry["command"].as_str().unwrap().starts_with("sh -c test"), "{entry:#}");
    // What goes wrong.
    let again = fail(&lake, &method("true"));
    assert!(again.0 == 2 && again.1.contains("sh.json is there already"), "{again:?}");
    fs::remove_dir_all(board.join("toys-v0")).unwrap();
    let known = fail(&lake, &method("true"));
    assert!(known.0 == 2 && known.1.contains("rows.csv is there already"), "{known:?}");
    fs::remove_file(file).unwrap();
    for (script, wanted) in [
        ("echo nothing to see", "printed no command line of the task; its output ends with: noth"),
        ("exit 3", "failed: exit status: 3"),
    ] {
        let said = fail(&lake, &method(script));
        assert!(said.0 == 1 && said.1.contains(wanted), "{said:?}");
    }
    let same = fail(&lake, &[&add[..], &["--", "echo", "halve"]].concat());
    assert!(same.0 == 2 && same.1.contains("write {benchmark} where it takes one"), "{same:?}");
}

#[test]
fn a_command_that_is_stopped_goes_on_after_its_rows() {
    let (folder, lake) = folder();
    let board = board(folder.path(), &toys("toy-v0"));
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (at, file, temporary) = (board.to_str().unwrap(), path("rows.csv"), path("temporary"));
    fs::create_dir(&temporary).unwrap();
    let [begun, passed] = ["begun", "passed"].map(path);
    let add = ["leaderboard", "add", &file, "--board", at, "--task", "toys-v0", "--method", "sh"];
    // The second row of the first toy waits, until somebody has let it pass.
    let script = "echo >>\"$2\"; test \"$1\" = 0 || test -e \"$3\" || { echo waiting $$ >&2; exec sleep 1000; }
                  echo clear-lowest-bit";
    let words = ["--", "sh", "-c", script, "{benchmark}", "{seed}", &begun, &passed];
    let mut child = steplake(&lake)
        .args([&add[..], &words].concat())
        .env("TMPDIR", &temporary)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let command: i32 = loop {
        let (said, rest) = line_of(errors, "the command that waits");
        assert_ne!(said, "", "it ended");
        errors = rest;
        if let Some(command) = said.strip_prefix("waiting ") {
            break command.trim().parse().unwrap();
        }
    };
    signal(&child, Signal::SIGINT);
    assert_eq!(end_of(&mut child, "a command that was stopped").code(), Some(130));
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    assert!(
        said.contains(
            "rows written: 1 of 4, after which a resumed run goes on; the option is --resume"
        ),
        "{said}"
    );
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "a folder is left");
    assert_eq!(kill(Pid::from_raw(command), None), Err(Errno::ESRCH), "the command goes on");

    fs::write(&passed, "").unwrap();
    let kept = fs::read_to_string(&file).unwrap();
    let resumed = [&add[..], &["--resume"], &words].concat();
    let said = run(&lake, &resumed);
    assert!(said.starts_with("sh: 0.105 over 4 rows"), "{said}");
    assert!(fs::read_to_string(&file).unwrap().starts_with(&kept), "the first row was made again");
    let begun = fs::read_to_string(&begun).unwrap();
    assert_eq!(begun.lines().count(), 5, "three rows were missing");
    // Rows of another command, and rows that no command has written there.
    fs::remove_dir_all(board.join("toys-v0")).unwrap();
    let (code, said) = fail(&lake, &[&resumed[..], &["more"]].concat());
    assert!(code == 2 && said.contains("has rows of `sh -c "), "{said}");
    let swapped = kept.replace("toy-v0/1", "toy-v0/2");
    fs::write(&file, swapped).unwrap();
    let (code, said) = fail(&lake, &resumed);
    assert!(code == 2 && said.contains("line 2, generator://toy-v0/2: no command"), "{said}");
}

#[test]
fn what_a_command_prints_once_it_is_interrupted_is_no_row() {
    let (folder, lake) = folder();
    let board = board(folder.path(), &toys("toy-v0"));
    let (at, file) = (board.to_str().unwrap(), folder.path().join("rows.csv"));
    let add = ["leaderboard", "add", file.to_str().unwrap(), "--board", at, "--task", "toys-v0"];
    // Ctrl-C reaches both.
    for script in ["kill -INT $PPID; echo clear-lowest-bit", "kill -INT $$; sleep 1000"] {
        let words = ["--", "sh", "-c", script, "{benchmark}"];
        let (code, said) = fail(&lake, &[&add[..], &words].concat());
        assert!(code == 130 && said.contains("interrupted"), "{code} {said}");
        assert!(!file.exists(), "{script}");
    }
}

#[test]
fn a_page_is_the_same_whenever_it_is_written() {
    let (folder, lake) = folder();
    let board = board(folder.path(), &toys("toy-v0"));
    let (at, page) = (board.to_str().unwrap(), folder.path().join("docs.md"));
    let page = page.to_str().unwrap();
    let render = ["leaderboard", "render", "--board", at, "--output", page];
    let check = [&render[..], &["--check"]].concat();
    assert!(run(&lake, &render).contains("written to"));
    assert!(fs::read_to_string(page).unwrap().contains("No entry yet."));
    run(&lake, &["leaderboard", "add", &results(folder.path(), &RIGHT), "--board", at]);
    let (code, said) = fail(&lake, &check);
    assert!(code == 4 && said.contains("writes it anew"), "{said}");
    assert!(run(&lake, &render).contains("written to"));
    let text = fs::read_to_string(page).unwrap();
    assert!(text.contains("| [clearing](boards/toys-v0/clearing.csv) |    0.577 |"), "{text}");
    assert!(run(&lake, &check).contains("as it should be"));
    // Whoever changes rows by hand is found out.
    let rows = board.join("toys-v0/clearing.csv");
    let changed = fs::read_to_string(&rows).unwrap().replacen("1.0", "2.0", 1);
    fs::write(&rows, changed).unwrap();
    let (code, said) = fail(&lake, &check);
    assert!(code == 2 && said.contains("clearing.csv has other rows"), "{said}");
}

#[test]
fn the_projects_page_shows_the_projects_entries() {
    let (_folder, lake) = folder();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let [board, page] = ["data/leaderboards", "docs/LEADERBOARDS.md"].map(|path| root.join(path));
    let [board, page] = [&board, &page].map(|path| path.to_str().unwrap());
    run(&lake, &["leaderboard", "render", "--board", board, "--output", page, "--check"]);
}

#[test]
fn the_best_of_each_run_of_a_lake_makes_rows() {
    let (folder, lake) = folder();
    let benchmarks = ["orbits", "huffman"].map(|name| format!("benchmark://steplake-v0/{name}"));
    let board = board(
        folder.path(),
        &json!({
            "name": "two-v0",
            "title": "Two programs",
            "environment": "llvm-v0",
            "compiler": "LLVM 22.1.8",
            "action_spaces": ["llvm22-v1", "compilergym-v0"],
            "reward": "IrInstructionCountOz",
            "reference": "-Oz",
            "rows_per_benchmark": 2,
            "benchmarks": benchmarks,
        }),
    );
    for seed in ["1", "2"] {
        let stop = ["--episodes", "8", "--episode-length", "16", "--seed", seed];
        let of = ["generate", "--benchmark", &benchmarks[0], "--benchmark", &benchmarks[1]];
        run(&lake, &[&of[..], &stop].concat());
    }
    let file = folder.path().join("random.csv");
    let file = file.to_str().unwrap();
    let query = ["query", "leaderboard_rows", "--param", "reward=IrInstructionCountOz"];
    run(&lake, &[&query[..], &["--format", "csv", "--output", file]].concat());
    let at = board.to_str().unwrap();
    let said = run(&lake, &["leaderboard", "add", file, "--board", at]);
    let entry = read_json(&board.join("two-v0/random.json"));
    assert_eq!(entry["action_spaces"], json!(["llvm22-v1"]));
    assert!(entry["results_run"].as_u64().unwrap() > 0, "{said} {entry:#}");
    // By hand: the geometric means of what the lake says.
    let text = fs::read_to_string(file).unwrap();
    let rewards: Vec<f64> =
        text.lines().skip(1).map(|row| row.split(',').nth(1).unwrap().parse().unwrap()).collect();
    let &[a, b, c, d] = rewards.as_slice() else { panic!("{text}") };
    assert!(rewards.iter().all(|reward| *reward > 0.0), "{text}");
    let is_close =
        |score: &str, wanted: f64| (entry["scores"][score].as_f64().unwrap() - wanted).abs() < 1e-4;
    assert!(is_close("all_rows", (a * b * c * d).powf(0.25)), "{entry:#}");
    assert!(is_close("best_of_n", (a.max(b) * c.max(d)).sqrt()), "{entry:#}");
}
