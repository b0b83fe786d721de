//! Verification of a lake, as far as it needs no compiler.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;

use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::PageIndexPolicy;

use super::check::{Checker, WithoutIr};
use super::findings::{Finding, Findings, StoredState};
use crate::kernel::files::digest::ContentHasher;
use crate::kernel::files::lock::Lock;
use crate::kernel::progress::demand;
use crate::kernel::segments::hot::decode;
use crate::kernel::segments::segment_writer::{FORMAT_ENTRY, footer_entries};
use crate::kernel::snapshot::{Moment, demand_whole};
use crate::kernel::versions::catalog::{self, PlacedFrame};
use crate::kernel::versions::losses;
use crate::kernel::versions::manifest;
use crate::kernel::versions::snapshot_log;
use crate::kernel::versions::sqlite::{self, Catalog};
use crate::kernel::{
    FileRow, Lake, LakeError, OnProgress, ScanColumns, Segment, SnapshotId, Table, is_read,
};
use steplake_model::ActionIndex;

/// The result of a verification.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// What is wrong; empty for a sound lake.
    pub findings: Vec<Finding>,
    /// Number of segments whose digest was checked.
    pub segments: u64,
    /// Number of frames of the hot log whose digest was checked.
    pub frames: u64,
    /// Bytes of these segments and frames.
    pub bytes: u64,
    /// Number of rows that were read, by table.
    pub rows: BTreeMap<Table, u64>,
    /// Number of states whose IR was decompressed and compared with its SHA-1.
    pub ir: u64,
    /// Number of states without IR to which a recorded path leads from a state with IR.
    pub rebuilt: u64,
    /// Number of states without IR to which such paths lead only through an action that need not
    /// lead to the same state again, by action: they may not be rebuilt.
    pub doubtful: BTreeMap<ActionIndex, u64>,
    /// Number of states without IR that cannot be rebuilt: their run kept no IR, or it is lost.
    pub without_ir: u64,
    /// Number of states whose observations a repair had to drop.
    pub unobserved: u64,
    /// Number of keyframes whose IR a repair had to drop. The states after them cannot be rebuilt
    /// from them.
    pub lost_keyframes: u64,
}

impl VerifyReport {
    /// Returns whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty() && self.doubtful.is_empty()
    }
}

/// The tables in an order in which rows come after those that they refer to.
const ORDER: [Table; Table::ALL.len()] = [
    Table::Actions,
    Table::Benchmarks,
    Table::Episodes,
    Table::Observations,
    Table::Ir,
    Table::Steps,
    Table::StateTransitions,
    Table::Conflicts,
    Table::Failures,
    Table::Measurements,
    Table::Miscompilations,
];

/// The advice for a file that is not what was written.
const RESTORE: &str = "restore the file from a copy, or let a repair drop what it holds";
/// The advice for a file that can be made again.
pub(crate) const DERIVE: &str = "a full dedup makes it anew";

/// The advice for damage in the manifest's list of digests. The file itself may be sound.
const MEND: &str = "a repair makes them anew, where the file is what was written";

/// The advice for a file that only older snapshots have.
const EXPIRE: &str = "only older snapshots have it: expiring them and collecting garbage drops it";

/// The advice for an entry of the log of snapshots.
const REWRITE: &str = "a repair writes it again";

/// What is to be checked.
struct VerifyInput {
    segments: Vec<Segment>,
    /// Files of which only the digest is checked: they have no row of the moment.
    retired: Vec<Segment>,
    frames: Vec<PlacedFrame>,
    /// Tables of which a repair had to drop rows.
    lossy: BTreeSet<Table>,
}

fn contents(
    lake: &Lake,
    catalog: &Catalog,
    moment: Moment,
    findings: &mut Findings,
) -> Result<VerifyInput, LakeError> {
    let transaction = catalog.read()?;
    let history = manifest::snapshots(&transaction).map_err(catalog.error())?;
    let id = moment.find(&lake.path, &history)?;
    let read = || {
        let damage = sqlite::damage(&transaction)?;
        let mut segments = manifest::segments(&transaction, lake, id)?;
        // Rows are sorted within a layer, and only there.
        segments.sort_by_key(|segment| {
            let key_range = segment.layer.and(segment.key_range);
            (segment.layer, segment.layer.map(|_| segment.table as usize), key_range)
        });
        let (mut retired, mut frames) = (Vec::new(), Vec::new());
        let unreadable = manifest::lost(&transaction, lake, id)?;
        if moment == Moment::Now {
            // A repair has already reported lost files.
            let lost = manifest::lost_paths(&transaction, &lake.path)?;
            retired = manifest::retired(&transaction, lake)?;
            retired.retain(|segment| !lost.contains(&segment.path));
            frames = catalog::frames(&transaction)?;
        }
        let lossy = losses::list(&transaction, id)?.iter().map(|loss| loss.table).collect();
        Ok((damage, unreadable, VerifyInput { segments, retired, frames, lossy }))
    };
    let (damage, unreadable, contents) = read().map_err(catalog.error())?;
    demand_whole(&lake.path, id, &unreadable)?;
    if let Some(damage) = damage {
        let what = || format!("the database is damaged ({damage}): {RESTORE}");
        findings.add(catalog.path(), "database", what);
    }
    Ok(contents)
}

impl Lake {
    /// Checks everything that can be checked without a compiler: the rows of this moment, and the
    /// digests of the files that only older snapshots have. Calls `progress` with the bytes done
    /// and the total; a break stops it.
    ///
    /// # Errors
    ///
    /// Returns an error if the lake cannot be read at all, and [`LakeError::Interrupted`]. Damage
    /// is no error but a finding.
    pub fn verify(&self, progress: &mut OnProgress<'_>) -> Result<VerifyReport, LakeError> {
        self.verify_states(None, progress, &mut |_| ControlFlow::Continue(()))
    }

    /// Does the same, or checks the rows that were sealed in snapshot `at`. Passes each state whose
    /// stored IR matches its SHA-1 to `stored`, whose break stops the verification as well: only a
    /// compiler can tell whether the IR is that of the state.
    ///
    /// # Errors
    ///
    /// Those of [`verify`](Self::verify), and [`LakeError::NoSnapshot`].
    pub fn verify_states(
        &self,
        at: Option<SnapshotId>,
        progress: &mut OnProgress<'_>,
        stored: &mut dyn FnMut(StoredState) -> ControlFlow<()>,
    ) -> Result<VerifyReport, LakeError> {
        self.verify_ways_back(at, HashSet::new(), progress, stored)
    }

    /// Does the same, and finds the states without IR to which the actions of `doubted`, which need
    /// not lead to the same state again, were taken. What they led to is a keyframe, unless a run
    /// recorded it before these actions were flagged: the flags in `lake.json` may be older.
    ///
    /// # Errors
    ///
    /// Those of [`verify_states`](Self::verify_states).
    pub fn verify_ways_back(
        &self,
        at: Option<SnapshotId>,
        doubted: HashSet<ActionIndex>,
        progress: &mut OnProgress<'_>,
        stored: &mut dyn FnMut(StoredState) -> ControlFlow<()>,
    ) -> Result<VerifyReport, LakeError> {
        let _readers = Lock::share(&self.path);
        let catalog = Catalog::open_for_reading(self)?;
        let mut findings = Findings::default();
        let moment = at.map_or(Moment::Now, Moment::At);
        let VerifyInput { segments, retired, frames, lossy } =
            contents(self, &catalog, moment, &mut findings)?;
        // Read after the rows: `lake.json` names a column before any row has it.
        let lake = &self.current()?;
        let mut report = VerifyReport {
            segments: (segments.len() + retired.len()) as u64,
            frames: frames.len() as u64,
            ..Default::default()
        };
        let frame_bytes = frames.iter().map(|placed| placed.frame.body.len() as u64).sum::<u64>();
        let all = segments.iter().chain(&retired);
        let total = frame_bytes + all.map(|segment| segment.bytes).sum::<u64>();
        let goes_on = Cell::new(ControlFlow::Continue(()));
        let mut read = |bytes| {
            report.bytes += bytes;
            demand(goes_on.get())?;
            demand(progress(report.bytes, total))
        };
        read(0)?;
        let mut pass_on = |state| {
            if goes_on.get().is_continue() {
                goes_on.set(stored(state));
            }
        };
        let mut checker = Checker::new(lake, lossy, doubted, findings, &mut pass_on);
        let mut hot = Vec::new();
        for placed in frames {
            let table = placed.frame.table;
            match decode(lake, vec![placed]) {
                Ok(batches) => hot.extend(batches),
                Err(error) => checker.cannot_read(table, catalog.path(), RESTORE, error),
            }
        }
        read(frame_bytes)?;
        for table in ORDER {
            for segment in segments.iter().filter(|segment| segment.table == table) {
                verify_segment(lake, segment, &mut checker, &mut || read(0))?;
                read(segment.bytes)?;
            }
            checker.hot(table, hot.iter().filter(|hot| hot.table == table).map(|hot| &hot.batch));
        }
        checker.finish();
        for segment in &retired {
            if let Err(error) = unless_stopped(segment.check_while(&mut || read(0)))? {
                let advice = if segment.blocks.is_intact() { EXPIRE } else { MEND };
                checker.findings.add_error(&segment.path, advice, error);
            }
            read(segment.bytes)?;
        }
        let WithoutIr { rebuilt, doubtful, not } = checker.without_ir();
        (report.rebuilt, report.doubtful, report.without_ir) = (rebuilt, doubtful, not);
        (report.rows, report.ir) = (std::mem::take(&mut checker.rows), checker.ir);
        report.unobserved = checker.unobserved.len() as u64;
        report.lost_keyframes = checker.lost_keyframes.len() as u64;
        if moment == Moment::Now {
            // Another process may forget snapshots meanwhile: damage counts at a second look.
            let look = || snapshot_log::damage(lake, &catalog.reading(manifest::snapshots)?);
            if !look()?.is_empty() {
                for (_, path, error) in look()? {
                    checker.findings.add_error(&path, REWRITE, error);
                }
            }
        }
        report.findings = checker.findings.into_list();
        Ok(report)
    }
}

/// Returns the error of interrupted work by itself: it is none of a file.
fn unless_stopped<T>(done: Result<T, LakeError>) -> Result<Result<T, LakeError>, LakeError> {
    if matches!(done, Err(LakeError::Interrupted)) { done.map(Ok) } else { Ok(done) }
}

/// Checks one segment as far as it can be read. Asks `go_on` meanwhile, and returns its error.
fn verify_segment(
    lake: &Lake,
    segment: &Segment,
    checker: &mut Checker<'_>,
    go_on: &mut dyn FnMut() -> Result<(), LakeError>,
) -> Result<(), LakeError> {
    let advice = match segment.table.is_derived() {
        _ if !segment.blocks.is_intact() => MEND,
        true => DERIVE,
        false => RESTORE,
    };
    let footer = unless_stopped(segment.check_while(go_on))?
        .and_then(|()| segment.footer(&segment.open()?, PageIndexPolicy::Skip));
    let footer = match footer {
        Ok(footer) => footer,
        Err(error) => {
            checker.cannot_read(segment.table, &segment.path, advice, error);
            return Ok(());
        }
    };
    for (key, value) in footer_entries(&lake.identity, segment.table, footer.schema()) {
        let found = footer_entry(&footer, &key);
        // A file keeps the format that the lake had when it was written.
        let is_older =
            || found.as_deref().and_then(|found| found.parse().ok()).is_some_and(is_read);
        let is_format = key == format!("steplake.{FORMAT_ENTRY}");
        if found.as_deref() != Some(&value) && !(is_format && is_older()) {
            let found = found.unwrap_or_else(|| "nothing".into());
            checker.findings.add(&segment.path, "footer", || {
                format!("its footer says {found} for {key}, and lake.json {value}: {RESTORE}")
            });
        }
    }
    for batch in segment.scan(&lake.schemas, ScanColumns::All) {
        go_on()?;
        match batch {
            Ok(batch) => checker.sealed(segment, &batch),
            Err(error) => checker.cannot_read(segment.table, &segment.path, advice, error),
        }
    }
    checker.end_of_segment(segment);
    Ok(())
}

fn footer_entry(footer: &ArrowReaderMetadata, key: &str) -> Option<String> {
    let entries = footer.metadata().file_metadata().key_value_metadata()?;
    entries.iter().find(|entry| entry.key == key)?.value.clone()
}

/// Reads any content in the place of a segment, under correct digests, for the fuzzer.
#[doc(hidden)]
pub fn fuzz_segment(lake: &Lake, content: &[u8]) {
    use parquet::file::metadata::ParquetMetaDataReader;
    let path = lake.path.join("fuzzed.parquet");
    if std::fs::write(&path, content).is_err() {
        return;
    }
    let footer =
        ParquetMetaDataReader::new().parse_and_finish(&bytes::Bytes::copy_from_slice(content));
    let rows = footer.map_or(1, |footer| footer.file_metadata().num_rows());
    let mut hasher = ContentHasher::default();
    hasher.update(content);
    let digests = hasher.finish();
    for table in Table::ALL {
        let row = FileRow {
            table,
            rows: u64::try_from(rows).unwrap_or(0),
            bytes: digests.bytes,
            digest: digests.digest.clone(),
            key_range: Some((i64::MIN, i64::MAX)),
            layer: None,
            is_counted: false,
            deletions: None,
        };
        let (path, blocks) = (path.clone(), digests.blocks.clone());
        let segment = Segment { row, path, blocks, disk: lake.disk.clone() };
        let (findings, mut stored) = (Findings::default(), |_| ());
        let lossy = BTreeSet::new();
        let mut checker = Checker::new(lake, lossy, HashSet::new(), findings, &mut stored);
        let _ = verify_segment(lake, &segment, &mut checker, &mut || Ok(()));
        checker.finish();
    }
}
