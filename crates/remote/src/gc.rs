//! Letting go of old versions, and of objects that no version names.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::time::Duration;

use object_store::{Error, ObjectStoreExt as _};

use crate::RemoteError;
use crate::publish::now_ms;
use crate::remote::{Remote, list_name};
use crate::version::segment_object;

/// How old an object has to be that no version names, before it goes. A publication that takes longer would
/// lose what it sent first.
pub const AGE: Duration = Duration::from_hours(7 * 24);

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

/// Forgets all versions but the `keep` newest, and deletes the objects older than `age` that no version
/// names. The newest version always stays, and numbers are not given again.
///
/// Killed in between, some of it is done; the rest goes the next time. Whoever fetches a version that is
/// forgotten meanwhile is told so.
///
/// # Errors
///
/// What the store says. Where a version cannot be read, nothing is deleted: it could name anything.
pub async fn gc(
    remote: &Remote,
    keep: Option<NonZeroU64>,
    age: Duration,
) -> Result<Collected, RemoteError> {
    // Objects first: what is sent from now on is not among them, and who named one of them by now is read
    // after.
    let mut objects = remote.list("segments").await?;
    objects.extend(remote.list("lists").await?);
    let versions = remote.versions().await?;
    let mut collected = Collected::default();
    let keep = keep.map_or(usize::MAX, |keep| usize::try_from(keep.get()).unwrap_or(usize::MAX));
    let old = versions.len().saturating_sub(keep);
    let mut named = HashSet::new();
    for manifest in &versions[old..] {
        let published = remote.published(manifest.clone()).await?;
        named.insert(list_name(&published.list));
        named.extend(published.inventory.files.iter().map(segment_object));
    }
    for manifest in &versions[..old] {
        remote.forget(manifest.clone()).await?;
        collected.versions += 1;
    }
    let now_ms = now_ms();
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    for (name, object) in objects.into_iter().filter(|(name, _)| !named.contains(name)) {
        if now_ms - object.last_modified.timestamp_millis() < age_ms {
            collected.young += 1;
            continue;
        }
        match remote.store().delete(&remote.path(&name)).await {
            Ok(()) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(remote.failed("delete", &name)(error)),
        }
        collected.objects += 1;
        collected.bytes += object.size;
    }
    Ok(collected)
}
