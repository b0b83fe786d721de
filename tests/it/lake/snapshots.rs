//! Snapshots: what a reader keeps while others write, maintain and delete.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::ops::ControlFlow::Continue;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

use futures::TryStreamExt as _;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{
    Clock, Disk, Lake, LakeError, LayerId, ScanColumns, Snapshot, SnapshotId, SnapshotKind,
    SnapshotRow, Table, Writer, to_the_end,
};
use steplake::layers::LayerChange;
use steplake::model::{EpisodeId, RunId};
use steplake::query::{Engine, EngineOptions};
use steplake::upkeep::Keep;

use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::renderer;
use crate::fixtures::support::{contents, fail, run, steplake};
use crate::fixtures::toy_lake::{Author, identity, int64, read};

const RUN: RunId = RunId(1);

/// A lake with its writer and who makes up its rows.
struct Growing {
    _folder: tempfile::TempDir,
    lake: Lake,
    writer: Writer,
    author: Author,
    episodes: u32,
}

impl Growing {
    fn new() -> Self {
        Self::on(Disk::default())
    }

    fn on(disk: Disk) -> Self {
        Self::begin(disk, Clock::default())
    }

    fn with_clock(clock: Clock) -> Self {
        Self::begin(Disk::default(), clock)
    }

    fn begin(disk: Disk, clock: Clock) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::create_on(disk, folder.path().join("lake"), &identity()).unwrap();
        let lake = lake.with_clock(clock);
        let writer = lake.writer().unwrap();
        Self { _folder: folder, lake, writer, author: Author::default(), episodes: 0 }
    }

    /// Records an episode: the same two steps again and again, and one that few others have.
    fn record(&mut self) {
        let own = 3 + self.episodes % 5;
        let path = [(1, Some(1)), (2, Some(2)), (own, Some(own))];
        self.author.episode(EpisodeId::new(RUN, self.episodes), 0, &path);
        self.episodes += 1;
        self.writer.append(&self.author.take()).unwrap();
    }

    fn seal(&mut self) {
        self.record();
        self.writer.seal().unwrap();
    }

    fn dedup(&self) {
        dedup(&mut self.lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end)
            .unwrap();
    }

    /// Snapshots 2 to 7: a seal and a dedup, three times.
    fn three_times() -> Self {
        let mut growing = Self::new();
        for _ in 0..3 {
            growing.seal();
            growing.dedup();
        }
        growing
    }
}

/// All rows of a snapshot, as they come from its files.
fn rows(snapshot: &Snapshot) -> Vec<String> {
    let mut rows = Vec::new();
    for table in Table::ALL {
        for batch in snapshot.scan(table, ScanColumns::All) {
            rows.push(format!("{table}: {:?}", batch.unwrap().columns()));
        }
    }
    rows
}

/// The files of the lake that hold rows, by their place in it, with their content.
fn files(lake: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![lake.join("data")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("_delta_log") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "parquet") {
                let content = std::fs::read(&path).unwrap();
                files.insert(path.strip_prefix(lake).unwrap().to_owned(), content);
            }
        }
    }
    files
}

fn newest(count: u64) -> Keep {
    Keep::Newest(NonZeroU64::new(count).unwrap())
}

async fn ask(engine: &Engine, sql: &str) -> String {
    let batches: Vec<_> = engine.sql(sql).await.unwrap().try_collect().await.unwrap();
    format!("{batches:?}")
}

#[test]
fn every_seal_and_every_dedup_makes_a_snapshot_that_can_be_read_later() {
    // A clock that runs backwards: nothing is decided by it.
    let clock = AtomicI64::new(1_700_000_000_000);
    let clock = Clock::new(move || clock.fetch_sub(1000, Ordering::Relaxed));
    let mut growing = Growing::with_clock(clock);
    let lake = growing.lake.clone();
    let mut seen = BTreeMap::new();
    let mut look = |lake: &Lake| {
        let sealed = lake.sealed().unwrap();
        seen.insert(sealed.id(), rows(&sealed));
    };
    look(&lake);
    for _ in 0..3 {
        growing.seal();
        look(&lake);
        growing.dedup();
        look(&lake);
    }
    // What changes nothing makes none.
    growing.writer.seal().unwrap();
    growing.dedup();
    growing.record();
    assert_eq!(seen.keys().map(|id| id.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);

    let snapshot = lake.snapshot().unwrap();
    let history = snapshot.history();
    let kinds = history.iter().map(|row| row.kind.as_str()).collect::<Vec<_>>();
    assert_eq!(kinds, ["create", "seal", "dedup", "seal", "dedup", "seal", "dedup"]);
    assert_eq!(history[1].created_at_ms, 1_700_000_000_000);
    let is_back = |pair: &[SnapshotRow]| pair[0].created_at_ms > pair[1].created_at_ms;
    assert!(history[1..].windows(2).all(is_back));
    assert!(history.is_sorted_by_key(|row| row.id));
    // The creation writes the actions.
    assert_eq!((history[0].rows_added, history[1].kind), (8, SnapshotKind::Seal));
    assert_eq!(history[1].rows_added, 1 + 1 + 4 + 4 + 4);
    for (id, rows_then) in &seen {
        let then = lake.snapshot_at(*id).unwrap();
        assert_eq!(&rows(&then), rows_then, "snapshot {id}");
        assert!(!then.has_hot_rows());
        assert!(
            lake.verify_states(Some(*id), &mut to_the_end, &mut |_| Continue(()))
                .unwrap()
                .is_sound()
        );
    }
    assert!(snapshot.has_hot_rows());
    assert_eq!(snapshot.closed_hot_steps(), 3);
}

#[tokio::test]
async fn a_reader_keeps_its_snapshot_and_opens_its_files_late() {
    let mut growing = Growing::new();
    growing.seal();
    growing.dedup();
    let sql = "SELECT * FROM state_transitions ORDER BY state_key, action";
    let (early, late) = (growing.lake.snapshot().unwrap(), growing.lake.snapshot().unwrap());
    let engine = |snapshot| async {
        Engine::new(snapshot, renderer(), &EngineOptions::default()).await.unwrap()
    };
    let (wanted_rows, wanted) = (rows(&early), ask(&engine(early).await, sql).await);
    let asked = engine(growing.lake.snapshot().unwrap()).await;
    for _ in 0..3 {
        growing.seal();
        growing.dedup();
    }
    let mut maintenance = growing.lake.maintenance().unwrap();
    maintenance.expire(newest(1)).unwrap();
    let error = maintenance.collect().unwrap_err();
    assert!(matches!(error, LakeError::BeingRead { .. }), "{error}");
    // None of these files was open before, and all lie somewhere else now.
    assert_eq!(rows(&late), wanted_rows);
    assert_eq!(ask(&asked, sql).await, wanted);
    assert_ne!(ask(&engine(growing.lake.snapshot().unwrap()).await, sql).await, wanted);
    drop((late, asked));
    assert!(maintenance.collect().unwrap().removed.files > 0);
}

#[test]
fn a_number_that_is_not_there_is_answered_with_those_that_are() {
    let growing = Growing::three_times();
    let lake = &growing.lake;
    let error = |number| lake.snapshot_at(SnapshotId(number)).unwrap_err().to_string();
    assert!(error(9).contains("has no snapshot 9 yet: there are 1 to 7"), "{}", error(9));
    lake.maintenance().unwrap().expire(newest(3)).unwrap();
    assert!(
        error(2).contains("has no snapshot 2 any longer, since it has expired: there are 5 to 7"),
        "{}",
        error(2)
    );
    lake.maintenance().unwrap().expire(newest(1)).unwrap();
    assert!(error(0).contains("has no snapshot 0: there is only 7"), "{}", error(0));
}

#[test]
fn expire_and_gc_remove_what_only_old_snapshots_have() {
    let growing = Growing::three_times();
    let (lake, path) = (&growing.lake, growing.lake.path());
    let (before, all) = (read(lake), files(path));
    let mut maintenance = lake.maintenance().unwrap();
    // Nothing has expired: nothing goes.
    assert_eq!(maintenance.collect().unwrap().removed.files, 0);
    let fifth = rows(&lake.snapshot_at(SnapshotId(5)).unwrap());

    let expired = maintenance.expire(Keep::From(SnapshotId(5))).unwrap();
    assert_eq!(
        (expired.snapshots, expired.oldest, expired.newest),
        (4, SnapshotId(5), SnapshotId(7))
    );
    assert_eq!(files(path), all, "expire deletes nothing");
    let removed = maintenance.collect().unwrap().removed;
    assert_eq!(removed, expired.freed);
    // The first layer was of snapshots 3 and 4 alone.
    assert_eq!((removed.files, files(path).len()), (1, all.len() - 1));
    assert_eq!(rows(&lake.snapshot_at(SnapshotId(5)).unwrap()), fifth);

    let expired = maintenance.expire(Keep::From(SnapshotId(99))).unwrap();
    assert_eq!((expired.snapshots, expired.oldest), (2, SnapshotId(7)), "the newest stays");
    assert_eq!(maintenance.collect().unwrap().removed, expired.freed);
    assert_eq!(read(lake), before);
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
    assert_eq!(maintenance.expire(newest(1)).unwrap().snapshots, 0);
}

#[test]
fn gc_takes_what_a_crash_left_but_not_what_a_writer_is_about_to_add() {
    let mut growing = Growing::new();
    growing.seal();
    growing.dedup();
    growing.record();
    let lake = growing.lake.clone();
    let prepared = growing.writer.sealer().prepare().unwrap();
    let orphan =
        lake.path().join("data/state_transitions/state_transitions-0123456789abcdef.parquet");
    std::fs::write(&orphan, "x").unwrap();
    let mut maintenance = lake.maintenance().unwrap();
    let collected = maintenance.collect().unwrap();
    assert!(collected.writer_at_work && collected.removed.files == 1 && !orphan.exists());
    growing.writer.publish(prepared).unwrap();
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());

    drop(growing.writer);
    std::fs::write(lake.path().join("data/steps/.steps-7.tmp"), "x").unwrap();
    let collected = maintenance.collect().unwrap();
    assert!(!collected.writer_at_work && collected.removed.files == 1);
}

#[test]
fn dedup_works_beside_a_writer_and_counts_what_is_sealed() {
    let mut growing = Growing::new();
    growing.seal();
    growing.record();
    growing.dedup();
    let snapshot = growing.lake.snapshot().unwrap();
    assert_eq!((snapshot.rows(Table::StateTransitions), snapshot.closed_hot_steps()), (3, 3));
    assert_eq!((snapshot.layers().len(), snapshot.uncounted().count()), (1, 0));
    growing.seal();
    assert_eq!(growing.lake.snapshot().unwrap().uncounted().count(), 1);
    assert_eq!(growing.lake.snapshot_at(SnapshotId(2)).unwrap().uncounted().count(), 1);
    growing.dedup();
    assert_eq!(growing.lake.snapshot().unwrap().rows(Table::StateTransitions), 2 + 3);
    assert!(growing.lake.verify(&mut to_the_end).unwrap().is_sound());
}

#[test]
fn readers_and_maintenance_go_on_while_a_writer_seals() {
    const EPISODES: u32 = 30;
    let mut growing = Growing::new();
    let lake = growing.lake.clone();
    let writing = std::thread::spawn(move || {
        (0..EPISODES).for_each(|_| growing.seal());
        growing
    });
    let reading = std::thread::spawn({
        let lake = lake.clone();
        move || {
            let mut seen = 0;
            while seen < u64::from(EPISODES) {
                let snapshot = lake.snapshot().unwrap();
                assert!(snapshot.rows(Table::Episodes) >= seen);
                seen = snapshot.rows(Table::Episodes);
                assert_eq!(snapshot.rows(Table::Steps), 4 * seen, "whole episodes");
                rows(&snapshot);
            }
        }
    });
    let mut maintenance = lake.maintenance().unwrap();
    let mut last = false;
    while !last {
        last = writing.is_finished();
        dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end).unwrap();
        maintenance.expire(newest(3)).unwrap();
        match maintenance.collect() {
            Ok(_) | Err(LakeError::BeingRead { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let growing = writing.join().unwrap();
    reading.join().unwrap();
    maintenance.collect().unwrap();
    let snapshot = growing.lake.sealed().unwrap();
    let counts = snapshot.scan(Table::StateTransitions, ScanColumns::Named(&["count"]));
    let counts = counts.flat_map(|batch| {
        let batch = batch.unwrap();
        (0..batch.num_rows()).map(|row| int64(&batch, "count", row)).collect::<Vec<_>>()
    });
    assert_eq!(counts.sum::<i64>(), 3 * i64::from(EPISODES));
    assert_eq!(
        (snapshot.rows(Table::Episodes), snapshot.history().len()),
        (u64::from(EPISODES), 3)
    );
    assert!(growing.lake.verify(&mut to_the_end).unwrap().is_sound());
}

#[test]
fn two_at_once_are_refused_and_a_dropped_layer_leaves_nothing() {
    let growing = Growing::three_times();
    let lake = &growing.lake;
    let maintenance = lake.maintenance().unwrap();
    let error = lake.maintenance().unwrap_err();
    assert!(matches!(&error, LakeError::BeingMaintained { pid: Some(_), .. }), "{error}");
    let sealed = lake.sealed().unwrap();
    let table = Table::StateTransitions;
    let batch = sealed.scan(table, ScanColumns::All).next().unwrap().unwrap();
    let mut layer = maintenance.layer_writer(LayerId(7));
    layer.write(table, &batch).unwrap();
    drop((layer, maintenance));
    let before = files(lake.path());
    drop(lake.maintenance().unwrap());
    assert_eq!(files(lake.path()), before);
    assert_eq!(rows(&lake.sealed().unwrap()), rows(&sealed));
}

#[test]
fn content_that_comes_back_is_there_once_and_in_every_snapshot_that_has_it() {
    let growing = Growing::three_times();
    let lake = &growing.lake;
    let wanted = rows(&lake.sealed().unwrap());
    let publish = |content: Option<&Snapshot>| {
        let mut maintenance = lake.maintenance().unwrap();
        let sealed = lake.sealed().unwrap();
        let mut layer = maintenance.layer_writer(LayerId(1));
        for table in Table::ALL.into_iter().filter(|table| table.is_derived()) {
            for batch in content.iter().flat_map(|from| from.scan(table, ScanColumns::All)) {
                layer.write(table, &batch.unwrap()).unwrap();
            }
        }
        let retire = sealed.layers().into_values().flatten().cloned().collect();
        maintenance
            .publish(LayerChange { retire, add: vec![layer], ..LayerChange::default() })
            .unwrap()
            .0
    };
    let seventh = lake.snapshot_at(SnapshotId(7)).unwrap();
    let (same, none, again) = (publish(Some(&seventh)), publish(None), publish(Some(&seventh)));
    drop(seventh);
    for id in [SnapshotId(7), same, again] {
        assert_eq!(rows(&lake.snapshot_at(id).unwrap()), wanted, "snapshot {id}");
    }
    assert_eq!(lake.snapshot_at(none).unwrap().rows(Table::StateTransitions), 0);
    let mut maintenance = lake.maintenance().unwrap();
    maintenance.collect().unwrap();
    assert_eq!(rows(&lake.snapshot_at(SnapshotId(7)).unwrap()), wanted);
    maintenance.expire(newest(1)).unwrap();
    maintenance.collect().unwrap();
    assert_eq!(rows(&lake.sealed().unwrap()), wanted);
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}

#[test]
fn a_damaged_file_of_an_older_snapshot_is_found() {
    let growing = Growing::three_times();
    let sealed = growing.lake.sealed().unwrap();
    let mut older = sealed.history().iter().flat_map(|row| {
        let snapshot = growing.lake.snapshot_at(row.id).unwrap();
        let all = Table::ALL.into_iter();
        all.flat_map(|table| snapshot.segments(table).to_vec()).collect::<Vec<_>>()
    });
    let is_live = |path: &PathBuf| {
        let mut tables = Table::ALL.into_iter();
        tables.any(|table| sealed.segments(table).iter().any(|segment| segment.path == *path))
    };
    let path = older.find(|segment| !is_live(&segment.path)).unwrap().path;
    drop(older);
    drop(sealed);
    std::fs::write(&path, "PAR1").unwrap();
    let findings = growing.lake.verify(&mut to_the_end).unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(
        findings[0].path == path && findings[0].what.contains("only older snapshots have it"),
        "{findings:?}"
    );
    let mut maintenance = growing.lake.maintenance().unwrap();
    maintenance.expire(newest(1)).unwrap();
    maintenance.collect().unwrap();
    assert!(growing.lake.verify(&mut to_the_end).unwrap().is_sound());
}

const TOY: [&str; 5] = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..3"];

#[test]
fn the_commands_about_snapshots() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    for seed in ["1", "2"] {
        run(&lake, &[&TOY[..], &["--episodes", "4", "--seed", seed]].concat());
        run(&lake, &["seal"]);
        run(&lake, &["dedup"]);
    }
    let then = ["sql", "SELECT count(*) AS n FROM steps", "--format", "json", "--snapshot"];
    let steps = |number| run(&lake, &[&then[..], &[number]].concat());
    assert_eq!((steps("1").trim(), steps("2") == steps("5")), ("[{\"n\":0}]", false));
    assert_eq!(steps("2"), steps("3"));
    let listed = run(&lake, &["snapshots", "--format", "json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let kinds: Vec<_> =
        listed.as_array().unwrap().iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["create", "seal", "dedup", "seal", "dedup"]);
    assert!(run(&lake, &["snapshots"]).contains("rows_added"));
    run(&lake, &["verify", "--snapshot", "3", "--replay", "10"]);
    let taken = run(&lake, &["query", "noop_rate", "--snapshot", "3"]);
    assert_ne!(taken, run(&lake, &["query", "noop_rate"]));
    let info = run(&lake, &["info", "--format", "json", "--snapshot", "3"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&info).unwrap()["snapshot"], 3);

    let before = contents(&lake);
    let said = run(&lake, &["expire", "--keep", "2"]);
    assert!(said.starts_with("forgot 3 snapshots; 4 to 5 are left"), "{said}");
    assert_eq!(run(&lake, &["gc"]), "deleted 0 files (0 B)\n");
    let said = run(&lake, &["expire", "--before", "5"]);
    assert!(said.contains("5 is left; `steplake gc` now frees "), "{said}");
    assert!(run(&lake, &["gc"]).starts_with("deleted "));
    assert!(run(&lake, &["expire", "--keep", "9"]).starts_with("forgot 0 snapshots"));
    assert_eq!(contents(&lake), before);
    for (arguments, code, says) in [
        (&["info", "--snapshot", "2"][..], 2, "has no snapshot 2 any longer"),
        (&["verify", "--snapshot", "77"], 2, "has no snapshot 77 yet: there is only 5"),
        (&["expire"], 2, "--keep <K>"),
        (&["expire", "--keep", "0"], 2, "invalid value '0'"),
    ] {
        let (found, text) = fail(&lake, arguments);
        assert!(found == code && text.contains(says), "{arguments:?}: {found} {text}");
    }
}

#[test]
fn the_commands_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    run(&path, &[&TOY[..], &["--episodes", "4", "--no-seal"]].concat());
    let lake = Lake::open(&path).unwrap();
    // Somebody records: what is hot is not counted, and that is said.
    let mut writer = lake.writer().unwrap();
    let output = steplake(&path).arg("dedup").output_in_time();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("steps are of finished episodes"), "{said}");
    writer.seal().unwrap();
    let output = steplake(&path).arg("dedup").output_in_time();
    assert_eq!((output.status.success(), output.stderr), (true, Vec::new()));
    drop(writer);

    let maintenance = lake.maintenance().unwrap();
    for arguments in [&["dedup"][..], &["gc"], &["expire", "--keep", "1"]] {
        let (code, text) = fail(&path, arguments);
        assert!(code == 3 && text.contains("is maintaining the lake at"), "{arguments:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    run(&path, &["info"]);
    drop(maintenance);
    let snapshot = lake.snapshot().unwrap();
    let (code, text) = fail(&path, &["gc"]);
    assert!(code == 3 && text.contains("somebody is reading the lake at"), "{text}");
    drop(snapshot);
    run(&path, &["gc"]);
}
