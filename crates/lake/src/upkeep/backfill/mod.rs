//! Backfill: the states of a lake get observations in spaces that they lack.
//!
//! A [`Backfill`] holds both the right to write and the right to maintain, so nobody records
//! meanwhile. Its caller computes the observations and hands them over in *parts*; at the end, one
//! version edit merges all parts into the segments of `observations`.
//!
//! # What is durable when
//!
//! - [`Backfill::begin`] seals what is closed, and changes nothing else.
//! - [`BackfillProgress::add`] writes a part: a Parquet file below `backfill/`, which is synced
//!   before its job file lists it. After `Ok` the part survives a power cut. An observation is a
//!   function of the state, so a part never becomes stale, whatever is recorded, retracted or
//!   repaired before the next [`Backfill::begin`] of the same spaces, which finds it.
//! - [`Backfill::complete`] writes the new segments, then appends the spaces to `lake.json` in one
//!   rename, and then applies the edit in one transaction. After a crash before the rename, the
//!   lake is as before. After one between the rename and the transaction, the columns are there and
//!   null. In both cases the parts are still there, and the next backfill makes the edit from them.
//!   After the transaction the backfill is complete, and the parts are deleted; if a crash leaves
//!   them, the next backfill of these spaces deletes them.
//!
//! # What a reader sees
//!
//! The lake without the observations, or with all of them. Segments that are replaced are retired:
//! earlier snapshots still have them. No snapshot has a part.

pub(crate) mod parts;

use std::collections::HashSet;
use std::ops::ControlFlow;

use parking_lot::{Mutex, MutexGuard};

use self::parts::{Parts, with_states};
use super::maintenance::Maintenance;
use crate::kernel::progress::demand;
use crate::kernel::schema::decode::state_ids;
use crate::kernel::versions::edit::{self, VersionEdit};
use crate::kernel::{
    Identity, Lake, LakeError, ObservationRow, RecordedObservation, ScanColumns, Segment, Snapshot,
    SnapshotId, SnapshotKind, Table, Writer,
};
use steplake_model::StateId;

/// A backfill under way. While it exists, nobody else can write to the lake or maintain it.
#[derive(Debug)]
pub struct Backfill {
    maintenance: Maintenance,
    _writer: Writer,
    filling: BackfillProgress,
}

/// What is to be filled, and what is filled so far: the part of a [`Backfill`] that threads share.
#[derive(Debug)]
pub struct BackfillProgress {
    /// The lake with the spaces.
    grown: Lake,
    snapshot: Snapshot,
    /// The segments with a state that lacks an observation.
    lacking: Vec<Segment>,
    /// The number of sealed states.
    states: u64,
    /// Those that lack an observation and were in no part at the beginning.
    missing: HashSet<StateId>,
    /// Those that lack an observation and were in a part at the beginning.
    resumed: u64,
    filled: Mutex<Filled>,
}

/// The states that have their observations in a part.
#[derive(Debug)]
struct Filled {
    parts: Parts,
    states: HashSet<StateId>,
}

/// The result of a backfill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backfilled {
    /// Number of states that lacked an observation and have it now.
    pub filled: u64,
    /// The snapshot with these observations; `None` if there are none.
    pub snapshot: Option<SnapshotId>,
}

impl Backfill {
    /// Begins with a lake that nobody records into or maintains, or continues an interrupted
    /// backfill of the same spaces. Seals closed episodes. States of open episodes are not sealed
    /// and stay as they are.
    ///
    /// # Errors
    ///
    /// [`LakeError::Busy`] and [`LakeError::BeingMaintained`]; [`LakeError::OtherIdentity`] if the
    /// lake has another space of one of these names; disk errors.
    pub fn begin(lake: &Lake, spaces: &[RecordedObservation]) -> Result<Self, LakeError> {
        let mut writer = lake.writer()?;
        let maintenance = lake.maintenance()?;
        let here = writer.lake().clone();
        let wanted = Identity { observations: spaces.to_vec(), ..here.identity().clone() };
        here.identity.demand(&wanted, &here.path)?;
        let identity = here.identity.grown(&wanted).unwrap_or_else(|| here.identity().clone());
        let grown = Lake::new(&here.path, identity, here.disk.clone()).with_clock(here.clock);
        writer.seal()?;
        let snapshot = lake.snapshot()?;
        let mut parts = Parts::open(&grown, spaces)?;
        let mut filling = BackfillProgress {
            states: snapshot.segments(Table::Observations).iter().map(|it| it.rows).sum(),
            filled: Mutex::new(Filled { states: parts.states()?, parts }),
            lacking: Vec::new(),
            missing: HashSet::new(),
            resumed: 0,
            grown,
            snapshot,
        };
        filling.find_lacking(spaces)?;
        if filling.lacking.is_empty() {
            // A crash may have left the parts of a complete backfill.
            filling.filled().parts.remove()?;
        }
        Ok(Self { maintenance, _writer: writer, filling })
    }

    /// Returns what is to be filled.
    pub fn filling(&self) -> &BackfillProgress {
        &self.filling
    }

    /// Merges all parts into the lake, as one snapshot, and deletes them. Calls `go_on` meanwhile;
    /// a break ends the work before anything of the lake changes.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with a damaged file, [`LakeError::DiskFull`] and other disk errors,
    /// [`LakeError::Interrupted`]. No snapshot is made, and the parts stay for the next backfill.
    pub fn complete(
        self,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<Backfilled, LakeError> {
        let Self { mut maintenance, filling, _writer } = self;
        let filled = filling.filled().states.len() as u64;
        if filled == 0 {
            return Ok(Backfilled { filled, snapshot: None });
        }
        let grown = &filling.grown;
        let gaining = with_states(grown, &filling.lacking, &filling.filled().states)?;
        let go_on = &mut || demand(go_on());
        let add = filling.filled().parts.merged_into(grown, &gaining, go_on)?;
        if grown.identity != maintenance.lake.identity {
            grown.identity.write(&grown.path, &grown.disk)?;
        }
        let names = filling.filled().parts.names();
        let plural = if filled == 1 { "" } else { "s" };
        let edit = VersionEdit {
            add,
            retire: gaining,
            ..VersionEdit::new(SnapshotKind::Backfill, format!("{names} of {filled} state{plural}"))
        };
        let snapshot = edit::apply(&mut maintenance.catalog, grown, &edit)?;
        if let Err(error) = filling.filled().parts.remove() {
            tracing::warn!(%error, "the parts of the backfill are left: the next one removes them");
        }
        Ok(Backfilled { filled, snapshot })
    }
}

impl BackfillProgress {
    fn filled(&self) -> MutexGuard<'_, Filled> {
        self.filled.lock()
    }

    /// Finds the states that lack an observation in one of the spaces. Of parts, keeps in mind only
    /// such states.
    fn find_lacking(&mut self, spaces: &[RecordedObservation]) -> Result<(), LakeError> {
        let known = &self.snapshot.identity().observations;
        let is_new = spaces.iter().any(|space| !known.contains(space));
        let mut columns = vec!["state_id"];
        if !is_new {
            columns.extend(spaces.iter().map(|space| space.name.as_str()));
        }
        let mut lacking = HashSet::new();
        for segment in self.snapshot.segments(Table::Observations) {
            let before = lacking.len();
            for batch in self.snapshot.scan_segment(segment, ScanColumns::Named(&columns)) {
                let batch = batch?;
                let lacks = |row: usize| {
                    is_new || columns[1..].iter().any(|&column| batch[column].is_null(row))
                };
                let states = state_ids(&batch, "state_id").enumerate();
                lacking.extend(states.filter(|&(row, _)| lacks(row)).filter_map(|(_, id)| id));
            }
            if lacking.len() > before {
                self.lacking.push(segment.clone());
            }
        }
        let mut filled = self.filled();
        filled.states.retain(|state| lacking.contains(state));
        lacking.retain(|state| !filled.states.contains(state));
        let resumed = filled.states.len() as u64;
        drop(filled);
        (self.missing, self.resumed) = (lacking, resumed);
        Ok(())
    }

    /// Returns the lake's rows at the beginning, including those of open episodes.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns the number of sealed states.
    pub fn states(&self) -> u64 {
        self.states
    }

    /// Returns the number of states that an interrupted backfill has filled.
    pub fn resumed(&self) -> u64 {
        self.resumed
    }

    /// Returns the states that lacked an observation at the beginning and were in no part.
    pub fn missing(&self) -> &HashSet<StateId> {
        &self.missing
    }

    /// Returns whether a state has its observations in a part.
    pub fn is_filled(&self, state: StateId) -> bool {
        self.filled().states.contains(&state)
    }

    /// Adds a durable part: rows of missing states, each once, with a value for each space in the
    /// given order. Several threads may add parts at the same time.
    ///
    /// # Errors
    ///
    /// [`LakeError::DiskFull`] and other disk errors. The rows are then in no part.
    ///
    /// # Panics
    ///
    /// If the values of a row do not fit the spaces in number or type.
    pub fn add(&self, rows: Vec<ObservationRow>) -> Result<(), LakeError> {
        if rows.is_empty() {
            return Ok(());
        }
        let states = rows.iter().map(|row| row.state).collect::<Vec<_>>();
        let files = self.filled().parts.files();
        let part = files.write(rows)?;
        let mut filled = self.filled();
        filled.parts.list(part)?;
        filled.states.extend(states);
        Ok(())
    }
}
