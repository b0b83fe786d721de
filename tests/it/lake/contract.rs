//! The store's contract, by its public interface alone.

use std::ops::ControlFlow::Continue;
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use steplake::lake::{
    BenchmarkRow, Disk, KnownBenchmark, KnownContents, Lake, LakeError, Rows, SealReport, Table,
    Writer,
};
use steplake::model::{EpisodeId, EpisodeOutcome, FailureKind, RunId};
use steplake::upkeep::VerifyReport;

use crate::fixtures::toy_lake::{Author, bitcode, identity, read, sorted, state, uri};

const RUN: RunId = RunId(1);

fn episode(ordinal: u32) -> EpisodeId {
    EpisodeId::new(RUN, ordinal)
}

fn new_lake(folder: &tempfile::TempDir) -> (Lake, Writer) {
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    assert_eq!(writer.begin_run("{}", 5).unwrap(), RUN);
    (lake, writer)
}

/// One closed episode of two steps with all that belongs to it: 11 rows.
fn small(author: &mut Author) -> Rows {
    author.episode(episode(0), 0, &[(1, Some(1)), (2, Some(2))]);
    author.take()
}

fn verify(lake: &Lake) -> VerifyReport {
    let mut last = 0;
    lake.verify(&mut |done, total| {
        assert!(last <= done && done <= total);
        last = done;
        Continue(())
    })
    .unwrap()
}

#[test]
fn what_is_appended_is_there_before_and_after_a_seal() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    let rows = sorted(small(&mut Author::default()));
    writer.append(&rows).unwrap();
    assert_eq!(read(&lake), rows);
    let SealReport { rows: sealed, hot_bytes, segments } = writer.seal().unwrap();
    assert_eq!((sealed, hot_bytes, segments.len()), (11, 0, 5));
    assert_eq!(read(&lake), rows);
    assert!(lake.snapshot().unwrap().hot(Table::Steps).is_empty());
    assert_eq!(writer.seal().unwrap(), SealReport::default());

    let snapshot = lake.snapshot().unwrap();
    let states = [state(2), state(9), state(0), state(2)];
    let ir = snapshot.ir(&states).unwrap();
    assert_eq!(ir, [Some(bitcode(2)), None, Some(bitcode(0)), Some(bitcode(2))]);
    assert_eq!(snapshot.segments(Table::Steps)[0].key_range, Some((episode(0).0, episode(0).0)));
    let report = verify(&lake);
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!((report.ir, report.segments, report.rows[&Table::Steps]), (3, 6, 3));
}

#[test]
fn a_lake_that_nobody_used_can_be_removed_and_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    let path = lake.path().to_owned();
    writer.begin_run("{}", 0).unwrap();
    assert!(writer.is_unused().unwrap());
    let reading = lake.snapshot().unwrap();
    let refused = writer.remove_lake().unwrap_err();
    assert!(matches!(refused, LakeError::BeingRead { .. }), "{refused}");
    drop(reading);
    lake.writer().unwrap().remove_lake().unwrap();
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    let lake = Lake::create(&path, lake.identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    writer.append(&sorted(small(&mut Author::default()))).unwrap();
    assert!(!writer.is_unused().unwrap());
}

#[test]
fn open_episodes_stay_hot_until_they_are_closed_or_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    let mut author = Author::default();
    author.episode(episode(0), 0, &[(1, Some(1))]);
    author.reset(episode(1), 0);
    // State 2 is first seen in an open episode and then in a closed one; state 3 in the open one
    // only.
    author.steps(episode(1), 0, 1, &[(1, Some(2)), (1, Some(3))]);
    author.episode(episode(2), 0, &[(1, Some(2))]);
    let rows = sorted(author.take());
    writer.append(&rows).unwrap();
    writer.seal().unwrap();
    assert_eq!(read(&lake), rows);
    let snapshot = lake.snapshot().unwrap();
    let hot = |table| snapshot.hot(table).iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!((hot(Table::Steps), hot(Table::Ir), hot(Table::Episodes)), (3, 1, 0));
    assert!(verify(&lake).is_sound());

    writer.discard_open(RUN).unwrap();
    assert_eq!(writer.hot_bytes(), 0);
    let mut left = rows.clone();
    left.steps.retain(|row| row.episode != episode(1));
    left.observations.retain(|row| row.state != state(3));
    left.ir.retain(|row| row.state != state(3));
    assert_eq!(read(&lake), left);
    let closed = writer.closed_episodes(RUN).unwrap();
    assert_eq!(closed.into_iter().collect::<Vec<_>>(), [episode(0), episode(2)]);
    let states = (0..3).map(state).collect();
    let BenchmarkRow { program_digest, initial_state, baselines, .. } = rows.benchmarks[0].clone();
    let initial_state = Some(initial_state);
    let known = KnownBenchmark { program_digest, initial_state, baselines };
    let benchmarks = [(uri(0).to_string(), known)].into();
    let known = KnownContents { observed: (0..3).map(state).collect(), ir: states, benchmarks };
    assert_eq!(writer.known_states().unwrap(), known);
}

#[test]
fn a_seal_on_another_thread_lets_the_writer_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    let mut author = Author::default();
    writer.append(&small(&mut author)).unwrap();
    author.reset(episode(1), 0);
    writer.append(&author.take()).unwrap();
    let sealer = writer.sealer();
    let thread = std::thread::spawn(move || sealer.prepare());
    author.episode(episode(2), 1, &[(1, Some(5))]);
    author.steps(episode(1), 0, 1, &[(4, Some(4))]);
    writer.append(&author.take()).unwrap();
    let before = read(&lake);
    let report = writer.publish(thread.join().unwrap().unwrap()).unwrap();
    assert!(report.rows >= 11 && report.hot_bytes == writer.hot_bytes());
    assert_eq!(read(&lake), before);
    writer.seal().unwrap();
    assert_eq!(read(&lake), before);
    assert!(verify(&lake).is_sound());
}

#[test]
fn a_preparation_that_the_log_outran_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    let mut author = Author::default();
    author.reset(episode(1), 3);
    author.episode(episode(0), 0, &[(1, Some(1)), (2, Some(2))]);
    writer.append(&author.take()).unwrap();
    let prepared = writer.sealer().prepare().unwrap();
    writer.discard_open(RUN).unwrap();
    let before = read(&lake);
    assert_eq!(before.steps.len(), 3);
    writer.publish(prepared).unwrap();
    assert_eq!(read(&lake), before);
    assert_eq!(writer.hot_bytes(), 0);
    // The files of the first preparation are gone.
    assert!(only_file(&lake.path().join("data/steps")).exists());
}

#[test]
fn a_snapshot_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    let mut author = Author::default();
    writer.append(&small(&mut author)).unwrap();
    let snapshot = lake.snapshot().unwrap();
    author.episode(episode(1), 0, &[(3, Some(7))]);
    writer.append(&author.take()).unwrap();
    writer.seal().unwrap();
    assert_eq!(snapshot.rows(Table::Steps), 3);
    assert_eq!(snapshot.ir(&[state(1), state(7)]).unwrap(), [Some(bitcode(1)), None]);
    assert_eq!(lake.snapshot().unwrap().rows(Table::Steps), 5);
}

#[test]
fn runs_are_numbered_and_finished() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    assert_eq!(writer.begin_run("second", 6).unwrap(), RunId(2));
    writer.finish_run(RUN).unwrap();
    let runs = lake.snapshot().unwrap().runs().to_vec();
    assert_eq!(runs, writer.runs().unwrap());
    let shown =
        runs.iter().map(|run| (run.id.0, run.arguments.as_str(), run.started_at_ms, run.finished));
    assert_eq!(shown.collect::<Vec<_>>(), [(1, "{}", 5, true), (2, "second", 6, false)]);
}

#[test]
fn the_ir_of_any_of_many_states_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    let mut author = Author::default();
    let path = (1..1500).map(|to| (0, Some(to))).collect::<Vec<_>>();
    for (ordinal, path) in (0..).zip(path.chunks(500)) {
        author.episode(episode(ordinal), 0, path);
        writer.append(&author.take()).unwrap();
        if ordinal < 2 {
            writer.seal().unwrap();
        }
    }
    let snapshot = lake.snapshot().unwrap();
    let wanted = (0..1600).step_by(7).collect::<Vec<_>>();
    let found =
        snapshot.ir(&wanted.iter().map(|&number| state(number)).collect::<Vec<_>>()).unwrap();
    for (number, ir) in wanted.into_iter().zip(found) {
        assert_eq!(ir, (number < 1500).then(|| bitcode(number)), "state {number}");
    }
}

fn error_of<T>(result: Result<T, LakeError>) -> String {
    result.err().expect("an error").to_string()
}

#[test]
fn what_is_no_lake_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let missing = error_of(Lake::open(path.join("none")));
    assert!(missing.starts_with("there is no lake at "), "{missing}");
    assert!(error_of(Lake::open(path)).contains("it has no lake.json"));
    std::fs::write(path.join("notes.txt"), "").unwrap();
    assert!(error_of(Lake::open(path.join("notes.txt"))).contains("it is a file"));
    assert!(error_of(Lake::create(path, &identity())).contains("it holds notes.txt"));
    assert!(error_of(Lake::create(path.join("notes.txt"), &identity())).contains("it is a file"));
    Lake::create(path.join("lake"), &identity()).unwrap();
    assert!(error_of(Lake::create(path.join("lake"), &identity())).contains("a lake already"));
}

#[test]
fn a_lake_that_lost_its_lake_json_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, writer) = new_lake(&folder);
    drop(writer);
    std::fs::remove_file(lake.path().join("lake.json")).unwrap();
    assert!(
        error_of(Lake::open_or_create(lake.path(), &identity())).contains("its lake.json is gone")
    );
}

#[test]
fn another_identity_is_refused_with_both_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    Lake::open_or_create(&path, &identity()).unwrap();
    Lake::open_or_create(&path, &identity()).unwrap();
    let mut other = identity();
    other.compiler = "toy 2".into();
    let error = error_of(Lake::open_or_create(&path, &other));
    assert!(error.contains("compiler toy 1") && error.contains("toy 2"), "{error}");
    // The same actions with other findings of a probe are the same actions.
    let mut probed = identity();
    probed.action_space.actions[0].flags.slow = true;
    Lake::open_or_create(&path, &probed).unwrap();
}

#[test]
fn a_changed_lake_json_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, writer) = new_lake(&folder);
    drop(writer);
    let path = lake.path().join("lake.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("toy 1", "toy 2")).unwrap();
    for error in [error_of(Lake::open(lake.path())), error_of(lake.snapshot())] {
        assert!(error.contains("lake.json is damaged"), "{error}");
    }
    assert!(error_of(lake.writer()).contains("lake.json is damaged"));
    std::fs::write(&path, text.replace("\"format_version\": 5", "\"format_version\": 6")).unwrap();
    assert!(error_of(Lake::open(lake.path())).contains(
        "has format 6, and this steplake reads format 5: use the steplake that wrote it"
    ));
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert!(error_of(Lake::open(lake.path())).contains("lake.json is damaged"));
}

#[test]
fn segments_survive_the_loss_of_their_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    writer.append(&small(&mut Author::default())).unwrap();
    writer.seal().unwrap();
    drop(writer);
    let path = lake.path().join("hot.sqlite");
    for lose in [|path: &Path| std::fs::remove_file(path), |path: &Path| std::fs::write(path, "")] {
        lose(&path).unwrap();
        for error in [error_of(lake.writer()), error_of(lake.snapshot())] {
            assert!(error.contains("hot.sqlite is damaged: it is"), "{error}");
        }
        assert!(only_file(&lake.path().join("data/steps")).exists());
    }
}

#[test]
fn a_second_writer_is_told_who_is_writing() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, writer) = new_lake(&folder);
    let error = error_of(lake.writer());
    assert!(error.contains("another writer of this process"), "{error}");
    let elsewhere = LakeError::Busy { path: lake.path().to_owned(), pid: Some(1) };
    assert!(elsewhere.to_string().contains("another process (pid 1)"), "{elsewhere}");
    let sealer = writer.sealer();
    drop(writer);
    assert!(
        matches!(lake.writer(), Err(LakeError::Busy { .. })),
        "a sealer holds on to the right to write"
    );
    drop(sealer);
    lake.writer().unwrap();
}

fn only_file(folder: &Path) -> PathBuf {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.is_file());
    let file = files.next().unwrap();
    assert_eq!(files.next(), None);
    file
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    writer.append(&small(&mut Author::default())).unwrap();
    writer.seal().unwrap();
    for table in [Table::Benchmarks, Table::Episodes, Table::Steps, Table::Observations, Table::Ir]
    {
        let path = only_file(&lake.path().join("data").join(table.name()));
        let content = std::fs::read(&path).unwrap();
        let damaged = |what: &str, change: &dyn Fn() -> std::io::Result<()>| {
            change().unwrap();
            let findings = verify(&lake).findings;
            let line = findings.iter().find(|finding| finding.path == path);
            let line = line.unwrap_or_else(|| panic!("{table}, {what}: {findings:?}")).to_string();
            assert!(line.contains("restore the file from a copy"), "{line}");
            if table == Table::Ir {
                let error = lake.snapshot().unwrap().ir(&[state(0), state(1), state(2)]);
                assert!(
                    what.starts_with("bit") || error_of(error).contains(path.to_str().unwrap())
                );
            }
            std::fs::write(&path, &content).unwrap();
        };
        for place in [4, content.len() / 2, content.len() - 5] {
            let mut flipped = content.clone();
            flipped[place] ^= 0x10;
            damaged(&format!("bit at {place}"), &|| std::fs::write(&path, &flipped));
        }
        damaged("cut", &|| std::fs::write(&path, &content[..content.len() / 2]));
        damaged("emptied", &|| std::fs::write(&path, b""));
        damaged("gone", &|| std::fs::remove_file(&path));
    }
    assert!(verify(&lake).is_sound());
}

#[test]
fn ir_that_is_not_what_its_sha1_says_is_found_and_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    let mut rows = small(&mut Author::default());
    rows.ir[1].compressed = rows.ir[2].compressed.clone();
    rows.ir[1].bytes = rows.ir[2].bytes;
    writer.append(&rows).unwrap();
    for _ in 0..2 {
        let findings = verify(&lake).findings;
        assert!(
            findings.len() == 1 && findings[0].what.contains("is not what its SHA-1 says"),
            "{findings:?}"
        );
        let snapshot = lake.snapshot().unwrap();
        assert!(error_of(snapshot.ir(&[state(1)])).contains("is not what its SHA-1 says"));
        assert!(snapshot.ir(&[state(2)]).unwrap()[0].is_some());
        writer.seal().unwrap();
    }
}

#[test]
fn one_flipped_byte_of_stored_ir_is_found_by_its_sha1() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    let mut rows = small(&mut Author::default());
    let mut flipped = bitcode(1);
    flipped[2] ^= 1;
    rows.ir[1].compressed = zstd::bulk::compress(&flipped, 3).unwrap();
    writer.append(&rows).unwrap();
    for _ in 0..2 {
        let findings = verify(&lake).findings;
        let told = format!("the IR of {} is not what its SHA-1 says", state(1));
        assert!(findings.len() == 1 && findings[0].what.starts_with(&told), "{findings:?}");
        assert!(error_of(lake.snapshot().unwrap().ir(&[state(1)])).contains(&told));
        writer.seal().unwrap();
    }
}

#[test]
fn rows_that_contradict_each_other_are_found() {
    let find = |change: &dyn Fn(&mut Rows), wanted: &str| {
        let folder = tempfile::tempdir().unwrap();
        let (lake, mut writer) = new_lake(&folder);
        let mut rows = small(&mut Author::default());
        change(&mut rows);
        writer.append(&rows).unwrap();
        for _ in 0..2 {
            let findings = verify(&lake).findings;
            assert!(
                findings.iter().any(|finding| finding.what.contains(wanted)),
                "{wanted}: {findings:?}"
            );
            writer.seal().unwrap();
        }
    };
    find(&|rows| drop(rows.observations.pop()), "has no observations");
    find(&|rows| rows.observations.push(rows.observations[0].clone()), "is there twice");
    find(&|rows| rows.ir.push(rows.ir[0].clone()), "is there twice");
    find(&|rows| rows.benchmarks.push(rows.benchmarks[0].clone()), "is there twice");
    find(&|rows| rows.episodes.push(rows.episodes[0].clone()), "is there twice");
    find(&|rows| rows.episodes[0].steps = 7, "has other steps than its row says");
    find(&|rows| rows.benchmarks.clear(), "has no row of its own");
    find(&|rows| drop(rows.steps.remove(1)), "does not follow");
    find(&|rows| rows.steps.clear(), "has no steps");
    find(&|rows| rows.steps[2].state = None, "has other steps than its row says");
    let failed = EpisodeOutcome::Failed(FailureKind::Crash);
    find(
        &|rows| (rows.episodes[0].steps, rows.episodes[0].outcome) = (0, failed),
        "has other steps than its row says",
    );
}

#[test]
fn an_episode_that_failed_before_its_first_step_is_a_row_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    let mut author = Author::default();
    author.close(episode(1), 7, 0, false);
    writer.append(&author.take()).unwrap();
    for _ in 0..2 {
        let report = verify(&lake);
        assert!(report.is_sound(), "{:?}", report.findings);
        assert_eq!((report.rows[&Table::Episodes], report.rows[&Table::Steps]), (1, 0));
        writer.discard_open(RUN).unwrap();
        writer.seal().unwrap();
    }
    assert_eq!(writer.hot_bytes(), 0);
}

#[test]
fn a_lake_on_a_file_system_of_several_machines_is_read_and_not_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer) = new_lake(&folder);
    writer.append(&small(&mut Author::default())).unwrap();
    writer.seal().unwrap();
    drop(writer);
    let nfs = || Disk::default().with_file_system(0x6969);
    let there = Lake::open_on(nfs(), lake.path()).unwrap();
    assert_eq!(read(&there), read(&lake));
    for error in [error_of(there.writer()), error_of(there.maintenance()), error_of(there.repair())]
    {
        assert!(
            error.contains("lies on NFS, a file system that several machines share"),
            "{error}"
        );
    }
    let new = folder.path().join("new");
    let error = error_of(Lake::create_on(nfs(), &new, lake.identity()));
    assert!(error.contains("lies on NFS") && Lake::open(&new).is_err(), "{error}");
    let local = Disk::default().with_file_system(0xef53);
    drop(Lake::open_on(local, lake.path()).unwrap().writer().unwrap());
}
