//! Sending what is missing, and making a version of it.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use indicatif::ProgressBar;
use steplake::dedup::{self, dedup};
use steplake::store::merge::{self, merge};
use steplake::store::{Disk, Inventory, Lake, Snapshot, Table};

use crate::RemoteError;
use crate::fetch::{self, fetch_version};
use crate::place::place;
use crate::relation::{Relation, relation, tell_the_same};
use crate::remote::{Published, Remote, Standing, list_name, random_name};
use crate::send::{demand_arrival, send_missing};
use crate::version::{FORMAT, Manifest, list_to_json};

/// The bytes of a request: of a part, where a file has several.
const PART_BYTES: u64 = 16 << 20;
/// How many other versions may come between before a publication gives up.
pub(crate) const TRIES_MAX: u32 = 16;
/// How often what it counted on may turn out to be too old, before a publication sends everything
/// itself.
const STALE_MAX: u32 = 2;

/// How a publication goes about it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Files that are sent at a time.
    pub parallel: usize,
    /// Whether a version that has what the lake lacks is merged with it. The lake itself stays as
    /// it is.
    pub merge: bool,
    /// Whether every file is read back and compared, those that were there as well: what is damaged
    /// or missing there is sent again, and a new version has it.
    pub read_back: bool,
    /// Whether the newest version that can be read counts as the newest, where the manifest or the
    /// list of the newest is damaged: what only that one had is not in the version that is made.
    pub replace_damaged: bool,
    /// The bytes of a request; a file with more is sent in parts. S3 wants 5 MiB at least.
    pub part_bytes: u64,
    /// Where a merge works; beside the lake by default.
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

/// What a publication came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A version was made.
    Published(Sent),
    /// A version is there that has all of it.
    There {
        /// Its number.
        version: u64,
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
    /// Whether it is the version before it once more, since something was damaged or missing there.
    pub mended: bool,
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

    fn compare(&self, there: &Published, standing: &Standing) -> Relation {
        let has = |digest: &str| self.inventory.files.iter().any(|row| row.digest == digest);
        match relation(&self.inventory, &self.known, &there.inventory) {
            Relation::Neither(_) if self.merged.contains(&there.list) => Relation::Contains,
            // Where newer ones are damaged, nothing is taken over from it: all of it has to be
            // here.
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

/// Publishes what is sealed of a lake as a new version, unless one is there that has all of it. The
/// lake is only read.
///
/// Durable once this has returned `Ok`, as durable as the store makes what it acknowledges. Killed,
/// or after an `Err`, what is there is what was there before, and objects that no version names,
/// which [`gc`](crate::gc::gc) removes after a while and the next publication finds. Only where the
/// store's answer to the last request was lost for good ([`RemoteError::Store`]), the version may
/// be there: whole, as ever. The next publication finds it.
///
/// No name is ever written twice, so that a collection beside this deletes nothing of it:
/// [`gc`](crate::gc) says why. What is found damaged is sent under another name, and named by a new
/// version.
///
/// # Errors
///
/// [`RemoteError::Diverged`] when the newest version has what the lake lacks, and they are not to
/// be merged; [`RemoteError::OtherIdentity`]; [`RemoteError::Unconditional`]; what the store and
/// the lake say.
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
                    // Others have published a newer one since, and let go of it.
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
        // Where the clocks are at odds, what was left is not counted on.
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

/// How an attempt ended.
enum Ended {
    /// This version has all of it.
    There(u64),
    /// A version was made.
    Made(Sent),
    /// Its number was taken meanwhile.
    Taken,
    /// What it counted on, and no version names, is so old by now that it may be deleted.
    Stale,
}

impl Attempt<'_> {
    /// Sends what is missing, and makes a version of it. Where the newest version contains the
    /// lake, that is the newest one again, if something of it is damaged.
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

/// The lake and a published version as one, in a folder of its own: everything that either has, but
/// what one of them retracted. Where the lake alone is that, it is the lake.
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
