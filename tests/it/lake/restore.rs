//! A database that is lost or damaged is restored from the log of snapshots; rows that were not
//! sealed are taken over as far as they can be read.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::path::Path;

use steplake::lake::{Lake, LakeError, RetractionKind, Rows, RunRow, SnapshotRow, Table, Writer};
use steplake::model::{EpisodeId, RunId};
use steplake::upkeep::Keep;

use crate::fixtures::power::Power;
use crate::fixtures::support::contents;
use crate::fixtures::support::copy_folder;
use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::{Author, in_layers, read, rows_of, state, uri};
use crate::lake::repair::{RUN, derive, findings, flip, record, repair, second_file, without};

/// Ways to lose the database.
type Lose = fn(&Path);

fn losses() -> [(&'static str, Lose); 4] {
    [
        ("gone", |log| std::fs::remove_file(log).unwrap()),
        ("emptied", |log| std::fs::write(log, "").unwrap()),
        ("other", |log| std::fs::write(log, "no database".repeat(1000)).unwrap()),
        ("holed", |log| {
            // The first page says how large it is, and the rest is gone.
            let mut content = std::fs::read(log).unwrap();
            content[16384..].fill(0xa5);
            std::fs::write(log, content).unwrap();
        }),
    ]
}

/// Without the hot rows.
pub(crate) fn sealed(rows: &Rows) -> Rows {
    let mut rows = without(rows, &[4, 5, 6, 7]);
    let held = rows.steps.iter().filter_map(|row| row.state).collect::<HashSet<_>>();
    rows.observations.retain(|row| held.contains(&row.state));
    rows.ir.retain(|row| held.contains(&row.state));
    rows.benchmarks.retain(|row| row.uri != uri(2));
    rows
}

/// The snapshots of a lake, and all that each of them says. How much the oldest one brought is
/// forgotten with those before it.
pub(super) fn snapshots(lake: &Lake) -> Vec<(SnapshotRow, Rows)> {
    let mut history = lake.sealed().unwrap().history().to_vec();
    (history[0].rows_added, history[0].bytes_added) = (0, 0);
    let rows = |row: SnapshotRow| {
        let snapshot = lake.snapshot_at(row.id).unwrap();
        (row, rows_of(&snapshot))
    };
    history.into_iter().map(rows).collect()
}

#[test]
fn a_database_that_is_lost_is_restored_with_all_its_snapshots() {
    let folder = scratch();
    let origin = record_and_retract(&folder.path().join("origin"));
    let (wanted, lists, derived) =
        (sealed(&read(&origin)), Lists::of(&origin), contents(origin.path()).split_off(6));
    let history = snapshots(&origin);
    for (name, lose) in losses() {
        let path = folder.path().join(name);
        copy_folder(origin.path(), &path);
        lose(&path.join("hot.sqlite"));
        let lake = Lake::open(&path).unwrap();
        assert!(lake.snapshot().is_err() || !findings(&lake).is_empty(), "{name}");
        let done = repair(&lake).unwrap();
        let restored = done.restored.unwrap_or_else(|| panic!("{name}"));
        assert_eq!(restored.snapshots, history.len() as u64, "{name}");
        assert_eq!((done.losses, done.snapshot), (Vec::new(), None), "{name}");
        assert_eq!(path.join("hot.sqlite.damaged").exists(), name != "gone");
        assert_eq!(findings(&lake), [""; 0], "{name}");
        assert_eq!(read(&lake), wanted, "{name}");
        assert_eq!(
            (snapshots(&lake), Lists::of(&lake)),
            (history.clone(), lists.clone()),
            "{name}"
        );
        assert_eq!(contents(&path).split_off(6), derived, "{name}: no dedup is needed");
        assert!(repair(&lake).unwrap().is_nothing());
        // The run's number is not given again.
        let mut writer = lake.writer().unwrap();
        assert_eq!(writer.begin_run("{}", 1).unwrap(), RunId(2));
        let snapshot = lake.snapshot().unwrap();
        assert!(snapshot.losses()[0].what.contains("whatever was not sealed"));
        assert!(snapshot.ir(&[state(5)]).unwrap()[0].is_some());
    }
}

#[test]
fn a_restored_database_knows_the_rows_that_newer_layers_have() {
    let folder = scratch();
    let (lake, _) = in_layers(&folder.path().join("lake"), 4);
    let layers =
        lake.snapshot().unwrap().layers().into_values().flatten().cloned().collect::<Vec<_>>();
    assert!(layers.iter().any(|segment| !segment.deleted().is_empty()));
    let history = snapshots(&lake);
    for keep in [None, NonZeroU64::new(2)] {
        let history = keep.map_or(history.clone(), |keep| {
            lake.maintenance().unwrap().expire(Keep::Newest(keep)).unwrap();
            snapshots(&lake)
        });
        std::fs::remove_file(lake.path().join("hot.sqlite")).unwrap();
        repair(&lake).unwrap();
        assert_eq!(findings(&lake), [""; 0]);
        assert!(snapshots(&lake) == history);
        let restored = lake.snapshot().unwrap();
        assert!(restored.layers().into_values().flatten().eq(&layers));
    }
}

#[test]
fn a_restored_lake_begins_with_the_oldest_snapshot_that_has_not_expired() {
    let folder = scratch();
    let lake = record_and_retract(&folder.path().join("lake"));
    let mut maintenance = lake.maintenance().unwrap();
    maintenance.expire(Keep::Newest(NonZeroU64::new(2).unwrap())).unwrap();
    maintenance.collect().unwrap();
    drop(maintenance);
    let (wanted, history) = (sealed(&read(&lake)), snapshots(&lake));
    assert_eq!(history.len(), 2);
    std::fs::remove_file(lake.path().join("hot.sqlite")).unwrap();
    repair(&lake).unwrap();
    assert!((read(&lake), snapshots(&lake)) == (wanted, history));
    assert_eq!(findings(&lake), [""; 0]);
}

#[test]
fn without_a_database_and_with_a_damaged_log_nothing_is_made_up() {
    let folder = scratch();
    let origin = record_and_retract(&folder.path().join("origin"));
    let entries = std::fs::read_dir(origin.path().join("log")).unwrap();
    for entry in entries.map(|entry| entry.unwrap().file_name()) {
        for lost in [false, true] {
            let path = folder.path().join(format!("{}-{lost}", entry.display()));
            copy_folder(origin.path(), &path);
            std::fs::remove_file(path.join("hot.sqlite")).unwrap();
            let file = path.join("log").join(&entry);
            if lost {
                std::fs::remove_file(&file).unwrap();
            } else {
                flip(&file);
            }
            let lake = Lake::open(&path).unwrap();
            match repair(&lake) {
                Err(LakeError::Corrupt { path: found, .. }) => {
                    assert!(found.starts_with(path.join("log")), "{}", found.display());
                    assert!(!path.join("hot.sqlite").exists());
                }
                done => panic!("{}: {done:?}", entry.display()),
            }
        }
    }
}

#[test]
fn hot_rows_are_taken_over_from_a_database_that_can_still_be_read() {
    let folder = scratch();
    let lake = record(&folder.path().join("lake"));
    let log = lake.path().join("hot.sqlite");
    let before = read(&lake);
    // The header counts free pages that there are not.
    let mut content = std::fs::read(&log).unwrap();
    content[39] ^= 8;
    std::fs::write(&log, content).unwrap();
    assert!(findings(&lake)[0].contains("the database is damaged"), "{:?}", findings(&lake));
    let history = snapshots(&lake);
    let done = repair(&lake).unwrap();
    assert!(done.restored.unwrap().hot_rows && done.losses.is_empty());
    assert_eq!(findings(&lake), [""; 0]);
    assert_eq!((read(&lake), snapshots(&lake)), (before.clone(), history));
    let runs = |lake: &Lake| lake.snapshot().unwrap().runs().to_vec();
    assert_eq!(runs(&lake)[0].arguments, "{}");
    // Not if it is an older copy.
    let stale = std::fs::read(&log).unwrap();
    lake.writer().unwrap().seal().unwrap();
    derive(&lake).unwrap();
    std::fs::write(&log, stale).unwrap();
    let error = lake.writer().unwrap_err().to_string();
    assert!(error.contains("it is an older copy"), "{error}");
    let done = repair(&lake).unwrap();
    assert!(!done.restored.unwrap().hot_rows);
    assert_eq!(findings(&lake), [""; 0]);
    let sealed = read(&lake);
    assert_eq!((sealed.episodes, sealed.benchmarks), (before.episodes, before.benchmarks));
}

#[test]
fn damaged_files_are_dropped_from_a_restored_lake() {
    let folder = scratch();
    let lake = record(&folder.path().join("lake"));
    let before = sealed(&read(&lake));
    flip(&second_file(&lake, Table::Episodes));
    std::fs::remove_file(lake.path().join("hot.sqlite")).unwrap();
    let orphan = lake.path().join("data/steps/steps-0123456789abcdef.parquet");
    std::fs::write(&orphan, "x").unwrap();
    let done = repair(&lake).unwrap();
    assert!(done.restored.is_some() && orphan.exists());
    let tables = done.losses.iter().map(|loss| (loss.table, loss.rows)).collect::<Vec<_>>();
    assert_eq!(tables, [(Table::Episodes, 2), (Table::Steps, 8)]);
    derive(&lake).unwrap();
    assert_eq!(findings(&lake), [""; 0]);
    assert_eq!(read(&lake), without(&before, &[2, 3]));
}

/// Changes the database behind the lake's back, as a flipped bit would.
pub(super) fn change(lake: &Path, sql: &str) {
    let log = rusqlite::Connection::open(lake.join("hot.sqlite")).unwrap();
    log.execute_batch(sql).unwrap();
}

/// What is neither sealed nor hot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lists {
    runs: Vec<RunRow>,
    retractions: Vec<(RetractionKind, String, String, Vec<RunId>)>,
}

impl Lists {
    pub(crate) fn of(lake: &Lake) -> Self {
        let snapshot = lake.snapshot().unwrap();
        let retractions = snapshot.retractions().iter().cloned();
        let retractions = retractions.map(|row| (row.kind, row.value, row.reason, row.runs));
        Self { runs: snapshot.runs().to_vec(), retractions: retractions.collect() }
    }
}

/// A lake that retracted an action.
pub(crate) fn record_and_retract(path: &Path) -> Lake {
    let lake = record(path);
    lake.maintenance().unwrap().retract_action("a3", "why").unwrap();
    derive(&lake).unwrap();
    lake
}

/// Appends a closed episode that shares nothing with others.
pub(super) fn append(writer: &mut Writer, ordinal: u32) {
    let (first, mut author) = (100 * ordinal, Author::default());
    let path = [(1, Some(first + 1)), (2, Some(first + 2))];
    author.episode(EpisodeId::new(RUN, ordinal), first, &path);
    writer.append(&author.take()).unwrap();
}

#[test]
fn a_table_that_is_damaged_takes_no_other_with_it() {
    let folder = scratch();
    let origin = record_and_retract(&folder.path().join("origin"));
    let (before, lists) = (read(&origin), Lists::of(&origin));
    assert_eq!((lists.runs.len(), lists.retractions.len()), (1, 1));
    let newest = origin.sealed().unwrap().id();
    let steps = "(SELECT max(seq) FROM frames WHERE table_name = 'steps')";
    let changes = [
        ("content", "UPDATE content SET digest = zeroblob(32)".to_owned()),
        ("no content", "DROP TABLE content".to_owned()),
        ("lake", "UPDATE lake SET identity_digest = 'x'".to_owned()),
        ("snapshots", "UPDATE snapshots SET kind = 'x'".to_owned()),
        ("segments", "UPDATE segments SET path = replace(path, '/steps-', '/steps-f')".to_owned()),
        ("segments' table", "UPDATE segments SET table_name = 'x'".to_owned()),
        ("derivations", "DELETE FROM derivations".to_owned()),
        ("retractions", "UPDATE retractions SET kind = 'x'".to_owned()),
        ("runs", "UPDATE runs SET uid = 'x'".to_owned()),
        ("frames", format!("UPDATE frames SET rows = -1 WHERE seq = {steps}")),
        ("frame's table", format!("UPDATE frames SET table_name = 'ir' WHERE seq = {steps}")),
    ];
    for (name, sql) in changes {
        let path = folder.path().join(name);
        copy_folder(origin.path(), &path);
        change(&path, &sql);
        let lake = Lake::open(&path).unwrap();
        assert!(lake.snapshot().is_err(), "{name}");
        let done = repair(&lake).unwrap();
        let restored = done.restored.clone().unwrap();
        assert!(restored.hot_rows, "{name}: {restored:?}");
        let unread = restored.remarks.iter().any(|line| line.contains("could not be read"));
        assert_eq!(unread, name == "frames", "{name}: {restored:?}");
        let losses = lake.snapshot().unwrap().losses().to_vec();
        assert!(losses.iter().any(|loss| loss.what.contains("list of runs")), "{name}");
        assert_eq!(findings(&lake), [""; 0], "{name}");
        assert_eq!(Lists::of(&lake), lists, "{name}");
        let found = read(&lake);
        if name.starts_with("frame") {
            // The last steps are those of the open episode.
            assert_eq!(found.steps, without(&before, &[6]).steps, "{name}");
            assert_eq!(found.episodes, before.episodes, "{name}");
        } else {
            assert_eq!(found, before, "{name}");
        }
        assert!(lake.sealed().unwrap().id() >= newest, "{name}");
    }
}

/// Where the digests of the blocks of files lie in a database: `content` does not hold them.
fn digests_of_blocks(lake: &Path, content: &[u8]) -> Vec<usize> {
    let log = rusqlite::Connection::open(lake.join("hot.sqlite")).unwrap();
    let mut lists = log.prepare("SELECT DISTINCT blocks FROM segments").unwrap();
    let lists = lists.query_map([], |row| row.get::<_, Vec<u8>>(0)).unwrap();
    let place = |list: Vec<u8>| content.windows(list.len()).position(|part| part == list);
    let places = lists.map(|list| place(list.unwrap()).unwrap()).collect::<Vec<_>>();
    assert!(places.len() > 10, "{places:?}");
    places
}

/// The bits that make one column of two, in the heads of the manifest's rows of steps.
fn heads_of_steps(lake: &Lake, content: &[u8]) -> Vec<(usize, u32)> {
    let mut places = Vec::new();
    for segment in lake.sealed().unwrap().segments(Table::Steps) {
        let name = segment.path.file_name().unwrap().to_str().unwrap();
        let row = format!("stepsdata/steps/{name}");
        let end = content.windows(row.len()).position(|part| part == row.as_bytes()).unwrap();
        // A head begins with its length.
        let length = (15..30).find(|&length| usize::from(content[end - length]) == length).unwrap();
        places.extend((end - length..end).map(|at| (at, 7)));
    }
    places
}

/// The bits that give a frame the number of the one before or after it.
fn numbers_of_frames(content: &[u8]) -> Vec<(usize, u32)> {
    let is_head = |at: &usize| {
        let row = &content[*at..];
        row.starts_with(&[8, 0])
            && Table::ALL.iter().any(|table| {
                let (name, kind) = (table.name().as_bytes(), 13 + 2 * table.name().len());
                usize::from(row[2]) == kind && row[8..].starts_with(name)
            })
    };
    let places = (1..content.len() - 100).filter(is_head).map(|at| (at - 1, 0)).collect::<Vec<_>>();
    assert!(places.len() >= 10, "{places:?}");
    places
}

#[test]
fn a_flipped_bit_in_the_database_costs_no_sealed_row_and_few_others() {
    let folder = scratch();
    let origin = record_and_retract(&folder.path().join("origin"));
    let (before, lists) = (read(&origin), Lists::of(&origin));
    let content = std::fs::read(origin.path().join("hot.sqlite")).unwrap();
    // Most of it is empty, and the header is not of the tables.
    let places = (100..content.len()).filter(|&at| content[at] != 0).collect::<Vec<_>>();
    let sampled = places.iter().copied().step_by(places.len() / 60).zip((0..8).cycle());
    let known = digests_of_blocks(origin.path(), &content).into_iter().zip((0..8).cycle());
    let known = known.chain(heads_of_steps(&origin, &content));
    let known = known.chain(numbers_of_frames(&content));
    let (mut whole, mut with_lists, mut restored, mut number) = (0, 0, 0, 0);
    for (at, bit) in sampled.chain(known) {
        number += 1;
        let path = folder.path().join(format!("bit-{at}"));
        copy_folder(origin.path(), &path);
        let mut changed = content.clone();
        changed[at] ^= 1 << bit;
        std::fs::write(path.join("hot.sqlite"), changed).unwrap();
        let lake = Lake::open(&path).unwrap();
        let done = repair(&lake).unwrap_or_else(|error| panic!("bit at {at}: {error}"));
        // A bit in a frame costs a snapshot, without derived tables.
        derive(&lake).unwrap();
        assert_eq!(findings(&lake), [""; 0], "bit at {at}: {done:?}");
        let found = read(&lake);
        assert_eq!(sealed(&found), sealed(&before), "bit at {at}");
        assert!(found.steps.iter().all(|row| before.steps.contains(row)), "bit at {at}");
        assert!(found.episodes.iter().all(|row| before.episodes.contains(row)), "bit at {at}");
        restored += u32::from(done.restored.is_some());
        with_lists += u32::from(Lists::of(&lake) == lists);
        whole += u32::from(found == before);
        std::fs::remove_dir_all(&path).unwrap();
    }
    // Half of what is not empty are the bodies of frames, whose rows go.
    assert!(restored > number / 3, "{restored} of {number} databases were restored");
    assert_eq!(with_lists, number, "all lakes kept their lists");
    assert!(whole > number / 3, "{whole} of {number} lakes kept all rows");
}

#[test]
fn a_log_that_is_damaged_in_its_middle_costs_what_comes_after() {
    let folder = scratch();
    let origin = record(&folder.path().join("origin"));
    let mut writer = origin.writer().unwrap();
    let mut models = vec![read(&origin)];
    for ordinal in 10..16 {
        append(&mut writer, ordinal);
        models.push(read(&origin));
    }
    let killed = folder.path().join("killed");
    copy_folder(origin.path(), &killed);
    let content = std::fs::read(killed.join("hot.sqlite-wal")).unwrap();
    let frame_bytes = 24 + 16_384;
    let frames = (content.len() - 32) / frame_bytes;
    let mut left = Vec::new();
    for frame in [0, frames / 3, frames / 3 * 2] {
        let path = folder.path().join(format!("frame-{frame}"));
        copy_folder(&killed, &path);
        let mut changed = content.clone();
        changed[32 + frame * frame_bytes + 50] ^= 4;
        std::fs::write(path.join("hot.sqlite-wal"), changed).unwrap();
        let lake = Lake::open(&path).unwrap();
        let error = lake.snapshot().unwrap_err().to_string();
        assert!(error.contains("hot.sqlite-wal"), "{error}");
        let restored = repair(&lake).unwrap().restored.unwrap();
        assert!(restored.hot_rows && restored.why.contains("hot.sqlite-wal"), "{restored:?}");
        assert_eq!(restored.remarks.len(), 1, "{restored:?}");
        assert!(restored.remarks[0].contains("SQLite's log was damaged"), "{restored:?}");
        assert_eq!(findings(&lake), [""; 0]);
        let found = read(&lake);
        left.push(models.iter().position(|model| *model == found).unwrap());
        assert!(path.join("hot.sqlite.damaged-wal").exists());
    }
    assert!(left[0] == 0 && left[0] < left[1] && left[1] < left[2], "{left:?}");
}

#[test]
fn a_power_cut_while_a_database_is_made_anew_leaves_it_to_be_done_or_done() {
    let folder = scratch();
    let living = record_and_retract(&folder.path().join("living"));
    let lists = Lists::of(&living);
    // The last episode is in SQLite's log.
    let mut writer = living.writer().unwrap();
    append(&mut writer, 20);
    let before = read(&living);
    change(living.path(), "UPDATE content SET digest = zeroblob(32)");
    for damaged in [false, true] {
        let origin = folder.path().join(format!("origin-{damaged}"));
        copy_folder(living.path(), &origin);
        assert!(origin.join("hot.sqlite-wal").exists());
        if damaged {
            for file in damaged_files(&origin) {
                flip(&file);
            }
        }
        let whole = folder.path().join(format!("whole-{damaged}"));
        copy_folder(&origin, &whole);
        let whole = Lake::open(whole).unwrap();
        repair(&whole).unwrap();
        let wanted = read(&whole);
        assert_eq!(wanted == before, !damaged);
        for operations in 0.. {
            let path = folder.path().join(format!("cut-{operations}"));
            copy_folder(&origin, &path);
            let (disk, power) = Power::disk(operations, false);
            let _cut = Lake::open_on(disk, &path).and_then(|lake| lake.repair());
            power.lock().unwrap().cut();
            let lake = Lake::open(&path).unwrap();
            repair(&lake).unwrap();
            assert_eq!(read(&lake), wanted, "after {operations} operations");
            assert_eq!(Lists::of(&lake), lists, "after {operations} operations");
            derive(&lake).unwrap();
            assert_eq!(findings(&lake), [""; 0], "after {operations} operations");
            std::fs::remove_dir_all(&path).unwrap();
            if !power.lock().unwrap().off {
                assert!(operations > 8, "{operations}");
                break;
            }
        }
    }
}

/// A file of episodes and one of IR.
fn damaged_files(lake: &Path) -> Vec<std::path::PathBuf> {
    let first = |table: &str| {
        let files = std::fs::read_dir(lake.join("data").join(table)).unwrap();
        let files = files.map(|file| file.unwrap().path());
        files.filter(|file| file.is_file()).min().unwrap()
    };
    vec![first("episodes"), first("ir")]
}
