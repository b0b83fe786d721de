//! Sending what is missing, and making a version of it.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use indicatif::ProgressBar;
use object_store::{ObjectMeta, ObjectStoreExt as _};
use steplake::dedup::{self, dedup};
use steplake::store::merge::{self, merge};
use steplake::store::{Disk, FileRow, Inventory, Lake, Segment, SegmentFile, Snapshot, Table};

use crate::RemoteError;
use crate::fetch::{self, fetch_version};
use crate::relation::{Relation, relation, tell_the_same};
use crate::remote::{Published, Remote, list_name};
use crate::version::{FORMAT, Manifest, list_to_json, segment_object};

/// The bytes of a request: of a part, where a file has several.
const PART_BYTES: u64 = 16 << 20;
/// S3 takes 10,000 parts.
const PARTS_MAX: u64 = 9_000;
/// Parts of one file that are under way at a time.
const PARTS_AT_ONCE: usize = 4;
/// How long an object that no version names is counted on to stay: far less than
/// [`gc`](crate::gc) leaves it.
const TRUSTED: Duration = Duration::from_hours(24);
/// How many other versions may come between before a publication gives up.
const TRIES_MAX: u32 = 16;

/// How a publication goes about it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Files that are sent at a time.
    pub parallel: usize,
    /// Whether a version that has what the lake lacks is merged with it. The lake itself stays as it is.
    pub merge: bool,
    /// Whether every file is read back and compared, those that were there as well: what is damaged or missing
    /// there is sent again.
    pub read_back: bool,
    /// The bytes of a request; a file with more is sent in parts. S3 wants 5 MiB at least.
    pub part_bytes: u64,
    /// Where a merge works; beside the lake by default.
    pub work: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { parallel: 4, merge: false, read_back: false, part_bytes: PART_BYTES, work: None }
    }
}

/// What a publication came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A version was made.
    Published(Sent),
    /// A version is there that has all of it.
    There {
        /// Its number.
        version: u64,
        /// Files of it that were sent again, since they were damaged or missing there.
        resent: u64,
    },
}

/// What was sent for a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub version: u64,
    /// The files that it has.
    pub files: u64,
    /// Those of them that were sent.
    pub files_sent: u64,
    /// The bytes of these.
    pub bytes_sent: u64,
    /// Whether it is the lake and an earlier version together.
    pub merged: bool,
}

/// The lake that is published: the one at hand, or it and an earlier version together.
struct Candidate {
    lake: Lake,
    /// Keeps its files.
    snapshot: Snapshot,
    inventory: Inventory,
    known: BTreeSet<String>,
    /// The lists of versions that it has all of, as merging them showed.
    merged: HashSet<String>,
    /// Where it lies, if it is to go when it is published.
    work: Option<tempfile::TempDir>,
}

impl Candidate {
    fn new(lake: &Lake, work: Option<tempfile::TempDir>) -> Result<Self, RemoteError> {
        // In this order: what is sealed in between is known, and not published.
        let snapshot = lake.sealed()?;
        let known = lake.known_files()?;
        let inventory = snapshot.inventory();
        Ok(Self { lake: lake.clone(), snapshot, inventory, known, merged: HashSet::new(), work })
    }

    fn compare(&self, there: &Published) -> Relation {
        match relation(&self.inventory, &self.known, &there.inventory) {
            Relation::Neither(_) if self.merged.contains(&there.list) => Relation::Contains,
            other => other,
        }
    }
}

/// Publishes what is sealed of a lake as a new version, unless one is there that has all of it. The lake is
/// only read.
///
/// Durable once this has returned `Ok`, as durable as the store makes what it acknowledges. After an `Err`, or
/// killed, what is there is what was there before, and objects that no version names, which
/// [`gc`](crate::gc::gc) removes after a while and the next publication finds.
///
/// # Errors
///
/// [`RemoteError::Diverged`] when the newest version has what the lake lacks, and they are not to be merged;
/// [`RemoteError::OtherIdentity`]; what the store and the lake say.
pub async fn publish(
    remote: &Remote,
    lake: &Lake,
    settings: &Settings,
    bar: &ProgressBar,
) -> Result<Outcome, RemoteError> {
    let mut candidate = Candidate::new(lake, None)?;
    let publication = random_name()?;
    for _ in 0..TRIES_MAX {
        let base = remote.newest().await?;
        if let Some(there) = &base {
            demand_identity(remote, lake, there)?;
            match candidate.compare(there) {
                Relation::Contained => {
                    return there_already(remote, &candidate, there, settings, bar).await;
                }
                Relation::Contains => {}
                Relation::Neither(_) if settings.merge => {
                    candidate = merged(remote, lake, there, settings, bar).await?;
                    if matches!(candidate.compare(there), Relation::Contained) {
                        return there_already(remote, &candidate, there, settings, bar).await;
                    }
                }
                Relation::Neither(what) => {
                    return Err(RemoteError::Diverged {
                        address: remote.address().to_owned(),
                        version: there.manifest.version,
                        lake: lake.path().to_owned(),
                        what,
                    });
                }
            }
        }
        if let Some(sent) =
            attempt(remote, &candidate, base.as_ref(), &publication, settings, bar).await?
        {
            return Ok(Outcome::Published(sent));
        }
        tracing::info!("another version was published meanwhile: this one begins again");
    }
    Err(RemoteError::Overtaken { address: remote.address().to_owned(), tries: TRIES_MAX })
}

/// A version has all of it: nothing is published, but what is damaged there is sent again on request.
async fn there_already(
    remote: &Remote,
    candidate: &Candidate,
    there: &Published,
    settings: &Settings,
    bar: &ProgressBar,
) -> Result<Outcome, RemoteError> {
    let mut resent = 0;
    if settings.read_back {
        (resent, _) = send_missing(remote, candidate, Some(there), settings, bar).await?;
    }
    Ok(Outcome::There { version: there.manifest.version, resent })
}

/// Sends what is missing; says how many files that were, and how many bytes.
async fn send_missing(
    remote: &Remote,
    candidate: &Candidate,
    base: Option<&Published>,
    settings: &Settings,
    bar: &ProgressBar,
) -> Result<(u64, u64), RemoteError> {
    let missing = missing(remote, &candidate.inventory, base, settings).await?;
    let bytes = missing.iter().map(|row| row.bytes).sum();
    bar.set_position(0);
    bar.set_length(bytes);
    stream::iter(&missing)
        .map(|row| send(remote, &candidate.snapshot, row, settings, bar))
        .buffer_unordered(settings.parallel.max(1))
        .try_collect::<()>()
        .await?;
    Ok((missing.len() as u64, bytes))
}

/// Sends what is missing, and makes a version of it; none where its number was taken meanwhile.
async fn attempt(
    remote: &Remote,
    candidate: &Candidate,
    base: Option<&Published>,
    publication: &str,
    settings: &Settings,
    bar: &ProgressBar,
) -> Result<Option<Sent>, RemoteError> {
    let inventory = &candidate.inventory;
    let (files_sent, bytes_sent) = send_missing(remote, candidate, base, settings, bar).await?;
    let list = list_to_json(inventory);
    let digest = blake3::hash(&list).to_hex().to_string();
    let object = list_name(&digest);
    let length = list.len() as u64;
    remote.put(&object, list.into()).await?;
    demand_arrival(remote, &object, length).await?;
    let parent = base.map(|base| base.manifest.version);
    let rows = |table: Table| {
        let of_table = inventory.files.iter().filter(|row| row.table == table);
        of_table.map(|row| row.rows).sum()
    };
    let manifest = Manifest {
        format: FORMAT,
        version: parent.unwrap_or(0) + 1,
        list: Some(digest),
        publication: publication.to_owned(),
        published_at_ms: now_ms(),
        parent,
        episodes: rows(Table::Episodes),
        steps: rows(Table::Steps),
        files: inventory.files.len() as u64,
        bytes: inventory.files.iter().map(|row| row.bytes).sum(),
    };
    if !remote.announce(&manifest).await? {
        return Ok(None);
    }
    Ok(Some(Sent {
        version: manifest.version,
        files: manifest.files,
        files_sent,
        bytes_sent,
        merged: candidate.work.is_some(),
    }))
}

fn demand_identity(remote: &Remote, lake: &Lake, there: &Published) -> Result<(), RemoteError> {
    match lake.identity().difference(&there.inventory.identity) {
        None => Ok(()),
        Some((what, here, there)) => {
            let address = remote.address().to_owned();
            Err(RemoteError::OtherIdentity { address, what, there, here })
        }
    }
}

/// The files that have to be sent: those that neither the newest version has nor a publication left that was
/// cut short a short while ago. What lies there for longer may be removed at any moment.
async fn missing(
    remote: &Remote,
    inventory: &Inventory,
    base: Option<&Published>,
    settings: &Settings,
) -> Result<Vec<FileRow>, RemoteError> {
    let named: HashSet<&str> = base
        .into_iter()
        .flat_map(|base| &base.inventory.files)
        .map(|row| row.digest.as_str())
        .collect();
    let mut seen = HashSet::new();
    let each = inventory.files.iter().filter(|row| seen.insert(&row.digest)).collect::<Vec<_>>();
    let now_ms = now_ms();
    let named = &named;
    let found: Vec<Option<FileRow>> = stream::iter(each)
        .map(|row| async move {
            let is_named = named.contains(row.digest.as_str());
            if is_named && !settings.read_back {
                return Ok(None);
            }
            let object = segment_object(row);
            let found = remote.head(&object).await?;
            let found = found.filter(|it| it.size == row.bytes);
            let mut whole = found.is_some_and(|it| is_named || is_young(&it, now_ms));
            if whole && settings.read_back {
                whole = fetch::digest_of(remote, &object, row.bytes).await? == row.digest;
            }
            Ok::<_, RemoteError>((!whole).then(|| row.clone()))
        })
        .buffered(settings.parallel.max(1))
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

fn is_young(object: &ObjectMeta, now_ms: i64) -> bool {
    let trusted_ms = i64::try_from(TRUSTED.as_millis()).unwrap_or(i64::MAX);
    now_ms - object.last_modified.timestamp_millis() < trusted_ms
}

/// Sends a file. What leaves is compared with its digests before, so no damage is published.
async fn send(
    remote: &Remote,
    snapshot: &Snapshot,
    row: &FileRow,
    settings: &Settings,
    bar: &ProgressBar,
) -> Result<(), RemoteError> {
    let segments = snapshot.segments(row.table);
    let segment = segments.iter().find(|segment| segment.digest == row.digest);
    let segment: &Segment = segment.expect("the list is of this snapshot");
    let file = segment.open()?;
    let object = segment_object(row);
    if row.bytes <= settings.part_bytes {
        remote.put(&object, file.read(0..row.bytes)?).await?;
        bar.inc(row.bytes);
    } else {
        send_in_parts(remote, &object, &file, row.bytes, settings.part_bytes, bar).await?;
    }
    demand_arrival(remote, &object, row.bytes).await?;
    if settings.read_back {
        let digest = fetch::digest_of(remote, &object, row.bytes).await?;
        if digest != row.digest {
            let what = "what was read back is not what was sent".to_owned();
            return Err(RemoteError::Arrival { object: remote.name(&object), what });
        }
    }
    tracing::debug!(object, bytes = row.bytes, "sent");
    Ok(())
}

/// Sends a file in parts. It is there once all of them are.
async fn send_in_parts(
    remote: &Remote,
    object: &str,
    file: &SegmentFile,
    bytes: u64,
    part_bytes: u64,
    bar: &ProgressBar,
) -> Result<(), RemoteError> {
    let store = remote.store();
    let failed = || remote.failed("write", object);
    let mut upload = store.put_multipart(&remote.path(object)).await.map_err(failed())?;
    // Parts of one length: some stores want that.
    let part = bytes.div_ceil(PARTS_MAX).next_multiple_of(part_bytes);
    let starts = (0..bytes).step_by(usize::try_from(part).expect("a part is in memory"));
    let ranges = starts.map(|start| start..bytes.min(start + part));
    let sent = {
        let upload = &mut upload;
        // Read and begun in order, one at a time; under way, several.
        let parts = ranges.map(|range| {
            let length = range.end - range.start;
            let content: Bytes = file.read(range)?;
            Ok::<_, RemoteError>((length, upload.put_part(content.into())))
        });
        stream::iter(parts)
            .map(|begun| async {
                let (length, part) = begun?;
                part.await.map_err(failed())?;
                bar.inc(length);
                Ok::<_, RemoteError>(())
            })
            .buffer_unordered(PARTS_AT_ONCE)
            .try_collect::<()>()
            .await
    };
    if let Err(error) = sent {
        // What cannot be taken back now, a rule of the bucket removes.
        let _ = upload.abort().await;
        return Err(error);
    }
    upload.complete().await.map(drop).map_err(failed())
}

/// Refuses to go on where the store does not have what it acknowledged.
async fn demand_arrival(remote: &Remote, object: &str, bytes: u64) -> Result<(), RemoteError> {
    let found = remote.head(object).await?.map(|found| found.size);
    let what = match found {
        Some(size) if size == bytes => return Ok(()),
        Some(size) => format!("it has {size} bytes of {bytes}"),
        None => "it is not there".to_owned(),
    };
    Err(RemoteError::Arrival { object: remote.name(object), what })
}

/// The lake and a published version as one, in a folder of its own: everything that either has, but what one
/// of them retracted. Where the lake alone is that, it is the lake.
async fn merged(
    remote: &Remote,
    lake: &Lake,
    there: &Published,
    settings: &Settings,
    bar: &ProgressBar,
) -> Result<Candidate, RemoteError> {
    let beside = lake.path().parent().unwrap_or(Path::new("."));
    let place = settings.work.as_deref().unwrap_or(beside);
    let work = tempfile::Builder::new().prefix(".steplake-publish-").tempdir_in(place);
    let work = work.map_err(|source| RemoteError::Io {
        doing: format!(
            "make a folder to merge in at {} (name another with --work)",
            place.display()
        ),
        source,
    })?;
    let fetching = fetch::Settings { parallel: settings.parallel };
    let fetched =
        fetch_version(remote, there, &work.path().join("there"), Disk::default(), &fetching, bar)
            .await?;
    let lakes = [lake.clone(), fetched.lake];
    let into = work.path().join("merged");
    let together = tokio::task::block_in_place(|| {
        let (together, report) =
            merge(Disk::default(), &lakes, &into, &merge::Settings::default(), &mut |_, _| {})?;
        let said = together.sealed()?.inventory();
        let as_lake = |lake: &Lake| {
            let snapshot = lake.sealed()?;
            let same_rows = report.rows.iter().all(|&(table, rows)| {
                let sealed = snapshot.segments(table).iter().map(|segment| segment.rows);
                rows == sealed.sum::<u64>()
            });
            Ok::<_, RemoteError>(same_rows && tell_the_same(&snapshot.inventory(), &said))
        };
        let same = [as_lake(&lakes[0])?, as_lake(&lakes[1])?];
        if same.contains(&true) {
            return Ok::<_, RemoteError>((together, same));
        }
        let mut maintenance = together.maintenance()?;
        dedup(&mut maintenance, dedup::Settings::default(), &mut |_, _| {})?;
        drop(maintenance);
        Ok((together, same))
    })?;
    let [_, fetched] = lakes;
    let mut candidate = match together {
        // The version has all of it: it is compared with itself.
        (_, [_, true]) => Candidate::new(&fetched, Some(work))?,
        (_, [true, false]) => Candidate::new(lake, None)?,
        (together, [false, false]) => Candidate::new(&together, Some(work))?,
    };
    candidate.merged.insert(there.list.clone());
    tracing::info!(lake = %candidate.lake.path().display(), "merged with what is published");
    Ok(candidate)
}

fn random_name() -> Result<String, RemoteError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| RemoteError::Io {
        doing: "draw a random name".to_owned(),
        source: error.into(),
    })?;
    Ok(u128::from_le_bytes(bytes).to_string())
}

/// Unix time in milliseconds: for people, and to tell old objects from young ones.
#[expect(clippy::disallowed_methods, reason = "this is the edge: objects have times")]
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
