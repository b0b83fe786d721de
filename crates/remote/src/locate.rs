//! Finds the object of each file of a version, or chooses one to be sent.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::ObjectMeta;
use steplake_lake::FileRow;
use steplake_lake::transfer::Inventory;

use crate::RemoteError;
use crate::fetch::digest_of;
use crate::gc::AGE_MIN;
use crate::options::PublishOptions;
use crate::remote::{NewestVersion, Remote};
use crate::version::{Objects, content_of, segment_object};

/// The greatest age, by this machine's clock, of a usable object that no version names.
const TRUSTED: Duration = Duration::from_hours(24);
/// The greatest age of such an object by the store's clock, just before the version is made: half a
/// day less than [`AGE_MIN`].
const SAFE: Duration = Duration::from_hours(36);

/// The objects of the files of a version.
#[derive(Debug, Default)]
pub(crate) struct Located {
    /// The object of each file by the file's digest, including objects to be sent.
    pub(crate) objects: Objects,
    /// Files to be sent.
    pub(crate) missing: Vec<FileRow>,
    /// When the oldest used object that no version names was written, by the store's clock: Unix
    /// time in milliseconds.
    oldest_orphan_ms: Option<i64>,
}

impl Located {
    /// Returns whether the used objects that no version names were young enough, at this moment of
    /// the store's clock, for [`gc`](crate::gc) to keep them. The moment must be after the lookup
    /// of the greatest number.
    pub(crate) fn is_safe_at(&self, ms: i64) -> bool {
        const { assert!(SAFE.as_secs() < AGE_MIN.as_secs()) };
        self.oldest_orphan_ms.is_none_or(|oldest| ms - oldest < ms_of(SAFE))
    }
}

fn ms_of(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Finds an object for each file of `wanted`: the object that the newest version names; with
/// `use_orphans`, an object recently left by an interrupted publication; or a new object of this
/// attempt, which is called `name`. With `read_back`, existing objects of files in `here` are
/// checked for damage.
///
/// If versions newer than the newest readable one are damaged, the objects of the readable one are
/// not used: a collection that could read the damaged ones may be about to delete what only the
/// readable one has.
pub(crate) async fn locate(
    remote: &Remote,
    here: &Inventory,
    wanted: &Inventory,
    newest: &NewestVersion,
    use_orphans: bool,
    name: &str,
    options: &PublishOptions,
) -> Result<Located, RemoteError> {
    let base = newest.published.as_ref().filter(|_| !newest.skipped_damage);
    let none = Objects::new();
    let named = base.map_or(&none, |base| &base.objects);
    let digests: HashSet<&str> = here.files.iter().map(|row| row.digest.as_str()).collect();
    let mut seen = HashSet::new();
    let each = wanted.files.iter().filter(|row| seen.insert(&row.digest)).collect::<Vec<_>>();
    let is_missing = each.iter().any(|row| !named.contains_key(&row.digest));
    let orphans =
        if use_orphans && is_missing { Orphans::find(remote).await? } else { Orphans::default() };
    let (orphans, digests) = (&orphans, &digests);
    // The object of each file and, if no version is known to name the object, when it was written.
    let found: Vec<_> = stream::iter(each)
        .map(|row| async move {
            let in_version = named.get(&row.digest).map(|object| (object, None));
            let orphan = || orphans.of(row).map(|(object, written)| (object, Some(written)));
            let found = in_version.or_else(orphan);
            let is_read = options.read_back && digests.contains(row.digest.as_str());
            Ok::<_, RemoteError>(match found {
                Some((object, _)) if is_read && !is_intact(remote, object, row).await? => {
                    (row, None)
                }
                found => (row, found),
            })
        })
        .buffered(options.parallel.max(1))
        .try_collect()
        .await?;
    let mut located = Located::default();
    for (row, found) in found {
        let object = if let Some((object, written_ms)) = found {
            located.oldest_orphan_ms = located.oldest_orphan_ms.into_iter().chain(written_ms).min();
            object.clone()
        } else {
            located.missing.push(row.clone());
            segment_object(row, name)
        };
        located.objects.insert(row.digest.clone(), object);
    }
    Ok(located)
}

/// Reads an object, and returns whether it is the file.
async fn is_intact(remote: &Remote, object: &str, row: &FileRow) -> Result<bool, RemoteError> {
    match remote.head(object).await? {
        Some(found) if found.size == row.bytes => {
            Ok(digest_of(remote, object, row.bytes).await? == row.digest)
        }
        _ => Ok(false),
    }
}

/// Young objects, by the digest of the file in them.
#[derive(Debug, Default)]
struct Orphans(HashMap<String, Vec<(String, ObjectMeta)>>);

impl Orphans {
    async fn find(remote: &Remote) -> Result<Self, RemoteError> {
        let now_ms = remote.now_ms();
        let mut found: HashMap<_, Vec<_>> = HashMap::new();
        for (object, meta) in remote.list("segments").await? {
            let age_ms = now_ms - meta.last_modified.timestamp_millis();
            if let Some((_, digest)) = content_of(&object)
                && age_ms < ms_of(TRUSTED)
            {
                let digest = digest.to_owned();
                found.entry(digest).or_default().push((object, meta));
            }
        }
        Ok(Self(found))
    }

    /// Returns the youngest object that can be the file, and when it was written.
    fn of(&self, row: &FileRow) -> Option<(&String, i64)> {
        let objects = self.0.get(&row.digest).into_iter().flatten();
        let same = objects.filter(|(object, meta)| {
            meta.size == row.bytes
                && content_of(object).is_some_and(|(table, _)| table == row.table.name())
        });
        let written = same.map(|(object, meta)| (object, meta.last_modified.timestamp_millis()));
        written.max_by_key(|&(_, written_ms)| written_ms)
    }
}
