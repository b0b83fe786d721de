//! Damage of every kind, cut out of a lake: what is left is sound, and nothing undamaged is lost.

use std::collections::HashSet;
use std::ops::ControlFlow::Continue;
use std::path::{Path, PathBuf};

use steplake::dedup::{DedupOptions, dedup};
use steplake::generate::{ResumeState, Stop};
use steplake::lake::{Disk, Lake, LakeError, Rows, SnapshotKind, Table, to_the_end};
use steplake::model::{ActionFlags, ActionSpec, EpisodeId, RunId};
use steplake::upkeep::Repaired;

use crate::fixtures::power::Power;
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::copy_folder;
use crate::fixtures::support::scratch;
use crate::fixtures::support::{contents, run, steplake, toy_plan};
use crate::fixtures::toy_lake::{Author, identity, read, state, uri};

pub(crate) const RUN: RunId = RunId(1);

/// Episodes 0 to 5, sealed two by two, the last two hot; and episode 6 open.
pub(crate) fn record(path: &Path) -> Lake {
    record_sealing(path, &[1, 3])
}

/// The same, sealed after these episodes.
pub(crate) fn record_sealing(path: &Path, seals: &[u32]) -> Lake {
    let lake = Lake::create(path, &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    writer.begin_run("{}", 0).unwrap();
    let mut author = Author::default();
    for ordinal in 0..6 {
        let own = 10 + ordinal;
        let path = [(1, Some(5)), (2, Some(own)), (3, Some(20 + ordinal / 2))];
        author.episode(EpisodeId::new(RUN, ordinal), ordinal / 2, &path);
        writer.append(&author.take()).unwrap();
        if seals.contains(&ordinal) {
            writer.seal().unwrap();
        }
    }
    author.close(EpisodeId::new(RUN, 7), 9, 0, false);
    author.reset(EpisodeId::new(RUN, 6), 0);
    author.steps(EpisodeId::new(RUN, 6), 0, 1, &[(1, Some(5))]);
    writer.append(&author.take()).unwrap();
    drop(writer);
    derive(&lake).unwrap();
    lake
}

pub(crate) fn derive(lake: &Lake) -> Result<(), LakeError> {
    dedup(&mut lake.maintenance()?, DedupOptions::default(), &mut to_the_end).map(drop)
}

pub(crate) fn repair(lake: &Lake) -> Result<Repaired, LakeError> {
    lake.repair()
}

pub(crate) fn findings(lake: &Lake) -> Vec<String> {
    let report = lake.verify(&mut to_the_end).unwrap();
    report.findings.iter().map(ToString::to_string).collect()
}

/// The file of the seal of episodes 2 and 3.
pub(crate) fn second_file(lake: &Lake, table: Table) -> PathBuf {
    lake.snapshot().unwrap().segments(table).last().unwrap().path.clone()
}

pub(crate) fn flip(path: &Path) {
    let mut content = std::fs::read(path).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 4;
    std::fs::write(path, content).unwrap();
}

/// Without some episodes.
pub(crate) fn without(rows: &Rows, gone: &[u32]) -> Rows {
    let mut rows = rows.clone();
    let gone = gone.iter().map(|&ordinal| EpisodeId::new(RUN, ordinal)).collect::<HashSet<_>>();
    rows.episodes.retain(|row| !gone.contains(&row.id));
    rows.steps.retain(|row| !gone.contains(&row.episode));
    rows
}

/// Repairs, and asserts that the lake is sound then, derived tables included, and stays so.
fn repaired(lake: &Lake) -> Repaired {
    let found = findings(lake);
    assert!(!found.is_empty());
    let newest = lake.sealed().unwrap().id();
    let done = repair(lake).unwrap();
    let snapshot = done.snapshot.unwrap();
    assert_eq!(lake.sealed().unwrap().history().last().unwrap().kind, SnapshotKind::Repair);
    assert_eq!(lake.sealed().unwrap().id(), snapshot);
    derive(lake).unwrap();
    assert_eq!(findings(lake), [""; 0], "{done:?}");
    assert!(repair(lake).unwrap().is_nothing());
    // A snapshot that had what was damaged says so, unless dedup made the very same file again; no
    // answer of it is wrong.
    let sealed_damage = done.losses.iter().any(|loss| loss.path != "hot.sqlite");
    match lake.snapshot_at(newest) {
        Ok(_) => {
            assert!(!sealed_damage, "{done:?}");
            assert!(
                lake.verify_states(Some(newest), &mut to_the_end, &mut |_| Continue(()))
                    .unwrap()
                    .is_sound()
            );
        }
        Err(error) => {
            assert!(sealed_damage, "{done:?}");
            assert!(matches!(error, LakeError::LostSnapshot { .. }), "{error}");
            assert!(error.to_string().contains("read the newest snapshot"), "{error}");
        }
    }
    done
}

/// Ways to damage a file.
type Damage = fn(&Path);

#[test]
fn a_damaged_file_of_any_table_goes_and_the_rest_stays() {
    let folder = scratch();
    let origin = record(&folder.path().join("origin"));
    let before = read(&origin);
    let damages: [(&str, Damage); 3] = [
        ("flipped", flip),
        ("gone", |path| std::fs::remove_file(path).unwrap()),
        ("cut", |path| {
            let content = std::fs::read(path).unwrap();
            std::fs::write(path, &content[..content.len() / 2]).unwrap();
        }),
    ];
    for (name, damage) in damages {
        for table in Table::ALL.into_iter().filter(|&table| table != Table::Actions) {
            let path = folder.path().join(format!("{name}-{table}"));
            copy_folder(origin.path(), &path);
            let lake = Lake::open(&path).unwrap();
            if lake.snapshot().unwrap().segments(table).is_empty() {
                assert!(table.is_derived() || MEASURED.contains(&table));
                continue;
            }
            damage(&second_file(&lake, table));
            // Nothing is said of rows that are missing because of it.
            assert_eq!(findings(&lake).len(), 1, "{name} {table}: {:?}", findings(&lake));
            let done = repaired(&lake);
            let tables = done.losses.iter().map(|loss| (loss.table, loss.rows)).collect::<Vec<_>>();
            let mut wanted = before.clone();
            match table {
                Table::Episodes => {
                    assert_eq!(tables, [(table, 2), (Table::Steps, 8)]);
                    wanted = without(&before, &[2, 3]);
                }
                Table::Steps => {
                    assert_eq!(tables, [(table, 8), (Table::Episodes, 2)]);
                    wanted = without(&before, &[2, 3]);
                }
                Table::Benchmarks => {
                    assert_eq!(
                        (tables, &done.benchmarks),
                        (vec![(table, 1)], &vec![uri(1).to_string()])
                    );
                    let row = wanted.benchmarks.iter_mut().find(|row| row.uri == uri(1)).unwrap();
                    assert_eq!(row.initial_state, state(1));
                    let found = read(&lake).benchmarks;
                    assert_eq!(found.len(), 3);
                    assert_eq!(found[1].initial_state, state(1));
                    assert_eq!(found[1].program_digest, "");
                    wanted.benchmarks = found;
                }
                Table::Observations => {
                    let lost = [1, 12, 13, 21].map(state);
                    assert_eq!((tables, done.unobserved), (vec![(table, 4)], 4));
                    wanted.observations.retain(|row| !lost.contains(&row.state));
                    assert_eq!(lake.verify(&mut to_the_end).unwrap().unobserved, 4);
                }
                Table::Ir => {
                    let lost = [1, 12, 13, 21].map(state);
                    assert_eq!(tables, [(table, 4)]);
                    wanted.ir.retain(|row| !lost.contains(&row.state));
                }
                _ => assert_eq!((tables.len(), done.derived.len()), (0, 1)),
            }
            assert_eq!(read(&lake), wanted, "{name} {table}");
            if table.is_derived() {
                assert_eq!(contents(&path), contents(origin.path()));
            }
        }
    }
}

/// The tables that no run fills in.
const MEASURED: [Table; 2] = [Table::Measurements, Table::Miscompilations];

#[test]
fn damaged_measurements_cost_nothing_else() {
    for table in MEASURED {
        let folder = scratch();
        let lake = record(&folder.path().join("lake"));
        let mut author = Author::default();
        author.measure(1, 0, 10);
        author.miscompile(2, 0, &[1, 2], [5, 10]);
        let mut writer = lake.writer().unwrap();
        writer.append(&author.take()).unwrap();
        writer.seal().unwrap();
        drop(writer);
        let mut wanted = read(&lake);
        flip(&second_file(&lake, table));
        assert_eq!(findings(&lake).len(), 1, "{table}");
        let done = repaired(&lake);
        let losses = done.losses.iter().map(|loss| (loss.table, loss.rows)).collect::<Vec<_>>();
        assert_eq!(losses, [(table, 1)]);
        match table {
            Table::Measurements => wanted.measurements.clear(),
            _ => wanted.miscompilations.clear(),
        }
        assert_eq!(read(&lake), wanted);
    }
}

#[test]
fn the_file_of_the_actions_is_made_again() {
    let folder = scratch();
    let lake = record(&folder.path().join("lake"));
    let newest = lake.sealed().unwrap();
    let file = newest.segments(Table::Actions)[0].path.clone();
    drop(newest);
    let shown = lake.path().join("current/actions").join(file.file_name().unwrap());
    let before = std::fs::read(&shown).unwrap();
    flip(&file);
    assert_ne!(std::fs::read(&shown).unwrap(), before, "it is the same file");
    assert_eq!(findings(&lake).len(), 1);
    // Actions that were appended later are not in it.
    let mut grown = lake.identity().clone();
    let action = ActionSpec::new("late", "late", ActionFlags::UNREMARKABLE);
    grown.action_space.actions.push(action);
    let lake = Lake::open_or_create(lake.path(), &grown).unwrap();
    let done = repair(&lake).unwrap();
    assert_eq!((done.mended, done.losses, done.snapshot), (vec![file], Vec::new(), None));
    assert_eq!(std::fs::read(&shown).unwrap(), before);
    assert_eq!(findings(&lake), [""; 0]);
}

#[test]
fn damaged_frames_go_with_the_episodes_that_they_were_of() {
    let folder = scratch();
    let origin = record(&folder.path().join("origin"));
    let before = read(&origin);
    let frames: Vec<(i64, String)> = {
        let log = rusqlite::Connection::open(origin.path().join("hot.sqlite")).unwrap();
        let mut all = log.prepare("SELECT seq, table_name FROM frames ORDER BY seq").unwrap();
        let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    assert!(frames.len() > 6);
    let mut seen = HashSet::new();
    for (seq, table) in frames {
        let path = folder.path().join(format!("frame-{seq}"));
        copy_folder(origin.path(), &path);
        let log = rusqlite::Connection::open(path.join("hot.sqlite")).unwrap();
        let body = "UPDATE frames SET body = zeroblob(length(body)) WHERE seq = ?1";
        log.execute(body, [seq]).unwrap();
        drop(log);
        let lake = Lake::open(&path).unwrap();
        let done = repaired(&lake);
        assert_eq!(done.losses[0].table.name(), table);
        assert!(done.losses[0].what.contains("its digest does not match"));
        let found = read(&lake);
        // What was sealed is all there, and whatever there is of the hot rows was there before.
        let sealed = |rows: &Rows| {
            rows.steps.iter().filter(|row| row.episode.ordinal() < 4).cloned().collect::<Vec<_>>()
        };
        assert_eq!(sealed(&found), sealed(&before));
        assert!(found.steps.iter().all(|row| before.steps.contains(row)));
        assert!(found.episodes.iter().all(|row| before.episodes.contains(row)));
        let lost = before.episodes.len() - found.episodes.len();
        assert!(lost <= 2, "{table}: {lost}");
        if table == "ir" || table == "observations" {
            assert_eq!((&found.steps, &found.episodes), (&before.steps, &before.episodes));
        }
        seen.insert(table);
    }
    assert!(seen.len() >= 4, "{seen:?}");
}

#[test]
fn a_damaged_file_that_only_older_snapshots_have_is_given_up() {
    let folder = scratch();
    let lake = record(&folder.path().join("lake"));
    lake.writer().unwrap().seal().unwrap();
    let old = lake.sealed().unwrap().id();
    derive(&lake).unwrap();
    let before = contents(lake.path());
    let live = lake.sealed().unwrap().segments(Table::StateTransitions).to_vec();
    let older = lake.snapshot_at(old).unwrap().segments(Table::StateTransitions).to_vec();
    let retired = older.into_iter().find(|segment| !live.contains(segment)).unwrap();
    let file = retired.path;
    flip(&file);
    let done = repair(&lake).unwrap();
    assert_eq!(done.older, [file]);
    derive(&lake).unwrap();
    assert_eq!(findings(&lake), [""; 0]);
    assert_eq!(contents(lake.path()), before);
    assert!(matches!(lake.snapshot_at(old), Err(LakeError::LostSnapshot { .. })));
}

#[test]
fn a_run_with_a_hole_has_the_rest_to_play() {
    let folder = scratch();
    let lake = record(&folder.path().join("lake"));
    flip(&second_file(&lake, Table::Episodes));
    repaired(&lake);
    let plan = toy_plan("random", Stop::Episodes(6), 1);
    let past = ResumeState::resume(&mut lake.writer().unwrap(), RUN, &plan).unwrap();
    // The repair dropped the third and fourth episode, and the one before the last.
    assert_eq!(past.episodes(), 5);
    assert!(past.unless_over(&plan).is_some(), "episodes are missing");
}

#[test]
fn a_power_cut_at_any_operation_of_a_repair_leaves_it_to_be_done_or_done() {
    let folder = scratch();
    let origin = record(&folder.path().join("origin"));
    for table in [Table::Benchmarks, Table::Observations, Table::StateTransitions] {
        flip(&second_file(&origin, table));
    }
    let whole = folder.path().join("whole");
    copy_folder(origin.path(), &whole);
    let whole = Lake::open(whole).unwrap();
    repaired(&whole);
    let (wanted, derived) = (read(&whole), contents(whole.path()));
    let mut cuts = 0;
    for operations in 0.. {
        let path = folder.path().join(format!("cut-{operations}"));
        copy_folder(origin.path(), &path);
        let (disk, power) = Power::disk(operations, false);
        let result = Lake::open_on(disk, &path).and_then(|lake| repair(&lake));
        power.lock().unwrap().cut();
        let lake = Lake::open(&path).unwrap();
        if result.is_err() {
            cuts += 1;
        }
        repair(&lake).unwrap();
        assert_eq!(read(&lake), wanted, "after {operations} operations");
        derive(&lake).unwrap();
        assert_eq!(findings(&lake), [""; 0]);
        assert_eq!(contents(&path), derived);
        if !power.lock().unwrap().off {
            assert!(cuts > 3, "{cuts}");
            return;
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn the_command_says_what_it_dropped_and_that_the_rest_is_sound() {
    let folder = scratch();
    let lake = record(&folder.path().join("lake"));
    let path = lake.path();
    let said = run(path, &["verify", "--repair"]);
    assert!(said.starts_with("repair: nothing is damaged\nverify: sound"), "{said}");
    assert!(said.contains("\nverify: bytes only: ") && said.contains("`handmade-v0`"), "{said}");
    flip(&second_file(&lake, Table::Steps));
    let output = steplake(path).arg("verify").output_in_time();
    assert_eq!(output.status.code(), Some(4));
    let said = run(path, &["verify", "--repair"]);
    assert!(said.contains("dropped 8 rows of steps in data/steps/steps-"), "{said}");
    assert!(said.contains("dropped 2 rows of episodes in data/episodes/episodes-"), "{said}");
    assert!(said.contains("verify: sound"), "{said}");
    let losses = run(path, &["sql", "SELECT table_name, rows FROM losses", "--format", "csv"]);
    assert_eq!(losses, "table_name,rows\nsteps,8\nepisodes,2\n");
    let writer = lake.writer().unwrap();
    let output = steplake(path).args(["verify", "--repair"]).output_in_time();
    assert_eq!(output.status.code(), Some(3));
    drop((writer, Disk::default()));
}

/// Damages the manifest's digests of the blocks of files, which have digests of their own.
fn damage_digests(lake: &Path, condition: &str) -> usize {
    let log = rusqlite::Connection::open(lake.join("hot.sqlite")).unwrap();
    let sql = format!("UPDATE segments SET blocks = zeroblob(length(blocks)) WHERE {condition}");
    log.execute(&sql, []).unwrap()
}

/// A lake whose older snapshots have files that the newest has not.
fn record_and_supersede(path: &Path) -> Lake {
    let lake = record(path);
    lake.writer().unwrap().seal().unwrap();
    derive(&lake).unwrap();
    lake
}

/// The files of all snapshots.
fn files(lake: &Lake) -> Vec<PathBuf> {
    let log = rusqlite::Connection::open(lake.path().join("hot.sqlite")).unwrap();
    let mut paths = log.prepare("SELECT DISTINCT path FROM segments ORDER BY path").unwrap();
    let paths = paths.query_map([], |row| row.get::<_, String>(0)).unwrap();
    paths.map(|path| lake.path().join(path.unwrap())).collect()
}

#[test]
fn damaged_digests_of_sound_files_are_made_anew_and_cost_nothing() {
    let folder = scratch();
    let lake = record_and_supersede(&folder.path().join("lake"));
    let (before, content) = (read(&lake), contents(lake.path()));
    let history = lake.sealed().unwrap().history().to_vec();
    let all = files(&lake);
    let newest = lake.sealed().unwrap();
    let live = Table::ALL.into_iter().map(|table| newest.segments(table).len()).sum::<usize>();
    assert!(live < all.len(), "some are retired");
    assert!(damage_digests(lake.path(), "true") >= all.len());
    let found = findings(&lake);
    let mends = |line: &&String| line.contains("a repair makes them anew");
    assert_eq!(found.iter().filter(mends).count(), all.len(), "{found:?}");
    let done = repair(&lake).unwrap();
    assert_eq!(done, Repaired { mended: all, ..Repaired::default() });
    assert!(!done.is_nothing() && repair(&lake).unwrap().is_nothing());
    assert_eq!(findings(&lake), [""; 0]);
    assert_eq!((read(&lake), contents(lake.path())), (before, content));
    // No snapshot came, and each of the old ones can be read.
    assert_eq!(lake.sealed().unwrap().history(), history);
    for row in history {
        assert!(
            lake.verify_states(Some(row.id), &mut to_the_end, &mut |_| Continue(()))
                .unwrap()
                .is_sound(),
            "{row:?}"
        );
    }
    damage_digests(lake.path(), "table_name = 'steps'");
    let said = run(lake.path(), &["verify", "--repair"]);
    assert!(said.starts_with("sound; its digests in the manifest were damaged"), "{said}");
    assert!(said.contains("verify: sound"), "{said}");
}

#[test]
fn a_damaged_file_gets_no_digests_of_what_it_holds_now() {
    let folder = scratch();
    let origin = record(&folder.path().join("origin"));
    let before = read(&origin);
    // As it was written, but for one bit; cut short; gone.
    let damages: [Damage; 3] = [
        flip,
        |path| std::fs::write(path, &std::fs::read(path).unwrap()[1..]).unwrap(),
        |path| std::fs::remove_file(path).unwrap(),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let path = folder.path().join(format!("lake-{number}"));
        copy_folder(origin.path(), &path);
        let lake = Lake::open(&path).unwrap();
        let file = second_file(&lake, Table::Steps);
        let others = files(&lake).into_iter().filter(|other| *other != file).collect::<Vec<_>>();
        damage(&file);
        damage_digests(&path, "true");
        let done = repaired(&lake);
        assert_eq!(done.mended, others, "{number}");
        let lost = done.losses.iter().map(|loss| (loss.table, loss.rows)).collect::<Vec<_>>();
        assert_eq!(lost, [(Table::Steps, 8), (Table::Episodes, 2)], "{number}");
        assert_eq!(read(&lake), without(&before, &[2, 3]), "{number}");
    }
}

#[test]
fn a_power_cut_while_digests_are_made_anew_leaves_them_to_be_made_or_made() {
    let folder = scratch();
    let origin = record_and_supersede(&folder.path().join("origin"));
    let (wanted, all) = (contents(origin.path()), files(&origin));
    damage_digests(origin.path(), "true");
    let (mut to_be_made, mut made) = (0, 0);
    for operations in 0.. {
        let path = folder.path().join(format!("cut-{operations}"));
        copy_folder(origin.path(), &path);
        let (disk, power) = Power::disk(operations, false);
        let _cut = Lake::open_on(disk, &path).and_then(|lake| repair(&lake));
        power.lock().unwrap().cut();
        let lake = Lake::open(&path).unwrap();
        let done = repair(&lake).unwrap();
        match done.mended.len() {
            0 => made += 1,
            mended => {
                assert_eq!(mended, all.len(), "after {operations} operations");
                to_be_made += 1;
            }
        }
        assert!(done.losses.is_empty() && done.older.is_empty(), "{done:?}");
        assert_eq!(findings(&lake), [""; 0], "after {operations} operations");
        assert_eq!(contents(&path), wanted, "after {operations} operations");
        if !power.lock().unwrap().off {
            assert!(to_be_made > 0 && made > 0, "{to_be_made} {made}");
            return;
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}
