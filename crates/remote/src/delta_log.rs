//! The tables of a published lake as Delta tables, for readers that know nothing of steplake.
//!
//! ```text
//! segments/<table>/                                  the folder of a Delta table
//!   _delta_log/<20 digits>.checkpoint.parquet        all files of a version
//!   _delta_log/<20 digits>.json                      what the version changed
//! ```
//!
//! Version *N* of every table is published version *N*. A number that a collection took is a Delta
//! version that changes nothing. Each file is a function of the published versions, which never
//! change, and is written only if it does not exist. Publishers need not coordinate: every
//! publisher writes the same.
//!
//! # What is durable when
//!
//! [`complete`] runs after the manifest of a version has appeared. It writes the missing Delta
//! versions of all tables in the order of their numbers, the checkpoint of each before its actions.
//! If it is interrupted, the logs end earlier, and the next publication or collection continues
//! from there, even if it has nothing else to do.
//!
//! # What a reader sees
//!
//! Each Delta version whole, or not yet. For a moment, one table may have a version that another
//! one lacks; a reader that wants several tables of one version asks for it by number. All versions
//! that are not forgotten can be read: a collection completes the logs before it forgets versions,
//! and keeps all log files from the oldest kept version on. That version has a checkpoint, so no
//! reader needs older ones.
//!
//! # Damage
//!
//! If the manifest or the list of a version cannot be read, its Delta version is left out, unless
//! it was written before. The actions of the version after it are left out too, since they would
//! say what changed since the damaged one; its checkpoint lists all of its files.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use steplake_lake::delta::{self, DeltaFile, DeltaVersion};
use steplake_lake::{Identity, Table};

use crate::RemoteError;
use crate::options::ATTEMPTS_MAX;
use crate::remote::{Published, Remote};
use crate::version::{Manifest, table_folder};

/// Writes the missing Delta versions of all tables.
///
/// # Errors
///
/// Errors of the store.
pub(crate) async fn complete(remote: &Remote) -> Result<(), RemoteError> {
    for _ in 1..ATTEMPTS_MAX {
        match attempt(remote).await {
            // Others have completed the logs meanwhile, and then forgotten a version.
            Err(RemoteError::Forgotten { .. }) => {}
            done => return done,
        }
    }
    attempt(remote).await
}

async fn attempt(remote: &Remote) -> Result<(), RemoteError> {
    let logs: Vec<Log> = stream::iter(Table::ALL)
        .map(|table| Log::read(remote, table))
        .buffered(Table::ALL.len())
        .try_collect()
        .await?;
    let numbers = remote.numbers().await?;
    let first = logs.iter().map(Log::next).min().unwrap_or(1);
    let mut before = state_before(remote, &numbers, first).await?;
    for &number in numbers.iter().filter(|&&number| number >= first) {
        let now = VersionState::read(remote, number).await?;
        stream::iter(logs.iter().filter(|log| log.next() <= number))
            .map(|log| log.write(remote, number, &before, &now))
            .buffer_unordered(Table::ALL.len())
            .try_collect::<()>()
            .await?;
        if !matches!(now, VersionState::NoVersion(_)) {
            before = now;
        }
    }
    Ok(())
}

/// What is published under a number.
enum VersionState {
    /// A version.
    Version(Box<VersionContents>),
    /// A collection took the number, or the version is forgotten. Of a number that does not exist,
    /// there is no manifest.
    NoVersion(Option<Manifest>),
    /// The manifest or the list is damaged.
    Damaged,
}

/// The contents of a version, as readers of Delta tables see them.
struct VersionContents {
    manifest: Manifest,
    identity: Identity,
    files: BTreeMap<Table, Vec<DeltaFile>>,
    uncounted_steps: u64,
}

impl VersionState {
    async fn read(remote: &Remote, number: u64) -> Result<Self, RemoteError> {
        let read = async {
            match remote.manifest(number).await? {
                Some(manifest) if manifest.list.is_some() => Ok(Self::Version(Box::new(
                    VersionContents::of(remote.published(manifest).await?),
                ))),
                manifest => Ok(Self::NoVersion(manifest)),
            }
        };
        match read.await {
            Err(RemoteError::Damaged { .. }) => Ok(Self::Damaged),
            read => read,
        }
    }
}

/// Returns the newest version before `number`, which every log has.
async fn state_before(
    remote: &Remote,
    numbers: &[u64],
    number: u64,
) -> Result<VersionState, RemoteError> {
    for &earlier in numbers.iter().rev().filter(|&&earlier| earlier < number) {
        let state = VersionState::read(remote, earlier).await?;
        if !matches!(state, VersionState::NoVersion(_)) {
            return Ok(state);
        }
    }
    Ok(VersionState::NoVersion(None))
}

impl VersionContents {
    fn of(published: Published) -> Self {
        let Published { manifest, inventory, objects, .. } = published;
        let mut rows = inventory.files;
        delta::retain_visible(&mut rows, |row| row);
        let uncounted_steps = delta::uncounted_steps(rows.iter());
        let mut files = BTreeMap::<Table, Vec<DeltaFile>>::new();
        for row in rows {
            let object = &objects[&row.digest];
            let name = object.rsplit_once('/').map_or(object.as_str(), |(_, name)| name);
            files.entry(row.table).or_default().push(DeltaFile::new(row, name));
        }
        Self { manifest, identity: inventory.identity, files, uncounted_steps }
    }

    fn files(&self, table: Table) -> &[DeltaFile] {
        self.files.get(&table).map_or(&[], Vec::as_slice)
    }
}

/// The log of a table.
struct Log {
    table: Table,
    /// The names of its files.
    names: Vec<String>,
}

impl Log {
    async fn read(remote: &Remote, table: Table) -> Result<Self, RemoteError> {
        let folder = log_folder(table);
        let listed = remote.list(&folder).await?;
        let name = |(object, _): (String, _)| {
            object.strip_prefix(&format!("{folder}/")).map(str::to_owned)
        };
        Ok(Self { table, names: listed.into_iter().filter_map(name).collect() })
    }

    /// Returns the number of the first version that may be incomplete. All before are complete.
    fn next(&self) -> u64 {
        let last = self.names.iter().filter_map(|name| delta::version_of(name)).max();
        let last = last.and_then(|last| u64::try_from(last).ok());
        last.map_or(1, |last| last + u64::from(self.has(&delta::version_name(signed(last)))))
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Writes a version. `before` is the newest version before it.
    async fn write(
        &self,
        remote: &Remote,
        number: u64,
        before: &VersionState,
        now: &VersionState,
    ) -> Result<(), RemoteError> {
        let table = self.table;
        let actions = match now {
            VersionState::Version(now) => {
                let version = DeltaVersion {
                    uncounted_steps: now.uncounted_steps,
                    ..version(number, &now.manifest, "publish")
                };
                let files = now.files(table);
                let name = delta::checkpoint_name(signed(number));
                if !self.has(&name) {
                    let (content, _) = delta::checkpoint(table, &now.identity, &version, files);
                    self.put(remote, &name, content).await?;
                }
                let earlier = match before {
                    VersionState::Damaged => return Ok(()),
                    VersionState::NoVersion(_) => None,
                    VersionState::Version(before) => Some(before.files(table)),
                };
                delta::commit(table, Some(&now.identity), &version, earlier, files)
            }
            VersionState::NoVersion(Some(manifest))
                if matches!(before, VersionState::Version(_)) =>
            {
                let version = version(number, manifest, "gc");
                delta::commit(table, None, &version, Some(&[]), &[])
            }
            VersionState::NoVersion(_) | VersionState::Damaged => return Ok(()),
        };
        self.put(remote, &delta::version_name(signed(number)), actions).await
    }

    async fn put(&self, remote: &Remote, name: &str, content: Vec<u8>) -> Result<(), RemoteError> {
        let object = format!("{}/{name}", log_folder(self.table));
        remote.put_if_absent(&object, content.into()).await
    }
}

fn log_folder(table: Table) -> String {
    format!("{}/{}", table_folder(table), delta::FOLDER)
}

fn version<'a>(number: u64, manifest: &'a Manifest, operation: &'a str) -> DeltaVersion<'a> {
    let created_at_ms = manifest.published_at_ms;
    let detail = &manifest.publication;
    DeltaVersion { number: signed(number), created_at_ms, operation, detail, uncounted_steps: 0 }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the number of the version that a file of a log belongs to.
pub(crate) fn version_of(object: &str) -> Option<u64> {
    let (folder, name) = object.rsplit_once('/')?;
    let (_, last) = folder.rsplit_once('/')?;
    let number = delta::version_of(name).filter(|_| last == delta::FOLDER);
    number.and_then(|number| u64::try_from(number).ok())
}
