//! Concurrent publishers and collections, in any order of their operations, lose nothing.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use indicatif::ProgressBar;
use object_store::memory::InMemory;
use proptest::prelude::*;
use steplake_lake::{Disk, Lake};
use steplake_remote::gc::{AGE, AGE_MIN, Collected, gc};
use steplake_remote::publish::{PublishOutcome, publish};
use steplake_remote::remote::Remote;
use steplake_remote::{PublishOptions, RemoteError};

use crate::delta_tables::assert_delta_tables;
use crate::support::{
    Fault, Times, Wrapped, assert_sound, content, derive, episodes, lake, memory, objects,
    place_at, place_in, put, receive, receive_on, record, send, send_plainly, wait,
};

/// The next event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Next {
    /// This party performs one operation.
    Party(usize),
    /// Time passes.
    Pass(Duration),
}

/// Lets parties perform one operation at a time, in the order of `order`, and then finishes them
/// one after another.
pub(crate) fn interleave<T>(
    parties: Vec<Pin<Box<dyn Future<Output = T> + '_>>>,
    order: impl IntoIterator<Item = Next>,
    times: &Times,
) -> Vec<T> {
    let mut parties = parties.into_iter().map(|party| (party, None)).collect::<Vec<_>>();
    let mut context = Context::from_waker(Waker::noop());
    let mut go = |(party, ended): &mut (Pin<Box<dyn Future<Output = T> + '_>>, Option<T>)| {
        if ended.is_none()
            && let Poll::Ready(now) = party.as_mut().poll(&mut context)
        {
            *ended = Some(now);
        }
        ended.is_some()
    };
    for next in order {
        match next {
            Next::Party(number) => drop(go(&mut parties[number])),
            Next::Pass(time) => times.pass(time),
        }
    }
    for party in &mut parties {
        while !go(party) {}
    }
    parties.into_iter().map(|(_, ended)| ended.expect("all have ended")).collect()
}

/// The result of a party.
#[derive(Debug)]
enum Ended {
    Publisher(Result<PublishOutcome, RemoteError>),
    Collections(Result<Vec<Collected>, RemoteError>),
}

async fn publisher(remote: &Remote, lake: &Lake, options: &PublishOptions) -> Ended {
    Ended::Publisher(publish(remote, lake, options, &ProgressBar::hidden()).await)
}

/// Runs two collections in a row.
async fn collections(remote: &Remote, keep: Option<NonZeroU64>) -> Ended {
    let mut done = Vec::new();
    for _ in 0..2 {
        match gc(remote, keep, AGE_MIN).await {
            Ok(collected) => done.push(collected),
            Err(error) => return Ended::Collections(Err(error)),
        }
    }
    Ended::Collections(Ok(done))
}

/// Interrupts a publication before its version exists; all objects that it sent stay.
fn leave(store: &Arc<InMemory>, times: &Arc<Times>, lake: &Lake) {
    let (rehearsal, _) = memory();
    for (path, _) in objects(store) {
        put(&rehearsal, &path, content(store, &path));
    }
    let counting = Wrapped::new(&rehearsal, times, None);
    let announcement = Arc::clone(&counting.announcement);
    send_plainly(&place_in(counting), lake);
    let at = announcement.load(Ordering::SeqCst);
    let remote = place_at(store, times, Some((at, Fault::Refuse)), 0);
    let error = send(&remote, lake, &PublishOptions::default()).unwrap_err();
    assert!(matches!(error, RemoteError::Store { .. }), "{error}");
}

/// Fetches all versions, each complete, and returns the episodes of the newest. Its Delta tables
/// must be complete too.
pub(crate) fn demand_whole(
    store: &InMemory,
    remote: &Remote,
    folder: &Path,
) -> BTreeSet<(String, u32)> {
    let mut newest = BTreeSet::new();
    assert_delta_tables(store, remote);
    for (number, manifest) in wait(remote.versions()).unwrap() {
        manifest.unwrap();
        let into = folder.join(format!("version-{number}"));
        let fetched = receive_on(Disk::default(), remote, Some(number), &into).unwrap();
        assert_sound(&fetched.lake);
        newest = episodes(&fetched.lake);
    }
    newest
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(entry.path()).unwrap(), to).unwrap();
        } else if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn event() -> impl Strategy<Value = Next> {
    prop_oneof![
        9 => (0..3_usize).prop_map(Next::Party),
        1 => prop_oneof![Just(Duration::from_hours(20)), Just(AGE_MIN), Just(AGE)]
            .prop_map(Next::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn publishers_and_collections_lose_nothing(
        order in prop::collection::vec(event(), 1..160),
        shared in any::<bool>(),
        published in any::<bool>(),
        merge in any::<bool>(),
        // Whether the second lake has something of its own.
        own in any::<bool>(),
        // How long ago publications were cut short.
        left_hours in prop_oneof![Just(0_u64), Just(23), Just(40), Just(24 * 8)],
        // How far the machines' clocks are off.
        ahead_days in prop::array::uniform3(prop_oneof![4 => Just(0_i64), 1 => -9..9_i64]),
        keep in prop::option::of(1..3_u64),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = memory();
        let times = Arc::<Times>::default();
        let remote = place_at(&store, &times, None, 0);
        let one = lake(&folder.path().join("one"));
        if shared {
            record(&one, 1, 3);
        }
        let path = folder.path().join("other");
        copy_folder(one.path(), &path);
        let other = Lake::open(&path).unwrap();
        if shared && published {
            send_plainly(&remote, &one);
        }
        record(&one, 2, 4);
        derive(&one);
        if own {
            record(&other, 3, 2);
        }
        leave(&store, &times, &one);
        times.pass(Duration::from_hours(left_hours));
        let options = PublishOptions { merge, ..PublishOptions::default() };
        let places = ahead_days.map(|days| place_at(&store, &times, None, days * 86_400_000));
        let ended = interleave(
            vec![
                Box::pin(publisher(&places[0], &one, &options)),
                Box::pin(publisher(&places[1], &other, &options)),
                Box::pin(collections(&places[2], keep.and_then(NonZeroU64::new))),
            ],
            order,
            &times,
        );
        let mut wanted = BTreeSet::new();
        for (ended, lake) in ended.iter().zip([&one, &other, &one]) {
            match ended {
                Ended::Publisher(Ok(_)) => wanted.extend(episodes(lake)),
                Ended::Publisher(Err(RemoteError::Diverged { .. })) => prop_assert!(!merge && own),
                Ended::Publisher(Err(RemoteError::NothingSealed { .. })) => {
                    prop_assert!(!shared && !own);
                }
                // It paused so long that its new objects were deleted before it checked them.
                Ended::Publisher(Err(RemoteError::Arrival { .. })) | Ended::Collections(Ok(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        let newest = demand_whole(&store, &remote, folder.path());
        prop_assert_eq!(newest, wanted);
    }
}

/// Makes an old version, the objects that a cut publication left long ago, and the lake.
fn left_long_ago(folder: &Path) -> (Arc<InMemory>, Arc<Times>, Lake) {
    let (store, _) = memory();
    let times = Arc::<Times>::default();
    let here = lake(&folder.join("here"));
    record(&here, 1, 3);
    send_plainly(&place_at(&store, &times, None, 0), &here);
    record(&here, 2, 4);
    derive(&here);
    leave(&store, &times, &here);
    (store, times, here)
}

/// Orders two parties: the second pauses after `pause` of its operations until the first is done.
fn with_pause(pause: usize) -> impl Iterator<Item = Next> {
    let before = std::iter::repeat_n(Next::Party(1), pause);
    before.chain(std::iter::repeat_n(Next::Party(0), 400))
}

#[test]
fn a_collection_that_pauses_deletes_nothing_that_was_published_meanwhile() {
    for pause in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let (store, times, here) = left_long_ago(folder.path());
        times.pass(AGE);
        let places = [(); 2].map(|()| place_at(&store, &times, None, 0));
        let before = objects(&store).len();
        let options = PublishOptions::default();
        let ended = interleave(
            vec![
                Box::pin(publisher(&places[0], &here, &options)),
                Box::pin(collections(&places[1], NonZeroU64::new(1))),
            ],
            with_pause(pause),
            &times,
        );
        assert!(
            matches!(ended[0], Ended::Publisher(Ok(PublishOutcome::Published(_)))),
            "{ended:?}"
        );
        let Ended::Collections(Ok(collected)) = &ended[1] else { panic!("{ended:?}") };
        let deleted = collected.iter().map(|it| it.objects).sum::<u64>();
        assert!(deleted > 0, "the orphaned objects are deleted");
        assert_eq!(demand_whole(&store, &places[0], folder.path()), episodes(&here));
        if pause > before + 20 {
            break;
        }
    }
}

#[test]
fn a_publication_that_pauses_for_a_week_names_nothing_that_was_deleted() {
    for pause in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let (store, times, here) = left_long_ago(folder.path());
        let places = [(); 2].map(|()| place_at(&store, &times, None, 0));
        let options = PublishOptions::default();
        let before = std::iter::repeat_n(Next::Party(1), pause);
        let order = before.chain([Next::Pass(AGE)]).chain(with_pause(0));
        let ended = interleave(
            vec![
                Box::pin(collections(&places[0], None)),
                Box::pin(publisher(&places[1], &here, &options)),
            ],
            order,
            &times,
        );
        match &ended[1] {
            Ended::Publisher(Ok(PublishOutcome::Published(_))) => {}
            // It paused between sending something and checking that it arrived.
            Ended::Publisher(Err(RemoteError::Arrival { .. })) => {
                send_plainly(&places[1], &here);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(demand_whole(&store, &places[0], folder.path()), episodes(&here));
    }
}

#[test]
fn a_publisher_whose_lake_lacks_something_is_told_to_merge() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let lakes = ["one", "other"].map(|name| lake(&folder.path().join(name)));
    record(&lakes[0], 1, 3);
    record(&lakes[1], 2, 2);
    send_plainly(&remote, &lakes[0]);
    let error = send(&remote, &lakes[1], &PublishOptions::default()).unwrap_err();
    assert!(matches!(error, RemoteError::Diverged { version: 1, .. }), "{error}");
    assert!(error.to_string().contains("publish memory:///some/where --merge"), "{error}");
    let merge = PublishOptions { merge: true, ..PublishOptions::default() };
    let PublishOutcome::Published(sent) = send(&remote, &lakes[1], &merge).unwrap() else {
        panic!("it has something of its own")
    };
    assert!(sent.version == 2 && sent.merged);
    // The version has everything of both lakes, as a merge shows.
    for lake in &lakes {
        assert_eq!(send(&remote, lake, &merge).unwrap(), PublishOutcome::UpToDate { version: 2 });
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "the temporary folder is deleted");
    let fetched = receive(&remote, &folder.path().join("there")).unwrap().lake;
    let all = lakes.iter().flat_map(episodes).collect::<BTreeSet<_>>();
    assert_eq!(episodes(&fetched), all);
}
