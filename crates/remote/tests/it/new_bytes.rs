//! A publication sends what is new, however much the store has already.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::memory::InMemory;
use object_store::path::Path;
use steplake_lake::{
    BenchmarkRow, EpisodeRow, Identity, IrRow, Lake, ObservationRow, RecordedObservation, Rows,
    StepRow, Table, bitcode_sha1,
};
use steplake_model::{ActionIndex, Baselines, BenchmarkUri, EpisodeId, StateId, Value};
use steplake_remote::PublishOptions;
use steplake_remote::remote::Remote;

use crate::delta_tables::assert_delta_tables;
use crate::races::copy_folder;
use crate::support::{
    Wrapped, assert_derived, assert_same, assert_sound, memory, merged, objects, place_in, receive,
    send, send_plainly, toy_identity, version,
};

/// Steps with an action in an episode.
const STEPS: u32 = 100;
/// Most bytes of all that a publication of few steps puts: the files, the list twice, a manifest,
/// and a version of the Delta table of each table.
const BYTES_MAX: u64 = 400 << 10;

fn create(path: &FilePath) -> Lake {
    let observations = vec![RecordedObservation::int("Size")];
    let (rewards, baselines) = (Vec::new(), vec!["SizeO0".into()]);
    Lake::create(path, &Identity { observations, rewards, baselines, ..toy_identity() }).unwrap()
}

fn state(number: u32) -> StateId {
    StateId::from_slice(&blake3::hash(&number.to_le_bytes()).as_bytes()[..StateId::LEN])
}

/// Records a run of episodes with these numbers, each of states of its own, and seals it. Episodes
/// of one number go the same way. A lake must not have two of them.
fn record(lake: &Lake, started_at_ms: i64, numbers: Range<u32>) {
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", started_at_ms).unwrap();
    let mut rows = Rows::default();
    for (number, ordinal) in numbers.zip(0..) {
        let benchmark: BenchmarkUri = format!("generator://toy-v0/{number}").parse().unwrap();
        let (id, first) = (EpisodeId::new(run, ordinal), number * (STEPS + 1));
        rows.benchmarks.push(BenchmarkRow {
            program_digest: blake3::hash(&number.to_le_bytes()).to_hex().to_string(),
            baselines: Baselines(vec![("SizeO0".into(), i64::from(number))]),
            ..BenchmarkRow::new(benchmark.clone(), state(first))
        });
        for index in 0..=STEPS {
            let (state, size) = (state(first + index), i64::from(first + index));
            rows.steps.push(StepRow {
                action: index.checked_sub(1).map(|last| ActionIndex(last % 2)),
                state: Some(state),
                keyframe: true,
                ..StepRow::new(id, index, benchmark.clone())
            });
            let values = vec![Some(Value::Int(size))];
            rows.observations.push(ObservationRow { state, values });
            rows.ir.push(ir(state));
        }
        rows.episodes.push(EpisodeRow { steps: STEPS, ..EpisodeRow::new(id, benchmark) });
    }
    writer.append(&rows).unwrap();
    writer.finish_run(run).unwrap();
    writer.seal().unwrap();
}

/// 64 bytes of bitcode that do not compress.
fn ir(state: StateId) -> IrRow {
    let mut bitcode = [0; 64];
    blake3::Hasher::new().update(&state.0).finalize_xof().fill(&mut bitcode);
    // A frame of zstd: its magic number, one segment of 64 bytes, and one block as it is.
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 64, 0x01, 0x02, 0x00];
    let compressed = [&frame[..], &bitcode].concat();
    IrRow { state, compressed, bytes: 64, bitcode_sha1: bitcode_sha1(&bitcode) }
}

/// The bytes of objects that the store did not have before.
fn bytes_since(store: &InMemory, before: &[(Path, u64)]) -> u64 {
    let known = before.iter().map(|(path, _)| path).collect::<BTreeSet<_>>();
    let now = objects(store);
    now.iter().filter(|(path, _)| !known.contains(path)).map(|(_, bytes)| bytes).sum()
}

fn merging() -> PublishOptions {
    PublishOptions { merge: true, ..PublishOptions::default() }
}

/// Publishes the lakes one after another as one, and returns the bytes that each publication put.
fn publish_all(store: &Arc<InMemory>, remote: &Remote, lakes: &[&Lake]) -> Vec<u64> {
    let each = lakes.iter().map(|lake| {
        let before = objects(store);
        version(&send(remote, lake, &merging()).unwrap());
        bytes_since(store, &before)
    });
    each.collect()
}

/// A lake of many steps, and a later one of a few, some of which are the same.
fn large_and_small(folder: &FilePath) -> [Lake; 2] {
    let [large, small] = ["large", "small"].map(|name| create(&folder.join(name)));
    record(&large, 5, 0..200);
    record(&large, 6, 200..300);
    record(&small, 7, 297..303);
    [large, small]
}

#[test]
fn a_merge_into_a_large_version_sends_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let [large, small] = large_and_small(folder.path());
    let plain = merged(&[&small, &large], &folder.path().join("plain"));
    let (store, remote) = memory();
    let bytes = publish_all(&store, &remote, &[&large, &small]);
    assert!(bytes[0] > 10 * BYTES_MAX && bytes[1] < BYTES_MAX, "{bytes:?}");
    let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
    assert_same(&plain, &there);
    assert_sound(&there);
    assert_eq!(there.sealed().unwrap().uncounted_steps(), 0);
    assert_delta_tables(&store, &remote);
    // Both lakes go on.
    record(&small, 8, 310..313);
    record(&large, 9, 320..323);
    let bytes = publish_all(&store, &remote, &[&small, &large]);
    assert!(bytes.iter().all(|&bytes| bytes < BYTES_MAX), "{bytes:?}");
    let plain = merged(&[&large, &small], &folder.path().join("plain-again"));
    let there = receive(&remote, there.path()).unwrap().lake;
    assert_same(&plain, &there);
    assert_delta_tables(&store, &remote);
}

#[test]
fn the_order_of_publications_shows_in_the_numbers_of_runs_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let [large, small] = large_and_small(folder.path());
    let (store, remote) = memory();
    publish_all(&store, &remote, &[&small, &large]);
    let there = receive(&remote, &path("there")).unwrap().lake;
    let snapshot = there.sealed().unwrap();
    let starts = snapshot.runs().iter().map(|run| run.started_at_ms);
    assert_eq!(starts.collect::<Vec<_>>(), [7, 5, 6], "in the order of publications");
    let plain = merged(&[&large, &small], &path("plain"));
    assert_same(&plain, &merged(&[&there], &path("renumbered")));
    assert_sound(&there);
    assert_delta_tables(&store, &remote);
    assert_derived(&there);
}

/// Returns a place whose received bytes of files are counted.
fn counting(store: &Arc<InMemory>) -> (Remote, Arc<AtomicU64>) {
    let store = Wrapped::new(store, &Arc::default(), None);
    let received = Arc::clone(&store.received);
    (place_in(store), received)
}

#[test]
fn recorders_send_what_is_new_and_receive_what_others_published() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let [large, _] = large_and_small(folder.path());
    let (store, plainly) = memory();
    send_plainly(&plainly, &large);
    let (remote, received) = counting(&store);
    let receive_all = |lake: &FilePath| receive(&remote, lake).unwrap().lake;
    let recorders = [0, 1, 2].map(|number| receive_all(&path(&format!("recorder-{number}"))));
    assert!(received.load(Ordering::SeqCst) > 30 * BYTES_MAX);
    let mut by_hand = vec![large];
    for round in 0..2_u32 {
        // The later a recorder publishes, the earlier its run began.
        for (place, recorder) in (0..).zip(&recorders) {
            let run = 3 * round + place;
            record(recorder, i64::from(100 - run), 1000 + 10 * run..1003 + 10 * run);
            let copy = path(&format!("copy-{run}"));
            copy_folder(recorder.path(), &copy);
            by_hand.push(Lake::open(copy).unwrap());
        }
        for recorder in &recorders {
            let (before, received_before) = (objects(&store), received.load(Ordering::SeqCst));
            version(&send(&remote, recorder, &merging()).unwrap());
            let sent = bytes_since(&store, &before);
            receive_all(recorder.path());
            let received = received.load(Ordering::SeqCst) - received_before;
            // The newest layer has the rows of several publications. What the others published is
            // received twice: a merge keeps it no longer than it takes.
            assert!(sent < 2 * BYTES_MAX && received < 3 * BYTES_MAX, "{sent}, {received}");
        }
    }
    let there = receive_all(&path("there"));
    let by_hand = by_hand.iter().collect::<Vec<_>>();
    assert_same(&merged(&by_hand, &path("plain")), &merged(&[&there], &path("renumbered")));
    assert_same(&there, &recorders[2]);
    assert_sound(&recorders[2]);
    assert_delta_tables(&store, &remote);
    assert_derived(&there);
}

#[test]
fn new_steps_of_a_large_lake_are_sent_without_its_old_ones() {
    let folder = tempfile::tempdir().unwrap();
    let [large, _] = large_and_small(folder.path());
    let (store, remote) = memory();
    send_plainly(&remote, &large);
    let layers = |lake: &Lake| lake.sealed().unwrap().layers().len();
    assert_eq!(layers(&large), 1);
    for (started, number) in [(7, 1000), (8, 1010)] {
        record(&large, started, number..number + 3);
        let before = objects(&store);
        send_plainly(&remote, &large);
        let bytes = bytes_since(&store, &before);
        assert!(bytes < BYTES_MAX, "{bytes}");
    }
    assert_eq!(layers(&large), 2, "the small layers are one");
    let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
    assert_same(&large, &there);
    assert_delta_tables(&store, &remote);
}

#[test]
fn many_small_merges_leave_few_files() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote) = memory();
    let lakes = (0..17_u32).map(|place| {
        let lake = create(&folder.path().join(place.to_string()));
        record(&lake, place.into(), place..place + 2);
        lake
    });
    let lakes = lakes.collect::<Vec<_>>();
    let lakes = lakes.iter().collect::<Vec<_>>();
    publish_all(&store, &remote, &lakes);
    let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
    for table in [Table::Steps, Table::Observations, Table::Ir] {
        let files = there.sealed().unwrap().segments(table).len();
        assert!(files < 16, "{table}: {files}");
    }
    assert_same(&merged(&lakes, &folder.path().join("plain")), &there);
}
