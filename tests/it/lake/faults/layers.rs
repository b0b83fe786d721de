//! Damage to derived tables that lie in several layers, and readings of them that fail.

use std::io::Error;
use std::path::Path;

use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Disk, DiskOperation, FaultEffect, Lake, LakeError, Table, to_the_end};

use super::flips::{Bench, flipped};
use super::questions::{ask, engine_of};
use super::{Image, Places, Tally, cells, faulty, is_reading};
use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::{in_layers, state};

fn three_layers() -> Image {
    let folder = scratch();
    let path = folder.path().join("lake");
    let (lake, _) = in_layers(&path, 3);
    assert_eq!(lake.snapshot().unwrap().layers().len(), 3);
    drop(lake);
    Image::of(&path)
}

fn is_derived(file: &Path) -> bool {
    let table = file.iter().nth(1).and_then(|name| name.to_str()).and_then(Table::from_name);
    table.is_some_and(Table::is_derived)
}

/// The derived tables, as their layers give them together.
fn merged(disk: Disk, path: &Path) -> Result<Vec<String>, LakeError> {
    let snapshot = Lake::open_on(disk, path)?.snapshot()?;
    let mut lines = Vec::new();
    for table in Table::ALL.into_iter().filter(|table| table.is_derived()) {
        for batch in snapshot.scan_layers(table, &(i64::MIN..=i64::MAX))? {
            lines.extend(cells(&batch?).into_iter().map(|row| format!("{table} {row}")));
        }
    }
    Ok(lines)
}

/// What is asked: a whole table, few rows of one, and the beginning of one.
fn questions() -> Vec<String> {
    let mut questions = vec![
        format!("SELECT * FROM state_transitions WHERE state_id = '{}'", state(3)),
        "SELECT action, sum(count) FROM state_transitions GROUP BY action".to_owned(),
        "SELECT state_id FROM state_transitions ORDER BY state_key, action LIMIT 3".to_owned(),
    ];
    let derived = Table::ALL.into_iter().filter(|table| table.is_derived());
    questions.extend(derived.map(|table| format!("SELECT * FROM {table}")));
    questions
}

#[test]
fn damage_to_a_layer_is_noticed_and_dedup_makes_up_for_it() {
    let image = three_layers();
    let bench = Bench::new(image.clone(), Vec::new());
    let truth = merged(Disk::default(), &bench.lake).unwrap();
    assert!(truth.len() > 20);
    let (mut places, mut tally, mut made_anew) = (Places(9), Tally::default(), 0);
    for (file, content) in image.segments().filter(|(file, _)| is_derived(file)) {
        for number in 0..12 {
            let (place, changed) = flipped(content, &mut places);
            let case = format!("{}, bit at {place}", file.display());
            bench.with(file, &changed, |bench| {
                let answer = merged(Disk::default(), &bench.lake);
                tally.judge(&case, &bench.lake, answer, &truth);
                let report = Lake::open(&bench.lake).unwrap().verify(&mut to_the_end).unwrap();
                assert_eq!(report.findings.len(), 1, "{case}: {:?}", report.findings);
                if number == 0 {
                    let folder = scratch();
                    let path = folder.path().join("lake");
                    Image::of(&bench.lake).lay(&path);
                    let lake = Lake::open(&path).unwrap();
                    let settings = DedupOptions { full: true, ..DedupOptions::default() };
                    dedup(&mut lake.maintenance().unwrap(), settings, &mut to_the_end).unwrap();
                    assert!(merged(Disk::default(), &path).unwrap() == truth, "{case}");
                    made_anew += 1;
                }
            });
        }
    }
    tally.report(&format!("flipped bits in layers, {made_anew} of them made up for"), 100);
    tally.demand_refused(70);
}

#[test]
fn a_reading_that_fails_gives_no_wrong_answer_of_layers() {
    let image = three_layers();
    let folder = scratch();
    let path = folder.path().join("lake");
    image.lay(&path);
    let truth = merged(Disk::default(), &path).unwrap();
    let mut tally = Tally::default();
    let faults: [fn(&DiskOperation<'_>) -> FaultEffect; 3] = [
        |_| FaultEffect::Fail(Error::from_raw_os_error(5)),
        |_| FaultEffect::Short(0),
        |_| FaultEffect::Short(9),
    ];
    for fault in faults {
        for at in 0.. {
            let (disk, left) = faulty(at, is_reading, fault);
            let answer = merged(disk, &path);
            if left.lock().unwrap().is_some() {
                assert!(answer.unwrap() == truth);
                break;
            }
            tally.judge(&format!("layers, reading {at}"), &path, answer, &truth);
        }
    }
    tally.report("readings of layers that fail", 60);
}

/// What comes of asking on a disk, or why the lake cannot be opened.
async fn answer(disk: Disk, path: &Path, question: &str) -> Result<Vec<String>, String> {
    let snapshot = Lake::open_on(disk, path).and_then(|lake| lake.snapshot());
    let engine = engine_of(snapshot).await.map_err(|error| error.to_string())?;
    ask(&engine, question).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn faults_in_layers_under_a_query_are_no_answer() {
    let image = three_layers();
    let bench = Bench::new(image.clone(), Vec::new());
    let (mut places, mut flips, mut readings) = (Places(10), Tally::default(), Tally::default());
    for question in questions() {
        let truth = answer(Disk::default(), &bench.lake, &question).await.unwrap();
        assert!(!truth.is_empty(), "{question}");
        for (file, content) in image.segments().filter(|(file, _)| is_derived(file)) {
            for _ in 0..2 {
                let (place, changed) = flipped(content, &mut places);
                std::fs::write(bench.lake.join(file), changed).unwrap();
                let case = format!("{question}, {} at {place}", file.display());
                let said = answer(Disk::default(), &bench.lake, &question).await;
                flips.judge(&case, &bench.lake, said, &truth);
                std::fs::write(bench.lake.join(file), content).unwrap();
            }
        }
        for at in 0.. {
            let fault: fn(&DiskOperation<'_>) -> FaultEffect = match at % 2 {
                0 => |_| FaultEffect::Fail(Error::from_raw_os_error(5)),
                _ => |_| FaultEffect::Short(7),
            };
            let (disk, left) = faulty(at, is_reading, fault);
            let said = answer(disk, &bench.lake, &question).await;
            if left.lock().unwrap().is_some() {
                assert!(said.unwrap() == truth, "{question}");
                break;
            }
            readings.judge(&format!("{question}, reading {at}"), &bench.lake, said, &truth);
        }
    }
    flips.report("flipped bits in layers under queries", 80);
    readings.report("readings of layers that fail under queries", 60);
}
