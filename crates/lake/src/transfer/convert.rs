//! The folder of a lake whose states get ids of another scheme.
//!
//! # What is durable when
//!
//! The new lake exists once [`ConvertedLake::complete`] has returned `Ok`: its `lake.json` is
//! written last. Before that the folder is no lake, though each append to it is durable. If the
//! process is killed, the folder holds `convert.unfinished` and no `lake.json`, and the next
//! conversion into it starts from the beginning.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::folder::{Folder, lies_within};
use crate::kernel::create::CONVERT_UNFINISHED;
use crate::kernel::versions::edit::{self, VersionEdit};
use crate::kernel::versions::manifest;
use crate::kernel::{
    Disk, Identity, Lake, LakeError, ObservationRow, Rows, RunRow, Snapshot, SnapshotId,
    SnapshotKind, Table, Writer,
};
use crate::upkeep::backfill::parts::{Parts, with_states};
use steplake_model::{StateId, Value};

/// Late observations that are kept in memory, at most: about their bytes, and their states.
const LATE_BYTES_MAX: usize = 64 << 20;
const LATE_ROWS_MAX: usize = 1 << 16;

/// A folder that becomes a lake.
#[derive(Debug)]
pub struct ConvertedLake {
    folder: Folder,
    writer: Writer,
    late: LateValues,
}

/// Observations of states whose rows were written without them.
#[derive(Debug)]
struct LateValues {
    parts: Parts,
    /// Those that are in no part yet, and about their bytes.
    rows: HashMap<StateId, Vec<Option<Value>>>,
    bytes: usize,
    /// All states that have some.
    states: HashSet<StateId>,
}

impl ConvertedLake {
    /// Begins a lake of this identity, in a folder that is empty, does not exist, or was left by an
    /// interrupted conversion. It has these runs, and the retractions and losses of `old`: the
    /// numbers of runs are the same in both.
    ///
    /// # Errors
    ///
    /// [`LakeError::HoldsALake`] and [`LakeError::NotALake`] if the folder holds something or lies
    /// in the old lake, and disk errors. The folder is then as it was.
    pub fn begin(
        into: &Path,
        identity: &Identity,
        old: &Snapshot,
        runs: Vec<RunRow>,
    ) -> Result<Self, LakeError> {
        if lies_within(into, old.path()) {
            let detail = format!("it would lie in the lake {}", old.path().display());
            return Err(LakeError::NotALake { path: into.to_owned(), detail });
        }
        let folder = Folder::prepare(Disk::default(), into, identity, CONVERT_UNFINISHED)?;
        folder.clear()?;
        folder.mark("conversion", "start over")?;
        let begin = || {
            let mut writer = folder.writer()?;
            let scheme = old.identity().state_scheme;
            let detail = format!("a lake with state ids of scheme {scheme}");
            let edit = VersionEdit {
                runs,
                retractions: old.retractions().to_vec(),
                losses: old.losses().to_vec(),
                ..VersionEdit::new(SnapshotKind::Convert, detail)
            };
            edit::apply(&mut writer.catalog, &folder.lake, &edit)?;
            let parts = Parts::open(&folder.lake, &identity.observations)?;
            let (rows, states) = (HashMap::new(), HashSet::new());
            Ok((writer, LateValues { parts, rows, bytes: 0, states }))
        };
        match begin() {
            Ok((writer, late)) => Ok(Self { folder, writer, late }),
            Err(error) => {
                folder.abandon();
                Err(error)
            }
        }
    }

    /// Appends rows as [`Writer::append`] does, and seals them from time to time.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    pub fn append(&mut self, rows: &Rows) -> Result<(), LakeError> {
        self.writer.append(rows)?;
        if self.writer.seal_is_due() {
            self.writer.seal()?;
        }
        Ok(())
    }

    /// Adds observations of states that have a row, which get those that they have not.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors.
    pub fn fill(&mut self, rows: Vec<ObservationRow>) -> Result<(), LakeError> {
        let late = &mut self.late;
        for row in rows {
            late.bytes += row.bytes();
            late.states.insert(row.state);
            let columns = row.values.len();
            let values = late.rows.entry(row.state).or_insert_with(|| vec![None; columns]);
            for (known, value) in values.iter_mut().zip(row.values) {
                *known = known.take().or(value);
            }
        }
        if late.bytes >= LATE_BYTES_MAX || late.rows.len() >= LATE_ROWS_MAX {
            late.write()?;
        }
        Ok(())
    }

    /// Seals all rows, and makes the folder a lake.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The folder is then as after a kill.
    pub fn complete(self) -> Result<Lake, LakeError> {
        let Self { folder, mut writer, mut late } = self;
        writer.seal()?;
        late.write()?;
        late.merge_into(&folder.lake, &mut writer)?;
        drop(writer);
        folder.complete()
    }

    /// Restores the folder to its state before the conversion, as far as possible.
    pub fn abandon(self) {
        let Self { folder, writer, .. } = self;
        drop(writer);
        folder.abandon();
    }
}

impl LateValues {
    /// Writes those that are in no part yet.
    fn write(&mut self) -> Result<(), LakeError> {
        self.bytes = 0;
        let rows = std::mem::take(&mut self.rows).into_iter();
        let rows = rows.map(|(state, values)| ObservationRow { state, values }).collect::<Vec<_>>();
        if rows.is_empty() {
            return Ok(());
        }
        let part = self.parts.files().write(rows)?;
        self.parts.list(part)
    }

    /// Merges all into the rows of the states, which are sealed.
    fn merge_into(mut self, lake: &Lake, writer: &mut Writer) -> Result<(), LakeError> {
        if self.states.is_empty() {
            return Ok(());
        }
        let newest = |log: &_| manifest::segments(log, lake, SnapshotId::NEWEST);
        let mut segments = writer.catalog.reading(newest)?;
        segments.retain(|segment| segment.table == Table::Observations);
        let retire = with_states(lake, &segments, &self.states)?;
        let add = self.parts.merged_into(lake, &retire, &mut || Ok(()))?;
        let states = self.states.len();
        let detail =
            format!("later observations of {states} state{}", if states == 1 { "" } else { "s" });
        let edit = VersionEdit { add, retire, ..VersionEdit::new(SnapshotKind::Backfill, detail) };
        edit::apply(&mut writer.catalog, lake, &edit)?;
        self.parts.remove()
    }
}
