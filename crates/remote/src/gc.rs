//! Deletes old versions, and objects that no version names.
//!
//! # Beside publishers
//!
//! A collection never deletes what a version names, except for forgotten versions. This holds for
//! any number of publishers and collections, in whatever order their requests reach the store,
//! however long one of them pauses, and whatever their clocks say. The argument:
//!
//! 1. Only one attempt ever writes a given name: segments and lists carry the random name that the
//!    attempt drew when it began. So a request to delete one, which may arrive late or twice, never
//!    hits what another attempt sent.
//! 2. A publisher looks up the greatest number *h* taken so far (*R*). Then it decides where each
//!    file of its version lies: where the newest version has it, in an object left by a publication
//!    that was cut short, or in an object that it sends itself. Then it takes *h* + 1 by a
//!    conditional put, or begins again.
//! 3. It uses an object that was left only if, by the store's clock, the object was younger than a
//!    day and a half at a moment after *R*: when the publisher's list was written.
//! 4. A collection lists the objects (*L*), then reads all versions (*V*), of which *h* is the
//!    greatest number. Then it takes *h* + 1 itself, with a manifest of no version (*F*), or begins
//!    again. After *F*, it deletes the objects that no kept version named at *V* and that were
//!    older than [`AGE_MIN`] at *F*, by the store's clock.
//!
//! Suppose that a collection deletes *x*. It read the versions up to *h* at *V*: those that it
//! keeps do not name *x*. *h* + 1 is no version. A version from *h* + 2 on was made by an attempt
//! that saw *h* + 1, so its *R* came after *F*. The attempt did not send *x* itself, since *x*
//! existed at *L*, before the attempt began (1). It did not use *x* as an object that was left,
//! since *x* was too old (3, 4). And it did not take *x* over from its newest version: that version
//! either has a number from *h* + 2 on, for which the same holds, or is the newest that the
//! collection knew, which it keeps. If the latter had been skipped as damaged, the attempt would
//! have taken nothing over from the one before it: see [`publish`](crate::publish). So it does not
//! name *x*.
//!
//! The argument requires of a store that every later request sees what was written, listings too;
//! that it honours conditional puts, which each publication tests; and that its clock goes forward,
//! to within half a day.
//!
//! No list names the files of the Delta logs. Those of the oldest kept version and of all later
//! numbers stay. Earlier ones are never needed again, since numbers only grow; so neither a late
//! request that deletes one nor a late publisher that writes one again does harm.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::time::Duration;

use object_store::{Error, ObjectMeta, ObjectStoreExt as _};

use crate::RemoteError;
use crate::delta_log;
use crate::options::ATTEMPTS_MAX;
use crate::remote::{Remote, list_name, manifest_name, random_name};
use crate::version::Manifest;

/// The age at which an object that no version names is deleted. A publication that takes longer
/// sends again what it sent first.
pub const AGE: Duration = Duration::from_hours(7 * 24);

/// The minimum of that age: longer than publications use objects left by one that was cut short.
pub const AGE_MIN: Duration = Duration::from_hours(2 * 24);

/// The result of a collection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Number of versions forgotten.
    pub versions: u64,
    /// Number of objects deleted.
    pub objects: u64,
    /// Bytes of the deleted objects.
    pub bytes: u64,
    /// Number of objects that no version names but that are too young to delete.
    pub young: u64,
}

/// Forgets all versions but the `keep` newest, and deletes the objects that no version names and
/// that are older than `age`, or [`AGE_MIN`] if `age` is less. The newest version always stays, and
/// numbers are never reused: a collection that deletes something takes a number too.
///
/// If killed, it has done part of this; the next collection does the rest. A fetch of a version
/// that is forgotten meanwhile reports that.
///
/// # Errors
///
/// Errors of the store. If a version to keep cannot be read, nothing is deleted: it could name
/// anything.
pub async fn gc(
    remote: &Remote,
    keep: Option<NonZeroU64>,
    age: Duration,
) -> Result<Collected, RemoteError> {
    let keep = keep.map_or(usize::MAX, |keep| usize::try_from(keep.get()).unwrap_or(usize::MAX));
    for _ in 0..ATTEMPTS_MAX {
        match attempt(remote, keep, age.max(AGE_MIN)).await {
            Ok(Some(collected)) => return Ok(collected),
            // Another publisher or collection was faster.
            Ok(None) | Err(RemoteError::Forgotten { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(RemoteError::Overtaken { address: remote.address().to_owned(), attempts: ATTEMPTS_MAX })
}

/// Makes one attempt; returns `None` if another publication or collection took its number
/// meanwhile.
async fn attempt(
    remote: &Remote,
    keep: usize,
    age: Duration,
) -> Result<Option<Collected>, RemoteError> {
    // The order matters: a version that names one of these objects by now is read afterwards.
    let mut objects = remote.list("segments").await?;
    objects.extend(remote.list("lists").await?);
    let (highest, mut versions) = remote.manifests().await?;
    let kept = versions.split_off(versions.len().saturating_sub(keep));
    let mut named = HashSet::new();
    let oldest = kept.first().map_or(u64::MAX, |&(number, _)| number);
    for (_, manifest) in kept {
        let published = remote.published(manifest?).await?;
        named.insert(list_name(&published.list));
        named.extend(published.objects.into_values());
    }
    let is_kept = |name: &str| {
        named.contains(name) || delta_log::version_of(name).is_some_and(|number| number >= oldest)
    };
    let unnamed = objects.into_iter().filter(|(name, _)| !is_kept(name));
    let (mut old, young) = unnamed.partition::<Vec<_>, _>(is_older(remote.now_ms(), age));
    let mut collected = Collected { young: young.len() as u64, ..Collected::default() };
    if !old.is_empty() {
        let fence = manifest_name(highest + 1);
        let manifest = Manifest::without_version(highest + 1, random_name()?, remote.now_ms());
        if !remote.announce(&manifest).await? {
            return Ok(None);
        }
        let found = remote.head(&fence).await?;
        let found =
            found.ok_or_else(|| RemoteError::damaged(remote.name(&fence), "it is missing"))?;
        let count = old.len();
        old.retain(is_older(found.last_modified.timestamp_millis(), age));
        collected.young += (count - old.len()) as u64;
    }
    delta_log::complete(remote).await?;
    for (number, manifest) in versions {
        let nameless = || Manifest::without_version(number, String::new(), remote.now_ms());
        let forgotten = manifest.map_or_else(|_damage| nameless(), Manifest::forgotten);
        remote.forget(&forgotten).await?;
        collected.versions += 1;
    }
    for (name, object) in old {
        match remote.store().delete(&remote.path(&name)).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(remote.failed("delete", &name)(error)),
        }
        collected.objects += 1;
        collected.bytes += object.size;
    }
    Ok(Some(collected))
}

/// Returns a test for objects that are older than `age` at a moment.
fn is_older(at_ms: i64, age: Duration) -> impl Fn(&(String, ObjectMeta)) -> bool {
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    move |(_, object)| at_ms - object.last_modified.timestamp_millis() >= age_ms
}
