//! Publications, also interrupted ones.

use steplake_lake::dedup::{DedupOptions, dedup};
use steplake_lake::upkeep::{Keep, RetractionTarget};
use steplake_lake::{
    BenchmarkRow, Disk, EpisodeRow, Identity, Lake, ObservationRow, RecordedObservation, Rows,
    ScanColumns, StepRow, Table, to_the_end,
};
use steplake_model::{EpisodeId, StateId, Value};
use steplake_remote::publish::PublishOutcome;
use steplake_remote::remote::Remote;
use steplake_remote::{PublishOptions, RemoteError};

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use object_store::path::Path;
use steplake_remote::gc::{AGE, gc};

use crate::delta_tables::assert_delta_tables;
use crate::races::copy_folder;
use crate::support::{
    Fault, Wrapped, assert_same, assert_sound, content, derive, lake, memory, objects, place_in,
    put, receive, receive_on, record, record_unsealed, rows, rows_of, segment, send, send_plainly,
    toy_identity, version, wait,
};

#[test]
fn a_fetched_lake_equals_the_published_one() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 7);
    derive(&here);
    let PublishOutcome::Published(sent) = send_plainly(&remote, &here) else { panic!("it is new") };
    assert_eq!((sent.version, sent.files, sent.merged), (1, sent.files_sent, false));
    let fetched = receive(&remote, &folder.path().join("there")).unwrap();
    assert_eq!((fetched.version, fetched.files_fetched), (1, fetched.files));
    assert_same(&here, &fetched.lake);
    assert_sound(&fetched.lake);
    assert_eq!(send_plainly(&remote, &here), PublishOutcome::UpToDate { version: 1 });
    assert_eq!(send_plainly(&remote, &fetched.lake), PublishOutcome::UpToDate { version: 1 });
}

#[test]
fn only_new_files_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 7);
    let options = PublishOptions { part_bytes: 777, read_back: true, ..PublishOptions::default() };
    let PublishOutcome::Published(first) = send(&remote, &here, &options).unwrap() else {
        panic!("it is new")
    };
    let digests = || {
        let files = here.sealed().unwrap().inventory().files;
        files.into_iter().map(|row| row.digest).collect::<BTreeSet<_>>()
    };
    let before = digests();
    record(&here, 2, 4);
    let PublishOutcome::Published(second) = send(&remote, &here, &options).unwrap() else {
        panic!("it is new")
    };
    let known = digests().intersection(&before).count() as u64;
    assert!(known >= 5, "no file of a recorded table is sent again");
    assert_eq!((second.version, second.files - second.files_sent), (2, known));
    assert_eq!(first.files_sent, first.files);
    let fetched = receive(&remote, &folder.path().join("there")).unwrap();
    assert_same(&here, &fetched.lake);
}

#[test]
fn retracted_rows_are_not_published_again() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 7);
    send_plainly(&remote, &here);
    let uri = "generator://toy-v0/1".parse().unwrap();
    let (mut maintenance, mut writer) = (here.maintenance().unwrap(), here.writer().unwrap());
    maintenance.retract(&mut writer, &RetractionTarget::benchmark(uri), "a test").unwrap();
    drop((maintenance, writer));
    derive(&here);
    assert_eq!(version(&send_plainly(&remote, &here)), 2);
    let fetched = receive(&remote, &folder.path().join("there")).unwrap();
    assert_same(&here, &fetched.lake);
    assert!(rows(&fetched.lake, Table::Benchmarks).iter().all(|row| !row.contains("toy-v0/1")));
    assert_eq!(fetched.lake.sealed().unwrap().retractions().len(), 1);
    // A lake that still has the rows does not publish them again.
    let older = folder.path().join("older");
    let fetched = receive_on(Disk::default(), &remote, Some(1), &older).unwrap();
    let error = send(&remote, &fetched.lake, &PublishOptions::default()).unwrap_err();
    assert!(matches!(error, RemoteError::Diverged { version: 2, .. }), "{error}");
    let merge = PublishOptions { merge: true, ..PublishOptions::default() };
    let merged = send(&remote, &fetched.lake, &merge).unwrap();
    assert_eq!(merged, PublishOutcome::UpToDate { version: 2 });
    // The same holds if the lake has expired its older snapshots.
    here.maintenance().unwrap().expire(Keep::Newest(std::num::NonZeroU64::MIN)).unwrap();
    let gone = send_plainly(&remote, &here);
    assert_eq!(gone, PublishOutcome::UpToDate { version: 2 });
}

#[test]
fn each_failing_operation_leaves_versions_whole() {
    let folder = tempfile::tempdir().unwrap();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 4);
    let (store, remote) = memory();
    send_plainly(&remote, &here);
    let before =
        objects(&store).into_iter().map(|(path, _)| (path.clone(), content(&store, &path)));
    let before = before.collect::<Vec<_>>();
    record(&here, 2, 3);
    derive(&here);
    for fault in Fault::ALL {
        let mut at = 0;
        loop {
            let (store, remote) = memory();
            for (path, content) in &before {
                put(&store, path, content.clone());
            }
            let faulty = Wrapped::new(&store, &Arc::default(), Some((at, fault)));
            let operations = Arc::clone(&faulty.operations);
            let announcement = Arc::clone(&faulty.announcement);
            let outcome = send(&place_in(faulty), &here, &PublishOptions::default());
            let newest = wait(remote.newest()).unwrap().unwrap();
            let into = folder.path().join(format!("{fault:?}-{at}"));
            let fetched = receive(&remote, &into).unwrap();
            assert_sound(&fetched.lake);
            match &outcome {
                Ok(outcome) => assert_eq!(version(outcome), 2),
                Err(RemoteError::Store { .. } | RemoteError::DeltaTables { .. }) => {}
                Err(other) => panic!("operation {at}: {other}"),
            }
            // If the answer to the last operation was lost, the version exists all the same.
            if newest.manifest.version == 1 {
                assert!(outcome.is_err());
                assert_eq!(version(&send_plainly(&remote, &here)), 2);
            } else {
                assert_eq!(send_plainly(&remote, &here), PublishOutcome::UpToDate { version: 2 });
            }
            let fetched = receive(&remote, &into).unwrap();
            assert_same(&here, &fetched.lake);
            // Whatever was missing of the Delta tables is complete now.
            assert_delta_tables(&store, &remote);
            if operations.load(Ordering::SeqCst) <= at {
                assert!(at > 10 && outcome.is_ok(), "the fault comes at some operation");
                break;
            }
            // Many operations write the Delta tables: `delta_tables` fails each of them.
            let announcement = announcement.load(Ordering::SeqCst);
            at += if announcement > 0 && at > announcement { 9 } else { 1 };
        }
    }
}

#[test]
fn damage_is_not_published() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 4);
    let path = here.sealed().unwrap().segments(Table::Steps)[0].path.clone();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let error = send(&remote, &here, &PublishOptions::default()).unwrap_err();
    assert!(error.to_string().contains("digest"), "{error}");
    assert!(objects(&store).iter().all(|(path, _)| !path.as_ref().contains("manifests")));
}

#[test]
fn damaged_objects_are_sent_again_under_new_names() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 4);
    send_plainly(&remote, &here);
    let before = objects(&store);
    let path = segment(&before, Table::Steps);
    let mut flipped = content(&store, &path).to_vec();
    flipped[50] ^= 8;
    put(&store, &path, flipped.into());
    let there = folder.path().join("there");
    receive(&remote, &there).unwrap_err();
    // Existing objects are not touched: a fetch of the older version fails as before.
    let options = PublishOptions { read_back: true, ..PublishOptions::default() };
    let PublishOutcome::Published(sent) = send(&remote, &here, &options).unwrap() else {
        panic!("it is mended")
    };
    assert_eq!((sent.version, sent.files_sent, sent.repaired), (2, 1, true));
    assert_same(&here, &receive(&remote, &there).unwrap().lake);
    assert_eq!(send(&remote, &here, &options).unwrap(), PublishOutcome::UpToDate { version: 2 });
    let older = receive_on(Disk::default(), &remote, Some(1), &folder.path().join("older"));
    assert!(matches!(older, Err(RemoteError::Damaged { .. })));
}

#[test]
fn a_repair_keeps_the_rows_of_a_newer_version() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 4);
    send_plainly(&remote, &here);
    let older = receive(&remote, &folder.path().join("older")).unwrap().lake;
    let first = objects(&store);
    record(&here, 2, 3);
    derive(&here);
    send_plainly(&remote, &here);
    put(&store, &segment(&first, Table::Episodes), "short".into());
    let options = PublishOptions { read_back: true, ..PublishOptions::default() };
    assert_eq!(version(&send(&remote, &older, &options).unwrap()), 3);
    assert_same(&here, &receive(&remote, &folder.path().join("there")).unwrap().lake);
}

#[test]
fn publishing_continues_past_a_damaged_version() {
    let folder = tempfile::tempdir().unwrap();
    for damaged in ["some/where/lists/", "some/where/manifests/00000000000000000002"] {
        let folder = folder.path().join(&damaged[11..16]);
        let (store, remote) = memory();
        let here = lake(&folder.join("here"));
        record(&here, 1, 4);
        send_plainly(&remote, &here);
        let first = receive(&remote, &folder.join("first")).unwrap().lake;
        let known = objects(&store);
        record(&here, 2, 3);
        derive(&here);
        send_plainly(&remote, &here);
        let new = objects(&store).into_iter().filter(|it| !known.contains(it));
        let (path, _) = new.into_iter().find(|it| it.0.as_ref().starts_with(damaged)).unwrap();
        put(&store, &path, "{".into());
        let error = send(&remote, &here, &PublishOptions::default()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(path.filename().unwrap()), "{said}");
        assert!(said.contains("--replace-damaged"), "{said}");
        // The versions are still listed.
        let versions = wait(remote.versions()).unwrap();
        let readable = versions.iter().map(|it| (it.0, it.1.is_ok())).collect::<Vec<_>>();
        assert_eq!(readable, [(1, true), (2, damaged.contains("lists"))]);

        let options = PublishOptions { replace_damaged: true, ..PublishOptions::default() };
        assert_eq!(version(&send(&remote, &here, &options).unwrap()), 3);
        assert_same(&here, &receive(&remote, &folder.join("there")).unwrap().lake);
        // Without damage, the option changes nothing.
        assert_eq!(
            send(&remote, &here, &options).unwrap(),
            PublishOutcome::UpToDate { version: 3 }
        );
        // An unreadable version is not kept for that.
        let one = std::num::NonZeroU64::new(1);
        assert_eq!(wait(gc(&remote, one, AGE)).unwrap().versions, 2);
        assert_eq!(wait(remote.versions()).unwrap().len(), 1);
        drop(first);
    }
}

#[test]
fn a_lake_with_less_than_the_last_intact_version_does_not_replace_a_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 4);
    send_plainly(&remote, &here);
    let first = receive(&remote, &folder.path().join("first")).unwrap().lake;
    record(&here, 2, 3);
    send_plainly(&remote, &here);
    record(&here, 3, 2);
    send_plainly(&remote, &here);
    let manifest = Path::from("some/where/manifests/00000000000000000003.json");
    put(&store, &manifest, "{".into());
    let options = PublishOptions { replace_damaged: true, ..PublishOptions::default() };
    let error = send(&remote, &first, &options).unwrap_err();
    assert!(matches!(error, RemoteError::Diverged { version: 2, .. }), "{error}");
    let options = PublishOptions { merge: true, ..options };
    assert_eq!(version(&send(&remote, &first, &options).unwrap()), 4);
    let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
    let second = receive_on(Disk::default(), &remote, Some(2), &folder.path().join("second"));
    assert_same(&second.unwrap().lake, &there);
}

#[test]
fn only_what_is_sealed_is_merged_and_published() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let [one, other] = ["one", "other"].map(|name| lake(&folder.path().join(name)));
    record(&one, 1, 3);
    send_plainly(&remote, &one);
    record(&other, 2, 2);
    let sealed = rows(&other, Table::Episodes).len();
    record_unsealed(&other, 3, 4);
    let all = rows(&other, Table::Episodes).len();
    assert!(all > sealed);
    let merge = PublishOptions { merge: true, ..PublishOptions::default() };
    // Another process records into the lake, so nothing more is sealed.
    let writer = other.writer().unwrap();
    assert_eq!(version(&send(&remote, &other, &merge).unwrap()), 2);
    let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
    assert_eq!(rows(&there, Table::Episodes).len(), 3 + sealed);
    let finished =
        there.sealed().unwrap().runs().iter().map(|run| run.finished).collect::<Vec<_>>();
    assert_eq!(finished, [true, true, false], "the runs are in the order of their seeds");
    // Everything sealed is there, and merging shows it.
    assert_eq!(send(&remote, &other, &merge).unwrap(), PublishOutcome::UpToDate { version: 2 });
    drop(writer);
    assert_eq!(version(&send(&remote, &other, &merge).unwrap()), 3);
    let there = receive(&remote, there.path()).unwrap().lake;
    assert_eq!(rows(&there, Table::Episodes).len(), 3 + all);
    assert!(there.sealed().unwrap().runs().iter().all(|run| run.finished));
}

#[test]
fn a_lake_that_adds_values_alone_is_merged_into_a_new_version() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    let spaces = ["Left", "Right"].map(RecordedObservation::int);
    let none = || Identity { rewards: Vec::new(), baselines: Vec::new(), ..toy_identity() };
    let created = Lake::create(&one, &Identity { observations: spaces.into(), ..none() }).unwrap();
    let run = created.writer().unwrap().begin_run("{}", 1).unwrap();
    copy_folder(&one, &other);
    // Both have the same episode, and each observed its state in a space of its own.
    let (state, episode) = (StateId([7; StateId::LEN]), episode_of(EpisodeId::new(run, 0)));
    let values = [[Some(Value::Int(1)), None], [None, Some(Value::Int(2))]];
    let [one, other] = [(one, &values[0]), (other, &values[1])].map(|(path, values)| {
        let benchmark = BenchmarkRow {
            program_digest: "0".repeat(64),
            ..BenchmarkRow::new(episode.benchmark.clone(), state)
        };
        let step = StepRow {
            state: Some(state),
            ..StepRow::new(episode.id, 0, episode.benchmark.clone())
        };
        let rows = Rows {
            benchmarks: vec![benchmark],
            episodes: vec![episode.clone()],
            steps: vec![step],
            observations: vec![ObservationRow { state, values: values.to_vec() }],
            ..Rows::default()
        };
        let lake = Lake::open(path).unwrap();
        lake.writer().unwrap().append(&rows).unwrap();
        lake
    });
    send_plainly(&remote, &one);
    let merge = PublishOptions { merge: true, ..PublishOptions::default() };
    assert_eq!(version(&send(&remote, &other, &merge).unwrap()), 2);
    let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
    let rows = rows_of(&there, Table::Observations, ScanColumns::Named(&["Left", "Right"]));
    assert!(rows.len() == 1 && !rows[0].contains("null"), "{rows:?}");
    for lake in [&one, &other] {
        assert_eq!(send(&remote, lake, &merge).unwrap(), PublishOutcome::UpToDate { version: 2 });
    }
}

#[test]
fn a_published_lake_has_layers_that_count_all_sealed_steps() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    let layered = DedupOptions { one_layer_rows_max: 0, tier: 0, lag: 0, ..Default::default() };
    let layers = |lake: &Lake| lake.sealed().unwrap().layers().len();
    for (seed, is_counted) in [(1, true), (2, true), (3, false)] {
        record(&here, seed, 3);
        if is_counted {
            dedup(&mut here.maintenance().unwrap(), layered, &mut to_the_end).unwrap();
        }
    }
    assert_eq!(layers(&here), 2);
    // A few rows become one layer if steps are new, and stay as they are otherwise.
    for layers_there in [1, 2] {
        send_plainly(&remote, &here);
        let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
        assert_eq!(layers(&there), layers_there);
        assert_eq!(there.sealed().unwrap().uncounted().count(), 0);
        assert_same(&here, &there);
        record(&here, 4, 3);
        dedup(&mut here.maintenance().unwrap(), layered, &mut to_the_end).unwrap();
    }
}

#[test]
fn a_lake_without_sealed_episodes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    let refused = || {
        let error = send(&remote, &here, &PublishOptions::default()).unwrap_err();
        assert!(matches!(error, RemoteError::NothingSealed { .. }), "{error}");
        assert!(objects(&store).is_empty());
    };
    refused();
    record_unsealed(&here, 1, 2);
    let writer = here.writer().unwrap();
    refused();
    drop(writer);
    assert_eq!(version(&send_plainly(&remote, &here)), 1);
}

#[test]
fn a_store_that_ignores_conditional_writes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 4);
    let careless = Wrapped::careless(&store);
    let error = send(&place_in(careless), &here, &PublishOptions::default()).unwrap_err();
    assert!(matches!(error, RemoteError::Unconditional { .. }), "{error}");
    assert!(objects(&store).iter().all(|(path, _)| !path.as_ref().contains("manifests")));
}

#[test]
fn another_lake_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 4);
    send_plainly(&remote, &here);
    let mut identity = toy_identity();
    identity.compiler = "toy 99".into();
    let other = Lake::create(folder.path().join("other"), &identity).unwrap();
    let rows = Rows { episodes: vec![episode_of(EpisodeId(0))], ..Rows::default() };
    other.writer().unwrap().append(&rows).unwrap();
    let error = send(&remote, &other, &PublishOptions::default()).unwrap_err().to_string();
    assert!(error.contains("compiler") && error.contains("toy 99"), "{error}");
}

#[test]
fn a_wrong_address_is_explained() {
    for (address, what) in [
        ("lake", "relative"),
        ("ftp://host/lake", "ftp:// is not supported"),
        ("s3:///lake", "bucket"),
        ("file://tmp/lake", "file:///"),
    ] {
        let error = Remote::open(address, None, false).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains("s3://BUCKET/PREFIX"), "{error}");
    }
}

/// An episode without steps.
fn episode_of(id: EpisodeId) -> EpisodeRow {
    EpisodeRow {
        seed: 1,
        policy: "random".into(),
        ..EpisodeRow::new(id, "generator://toy-v0/1".parse().unwrap())
    }
}
