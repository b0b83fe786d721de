//! Entries of leaderboards: command lines of GCC hold on the source, and what an entry says is
//! played again.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::folder;
use super::leaderboard::{HEAD, RIGHT, board, flags, gcc_says, read_json, results, toys};
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{err, fail, run, steplake};

/// Puts a GCC into a folder whose `cc1` is followed by this script, with its assembly in `$s`, if
/// `-fgcse` is among its options, and preceded by another one. Returns the driver.
fn put_compiler(folder: &Path, before: &str, after: &str) -> String {
    let cc1 = gcc_says("-print-prog-name=cc1");
    let is_chosen = "case \" $* \" in *' -fgcse '*)";
    let script = format!(
        "{is_chosen} {before} ;; esac\n{cc1} \"$@\" || exit\n{is_chosen} ;; *) exit ;; esac\n\
         while [ $# -gt 1 ]; do\n  case \"$1 $2\" in (\"-o \"*.s) s=$2; {after};; esac\n  shift\ndone"
    );
    let put = |name: &str, script: &str| {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    put("cc1", &script);
    put("gcc", &format!("exec gcc -B{}/ \"$@\"", folder.display()))
}

const ROW: &str = "gcc -Os -fgcse -w -c src.c -o obj.o";

/// The compiler that an environment asks has got a program that was preprocessed.
#[test]
fn a_command_line_that_works_on_the_preprocessed_program_alone_makes_no_row() {
    let crash = "case \"$*\" in *-fpreprocessed*) ;; *) \
                 echo 'program.c:1: internal compiler error: in f, at g.cc:7' >&2; exit 4 ;; esac";
    let unlinked = "printf '\\t.data\\n\\t.quad GOMP_parallel\\n' >>$s";
    let wrong = "sed -i 's/subsets %u/subsetz %u/' $s";
    for (before, after, wanted) in [
        (crash, ":", "fails on the source: crash: program.c:1: internal compiler error: in f"),
        (":", unlinked, "cannot be linked: "),
        (":", wrong, "makes a program that does something else: its output has `"),
    ] {
        let (folder, lake) = folder();
        let gcc = put_compiler(folder.path(), before, after);
        let board = board(folder.path(), &flags(&gcc));
        let file = folder.path().join("rows.csv");
        let add = ["leaderboard", "add", file.to_str().unwrap(), "--board"];
        let add = [&add[..], &[board.to_str().unwrap(), "--task", "flags-v0"]].concat();
        // The command is run for its row, which is written only if it can be used.
        let method = ["--method", "sh", "--", "echo", &format!("{ROW} # {{benchmark}}")];
        let output = steplake(&lake).args([&add[..], &method].concat()).output_in_time();
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &err(&output);
        assert!(said.contains(wanted), "{said}");
        assert!(!board.join("flags-v0").exists());
        let is_written = file.exists();
        assert_eq!(is_written, after == wrong, "{said}");
        let reward = if is_written {
            let text = fs::read_to_string(&file).unwrap();
            text.lines().nth(1).unwrap().split(',').nth(1).unwrap().to_owned()
        } else {
            "1".to_owned()
        };
        // A row that somebody sends is refused in the same way.
        let row = format!("{HEAD}benchmark://steplake-v0/bit_tricks,{reward},1,{ROW}\n");
        fs::write(&file, row).unwrap();
        let output = steplake(&lake).args(&add).output_in_time();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if after != unlinked {
            assert_eq!(output.status.code(), Some(4), "{said}{}", err(&output));
            assert!(said.contains(wanted), "{said}{}", err(&output));
        }
        assert!(!board.join("flags-v0").exists());
    }
}

/// `steplake` with a cache of its own, as on another machine.
fn said_elsewhere(cache: &Path, lake: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = steplake(lake);
    let output = command.env("STEPLAKE_CACHE", cache).args(arguments).output_in_time();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &err(&output);
    (said, output.status.code())
}

/// Writes an entry by hand whose two files agree: all rewards are 1, and the command lines those of
/// somebody else.
fn forge(board: &Path) {
    let of = |name: &str| board.join("toys-v0").join(name);
    let text = fs::read_to_string(of("clear-bits.csv")).unwrap();
    let forged = text.lines().map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[1] == "reward" {
            return format!("{line}\n");
        }
        format!("{},1.0,{},{}\n", fields[0], fields[2], fields[3])
    });
    let forged = forged.collect::<String>();
    let mut entry = read_json(&of("clear-bits.json"));
    entry["method"] = "Forged".into();
    entry["rows_digest"] = blake3::hash(forged.as_bytes()).to_hex().as_str().into();
    entry["scores"] = json!({"all_rows": 1.0, "best_of_n": 1.0});
    fs::write(of("forged.csv"), forged).unwrap();
    fs::write(of("forged.json"), entry.to_string()).unwrap();
}

/// The methods of a table, in their order.
fn methods(shown: &str) -> Vec<String> {
    let rows = shown.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    rows.skip(1).map(|method| method.trim().to_owned()).collect()
}

#[test]
fn a_forged_entry_is_marked_and_found_out() {
    let (folder, lake) = folder();
    let board: PathBuf = board(folder.path(), &toys("toy-v0"));
    let (at, file) = (board.to_str().unwrap(), results(folder.path(), &RIGHT));
    let [here, elsewhere] = ["here", "elsewhere"].map(|name| folder.path().join(name));
    let added = ["leaderboard", "add", &file, "--board", at, "--method", "Clear bits"];
    let (said, code) = said_elsewhere(&here, &lake, &added);
    assert_eq!(code, Some(0), "{said}");
    forge(&board);
    let show = ["leaderboard", "show", "--board", at];
    let verify = ["leaderboard", "verify", "--board", at];
    let (shown, _) = said_elsewhere(&here, &lake, &show);
    assert_eq!(methods(&shown), ["Clear bits", "Forged (not verified here)"], "{shown}");
    assert!(shown.contains("1 entry not verified here"), "{shown}");
    // Whose cache is empty has to believe nobody.
    let (shown, _) = said_elsewhere(&elsewhere, &lake, &show);
    let unverified = ["Forged (not verified here)", "Clear bits (not verified here)"];
    assert_eq!(methods(&shown), unverified, "{shown}");
    let (said, code) = said_elsewhere(&elsewhere, &lake, &verify);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("toys-v0, Clear bits: all 4 rows played again, 0 results run"), "{said}");
    let line = "toys-v0, Forged: line 2, generator://toy-v0/1: its reward is 0.5, not 1\n";
    assert!(said.contains(line), "{said}");
    assert!(said.contains("1 of 2 entries did not turn out as written"), "{said}");
    let (shown, _) = said_elsewhere(&elsewhere, &lake, &show);
    assert_eq!(methods(&shown), ["Clear bits", "Forged (not verified here)"], "{shown}");
    let by = env!("CARGO_PKG_VERSION");
    let by = format!("- Clear bits: Played by steplake {by} (as its author says) with toy 1.\n");
    assert!(shown.contains(&by), "{shown}");
    // The page for everybody is the same whoever writes it.
    let page = run(&lake, &["leaderboard", "render", "--board", at]);
    assert_eq!(methods(&page), ["Forged", "Clear bits"], "{page}");
}

#[test]
fn a_sample_finds_out_and_removes_no_mark() {
    let (folder, lake) = folder();
    let board = board(folder.path(), &toys("toy-v0"));
    let (at, file) = (board.to_str().unwrap(), results(folder.path(), &RIGHT));
    let [here, elsewhere] = ["here", "elsewhere"].map(|name| folder.path().join(name));
    let added = ["leaderboard", "add", &file, "--board", at, "--method", "Clear bits"];
    said_elsewhere(&here, &lake, &added);
    let verify = ["leaderboard", "verify", "toys-v0", "--board", at];
    let sample = [&verify[..], &["--sample", "1"]].concat();
    let (said, code) = said_elsewhere(&elsewhere, &lake, &sample);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("toys-v0, Clear bits: 1 of 4 rows played again"), "{said}");
    let (shown, _) = said_elsewhere(&elsewhere, &lake, &["leaderboard", "show", "--board", at]);
    assert_eq!(methods(&shown), ["Clear bits (not verified here)"], "{shown}");
    // What an entry says of itself is no row, and is found out as well.
    let path = board.join("toys-v0/clear-bits.json");
    let mut entry = read_json(&path);
    entry["results_run"] = 4.into();
    fs::write(&path, entry.to_string()).unwrap();
    let (said, code) = said_elsewhere(&here, &lake, &verify);
    assert!(code == Some(4) && said.contains("0 of its results are run, and it says 4"), "{said}");
    // So is a compiler that is not the one of this machine.
    entry["results_run"] = 0.into();
    entry["compiler"] = "toy 1 (mine)".into();
    fs::write(&path, entry.to_string()).unwrap();
    let (said, code) = said_elsewhere(&here, &lake, &verify);
    let line = "toys-v0, Clear bits: the compiler is toy 1 here, and it says toy 1 (mine)\n";
    assert!(code == Some(4) && said.contains(line), "{said}");
    let by = [&verify[..], &["--method", "Nobody"]].concat();
    let (code, said) = fail(&lake, &by);
    assert!(code == 2 && said.contains("there is no such entry"), "{said}");
    let other = toys("toy-v0");
    let changed = json!({"compiler": "toy 2"});
    let task = merged(&other, &changed);
    fs::write(board.join("tasks/toys-v0.json"), task.to_string()).unwrap();
    // The digest of the task is another one then, and the entry none of it.
    let (code, said) = fail(&lake, &verify);
    assert!(code == 2 && said.contains("the task said something else then"), "{said}");
}

fn merged(one: &Value, other: &Value) -> Value {
    let mut merged = one.clone();
    for (key, value) in other.as_object().unwrap() {
        merged[key] = value.clone();
    }
    merged
}

/// CI plays a row of each entry that the project shows.
#[test]
fn a_sample_of_the_projects_entries_is_as_they_say() {
    let (_folder, lake) = folder();
    let board = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/leaderboards");
    let verify = ["leaderboard", "verify", "--sample", "1", "--board"];
    let output =
        steplake(&lake).args([&verify[..], &[board.to_str().unwrap()]].concat()).output_in_time();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &err(&output);
    // Another build of a compiler may be installed than that of a task.
    let is_elsewhere = said.contains("cannot be played here") && output.status.code() == Some(1);
    assert!(output.status.success() || is_elsewhere, "{said}");
    assert!(
        said.contains("ir-programs-v0, steplake optimize: 1 of 75 rows played again"),
        "{said}"
    );
}
