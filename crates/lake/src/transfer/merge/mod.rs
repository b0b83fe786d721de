//! Merges several lakes into a new one.
//!
//! States are named by their content and runs by a random uid, so a merge is a union:
//!
//! - Runs are identified by their uid and numbered by (`started_at_ms`, uid), except by a merge
//!   that keeps files. An unfinished run stays unfinished.
//! - Episodes are identified by their run and ordinal. An episode that several lakes have is one
//!   recording, so it must be equal in all of them, including the wall times of its steps.
//! - States are identified by their id. Each observation is taken from a lake that has it, and must
//!   be equal in all that do. So must the bitcode; if the compressed bitcode differs, the smallest
//!   in byte order is taken.
//! - Benchmarks are identified by their URI, and must be the same program. Each baseline is taken
//!   from a lake that has it, and must be equal in all that do.
//! - Measurements and miscompilations are identified by their random names: all are taken, each
//!   once.
//! - The new lake has the actions and spaces of all lakes.
//! - What one lake retracted is taken from none. The flags of actions, which probes found, are
//!   combined.
//!
//! The contents of the new lake therefore depend neither on the order of the lakes, nor on whether
//! they were merged at once or one after another. A lake merged with itself, or with an older copy
//! of itself, is unchanged. Open episodes are left out. The merged lakes are only read.
//!
//! There is one exception, which no rule avoids: a benchmark that one lake retracted, and that
//! others still use. A baseline, a spelling of the provenance, a measurement or a miscompilation
//! that only retracted episodes brought is lost where those lakes are merged before the others, and
//! kept otherwise.
//!
//! # What is written
//!
//! All rows, or with [`MergeOptions::keep_files`] only those that change: `kept` says which files
//! of the first lake the new one shares with it. Files are never changed, so neither lake sees the
//! other. The runs of the first lake then keep their numbers, and those of the others come after
//! them: rows that another run could renumber would be written again. So the numbers of runs depend
//! on the order of such merges, and with them `first_episode_id`, `first_step_index` and, if
//! several benchmarks reach one state, the rewards on the benchmark's scale. So does the order of
//! spaces: those of the first lake stay the first ones, so that it can be updated to the new one
//! whatever spaces the others have. Files of the other lakes that the first one has too are not
//! read.
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
mod identity;
mod kept;
mod named;
mod runs;
mod source;
mod states;

use std::path::{Path, PathBuf};

pub use self::conflicts::{Conflict, new_conflicts};
use self::episodes::Episodes;
pub use self::error::MergeError;
use self::kept::{Kept, KeptSegments};
use self::runs::Runs;
use self::source::SourceLake;
use super::folder::{Folder, lies_within};
use crate::kernel::create::{MERGE_UNFINISHED, create_catalog};
use crate::kernel::versions::edit::{self, VersionEdit};
use crate::kernel::versions::manifest::Derived;
use crate::kernel::{DEDUP_INPUTS, Disk, Lake, LakeError, Segment, SnapshotKind, Table};

/// Parameters of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOptions {
    /// Number of files of `observations` or `ir` that are read at a time. If there are more, some
    /// are merged into temporary files first. A larger number takes more memory; the result is the
    /// same.
    pub files_at_once: usize,
    /// Whether to leave out hot rows, so that the new lake has what is sealed and nothing else.
    pub sealed_only: bool,
    /// Whether the new lake shares files with the first of the lakes, by hard links: those of whose
    /// rows it has all, unchanged. If it has the counted steps in the same files, it also has the
    /// layers of that lake, and a dedup need only count the other steps. The runs of the first lake
    /// keep their numbers, and its spaces their places. But for these, the rows are the same in any
    /// case. Both lakes are then on one file system.
    pub keep_files: bool,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self { files_at_once: 64, sealed_only: false, keep_files: false }
    }
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeReport {
    /// The merged lakes, in the given order.
    pub sources: Vec<SourceReport>,
    /// Number of runs in the new lake.
    pub runs: u64,
    /// Number of rows of each recorded table of the new lake.
    pub rows: Vec<(Table, u64)>,
    /// Number of episodes that several of the lakes had, in files that were read.
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
/// derived tables before a dedup, unless it keeps those of the first lake. Calls `progress` with
/// the rows read and the total.
///
/// # Errors
///
/// [`MergeError`] says why the lakes cannot be merged.
/// [`LakeError::NotALake`] if the folder holds anything, and [`MergeError::IntoALake`] if that is a
/// lake. The folder is then unchanged; if the disk fails while it is cleared, it is as after a
/// kill.
pub fn merge(
    disk: Disk,
    lakes: &[Lake],
    into: &Path,
    options: &MergeOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Lake, MergeReport), MergeError> {
    let sources = lakes.iter().map(|lake| SourceLake::open(lake, options.sealed_only));
    let mut sources = sources.collect::<Result<Vec<_>, _>>()?;
    if options.keep_files
        && let Some((first, others)) = sources.split_first_mut()
    {
        for source in others {
            source.leave_out_files_of(first);
        }
    }
    let identity = identity::common(&sources, options.keep_files)?;
    let runs = Runs::of(&sources, options.keep_files)?;
    if let Some(source) = lakes.iter().find(|source| lies_within(into, source.path())) {
        let (into, lake) = (into.to_owned(), source.path().to_owned());
        return Err(MergeError::Within { into, lake });
    }
    let folder = Folder::prepare(disk, into, &identity, MERGE_UNFINISHED);
    let folder = folder.map_err(|error| match error {
        LakeError::HoldsALake { path: into } => MergeError::IntoALake { into },
        other => other.into(),
    })?;
    folder.clear()?;
    folder.mark("merge", "start over")?;
    let (segments, [shared, retracted]) =
        match fill(&folder.lake, &sources, &runs, options, progress) {
            Ok(filled) => filled,
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
    let of_source = |source: &SourceLake| SourceReport {
        path: source.path(),
        episodes: source.snapshot.rows(Table::Episodes),
        episodes_open: source.open_episodes(),
    };
    let recorded = Table::ALL.into_iter().filter(|table| table.is_recorded());
    let report = MergeReport {
        sources: sources.iter().map(of_source).collect(),
        runs: runs.rows.len() as u64,
        rows: recorded.map(rows).collect(),
        episodes_shared: shared,
        episodes_retracted: retracted,
    };
    Ok((lake, report))
}

/// Writes the segments and the catalog. Returns the segments, and how many episodes several lakes
/// had and how many were retracted. The folder is still no lake.
fn fill(
    lake: &Lake,
    sources: &[SourceLake],
    runs: &Runs,
    options: &MergeOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(Vec<Segment>, [u64; 2]), MergeError> {
    let tables = Table::ALL.into_iter().filter(|table| table.is_recorded());
    let of_table = |table| sources.iter().map(move |source| source.rows(table)).sum::<u64>();
    let total = tables.map(of_table).sum();
    let mut done = 0;
    let mut read = |rows: usize| {
        done += rows as u64;
        progress(done, total);
    };
    for source in sources {
        source.check()?;
    }
    let first = &sources[0];
    let mut kept = if options.keep_files { Kept::of(first, lake) } else { Kept::default() };
    let mut episodes = Episodes::new(lake, sources, runs);
    let mut segments = episodes.write_rows(&mut kept, &mut read)?;
    segments.extend(episodes.write_benchmarks(&mut kept)?);
    segments.extend(episodes.write_steps(&mut kept, &mut read)?);
    for table in [Table::Observations, Table::Ir] {
        let files_at_once = options.files_at_once;
        segments.extend(states::write(lake, sources, table, files_at_once, &mut kept, &mut read)?);
    }
    for table in [Table::Measurements, Table::Miscompilations] {
        let keeps = |uri: &str| episodes.keeps_benchmark(uri);
        segments.extend(named::write(lake, sources, table, &keeps, &mut kept, &mut read)?);
    }
    let kept =
        if options.keep_files { kept.link(first, lake, runs)? } else { KeptSegments::default() };
    list(lake, sources.len(), runs, &segments, &kept)?;
    segments.extend(kept.recorded);
    Ok((segments, [episodes.shared(), episodes.retracted()]))
}

/// Makes the catalog of the new lake, with what was written and what it keeps of the first lake.
fn list(
    lake: &Lake,
    lakes: usize,
    runs: &Runs,
    written: &[Segment],
    kept: &KeptSegments,
) -> Result<(), LakeError> {
    let mut catalog = create_catalog(lake)?;
    let plural = if lakes == 1 { "" } else { "s" };
    let mut edit = VersionEdit {
        add: [&kept.recorded, written].concat(),
        counted: kept.counted(),
        runs: runs.rows.clone(),
        retractions: runs.retractions.clone(),
        losses: runs.losses.clone(),
        ..VersionEdit::new(SnapshotKind::Merge, format!("{lakes} lake{plural}"))
    };
    if let Some(layers) = &kept.layers {
        edit.add.extend_from_slice(layers);
        edit.derived = Derived::Made(DEDUP_INPUTS.to_owned());
    }
    edit::apply(&mut catalog, lake, &edit).map(drop)
}
