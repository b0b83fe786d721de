//! Lakes of released formats, which every later release reads. `data/compat/README.md` says how
//! they were made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use steplake::generate::{Policy, Stop};
use steplake::lake::Lake;

use crate::support::{fail, play, run, toy_lake, toy_plan};

/// The lakes, each with a folder of the answers that it gave when it was made.
fn kept() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/compat");
    let formats = folders(&root).into_iter().flat_map(|format| folders(&format));
    formats.collect()
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let mut folders = entries.filter(|path| path.is_dir()).collect::<Vec<_>>();
    folders.sort();
    folders
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// The rows of an answer. A column that is not there is null.
fn parsed(text: &str) -> Vec<BTreeMap<String, Value>> {
    serde_json::from_str(text).unwrap()
}

/// A query for the columns that an answer has, of a table that may have more by now.
fn question(table: &str, answer: &[BTreeMap<String, Value>]) -> String {
    let mut columns = answer.iter().flat_map(BTreeMap::keys).collect::<Vec<_>>();
    columns.sort();
    columns.dedup();
    let keys = match table {
        "benchmarks" => "benchmark_uri",
        "episodes" => "episode_id",
        "steps" => "episode_id, step_index",
        "observations" | "ir" => "state_id",
        "state_transitions" | "failures" => "state_id, action",
        "conflicts" => "state_id, action, next_state_id",
        "snapshots" => "snapshot_id",
        "retractions" => "retraction_id",
        other => panic!("{other} has no known key"),
    };
    let columns = columns.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    format!("SELECT {columns} FROM {table} ORDER BY {keys}")
}

/// Compares what a lake says now with the answers of a folder, one file a table.
fn assert_answers(lake: &Path, answers: &Path, options: &[&str]) -> usize {
    let files = std::fs::read_dir(answers).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let mut compared = 0;
    for file in files {
        let table = file.file_stem().unwrap().to_str().unwrap();
        let expected = parsed(&std::fs::read_to_string(&file).unwrap());
        assert!(!expected.is_empty(), "{}", file.display());
        let sql = question(table, &expected);
        let said = parsed(&run(lake, &[&["sql", &sql, "--format", "json"], options].concat()));
        assert_eq!(said, expected, "{}", file.display());
        compared += expected.len();
    }
    compared
}

#[test]
fn lakes_of_every_released_format_give_the_answers_that_they_gave() {
    let lakes = kept();
    assert!(!lakes.is_empty());
    for kept in lakes {
        let folder = tempfile::tempdir().unwrap();
        let lake = folder.path().join("lake");
        copy(&kept.join("lake"), &lake);
        let compared = assert_answers(&lake, &kept.join("answers"), &[]);
        assert!(compared > 100, "{}: {compared}", kept.display());
        // An older snapshot of it, by its number.
        for older in folders(&kept.join("answers")) {
            let number = older.file_name().unwrap().to_str().unwrap().to_owned();
            let compared = assert_answers(&lake, &older, &["--snapshot", &number]);
            assert!(compared > 10, "{}: {compared}", older.display());
        }
        let report = Lake::open(&lake).unwrap().verify(&mut |_, _| ()).unwrap();
        assert_eq!(report.findings, [], "{}", kept.display());
    }
}

#[test]
fn a_lake_of_a_released_format_is_written_on() {
    for kept in kept().iter().filter(|kept| kept.ends_with("toy")) {
        let folder = tempfile::tempdir().unwrap();
        let lake = folder.path().join("lake");
        copy(&kept.join("lake"), &lake);
        let steps =
            |lake: &Path| parsed(&run(lake, &["sql", "SELECT * FROM steps", "--format", "json"]));
        let before = steps(&lake).len();
        let toy =
            ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/7", "--seed", "9"];
        run(&lake, &[&toy[..], &["--steps", "100"]].concat());
        run(&lake, &["dedup"]);
        assert!(steps(&lake).len() > before + 100);
        let report = Lake::open(&lake).unwrap().verify(&mut |_, _| ()).unwrap();
        assert_eq!(report.findings, []);
    }
}

#[test]
fn a_lake_of_the_first_format_is_refused_by_every_command_in_one_sentence() {
    let (folder, lake) = toy_lake();
    let path = lake.path().to_owned();
    drop(play(&lake, &toy_plan(Policy::Random, Stop::Episodes(2), 1)));
    let file = path.join("lake.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"format_version\": 2", "\"format_version\": 1")).unwrap();
    let refusal = format!(
        "steplake: the lake at {} has format 1, and this steplake reads format 2: nothing converts it, so \
         record it anew, into another folder",
        path.display()
    );
    let before = std::fs::read_dir(&path).unwrap().count();
    let into = folder.path().join("into");
    let (first, into) = (path.to_str().unwrap(), into.to_str().unwrap());
    let toy = ["--env", "toy-v0", "--benchmark", "generator://toy-v0/0", "--steps", "1"];
    for command in [
        &["info"][..],
        &["sql", "SELECT 1"],
        &["query", "coverage"],
        &["seal"],
        &["dedup"],
        &["verify"],
        &["verify", "--repair"],
        &["snapshots"],
        &["merge", first, first, "--into", into],
        &[&["generate"][..], &toy].concat(),
        &[&["generate", "--resume"][..], &toy].concat(),
    ] {
        assert_eq!(fail(&path, command), (3, refusal.clone()), "{command:?}");
    }
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), before);
}
