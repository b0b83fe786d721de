//! Lakes of other formats.

use std::path::{Path, PathBuf};

use steplake::dedup::{DedupOptions, dedup};
use steplake::generate::Stop;
use steplake::lake::{
    Disk, FORMAT_VERSION, Lake, MeasurementRow, Rows, ScanColumns, SnapshotId, Table, random_uid,
    to_the_end,
};
use steplake::transfer::merge::{MergeOptions, merge};

use crate::fixtures::power::Power;
use crate::fixtures::support::{contents, fail, play, rows, run, toy_lake, toy_plan};

/// A lake that was recorded in format 4: sealed and counted rows of four episodes, and an episode
/// in the hot log. `hot.sqlite` is compressed, and what other tools read is left out, as in a copy.
fn of_format_4(path: &Path) -> Lake {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/format-4");
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        std::fs::create_dir_all(path.join(&folder)).unwrap();
        for entry in std::fs::read_dir(data.join(&folder)).unwrap() {
            let inner = folder.join(entry.unwrap().file_name());
            if data.join(&inner).is_dir() {
                folders.push(inner);
            } else if inner == Path::new("hot.sqlite.zst") {
                let content = std::fs::read(data.join(&inner)).unwrap();
                let database = zstd::stream::decode_all(&content[..]).unwrap();
                std::fs::write(path.join("hot.sqlite"), database).unwrap();
            } else {
                std::fs::copy(data.join(&inner), path.join(&inner)).unwrap();
            }
        }
    }
    Lake::open(path).unwrap()
}

/// The numbers of rows of its tables, in the order of [`Table::ALL`].
const ROWS: [u64; Table::ALL.len()] = [3, 8, 5, 24, 15, 15, 14, 0, 0, 0, 0];

fn counts(lake: &Lake) -> [u64; Table::ALL.len()] {
    let snapshot = lake.snapshot().unwrap();
    Table::ALL.map(|table| snapshot.rows(table))
}

fn assert_sound(lake: &Lake) {
    let report = lake.verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// A measurement of a state that the lake has.
fn measurement(lake: &Lake) -> Rows {
    let programs = lake.snapshot().unwrap().benchmark_uris().unwrap();
    let row = MeasurementRow {
        uid: random_uid().unwrap(),
        state: crate::fixtures::toy_lake::state(1),
        benchmark: programs.into_iter().next().unwrap(),
        space: "Runtime".into(),
        machine: "a machine".into(),
        compilation: "-O2".into(),
        warmups: 0,
        measured_at_ms: 0,
        samples: vec![0.5],
    };
    Rows { measurements: vec![row], ..Rows::default() }
}

#[test]
fn a_lake_of_format_4_is_read_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let lake = of_format_4(&folder.path().join("lake"));
    let before = std::fs::read(lake.path().join("lake.json")).unwrap();
    assert_eq!((lake.identity().format_version, counts(&lake)), (4, ROWS));
    assert_sound(&lake);
    // The sealed rows, and the hot one, are older than the column.
    for batch in lake.snapshot().unwrap().scan(Table::Benchmarks, ScanColumns::All) {
        let batch = batch.unwrap();
        assert_eq!(batch["execution"].null_count(), batch.num_rows());
        assert_eq!(batch["CostO0"].null_count(), 0, "the columns behind it keep their values");
    }
    let asked = |sql: &str| run(lake.path(), &["sql", "--format", "csv", sql]);
    assert!(asked("SELECT count(*), count(execution) FROM benchmarks").ends_with("3,0\n"));
    assert!(asked("SELECT count(*) FROM measurements").ends_with("0\n"));
    assert_eq!(std::fs::read(lake.path().join("lake.json")).unwrap(), before, "it was only read");
}

#[test]
fn a_lake_of_format_4_that_is_opened_for_writing_gets_the_new_tables() {
    let folder = tempfile::tempdir().unwrap();
    let lake = of_format_4(&folder.path().join("lake"));
    let before = contents(lake.path());
    let mut writer = lake.writer().unwrap();
    assert_eq!(writer.lake().identity().format_version, FORMAT_VERSION);
    assert_eq!(contents(lake.path()), before);
    writer.append(&measurement(&lake)).unwrap();
    writer.seal().unwrap();
    drop(writer);
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
    let lake = Lake::open(lake.path()).unwrap();
    assert_eq!(lake.identity().format_version, FORMAT_VERSION);
    let mut wanted = ROWS;
    (wanted[Table::StateTransitions as usize], wanted[Table::Measurements as usize]) = (17, 1);
    assert_eq!(counts(&lake), wanted);
    assert_sound(&lake);
    let then = lake.snapshot_at(SnapshotId(3)).unwrap();
    assert_eq!((then.rows(Table::Steps), then.rows(Table::Measurements)), (20, 0));
    let delta = lake.path().join("data/measurements/_delta_log/00000000000000000005.json");
    assert!(delta.exists(), "other tools see the table in every version");

    // A lake merged with its older self is unchanged, and has this format.
    let older = of_format_4(&folder.path().join("older"));
    let into = folder.path().join("into");
    let lakes = [older, lake];
    let options = MergeOptions::default();
    let (merged, _) = merge(Disk::default(), &lakes, &into, &options, &mut |_, _| {}).unwrap();
    assert_eq!(merged.identity().format_version, FORMAT_VERSION);
    for table in Table::ALL.into_iter().filter(|table| table.is_recorded()) {
        assert_eq!(rows(merged.path(), table), rows(lakes[1].path(), table), "{table}");
    }
}

#[test]
fn a_power_cut_at_any_operation_of_the_upgrade_loses_nothing() {
    for operations in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lake");
        let before = contents(of_format_4(&path).path());
        let (disk, power) = Power::disk(operations, false);
        // What shows the lake to other tools may fail: the next process repeats it.
        let opened = Lake::open_on(disk, &path).and_then(|lake| lake.writer().map(drop));
        let off = power.lock().unwrap().off;
        assert!(off || opened.is_ok(), "at {operations}: {opened:?}");
        power.lock().unwrap().cut();
        let lake = Lake::open(&path).unwrap();
        assert!([4, FORMAT_VERSION].contains(&lake.identity().format_version));
        assert_eq!(contents(&path), before, "cut before operation {operations}");
        drop(lake.writer().unwrap());
        assert_sound(&Lake::open(&path).unwrap());
        if !off {
            assert!(operations > 3, "the upgrade was cut");
            return;
        }
    }
}

#[test]
fn a_lake_of_an_earlier_format_is_refused_by_every_command_in_one_sentence() {
    let (folder, lake) = toy_lake();
    let path = lake.path().to_owned();
    drop(play(&lake, &toy_plan("random", Stop::Episodes(2), 1)));
    let file = path.join("lake.json");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"format_version\": 5", "\"format_version\": 2")).unwrap();
    let refusal = format!(
        "steplake: the lake at {} has format 2, and this steplake reads format 5: nothing converts it, so \
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
