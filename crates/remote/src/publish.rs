//! Sends what is missing, and makes a version of it.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use indicatif::ProgressBar;
use steplake_lake::transfer::Inventory;
use steplake_lake::transfer::merge::{MergeOptions, merge};
use steplake_lake::{Disk, Lake, ScanColumns, Snapshot, Table};

use crate::RemoteError;
use crate::delta_log;
use crate::fetch::fetch_version;
use crate::locate::locate;
use crate::options::{ATTEMPTS_MAX, FetchOptions, PublishOptions};
use crate::prepare::{count, prepare};
use crate::relation::{VersionRelation, relation, same_runs_and_retractions};
use crate::remote::{NewestVersion, Published, Remote, list_name, random_name};
use crate::send::{demand_arrival, send_missing};
use crate::version::{FORMAT, Manifest, PublicationNote, VersionList, to_json};

/// How often the used objects may turn out too old, before a publication sends everything itself.
const STALE_MAX: u32 = 2;

/// The result of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishOutcome {
    /// A version was made.
    Published(UploadReport),
    /// An existing version has everything.
    UpToDate {
        /// The version's number.
        version: u64,
    },
}

/// What was sent for a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadReport {
    /// The version's number.
    pub version: u64,
    /// Number of files in the version.
    pub files: u64,
    /// Number of files that were sent.
    pub files_sent: u64,
    /// Bytes of the files that were sent.
    pub bytes_sent: u64,
    /// Whether the version merges the lake with an earlier version.
    pub merged: bool,
    /// Whether the version repeats the one before it, because something of that was damaged or
    /// missing.
    pub repaired: bool,
}

/// The lake to publish: the local one, or its merge with an earlier version.
struct Candidate {
    lake: Lake,
    /// Keeps the files of the lake from being deleted.
    snapshot: Snapshot,
    inventory: Inventory,
    known: BTreeSet<String>,
    /// The list of the version that the lake contains completely, as a merge showed.
    merged: Option<String>,
    /// Whether this is not the local lake.
    is_other: bool,
}

impl Candidate {
    fn new(lake: &Lake) -> Result<Self, RemoteError> {
        // The order matters: what is sealed in between is known, and not published.
        let snapshot = lake.sealed_part()?;
        let known = lake.known_files()?;
        let inventory = snapshot.inventory();
        let (merged, is_other) = (None, false);
        Ok(Self { lake: lake.clone(), snapshot, inventory, known, merged, is_other })
    }

    fn compare(&self, there: &Published, newest: &NewestVersion) -> VersionRelation {
        let has = |digest: &str| self.inventory.files.iter().any(|row| row.digest == digest);
        match relation(&self.inventory, &self.known, &there.inventory) {
            VersionRelation::Neither(_) if self.merged.as_ref() == Some(&there.list) => {
                VersionRelation::Contains
            }
            // If newer versions are damaged, no object of this one is used, so the lake must have
            // all of its files.
            VersionRelation::Contained
                if newest.skipped_damage
                    && !there.inventory.files.iter().all(|row| has(&row.digest)) =>
            {
                VersionRelation::Neither("files that this lake does not have".to_owned())
            }
            other => other,
        }
    }
}

/// Publishes the sealed part of a lake as a new version, unless an existing version has all of it.
///
/// First it brings the lake into the form in which it is published: closed episodes are sealed, and
/// all sealed steps are counted. At the end it writes the version as Delta tables.
///
/// Once the version is there, the lake notes which one has all of it, so that a
/// [`fetch`](crate::fetch::fetch) may make the lake a later version. If that fails, or the process
/// is killed before, the next publication makes the note; until then, such a fetch is refused.
///
/// The version is durable once this has returned `Ok` or [`RemoteError::DeltaTables`], as durable
/// as the store makes what it acknowledges. After a kill or another `Err`, the store holds what it
/// held before, and objects that no version names; [`gc`](crate::gc::gc) deletes these after a
/// while, and the next publication uses them. If the store's answer to the request that makes the
/// version was lost ([`RemoteError::Store`]), the version may exist: complete, but not yet as Delta
/// tables. The next publication finds it and completes these.
///
/// No object is ever overwritten, so a collection at the same time deletes nothing of the version:
/// [`gc`](crate::gc) explains why. A damaged file is sent again under another name, and a new
/// version names it.
///
/// # Errors
///
/// [`RemoteError::NothingSealed`]; [`RemoteError::Diverged`] if the newest version has something
/// that the lake lacks, and merging is off; [`RemoteError::OtherIdentity`];
/// [`RemoteError::Unconditional`]; errors of the store and of the lake, among these
/// [`LakeError::BeingMaintained`](steplake_lake::LakeError::BeingMaintained).
pub async fn publish(
    remote: &Remote,
    lake: &Lake,
    options: &PublishOptions,
    bar: &ProgressBar,
) -> Result<PublishOutcome, RemoteError> {
    tokio::task::block_in_place(|| prepare(lake))?;
    let local = Candidate::new(lake)?;
    let (outcome, note) = publish_version(remote, &local, options, bar).await?;
    if let Err(error) = lake.note_publication(&local.inventory, &note.to_json()) {
        tracing::info!(%error, "the lake does not note that it was published");
    }
    let version = note.version;
    delta_log::complete(remote).await.map_err(|source| RemoteError::DeltaTables {
        address: remote.address().to_owned(),
        version,
        source: Box::new(source),
    })?;
    Ok(outcome)
}

async fn publish_version(
    remote: &Remote,
    local: &Candidate,
    options: &PublishOptions,
    bar: &ProgressBar,
) -> Result<(PublishOutcome, PublicationNote), RemoteError> {
    let lake = &local.lake;
    // The second one, which is merged, is dropped before its folder is deleted.
    let (mut work, mut together) = (None, None);
    let mut stale = 0;
    for _ in 0..ATTEMPTS_MAX {
        let newest = remote.look_up_newest(options.replace_damaged).await?;
        let mut contained = false;
        if let Some(there) = &newest.published {
            demand_identity(remote, lake, there)?;
            let mut how = together.as_ref().unwrap_or(local).compare(there, &newest);
            if matches!(how, VersionRelation::Neither(_)) && options.merge {
                together = None;
                let work = match &work {
                    Some(work) => work,
                    None => work.insert(work_folder(lake, options)?),
                };
                match merged(remote, local, there, work.path(), options, bar).await {
                    Ok(merged) => how = together.insert(merged).compare(there, &newest),
                    // Others have published a newer version meanwhile, and forgotten this one.
                    Err(RemoteError::Forgotten { .. }) => continue,
                    Err(error) => return Err(error),
                }
            }
            if let VersionRelation::Neither(what) = how {
                return Err(RemoteError::Diverged {
                    address: remote.address().to_owned(),
                    version: there.manifest.version,
                    lake: lake.path().to_owned(),
                    what,
                });
            }
            contained = how == VersionRelation::Contained;
        }
        // If the clocks disagree, orphaned objects are not used.
        let use_orphans = stale < STALE_MAX;
        let candidate = together.as_ref().unwrap_or(local);
        let ended = attempt(remote, candidate, &newest, options, bar, contained, use_orphans);
        match ended.await? {
            AttemptResult::Done(outcome, note) => return Ok((outcome, note)),
            AttemptResult::Taken => {
                tracing::info!("another version was published meanwhile: starting again");
            }
            AttemptResult::Stale => {
                tracing::info!("some objects became too old to be used: sending these files again");
                stale += 1;
            }
        }
    }
    Err(RemoteError::Overtaken { address: remote.address().to_owned(), attempts: ATTEMPTS_MAX })
}

/// The result of an attempt.
enum AttemptResult {
    /// A version was made, or an existing one has everything.
    Done(PublishOutcome, PublicationNote),
    /// The number was taken meanwhile.
    Taken,
    /// An object that the attempt used, and that no version names, has become so old that it may be
    /// deleted.
    Stale,
}

/// Sends what is missing, and makes a version of it after the newest. If the newest version
/// contains the lake, this repeats the newest version, provided that something of it is damaged.
async fn attempt(
    remote: &Remote,
    candidate: &Candidate,
    newest: &NewestVersion,
    options: &PublishOptions,
    bar: &ProgressBar,
    contained: bool,
    use_orphans: bool,
) -> Result<AttemptResult, RemoteError> {
    let there = newest.published.as_ref().filter(|_| contained);
    let up_to_date = |there: &Published| {
        let outcome = PublishOutcome::UpToDate { version: there.manifest.version };
        Ok(AttemptResult::Done(outcome, PublicationNote::of(&there.manifest)))
    };
    let is_trusted = !options.read_back && !newest.skipped_damage;
    if let Some(there) = there.filter(|_| is_trusted) {
        return up_to_date(there);
    }
    let inventory = there.map_or(&candidate.inventory, |there| &there.inventory);
    let name = random_name()?;
    let located =
        locate(remote, &candidate.inventory, inventory, newest, use_orphans, &name, options)
            .await?;
    if let Some(there) = there
        && located.missing.is_empty()
        && !newest.skipped_damage
    {
        return up_to_date(there);
    }
    let bytes_sent = send_missing(remote, &candidate.snapshot, &located, options, bar).await?;
    let list = VersionList::new(inventory.clone(), located.objects.clone(), name.clone());
    let list: Bytes = to_json(&list).into();
    let digest = blake3::hash(&list).to_hex().to_string();
    let object = list_name(&digest);
    remote.put(&object, list.clone()).await?;
    let written_ms = demand_arrival(remote, &object, list.len() as u64).await?;
    remote.demand_conditions(&object, list).await?;
    if !located.is_safe_at(written_ms) {
        return Ok(AttemptResult::Stale);
    }
    let manifest = manifest(remote, newest, inventory, digest, name);
    if !remote.announce(&manifest).await? {
        return Ok(AttemptResult::Taken);
    }
    let outcome = PublishOutcome::Published(UploadReport {
        version: manifest.version,
        files: manifest.files,
        files_sent: located.missing.len() as u64,
        bytes_sent,
        merged: candidate.is_other,
        repaired: contained,
    });
    Ok(AttemptResult::Done(outcome, PublicationNote::of(&manifest)))
}

fn manifest(
    remote: &Remote,
    newest: &NewestVersion,
    inventory: &Inventory,
    list: String,
    publication: String,
) -> Manifest {
    let rows = |table: Table| {
        let of_table = inventory.files.iter().filter(|row| row.table == table);
        of_table.map(|row| row.rows).sum()
    };
    Manifest {
        format: FORMAT,
        version: newest.highest + 1,
        list: Some(list),
        publication,
        published_at_ms: remote.now_ms(),
        parent: newest.published.as_ref().map(|base| base.manifest.version),
        episodes: rows(Table::Episodes),
        steps: rows(Table::Steps),
        files: inventory.files.len() as u64,
        bytes: inventory.files.iter().map(|row| row.bytes).sum(),
    }
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

/// Makes the folder for the lakes of a merge. It is deleted with what is returned.
fn work_folder(lake: &Lake, options: &PublishOptions) -> Result<tempfile::TempDir, RemoteError> {
    let beside = lake.path().parent().unwrap_or(Path::new("."));
    let parent = options.work.as_deref().unwrap_or(beside);
    let work = tempfile::Builder::new().prefix(".steplake-publish-").tempdir_in(parent);
    work.map_err(|source| RemoteError::Io {
        doing: format!(
            "make a folder for the merge in {} (--work names another one)",
            parent.display()
        ),
        source,
    })
}

/// Merges the local lake and a published version in the folder `work`: everything that either has,
/// except what one of them retracted. The result has the files of the version wherever their rows
/// do not change, so these need not be sent. If the result equals the version or the local lake,
/// returns that.
///
/// The copy of the version stays in the folder for the next merge. Its files are links to those of
/// the local lake, or were there before, or are fetched.
async fn merged(
    remote: &Remote,
    local: &Candidate,
    there: &Published,
    work: &Path,
    options: &PublishOptions,
    bar: &ProgressBar,
) -> Result<Candidate, RemoteError> {
    let (copy, into) = (work.join("there"), work.join("merged"));
    let fetch = FetchOptions { parallel: options.parallel, verify: false };
    let here = Some(&local.lake);
    let fetched = fetch_version(remote, there, &copy, Disk::default(), here, &fetch, bar).await?;
    let lakes = [fetched.lake, local.lake.clone()];
    let how = MergeOptions { sealed_only: true, keep_files: true, ..MergeOptions::default() };
    let mut candidate = tokio::task::block_in_place(|| {
        if into.exists() {
            std::fs::remove_dir_all(&into).map_err(|source| {
                let doing = format!("delete the folder of an earlier merge {}", into.display());
                RemoteError::Io { doing, source }
            })?;
        }
        let (together, report) = merge(Disk::default(), &lakes, &into, &how, &mut |_, _| {})?;
        let whole = together.sealed()?;
        let inventory = whole.inventory();
        let equals = |lake: &Lake| {
            let snapshot = lake.sealed_part()?;
            let same_rows = report.rows.iter().all(|&(table, rows)| {
                let sealed = snapshot.segments(table).iter().map(|segment| segment.rows);
                rows == sealed.sum::<u64>()
            });
            let same = same_rows && same_runs_and_retractions(&snapshot.inventory(), &inventory);
            Ok::<_, RemoteError>(same && values(&snapshot)? == values(&whole)?)
        };
        // A version that has everything is compared with itself.
        if equals(&lakes[0])? {
            return Ok(Candidate { is_other: true, ..Candidate::new(&lakes[0])? });
        }
        if equals(&lakes[1])? {
            return Candidate::new(&lakes[1]);
        }
        count(&together)?;
        // Each merge adds files, and many small ones become one now and then.
        together.writer()?.compact_due();
        Ok::<_, RemoteError>(Candidate { is_other: true, ..Candidate::new(&together)? })
    })?;
    candidate.merged = Some(there.list.clone());
    tracing::info!(lake = %candidate.lake.path().display(), "merged with the published version");
    Ok(candidate)
}

/// Returns the number of values in the rows of states and programs. Lakes with equal runs may have
/// different spaces of one state.
fn values(snapshot: &Snapshot) -> Result<usize, RemoteError> {
    let mut values = 0;
    for table in [Table::Benchmarks, Table::Observations] {
        for batch in snapshot.scan(table, ScanColumns::All) {
            let batch = batch?;
            let columns = batch.columns().iter();
            values += columns.map(|column| column.len() - column.null_count()).sum::<usize>();
        }
    }
    Ok(values)
}
