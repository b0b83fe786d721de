//! Letting go of old versions, and of objects that no version names.
//!
//! # Beside publishers
//!
//! Nothing that a version names is ever deleted, but of versions that are forgotten, in whatever
//! order the requests of any number of publishers and collections reach the store, however long one
//! of them pauses, and whatever their clocks say. It stands on this:
//!
//! 1. A name is written by one attempt only: segments and lists bear the random name that it drew
//!    when it began. So a request to delete one, which may arrive late or twice, never meets what
//!    another attempt sent.
//! 2. A publisher looks up the greatest number *h* that was taken (*R*). Then it decides where each
//!    file of its version lies: where the newest version has it, in an object that a publication
//!    left which was cut short, or in one that it sends itself. Then it takes *h* + 1 by a
//!    conditional put, or begins again.
//! 3. It counts on what was left only if, by the store's clock, it was younger than a day and a
//!    half at a moment after *R*: when its list was written.
//! 4. A collection lists the objects (*L*), then reads all versions (*V*), of which *h* is the
//!    greatest number. Then it takes *h* + 1 itself, with a manifest of no version (*F*), or begins
//!    again. It deletes, after *F*, what no version that it keeps named at *V*, and what was older
//!    than [`AGE_MIN`] at *F*, by the store's clock.
//!
//! Let a collection delete *x*. Versions up to *h* were read at *V*: those that it keeps do not
//! name *x*. *h* + 1 is none. A version from *h* + 2 on was made by an attempt that saw *h* + 1, so
//! that its *R* came after *F*. It did not send *x* itself, which was there at *L* already, before
//! it began (1). It did not count on *x* as left, which was too old (3, 4). And it has *x* from no
//! newest version: that one either is from *h* + 2 on, for which the same holds, or is the newest
//! that the collection knew, which it keeps. Had that one been passed over as damaged, nothing
//! would have been taken from the one before it: see [`publish`](crate::publish). So it does not
//! name *x*.
//!
//! What this asks of a store: what was written is seen by every later request, lists too; a
//! conditional put is heeded, which each publication tries out; and its clock goes forward, to
//! within half a day.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::time::Duration;

use object_store::{Error, ObjectMeta, ObjectStoreExt as _};

use crate::RemoteError;
use crate::publish::TRIES_MAX;
use crate::remote::{Remote, list_name, manifest_name, random_name};
use crate::version::Manifest;

/// How old an object has to be that no version names, before it goes. A publication that takes
/// longer sends again what it sent first.
pub const AGE: Duration = Duration::from_hours(7 * 24);

/// The least that this can be: longer than publications count on what one left that was cut short.
pub const AGE_MIN: Duration = Duration::from_hours(2 * 24);

/// What was let go of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Versions.
    pub versions: u64,
    /// Objects that are gone.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that no version names, and that stay since they are younger than was said.
    pub young: u64,
}

/// Forgets all versions but the `keep` newest, and deletes the objects older than `age`, which is
/// at least [`AGE_MIN`], that no version names. The newest version always stays, and numbers are
/// not given again: where something is deleted, that takes a number too.
///
/// Killed in between, some of it is done; the rest goes the next time. Whoever fetches a version
/// that is forgotten meanwhile is told so.
///
/// # Errors
///
/// What the store says. Where a version that is kept cannot be read, nothing is deleted: it could
/// name anything.
pub async fn gc(
    remote: &Remote,
    keep: Option<NonZeroU64>,
    age: Duration,
) -> Result<Collected, RemoteError> {
    let keep = keep.map_or(usize::MAX, |keep| usize::try_from(keep.get()).unwrap_or(usize::MAX));
    for _ in 0..TRIES_MAX {
        match attempt(remote, keep, age.max(AGE_MIN)).await {
            Ok(Some(collected)) => return Ok(collected),
            // Others published, or collected.
            Ok(None) | Err(RemoteError::Forgotten { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(RemoteError::Overtaken { address: remote.address().to_owned(), tries: TRIES_MAX })
}

/// Lets go of what can go; none where its number was taken meanwhile.
async fn attempt(
    remote: &Remote,
    keep: usize,
    age: Duration,
) -> Result<Option<Collected>, RemoteError> {
    // In this order: who named one of them by now is read after.
    let mut objects = remote.list("segments").await?;
    objects.extend(remote.list("lists").await?);
    let (highest, mut versions) = remote.manifests().await?;
    let kept = versions.split_off(versions.len().saturating_sub(keep));
    let mut named = HashSet::new();
    for (_, manifest) in kept {
        let published = remote.published(manifest?).await?;
        named.insert(list_name(&published.list));
        named.extend(published.objects.into_values());
    }
    let unnamed = objects.into_iter().filter(|(name, _)| !named.contains(name));
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

/// Says which objects were older than `age` at a moment.
fn is_older(at_ms: i64, age: Duration) -> impl Fn(&(String, ObjectMeta)) -> bool {
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    move |(_, object)| at_ms - object.last_modified.timestamp_millis() >= age_ms
}
