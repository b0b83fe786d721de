//! Merges several lakes into a new one.
//!
//! States are named by their content and runs by a random uid, so a merge is a union:
//!
//! - Runs are identified by their uid and renumbered by (`started_at_ms`, uid). An unfinished run
//!   stays unfinished.
//! - Episodes are identified by their run and ordinal. An episode that several lakes have is one
//!   recording, so it must be equal in all of them, including the wall times of its steps.
//! - States are identified by their id. Each observation is taken from a lake that has it, and must
//!   be equal in all that do. So must the bitcode; if the compressed bitcode differs, the smallest
//!   in byte order is taken.
//! - Benchmarks are identified by their URI, and must be the same program. Each baseline is taken
//!   from a lake that has it, and must be equal in all that do.
//! - The new lake has the actions and spaces of all lakes.
//! - What one lake retracted is taken from none. The flags of actions, which probes found, are
//!   combined.
//!
//! The contents of the new lake therefore depend neither on the order of the lakes, nor on whether
//! they were merged at once or one after another. A lake merged with itself, or with an older copy
//! of itself, is unchanged. Open episodes are left out. The merged lakes are only read.
//!
//! # What is durable when
//!
//! The new lake exists once [`merge`] has returned `Ok`. Before that, the folder is no lake: its
//! `lake.json` is written last. After an `Err`, the folder is as it was before. If the process is
//! killed, the folder holds `merge.unfinished` and no `lake.json`, and the next merge into it
//! starts from the beginning.

mod conflicts;
mod episodes;
mod error;
mod folder;
mod identity;
mod options;
mod runs;
mod source;
mod states;

use std::path::{Path, PathBuf};

pub use self::conflicts::{Conflict, new_conflicts};
use self::episodes::Episodes;
pub use self::error::MergeError;
use self::folder::Folder;
pub use self::options::MergeOptions;
use self::runs::Runs;
use self::source::Source;
use crate::lake::{Disk, Lake, Segment, Table};

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The merged lakes, in the given order.
    pub sources: Vec<SourceReport>,
    /// Number of runs in the new lake.
    pub runs: u64,
    /// Number of rows of each recorded table of the new lake.
    pub rows: Vec<(Table, u64)>,
    /// Number of episodes that several of the lakes had.
    pub episodes_shared: u64,
    /// Number of episodes that were left out because one of the lakes retracted them.
    pub episodes_retracted: u64,
}

/// What a merge read from one lake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceReport {
    /// The lake.
    pub path: PathBuf,
    /// Number of its closed episodes.
    pub episodes: u64,
    /// Number of its open episodes, which were left out.
    pub episodes_open: u64,
}

/// Merges lakes into a new one, in a folder that is empty or does not exist. The new lake has no
/// derived tables before a dedup. Calls `progress` with the rows read and the total.
///
/// # Errors
///
/// [`MergeError`] says why the lakes cannot be merged.
/// [`LakeError::NotALake`](crate::lake::LakeError::NotALake) if the folder holds anything, even a
/// lake. The folder is then unchanged; if the disk fails while it is cleared, it is as after a
/// kill.
pub fn merge(
    disk: Disk,
    lakes: &[Lake],
    into: &Path,
    options: &MergeOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Lake, Report), MergeError> {
    let sources = lakes.iter().map(|lake| Source::open(lake, options.sealed_only));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let identity = identity::common(&sources)?;
    let runs = Runs::of(&sources)?;
    let within = |source: &&Lake| {
        let target = std::path::absolute(into).unwrap_or_else(|_| into.to_owned());
        std::path::absolute(source.path())
            .is_ok_and(|source| target != source && target.starts_with(source))
    };
    if let Some(source) = lakes.iter().find(within) {
        let (into, lake) = (into.to_owned(), source.path().to_owned());
        return Err(MergeError::Within { into, lake });
    }
    let folder = Folder::prepare(disk, into, &identity)?;
    let written = write(&folder, &sources, &runs, options, progress);
    let done = written.and_then(|(segments, episodes)| {
        let detail = match sources.len() {
            1 => "1 lake".to_owned(),
            lakes => format!("{lakes} lakes"),
        };
        folder.publish(&runs, &segments, &detail)?;
        Ok((segments, episodes))
    });
    let (segments, episodes) = match done {
        Ok(done) => done,
        Err(error) => {
            folder.abandon();
            return Err(error);
        }
    };
    let lake = folder.complete()?;
    let rows = |table: Table| {
        let of_table = segments.iter().filter(|segment| segment.table == table);
        (table, of_table.map(|segment| segment.rows).sum())
    };
    let recorded = Table::ALL.into_iter().filter(|table| table.is_recorded());
    let report = Report {
        sources: sources.iter().map(source_report).collect(),
        runs: runs.rows.len() as u64,
        rows: recorded.map(rows).collect(),
        episodes_shared: episodes.shared(),
        episodes_retracted: episodes.retracted(),
    };
    Ok((lake, report))
}

fn source_report(source: &Source) -> SourceReport {
    SourceReport {
        path: source.path(),
        episodes: source.snapshot.rows(Table::Episodes),
        episodes_open: source.open_episodes(),
    }
}

fn write(
    folder: &Folder,
    sources: &[Source],
    runs: &Runs,
    options: &MergeOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Vec<Segment>, Episodes), MergeError> {
    let tables = Table::ALL.into_iter().filter(|table| table.is_recorded());
    let of_table = |table| sources.iter().map(|source| source.snapshot.rows(table)).sum::<u64>();
    let total = tables.map(of_table).sum();
    let mut done = 0;
    let mut read = |rows: usize| {
        done += rows as u64;
        progress(done, total);
    };
    for source in sources {
        source.check()?;
    }
    let mut episodes = Episodes::default();
    let mut segments = episodes.write_rows(&folder.lake, sources, runs, &mut read)?;
    segments.extend(episodes.write_benchmarks(&folder.lake, sources, runs)?);
    segments.extend(episodes.write_steps(&folder.lake, sources, runs, &mut read)?);
    for table in [Table::Observations, Table::Ir] {
        segments.extend(states::write(&folder.lake, sources, table, options, &mut read)?);
    }
    Ok((segments, episodes))
}
