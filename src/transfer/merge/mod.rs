//! Several lakes into a new one.
//!
//! States are named by their content and runs by a random uid, so that bringing lakes together is a
//! union:
//!
//! - Runs are told by their uid and numbered anew by (`started_at_ms`, uid). An unfinished run
//!   stays unfinished.
//! - Episodes are told by their run and ordinal. One that several lakes have is the same recording,
//!   and has to be equal in all of them, to the wall times of its steps.
//! - States are told by their id: their observations have to be equal, and of their IR, which
//!   unpacks to the same bytes, the lesser packing is taken.
//! - Benchmarks are told by their URI, and have to stand for the same program.
//! - What one of the lakes retracted comes from none. Action flags, which say what a probe found
//!   out, are taken together.
//!
//! So the contents of the new lake do not depend on the order of the lakes, nor on whether they
//! were merged all at once or one after another; and a lake merged with itself or with an older
//! copy of itself stays as it was. Open episodes are left out. The lakes that are merged are only
//! read.
//!
//! # What is durable when
//!
//! The new lake is there once [`merge`] has returned `Ok`, and before that it is none: its
//! `lake.json` is written last. After an `Err` the folder is as it was before. Killed, it leaves a
//! folder with a file `merge.unfinished` and without `lake.json`; another merge into it begins
//! anew.

mod conflicts;
mod episodes;
mod error;
mod folder;
mod runs;
mod settings;
mod source;
mod states;

use std::path::{Path, PathBuf};

pub use self::conflicts::{Conflict, new_conflicts};
use self::episodes::Episodes;
pub use self::error::MergeError;
use self::folder::Folder;
use self::runs::Runs;
pub use self::settings::Settings;
use self::source::Source;
use crate::lake::{Disk, Identity, Lake, Segment, Table};

/// What a merge did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The lakes, in the order given.
    pub sources: Vec<SourceReport>,
    /// Runs of the new lake.
    pub runs: u64,
    /// Rows of its tables, the recorded ones.
    pub rows: Vec<(Table, u64)>,
    /// Episodes that several of the lakes had.
    pub episodes_shared: u64,
    /// Episodes that were left out since one of the lakes retracted them.
    pub episodes_retracted: u64,
}

/// What was taken of one lake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceReport {
    /// The lake.
    pub path: PathBuf,
    /// Its closed episodes.
    pub episodes: u64,
    /// Its open episodes, which were left out.
    pub episodes_open: u64,
}

/// Merges lakes into a new one, in a folder that is empty or not there yet. Its derived tables are
/// left to dedup. `progress` is told how many rows of how many are read.
///
/// # Errors
///
/// [`MergeError`] says what keeps the lakes from being merged.
/// [`LakeError::NotALake`](crate::lake::LakeError::NotALake) when the folder holds something, be it
/// a lake. The folder is then as before, or, where the disk did not let it be cleared, as a kill
/// leaves it.
pub fn merge(
    disk: Disk,
    lakes: &[Lake],
    into: &Path,
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Lake, Report), MergeError> {
    let identity = common_identity(lakes)?;
    let sources = lakes.iter().map(|lake| Source::open(lake, settings.sealed_only));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
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
    let written = write(&folder, &sources, &runs, settings, progress);
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
    settings: &Settings,
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
        segments.extend(states::write(&folder.lake, sources, table, settings, &mut read)?);
    }
    Ok((segments, episodes))
}

/// The identity of all of the lakes, with the actions and spaces that any of them has. What probes found out about actions is taken together:
/// a flag that warns stays, one that promises stays where all have it.
fn common_identity(lakes: &[Lake]) -> Result<Identity, MergeError> {
    let (first, others) = lakes.split_first().expect("there is a lake to be merged");
    let mut common = first.identity().clone();
    for other in others {
        if let Some((what, in_first, in_second)) = common.difference(other.identity()) {
            let (first, second) = (first.path().to_owned(), other.path().to_owned());
            return Err(MergeError::OtherIdentity { what, first, in_first, second, in_second });
        }
        let found =
            common.action_space.actions.iter_mut().zip(&other.identity().action_space.actions);
        for (action, other) in found {
            let (flags, other) = (&mut action.flags, other.flags);
            flags.replayable &= other.replayable;
            flags.crashes |= other.crashes;
            flags.slow |= other.slow;
            flags.never_changes &= other.never_changes;
        }
        common = common.grown(other.identity()).unwrap_or(common);
    }
    Ok(common)
}
