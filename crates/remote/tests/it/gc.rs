//! Deletes versions and objects.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use object_store::path::Path;
use steplake_remote::RemoteError;
use steplake_remote::gc::{AGE, AGE_MIN, gc};

use crate::support::{
    Fault, Times, assert_same, derive, lake, memory, objects, place_at, put, receive, receive_on,
    record, send_plainly, version, wait,
};
use steplake_lake::Disk;

#[test]
fn old_objects_that_no_version_names_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = memory();
    let times = Arc::<Times>::default();
    let remote = place_at(&store, &times, None, 0);
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 4);
    derive(&here);
    send_plainly(&remote, &here);
    record(&here, 2, 4);
    derive(&here);
    send_plainly(&remote, &here);
    put(&store, &Path::from("some/where/segments/steps/left.parquet"), "left".into());
    put(&store, &Path::from("some/else"), "not ours".into());
    let before = objects(&store);

    let done = wait(gc(&remote, None, AGE)).unwrap();
    assert_eq!((done.versions, done.objects, done.young), (0, 0, 1));
    assert_eq!(objects(&store), before);

    let one = NonZeroU64::new(1);
    times.pass(AGE_MIN.saturating_sub(Duration::from_mins(1)));
    assert_eq!(
        wait(gc(&remote, None, Duration::ZERO)).unwrap().objects,
        0,
        "nothing goes so young"
    );
    // A clock that is ahead disagrees, but the store's decides.
    let ahead = place_at(&store, &times, None, 30 * 24 * 3_600_000);
    assert_eq!(wait(gc(&ahead, None, Duration::ZERO)).unwrap().objects, 0);
    times.pass(Duration::from_mins(1));
    let done = wait(gc(&remote, one, Duration::ZERO)).unwrap();
    // The list and the derived tables of the first version, and what was left.
    assert_eq!((done.versions, done.young), (1, 0));
    assert!(done.objects >= 3, "{done:?}");
    assert!(objects(&store).iter().any(|(path, _)| path.as_ref() == "some/else"));
    assert_eq!(wait(gc(&remote, one, Duration::ZERO)).unwrap().objects, 0);

    let fetched = receive(&remote, &folder.path().join("there")).unwrap();
    assert_same(&here, &fetched.lake);
    let into = folder.path().join("older");
    let error = receive_on(Disk::default(), &remote, Some(1), &into).unwrap_err();
    assert!(matches!(error, RemoteError::Forgotten { wanted: 1, .. }), "{error}");
    let error = receive_on(Disk::default(), &remote, Some(9), &into).unwrap_err();
    assert!(matches!(error, RemoteError::NoVersion { wanted: 9, .. }), "{error}");

    // Neither its number nor those of collections are reused.
    record(&here, 3, 1);
    assert_eq!(version(&send_plainly(&remote, &here)), 5);
    let numbers = wait(remote.versions()).unwrap();
    assert_eq!(numbers.iter().map(|it| it.0).collect::<Vec<_>>(), [2, 5]);
    let error = receive_on(Disk::default(), &remote, Some(4), &into).unwrap_err();
    assert!(matches!(error, RemoteError::Forgotten { wanted: 4, .. }), "{error}");
}

#[test]
fn each_failing_operation_of_a_collection_leaves_versions_whole() {
    let folder = tempfile::tempdir().unwrap();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 4);
    derive(&here);
    for fault in Fault::ALL {
        for at in 0.. {
            let (store, _) = memory();
            let times = Arc::<Times>::default();
            let left = Path::from("some/where/segments/steps/left.parquet");
            put(&store, &left, "left".into());
            let remote = place_at(&store, &times, None, 0);
            send_plainly(&remote, &here);
            times.pass(AGE);
            let done = wait(gc(&place_at(&store, &times, Some((at, fault)), 0), None, AGE));
            let there = || objects(&store).iter().any(|(path, _)| *path == left);
            match &done {
                Ok(done) => assert!(done.objects == 1 && !there()),
                Err(RemoteError::Store { .. }) => {}
                Err(other) => panic!("{other}"),
            }
            wait(gc(&remote, None, AGE)).unwrap();
            assert!(!there());
            let into = folder.path().join(format!("{fault:?}-{at}"));
            assert_same(&here, &receive(&remote, &into).unwrap().lake);
            if done.is_ok() && at > 8 {
                break;
            }
        }
    }
}

#[test]
fn nothing_is_deleted_if_a_version_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (store, remote) = memory();
    let here = lake(&folder.path().join("here"));
    record(&here, 1, 4);
    send_plainly(&remote, &here);
    let objects_there = objects(&store);
    let (list, _) = objects_there.iter().find(|(path, _)| path.as_ref().contains("lists")).unwrap();
    put(&store, list, "{}".into());
    let before = objects(&store);
    let error = wait(gc(&remote, None, Duration::ZERO)).unwrap_err();
    assert!(matches!(error, RemoteError::Damaged { .. }), "{error}");
    assert_eq!(objects(&store), before);
}
