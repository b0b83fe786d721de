//! Sending what is missing, and making a version of it.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use indicatif::ProgressBar;
use steplake::dedup::{self, dedup};
use steplake::lake::{Disk, Lake, Snapshot, Table};
use steplake::transfer::Inventory;
use steplake::transfer::merge::{self, merge};

use crate::RemoteError;
use crate::fetch::{self, fetch_version};
use crate::place::place;
use crate::relation::{Relation, relation, tell_the_same};
use crate::remote::{Published, Remote, Standing, list_name, random_name};
use crate::send::{demand_arrival, send_missing};
use crate::version::{FORMAT, Manifest, list_to_json};

/// The size of a request in bytes: of a part, if a file has several.
const PART_BYTES: u64 = 16 << 20;
/// How many other versions may come first before a publication gives up.
pub(crate) const TRIES_MAX: u32 = 16;
/// How often the objects used may turn out too old, before a publication sends everything itself.
const STALE_MAX: u32 = 2;

/// Parameters of a publication.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of files that are sent at a time.
    pub parallel: usize,
    /// Whether to merge the lake with a version that has something which the lake lacks. The lake
    /// itself stays unchanged.
    pub merge: bool,
    /// Whether to read back and compare every file, even those that were already there. Damaged or
    /// missing files are sent again, and a new version names them.
    pub read_back: bool,
    /// Whether the newest readable version counts as the newest if the manifest or the list of the
    /// newest is damaged. The new version lacks what only the damaged one had.
    pub replace_damaged: bool,
    /// The size of a request in bytes; larger files are sent in parts. S3 requires at least 5 MiB.
    pub part_bytes: u64,
    /// The folder in which a merge works; by default beside the lake.
    pub work: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            parallel: 4,
            merge: false,
            read_back: false,
            replace_damaged: false,
            part_bytes: PART_BYTES,
            work: None,
        }
    }
}

/// The result of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A version was made.
    Published(Sent),
    /// An existing version has everything.
    There {
        /// The version's number.
        version: u64,
    },
}

/// What was sent for a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
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
    /// Whether the version repeats the one before it, because something was damaged or missing
    /// there.
    pub mended: bool,
}

/// The lake to publish: the local one, or its merge with an earlier version.
struct Candidate {
    lake: Lake,
    /// Keeps the files of the lake.
    snapshot: Snapshot,
    inventory: Inventory,
    known: BTreeSet<String>,
    /// The lists of the versions that the lake contains completely, as a merge showed.
    merged: HashSet<String>,
    /// The folder of the lake, if it must be deleted after publishing.
    work: Option<tempfile::TempDir>,
}

impl Candidate {
    fn new(lake: &Lake, work: Option<tempfile::TempDir>) -> Result<Self, RemoteError> {
        // The order matters: what is sealed in between is known, and not published.
        let snapshot = lake.sealed()?;
        let known = lake.known_files()?;
        let inventory = snapshot.inventory();
        Ok(Self { lake: lake.clone(), snapshot, inventory, known, merged: HashSet::new(), work })
    }

    fn compare(&self, there: &Published, standing: &Standing) -> Relation {
        let has = |digest: &str| self.inventory.files.iter().any(|row| row.digest == digest);
        match relation(&self.inventory, &self.known, &there.inventory) {
            Relation::Neither(_) if self.merged.contains(&there.list) => Relation::Contains,
            // If newer versions are damaged, nothing is taken over from this one: the lake must
            // have all its files.
            Relation::Contained
                if standing.passed_damage
                    && !there.inventory.files.iter().all(|row| has(&row.digest)) =>
            {
                Relation::Neither("files that this lake has not".to_owned())
            }
            other => other,
        }
    }
}

/// Publishes the sealed part of a lake as a new version, unless an existing version has all of it.
/// The lake is only read.
///
/// Durable once this has returned `Ok`, as durable as the store makes what it acknowledges. After a
/// kill or an `Err`, the store holds what it held before, and objects that no version names;
/// [`gc`](crate::gc::gc) removes these after a while, and the next publication finds them. Only if
/// the store's answer to the last request was lost for good ([`RemoteError::Store`]) may the
/// version be there: complete, as always. The next publication finds it.
///
/// No name is ever written twice, so a collection at the same time deletes nothing of it:
/// [`gc`](crate::gc) explains why. What is found damaged is sent under another name, and a new
/// version names it.
///
/// # Errors
///
/// [`RemoteError::Diverged`] if the newest version has something that the lake lacks, and merging
/// is off; [`RemoteError::OtherIdentity`]; [`RemoteError::Unconditional`]; errors of the store and
/// of the lake.
pub async fn publish(
    remote: &Remote,
    lake: &Lake,
    settings: &Settings,
    bar: &ProgressBar,
) -> Result<Outcome, RemoteError> {
    let mut candidate = Candidate::new(lake, None)?;
    let mut stale = 0;
    for _ in 0..TRIES_MAX {
        let standing = remote.standing(settings.replace_damaged).await?;
        let mut contained = false;
        if let Some(there) = &standing.newest {
            demand_identity(remote, lake, there)?;
            let mut how = candidate.compare(there, &standing);
            if matches!(how, Relation::Neither(_)) && settings.merge {
                candidate = match merged(remote, lake, there, settings, bar).await {
                    Ok(together) => together,
                    // Others have published a newer version meanwhile, and forgotten this one.
                    Err(RemoteError::Forgotten { .. }) => continue,
                    Err(error) => return Err(error),
                };
                how = candidate.compare(there, &standing);
            }
            if let Relation::Neither(what) = how {
                return Err(RemoteError::Diverged {
                    address: remote.address().to_owned(),
                    version: there.manifest.version,
                    lake: lake.path().to_owned(),
                    what,
                });
            }
            contained = how == Relation::Contained;
        }
        // If the clocks disagree, objects that were left are not used.
        let left = stale < STALE_MAX;
        let attempt = Attempt { remote, candidate: &candidate, standing: &standing, settings, bar };
        match attempt.go(contained, left).await? {
            Ended::There(version) => return Ok(Outcome::There { version }),
            Ended::Made(sent) => return Ok(Outcome::Published(sent)),
            Ended::Taken => {
                tracing::info!("another version was published meanwhile: this one begins again");
            }
            Ended::Stale => {
                tracing::info!("what was sent first is too old by now: it is sent again");
                stale += 1;
            }
        }
    }
    Err(RemoteError::Overtaken { address: remote.address().to_owned(), tries: TRIES_MAX })
}

/// One attempt to make a version after the newest.
struct Attempt<'a> {
    remote: &'a Remote,
    candidate: &'a Candidate,
    standing: &'a Standing,
    settings: &'a Settings,
    bar: &'a ProgressBar,
}

/// The result of an attempt.
enum Ended {
    /// This version has everything.
    There(u64),
    /// A version was made.
    Made(Sent),
    /// The number was taken meanwhile.
    Taken,
    /// An object that it used and no version names has become so old that it may be deleted.
    Stale,
}

impl Attempt<'_> {
    /// Sends what is missing, and makes a version of it. If the newest version contains the lake,
    /// this repeats the newest version, provided that something of it is damaged.
    async fn go(&self, contained: bool, left: bool) -> Result<Ended, RemoteError> {
        let &Self { remote, candidate, standing, settings, bar } = self;
        let there = standing.newest.as_ref().filter(|_| contained);
        let is_whole = !settings.read_back && !standing.passed_damage;
        if let Some(there) = there.filter(|_| is_whole) {
            return Ok(Ended::There(there.manifest.version));
        }
        let inventory = there.map_or(&candidate.inventory, |there| &there.inventory);
        let name = random_name()?;
        let placed =
            place(remote, &candidate.inventory, inventory, standing, left, &name, settings).await?;
        if let Some(there) = there
            && placed.missing.is_empty()
            && !standing.passed_damage
        {
            return Ok(Ended::There(there.manifest.version));
        }
        let bytes_sent = send_missing(remote, &candidate.snapshot, &placed, settings, bar).await?;
        let list: Bytes = list_to_json(inventory, &placed.objects, &name).into();
        let digest = blake3::hash(&list).to_hex().to_string();
        let object = list_name(&digest);
        remote.put(&object, list.clone()).await?;
        let written_ms = demand_arrival(remote, &object, list.len() as u64).await?;
        remote.demand_conditions(&object, list).await?;
        if !placed.holds_at(written_ms) {
            return Ok(Ended::Stale);
        }
        let manifest = self.manifest(inventory, digest, name);
        if !remote.announce(&manifest).await? {
            return Ok(Ended::Taken);
        }
        Ok(Ended::Made(Sent {
            version: manifest.version,
            files: manifest.files,
            files_sent: placed.missing.len() as u64,
            bytes_sent,
            merged: candidate.work.is_some(),
            mended: contained,
        }))
    }

    fn manifest(&self, inventory: &Inventory, list: String, publication: String) -> Manifest {
        let rows = |table: Table| {
            let of_table = inventory.files.iter().filter(|row| row.table == table);
            of_table.map(|row| row.rows).sum()
        };
        Manifest {
            format: FORMAT,
            version: self.standing.highest + 1,
            list: Some(list),
            publication,
            published_at_ms: self.remote.now_ms(),
            parent: self.standing.newest.as_ref().map(|base| base.manifest.version),
            episodes: rows(Table::Episodes),
            steps: rows(Table::Steps),
            files: inventory.files.len() as u64,
            bytes: inventory.files.iter().map(|row| row.bytes).sum(),
        }
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

/// Merges the lake and a published version in a folder of its own: everything that either has,
/// except what one of them retracted. If the result equals the lake, returns the lake.
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
    let fetching = fetch::Settings { parallel: settings.parallel, verify: false };
    let fetched =
        fetch_version(remote, there, &work.path().join("there"), Disk::default(), &fetching, bar)
            .await?;
    let lakes = [lake.clone(), fetched.lake];
    let into = work.path().join("merged");
    let sealed = merge::Settings { sealed_only: true, ..merge::Settings::default() };
    let together = tokio::task::block_in_place(|| {
        let (together, report) = merge(Disk::default(), &lakes, &into, &sealed, &mut |_, _| {})?;
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
        dedup(&mut maintenance, dedup::DedupOptions::default(), &mut |_, _| {})?;
        drop(maintenance);
        Ok((together, same))
    })?;
    let [_, fetched] = lakes;
    let mut candidate = match together {
        // The version has everything: compare it with itself.
        (_, [_, true]) => Candidate::new(&fetched, Some(work))?,
        (_, [true, false]) => Candidate::new(lake, None)?,
        (together, [false, false]) => Candidate::new(&together, Some(work))?,
    };
    candidate.merged.insert(there.list.clone());
    tracing::info!(lake = %candidate.lake.path().display(), "merged with what is published");
    Ok(candidate)
}
