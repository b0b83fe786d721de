//! Two publishers at once, in any order of their operations: nothing is lost.

use std::collections::BTreeSet;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use indicatif::ProgressBar;
use proptest::prelude::*;
use steplake::store::Lake;
use steplake_remote::RemoteError;
use steplake_remote::publish::{Outcome, Settings, publish};

use crate::support::{
    Wrapped, assert_sound, derive, episodes, lake, memory, place_in, receive, record, send,
    send_plainly, wait,
};

type Ended = Result<Outcome, RemoteError>;

/// Lets two publications go on by one operation at a time, in turns that `order` says.
fn interleave(
    one: impl Future<Output = Ended>,
    other: impl Future<Output = Ended>,
    order: &[bool],
) -> [Ended; 2] {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    let mut context = Context::from_waker(Waker::noop());
    for turn in 0.. {
        match (first.take(), second.take()) {
            (Some(one), Some(other)) => return [one, other],
            (ended_first, ended_second) => (first, second) = (ended_first, ended_second),
        }
        let one_goes = second.is_some() || (first.is_none() && order[turn % order.len()]);
        if one_goes {
            if let Poll::Ready(ended) = one.as_mut().poll(&mut context) {
                first = Some(ended);
            }
        } else if let Poll::Ready(ended) = other.as_mut().poll(&mut context) {
            second = Some(ended);
        }
    }
    unreachable!("the turns do not end")
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn two_publishers_lose_nothing(
        order in prop::collection::vec(any::<bool>(), 1..80),
        shared in any::<bool>(),
        published in any::<bool>(),
        merge in any::<bool>(),
        // Whether the second has something of its own.
        own in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (store, remote) = memory();
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
        let settings = Settings { merge, ..Settings::default() };
        let places = [(); 2].map(|()| place_in(Wrapped::new(&store, None)));
        let bar = ProgressBar::hidden();
        let ended = interleave(
            publish(&places[0], &one, &settings, &bar),
            publish(&places[1], &other, &settings, &bar),
            &order,
        );
        let mut wanted = BTreeSet::new();
        for (lake, ended) in [&one, &other].into_iter().zip(&ended) {
            match ended {
                Ok(_) => wanted.extend(episodes(lake)),
                Err(RemoteError::Diverged { .. }) => prop_assert!(!merge && own),
                Err(error) => panic!("{error}"),
            }
        }
        prop_assert!(ended.iter().any(Result::is_ok));
        let fetched = receive(&remote, &folder.path().join("there")).unwrap().lake;
        assert_sound(&fetched);
        prop_assert_eq!(episodes(&fetched), wanted);
        let numbers = wait(remote.versions()).unwrap();
        let numbers = numbers.iter().map(|it| it.version).collect::<Vec<_>>();
        prop_assert_eq!(&numbers, &(1..=numbers.len() as u64).collect::<Vec<_>>());
    }
}

#[test]
fn who_lacks_something_is_told_what_to_type() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, remote) = memory();
    let lakes = ["one", "other"].map(|name| lake(&folder.path().join(name)));
    record(&lakes[0], 1, 3);
    record(&lakes[1], 2, 2);
    send_plainly(&remote, &lakes[0]);
    let error = send(&remote, &lakes[1], &Settings::default()).unwrap_err();
    assert!(matches!(error, RemoteError::Diverged { version: 1, .. }), "{error}");
    assert!(error.to_string().contains("publish memory:///some/where --merge"), "{error}");
    let merge = Settings { merge: true, ..Settings::default() };
    let Outcome::Published(sent) = send(&remote, &lakes[1], &merge).unwrap() else {
        panic!("it has something of its own")
    };
    assert!(sent.version == 2 && sent.merged);
    // Both have all of theirs there by now; merging shows it.
    for lake in &lakes {
        assert_eq!(send(&remote, lake, &merge).unwrap(), Outcome::There { version: 2, resent: 0 });
    }
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 2, "where they were merged is gone");
    let fetched = receive(&remote, &folder.path().join("there")).unwrap().lake;
    let all = lakes.iter().flat_map(episodes).collect::<BTreeSet<_>>();
    assert_eq!(episodes(&fetched), all);
}
