//! A publication sends what is new, however much the store has already.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path as FilePath;
use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path;
use steplake_lake::transfer::merge::{MergeOptions, merge};
use steplake_lake::{
    BenchmarkRow, Disk, EpisodeRow, Identity, IrRow, Lake, ObservationRow, RecordedObservation,
    Rows, StepRow, Table, bitcode_sha1,
};
use steplake_model::{ActionIndex, Baselines, BenchmarkUri, EpisodeId, StateId, Value};
use steplake_remote::PublishOptions;
use steplake_remote::remote::Remote;

use crate::delta_tables::assert_delta_tables;
use crate::support::{
    assert_same, assert_sound, derive, memory, objects, receive, send, send_plainly, toy_identity,
    version,
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

fn merged(lakes: &[&Lake], into: &FilePath) -> Lake {
    let lakes = lakes.iter().map(|&lake| lake.clone()).collect::<Vec<_>>();
    let options = MergeOptions::default();
    let (lake, _) = merge(Disk::default(), &lakes, into, &options, &mut |_, _| ()).unwrap();
    derive(&lake);
    lake
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
fn the_order_of_publications_shows_in_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let [large, small] = large_and_small(folder.path());
    let (store, remote) = memory();
    // The runs of the small lake get other numbers.
    publish_all(&store, &remote, &[&small, &large]);
    let there = receive(&remote, &folder.path().join("there")).unwrap().lake;
    assert_same(&merged(&[&large, &small], &folder.path().join("plain")), &there);
    assert_sound(&there);
    assert_delta_tables(&store, &remote);
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
