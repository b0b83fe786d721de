//! Damage to files that only older snapshots have, and readings of them that fail.

use std::collections::BTreeMap;
use std::io::Error;
use std::path::{Path, PathBuf};

use steplake::lake::{Disk, DiskOperation, FaultEffect, Lake, LakeError, SnapshotId, to_the_end};
use steplake::upkeep::RetractionTarget;

use super::flips::{Bench, cuts, flipped};
use super::questions::{ask, engine_of};
use super::{Image, Places, Tally, faulty, is_reading, told};
use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::uri;
use crate::lake::retract;

type Truths = BTreeMap<SnapshotId, Vec<String>>;

/// A lake that has retired files of every table that can have some, and what each of its snapshots
/// says.
fn retracted() -> (Image, Vec<String>, Truths) {
    let folder = scratch();
    let path = folder.path().join("lake");
    let (lake, mut writer) = retract::record(&path, Disk::default()).unwrap();
    writer.seal().unwrap();
    retract::derive(&lake).unwrap();
    let subject = RetractionTarget::benchmark(uri(1));
    lake.maintenance().unwrap().retract(&mut writer, &subject, "why").unwrap();
    writer.discard_open(retract::RUNS[1]).unwrap();
    drop(writer);
    retract::derive(&lake).unwrap();
    let newest = told(&lake.snapshot().unwrap()).unwrap();
    let history = lake.snapshot().unwrap().history().to_vec();
    let at = |id| told(&lake.snapshot_at(id).unwrap()).unwrap();
    let truths = history.iter().map(|row| (row.id, at(row.id))).collect();
    let image = Image::of(&path);
    for table in ["benchmarks", "episodes", "steps", "state_transitions", "conflicts", "failures"] {
        let place = Path::new("data").join(table);
        assert!(
            retired_files(&image, &path).iter().any(|(file, _)| file.starts_with(&place)),
            "{table}"
        );
    }
    (image, newest, truths)
}

/// The files that only older snapshots have.
fn retired_files<'a>(image: &'a Image, lake: &Path) -> Vec<(&'a Path, &'a [u8])> {
    let sealed = Lake::open(lake).unwrap().sealed().unwrap();
    let is_listed = |file: &Path| {
        let mut tables = steplake::lake::Table::ALL.into_iter();
        tables.any(|table| sealed.segments(table).iter().any(|it| it.path.ends_with(file)))
    };
    image.segments().filter(|(file, _)| !is_listed(file)).collect()
}

/// The snapshots that have a retired file.
fn owners(lake: &Path, file: &Path, truths: &Truths) -> Vec<SnapshotId> {
    let lake = Lake::open(lake).unwrap();
    let name = file.file_name();
    let has = |id: &&SnapshotId| {
        let snapshot = lake.snapshot_at(**id).unwrap();
        let all = steplake::lake::Table::ALL;
        all.iter().any(|&table| {
            snapshot.segments(table).iter().any(|segment| segment.path.file_name() == name)
        })
    };
    truths.keys().filter(has).copied().collect()
}

/// The ways in which a file is damaged here, with their names; none: it is gone.
fn damages(content: &[u8], places: &mut Places) -> Vec<(String, Option<Vec<u8>>)> {
    let flips = (0..10).map(|_| flipped(content, places)).collect::<Vec<_>>();
    let flips =
        flips.into_iter().map(|(place, changed)| (format!("bit at {place}"), Some(changed)));
    let flips = flips.collect::<Vec<_>>();
    let cuts = cuts(content.len(), places).into_iter().take(4);
    let cuts = cuts.map(|at| (format!("cut at {at}"), Some(content[..at].to_vec())));
    flips.into_iter().chain(cuts).chain([("gone".to_owned(), None)]).collect()
}

#[test]
fn damage_to_a_retired_file_is_noticed_by_the_snapshots_that_have_it_and_by_no_other() {
    let (image, newest, truths) = retracted();
    let bench = Bench::new(image.clone(), newest.clone());
    let (mut places, mut tally) = (Places(7), Tally::default());
    for (file, content) in retired_files(&image, &bench.lake) {
        let owners = owners(&bench.lake, file, &truths);
        assert!(!owners.is_empty(), "{}", file.display());
        for (what, changed) in damages(content, &mut places) {
            let case = format!("{}, {what}", file.display());
            bench.with(file, changed.as_deref().unwrap_or_default(), |bench| {
                if changed.is_none() {
                    std::fs::remove_file(bench.lake.join(file)).unwrap();
                }
                let lake = Lake::open(&bench.lake).unwrap();
                assert!(told(&lake.snapshot().unwrap()).unwrap() == newest, "{case}");
                for (&id, truth) in &truths {
                    let answer = lake.snapshot_at(id).and_then(|snapshot| told(&snapshot));
                    assert_eq!(answer.is_err(), owners.contains(&id), "{case}, snapshot {id}");
                    tally.judge(&case, &bench.lake, answer, truth);
                }
                let report = lake.verify(&mut to_the_end).unwrap();
                let found = report.findings.iter().map(|finding| finding.path.clone());
                let name = |path: PathBuf| path.file_name().map(ToOwned::to_owned);
                let found = found.map(name).collect::<Vec<_>>();
                assert_eq!(found, [name(file.to_owned())], "{case}");
            });
        }
    }
    tally.report("damage to files of older snapshots", 400);
}

#[test]
fn a_reading_that_fails_gives_no_wrong_answer_of_an_older_snapshot() {
    let (image, _, truths) = retracted();
    let mut tally = Tally::default();
    let folder = scratch();
    let path = folder.path().join("lake");
    image.lay(&path);
    for (&id, truth) in &truths {
        for at in 0.. {
            let fault: fn(&DiskOperation<'_>) -> FaultEffect = match at % 3 {
                0 => |_| FaultEffect::Short(0),
                1 => |_| FaultEffect::Fail(Error::from_raw_os_error(5)),
                _ => |_| FaultEffect::Short(9),
            };
            let (disk, left) = faulty(at, is_reading, fault);
            let read = || told(&Lake::open_on(disk, &path)?.snapshot_at(id)?);
            let answer: Result<_, LakeError> = read();
            if left.lock().unwrap().is_some() {
                assert!(answer.unwrap() == *truth);
                break;
            }
            tally.judge(&format!("snapshot {id}, reading {at}"), &path, answer, truth);
        }
    }
    tally.report("readings of older snapshots that fail", 100);
}

#[tokio::test]
async fn damage_to_a_retired_file_under_a_query_is_no_answer() {
    let (image, newest, truths) = retracted();
    let bench = Bench::new(image.clone(), newest);
    let (mut places, mut tally) = (Places(8), Tally::default());
    for (file, content) in retired_files(&image, &bench.lake) {
        let table = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
        let question = format!("SELECT * FROM {table}");
        for &id in &owners(&bench.lake, file, &truths) {
            let snapshot = || Lake::open(&bench.lake).and_then(|lake| lake.snapshot_at(id));
            let Ok(engine) = engine_of(snapshot()).await else { panic!("the log is sound") };
            let truth = ask(&engine, &question).await.unwrap();
            for _ in 0..3 {
                let (place, changed) = flipped(content, &mut places);
                std::fs::write(bench.lake.join(file), changed).unwrap();
                let case = format!("snapshot {id}, {question}, {} at {place}", file.display());
                let Ok(engine) = engine_of(snapshot()).await else { panic!("the log is sound") };
                let answer = ask(&engine, &question).await;
                assert!(answer.is_err(), "{case}: nobody noticed");
                tally.judge(&case, &bench.lake, answer, &truth);
                std::fs::write(bench.lake.join(file), content).unwrap();
            }
        }
    }
    tally.report("flipped bits in older snapshots under queries", 40);
}
