//! Recorders that share one published lake: each records a run, publishes both, and fetches both.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use indicatif::ProgressBar;
use object_store::memory::InMemory;
use proptest::prelude::*;
use steplake_lake::{Disk, Lake, LakeError, Table, to_the_end};
use steplake_model::RunId;
use steplake_remote::fetch::{Fetched, fetch};
use steplake_remote::publish::publish;
use steplake_remote::remote::Remote;
use steplake_remote::{FetchOptions, PublishOptions, RemoteError};

use crate::races::{Next, copy_folder, demand_whole, interleave};
use crate::support::{
    Times, Wrapped, assert_derived, assert_same, assert_sound, content, episodes, lake, memory,
    merged, objects, place_at, place_in, play, put, receive, receive_on, record, record_unsealed,
    rows, send, send_plainly, version,
};

fn merging() -> PublishOptions {
    PublishOptions { merge: true, ..PublishOptions::default() }
}

/// Asserts that a fetch into a lake is refused, and changes nothing.
fn refuse(fetched: Result<Fetched, RemoteError>, lake: &Lake) {
    let before = rows(lake, Table::Steps);
    let error = fetched.unwrap_err();
    assert!(matches!(error, RemoteError::Lake(LakeError::OwnWork { .. })), "{error}");
    assert!(error.to_string().contains("publish it"), "{error}");
    assert_eq!(rows(lake, Table::Steps), before);
}

#[test]
fn a_lake_becomes_the_version_that_has_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (_store, remote) = memory();
    let [one, other] = ["one", "other"].map(|name| lake(&path(name)));
    record(&one, 1, 3);
    send_plainly(&remote, &one);
    record(&other, 2, 4);
    // Nothing of this lake is published.
    refuse(receive(&remote, other.path()), &other);
    send(&remote, &other, &merging()).unwrap();
    record(&one, 3, 2);
    // What this one has recorded since its publication is not.
    refuse(receive(&remote, one.path()), &one);
    assert_eq!(version(&send(&remote, &one, &merging()).unwrap()), 3);
    // The later version is built on the one that has all of the other lake.
    for lake in [&one, &other] {
        assert_eq!(receive(&remote, lake.path()).unwrap().version, 3);
        assert_sound(lake);
    }
    assert_same(&one, &other);
    assert_eq!(one.sealed().unwrap().runs().len(), 3);
    assert_derived(&one);
}

#[test]
fn a_fetch_that_would_lose_something_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (store, remote) = memory();
    let [here, other] = ["here", "other"].map(|name| lake(&path(name)));
    record(&other, 1, 3);
    send_plainly(&remote, &other);
    record(&here, 2, 2);
    send(&remote, &here, &merging()).unwrap();
    let published = |name: &str| {
        copy_folder(here.path(), &path(name));
        Lake::open(path(name)).unwrap()
    };
    // An older version, and another place.
    refuse(receive_on(Disk::default(), &remote, Some(1), here.path()), &here);
    let (_elsewhere, elsewhere) = memory();
    send_plainly(&elsewhere, &other);
    refuse(receive(&elsewhere, here.path()), &here);
    // Something newer than the publication.
    let recorded = published("recorded");
    record_unsealed(&recorded, 3, 1);
    refuse(receive(&remote, recorded.path()), &recorded);
    let retracted = published("retracted");
    let run = steplake_lake::upkeep::RetractionTarget::Run(RunId(1));
    let mut rights = (retracted.maintenance().unwrap(), retracted.writer().unwrap());
    rights.0.retract(&mut rights.1, &run, "a test").unwrap();
    drop(rights);
    refuse(receive(&remote, retracted.path()), &retracted);
    // A version that was built on the one before that publication, since this was damaged.
    let manifest = object_store::path::Path::from("some/where/manifests/00000000000000000002.json");
    let whole = content(&store, &manifest);
    put(&store, &manifest, "{".into());
    record(&other, 4, 2);
    let options = PublishOptions { replace_damaged: true, ..PublishOptions::default() };
    assert_eq!(version(&send(&remote, &other, &options).unwrap()), 3);
    for content in ["{".into(), whole] {
        put(&store, &manifest, content);
        refuse(receive(&remote, here.path()), &here);
    }
    // Publishing again brings it back.
    assert_eq!(version(&send(&remote, &here, &merging()).unwrap()), 4);
    assert_eq!(receive(&remote, here.path()).unwrap().version, 4);
    assert_eq!(here.sealed().unwrap().runs().len(), 3);
}

#[test]
fn a_damaged_local_file_is_not_taken_for_the_versions() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (store, remote) = memory();
    let [here, other] = ["here", "other"].map(|name| lake(&path(name)));
    record(&here, 1, 4);
    send_plainly(&remote, &here);
    record(&other, 2, 3);
    send(&remote, &other, &merging()).unwrap();
    // The lake has a run of its own, and a file of the version, which is damaged here.
    record(&here, 3, 2);
    let shared = here.sealed().unwrap().segments(Table::Steps)[0].path.clone();
    let intact = std::fs::read(&shared).unwrap();
    damage(&shared);
    assert_eq!(version(&send(&remote, &here, &merging()).unwrap()), 3);
    let there = receive(&remote, &path("there")).unwrap().lake;
    assert_sound(&there);
    assert_eq!(rows(&there, Table::Episodes).len(), 4 + 3 + 2);
    // One that the version lacks is not published.
    std::fs::write(&shared, intact).unwrap();
    record(&here, 4, 2);
    let own = here.sealed().unwrap().segments(Table::Observations).last().unwrap().path.clone();
    damage(&own);
    let before = objects(&store);
    let error = send(&remote, &here, &merging()).unwrap_err().to_string();
    assert!(error.contains(own.to_str().unwrap()), "{error}");
    assert_eq!(objects(&store), before);
}

#[test]
fn what_a_repair_left_of_files_that_are_not_published_is_not_taken_for_published() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (_store, remote) = memory();
    let [here, other] = ["here", "other"].map(|name| lake(&path(name)));
    // A run that is not finished when it is published, and goes on.
    let mut writer = here.writer().unwrap();
    let run = writer.begin_run("seed 1", 1).unwrap();
    play(writer, run, 1, 2).seal().unwrap();
    send_plainly(&remote, &here);
    record(&other, 2, 2);
    send(&remote, &other, &merging()).unwrap();
    let files = || {
        let snapshot = here.sealed().unwrap();
        let tables = Table::ALL.into_iter().flat_map(|table| snapshot.segments(table));
        tables.map(|segment| segment.path.clone()).collect::<Vec<_>>()
    };
    let known = files();
    play(here.writer().unwrap(), run, 1, 5).seal().unwrap();
    refuse(receive(&remote, here.path()), &here);
    // Nothing that was added since is left as it was.
    files().iter().filter(|path| !known.contains(path)).for_each(|path| damage(path));
    here.repair().unwrap();
    let fetched = receive(&remote, here.path());
    let error = fetched.unwrap_err();
    assert!(matches!(error, RemoteError::Lake(LakeError::OwnWork { .. })), "{error}");
}

#[test]
fn a_publication_takes_files_of_older_snapshots_from_the_lake() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let store = Arc::new(InMemory::new());
    let wrapped = Wrapped::new(&store, &Arc::default(), None);
    let received = Arc::clone(&wrapped.received);
    let remote = place_in(wrapped);
    let [here, other] = ["here", "other"].map(|name| lake(&path(name)));
    for seed in 0..20 {
        record(&here, seed, 2);
    }
    send_plainly(&remote, &here);
    record(&other, 100, 1);
    send(&remote, &other, &merging()).unwrap();
    let before = here.sealed().unwrap();
    assert!(here.writer().unwrap().compact(&mut to_the_end).unwrap().merged > 0);
    record(&here, 200, 1);
    received.store(0, Ordering::SeqCst);
    send(&remote, &here, &merging()).unwrap();
    let all = Table::ALL.into_iter().flat_map(|table| before.segments(table));
    let all = all.map(|segment| segment.bytes).sum::<u64>();
    let received = received.load(Ordering::SeqCst);
    assert!(received < all / 5, "{received} of {all} bytes");
}

/// Flips a bit of a file.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[100] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Records a run, publishes it with the version, and fetches both; as often as there are seeds.
/// `by_hand` gets a copy of the lake with each run.
async fn recorder(
    remote: &Remote,
    lake: &Lake,
    seeds: &[i64],
    by_hand: &Path,
) -> Result<(), RemoteError> {
    for &seed in seeds {
        record(lake, seed, 2);
        copy_folder(lake.path(), &by_hand.join(seed.to_string()));
        publish_and_fetch(remote, lake).await?;
    }
    Ok(())
}

async fn publish_and_fetch(remote: &Remote, lake: &Lake) -> Result<(), RemoteError> {
    let bar = ProgressBar::hidden();
    publish(remote, lake, &merging(), &bar).await?;
    fetch(remote, None, lake.path(), Disk::default(), &FetchOptions::default(), &bar).await?;
    Ok(())
}

/// A future that is dropped after so many polls.
struct Cut<F> {
    party: Option<Pin<Box<F>>>,
    polls: usize,
}

impl<F: Future> Future for Cut<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(polls) = self.polls.checked_sub(1) else {
            self.party = None;
            return Poll::Ready(None);
        };
        self.polls = polls;
        let party = self.party.as_mut().expect("it is polled until it has ended");
        party.as_mut().poll(context).map(Some)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn recorders_lose_nothing_and_publish_nothing_twice(
        order in prop::collection::vec((0..3_usize).prop_map(Next::Party), 1..400),
        // The recorder that is cut short, and when.
        cut in 0..3_usize,
        polls in 1..300_usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (store, remote) = memory();
        let times = Arc::<Times>::default();
        let by_hand = folder.path().join("by-hand");
        let lakes = [0, 1, 2].map(|number| lake(&folder.path().join(format!("recorder-{number}"))));
        let seeds = [[1, 4], [2, 5], [3, 6]];
        let places = [(); 3].map(|()| place_at(&store, &times, None, 0));
        let parties = (0..3).map(|party| {
            let recording = recorder(&places[party], &lakes[party], &seeds[party], &by_hand);
            let polls = if party == cut { polls } else { usize::MAX };
            let party = Cut { party: Some(Box::pin(recording)), polls };
            Box::pin(party) as Pin<Box<dyn Future<Output = Option<Result<(), RemoteError>>> + '_>>
        });
        let ended = interleave(parties.collect::<Vec<_>>(), order, &times);
        for (party, ended) in ended.into_iter().enumerate() {
            if let Some(ended) = ended {
                ended.unwrap();
            } else {
                prop_assert_eq!(party, cut);
            }
        }
        // It starts again.
        crate::support::wait(publish_and_fetch(&remote, &lakes[cut])).unwrap();
        let copies = std::fs::read_dir(&by_hand).unwrap();
        let copies = copies.map(|copy| Lake::open(copy.unwrap().path()).unwrap());
        let copies = copies.collect::<Vec<_>>();
        let plain = merged(&copies.iter().collect::<Vec<_>>(), &folder.path().join("plain"));
        let newest = demand_whole(&store, &remote, folder.path());
        prop_assert_eq!(&newest, &episodes(&plain));
        let there = &lakes[cut];
        prop_assert_eq!(rows(there, Table::Episodes).len(), newest.len(), "nothing is there twice");
        assert_same(&plain, &merged(&[there], &folder.path().join("renumbered")));
        assert_derived(there);
    }
}
