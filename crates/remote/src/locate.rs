//! Finds the object of each file of a version, or chooses one to be sent.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use object_store::ObjectMeta;
use steplake::lake::FileRow;
use steplake::transfer::Inventory;

use crate::RemoteError;
use crate::fetch::digest_of;
use crate::gc::AGE_MIN;
use crate::options::PublishOptions;
use crate::remote::{Newest, Remote};
use crate::version::{Objects, content_of, segment_object};

/// The greatest age, by this machine's clock, of a usable object that no version names.
const TRUSTED: Duration = Duration::from_hours(24);
/// The greatest age of such an object by the store's clock, just before the version is made: half a
/// day less than [`AGE_MIN`].
const SAFE: Duration = Duration::from_hours(36);

/// The objects of the files of a version.
#[derive(Debug)]
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
    newest: &Newest,
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
    let found: Vec<(&FileRow, Found)> = stream::iter(each)
        .map(|row| async move {
            let is_here = digests.contains(row.digest.as_str());
            let found = match (named.get(&row.digest), orphans.of(row)) {
                (Some(object), _) => Found::Named(object.clone()),
                (None, Some((object, written_ms))) => Found::Orphan(object.clone(), written_ms),
                (None, None) => Found::Nowhere,
            };
            let is_intact = match found.object() {
                Some(object) if options.read_back && is_here => {
                    is_intact(remote, object, row).await?
                }
                _ => true,
            };
            Ok::<_, RemoteError>((row, if is_intact { found } else { Found::Nowhere }))
        })
        .buffered(options.parallel.max(1))
        .try_collect()
        .await?;
    let mut located =
        Located { objects: Objects::new(), missing: Vec::new(), oldest_orphan_ms: None };
    for (row, found) in found {
        let object = match found {
            Found::Named(object) => object,
            Found::Orphan(object, written_ms) => {
                let oldest = located.oldest_orphan_ms.get_or_insert(written_ms);
                *oldest = written_ms.min(*oldest);
                object
            }
            Found::Nowhere => {
                located.missing.push(row.clone());
                segment_object(row, name)
            }
        };
        located.objects.insert(row.digest.clone(), object);
    }
    Ok(located)
}

/// Where a file was found.
enum Found {
    /// The newest version names the object.
    Named(String),
    /// No version is known to name the object, which was written at this time.
    Orphan(String, i64),
    Nowhere,
}

impl Found {
    fn object(&self) -> Option<&str> {
        match self {
            Self::Named(object) | Self::Orphan(object, _) => Some(object),
            Self::Nowhere => None,
        }
    }
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
