//! What a lake must be, checked without a compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::PageIndexPolicy;

use super::check::{Checker, Forgiven};
use super::findings::{Finding, Findings, StoredState};
use crate::lake::catalog::{self, PlacedFrame};
use crate::lake::digest::ContentHasher;
use crate::lake::hot::{HotBatch, decode};
use crate::lake::lock::Lock;
use crate::lake::segment_writer::footer_entries;
use crate::lake::snapshot::{Moment, demand_whole};
use crate::lake::sqlite::{self, Catalog};
use crate::lake::{
    Lake, LakeError, Scan, ScanColumns, Segment, SnapshotId, Table, losses, manifest, snapshot_log,
};

/// What a verification saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// What is wrong, one line each; empty for a sound lake.
    pub findings: Vec<Finding>,
    /// Segments whose digest was checked.
    pub segments: u64,
    /// Frames of the hot log whose digest was checked.
    pub frames: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Rows that were read, by table.
    pub rows: BTreeMap<Table, u64>,
    /// States whose IR was decompressed and compared with its SHA-1.
    pub ir: u64,
    /// States without IR that a recorded path leads to from a state that has it.
    pub rebuilt: u64,
    /// States without IR that cannot be rebuilt: no IR was to be kept where they were recorded, or
    /// it is lost.
    pub without_ir: u64,
    /// States whose observations a repair had to drop.
    pub unobserved: u64,
    /// Keyframes whose IR a repair had to drop. States behind them cannot be rebuilt by way of
    /// them.
    pub lost_keyframes: u64,
}

impl VerifyReport {
    /// True when nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }
}

/// The tables in such an order that what rows refer to is read before them.
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
];

/// What to do about a file that is not what was written.
const RESTORE: &str =
    "restore the file from a copy, or let `steplake verify --repair` drop what it holds";
/// The same of a file that can be made again.
const DERIVE: &str = "`steplake dedup --full` makes it anew";

/// The same where the damage is in the manifest's list of digests, and the file may well be sound.
const MEND: &str = "`steplake verify --repair` makes them anew, where the file is what was written";

/// The same of a file that only older snapshots have.
const EXPIRE: &str = "only older snapshots have it: `steplake expire` and `steplake gc` drop it";

/// The same of an entry of the log of snapshots.
const REWRITE: &str = "`steplake verify --repair` writes it again";

/// What is to be checked.
struct Contents {
    segments: Vec<Segment>,
    /// Files whose digest alone is checked: no row of the moment is in them.
    retired: Vec<Segment>,
    frames: Vec<PlacedFrame>,
    forgiven: Forgiven,
}

fn contents(
    lake: &Lake,
    catalog: &Catalog,
    moment: Moment,
    findings: &mut Findings,
) -> Result<Contents, LakeError> {
    let transaction = catalog.read()?;
    let history = manifest::snapshots(&transaction).map_err(catalog.error())?;
    let id = moment.find(&lake.path, &history)?;
    let read = || {
        let damage = sqlite::damage(&transaction)?;
        let mut segments = manifest::segments(&transaction, lake, id)?;
        // Rows are sorted within a layer, and only there.
        segments.sort_by_key(|segment| segment.layer);
        let (mut retired, mut frames) = (Vec::new(), Vec::new());
        let unreadable = manifest::lost(&transaction, lake, id)?;
        if moment == Moment::Now {
            // What a repair took out is known to be damaged.
            let lost = manifest::lost_paths(&transaction, &lake.path)?;
            retired = manifest::retired(&transaction, lake)?;
            retired.retain(|segment| !lost.contains(&segment.path));
            frames = catalog::frames(&transaction)?;
        }
        let lost = losses::list(&transaction, id)?;
        let is_lost = |table| lost.iter().any(|loss| loss.table == table);
        let forgiven =
            Forgiven { observations: is_lost(Table::Observations), ir: is_lost(Table::Ir) };
        let contents = Contents { segments, retired, frames, forgiven };
        Ok((damage, contents, unreadable))
    };
    let (damage, contents, unreadable) = read().map_err(catalog.error())?;
    demand_whole(&lake.path, id, &unreadable)?;
    if let Some(damage) = damage {
        let what = || format!("the database is damaged ({damage}): {RESTORE}");
        findings.add(catalog.path(), "database", what);
    }
    Ok(contents)
}

pub(super) fn verify(
    lake: &Lake,
    moment: Moment,
    progress: &mut dyn FnMut(u64, u64),
    stored: &mut dyn FnMut(StoredState),
) -> Result<VerifyReport, LakeError> {
    let _readers = Lock::share(&lake.path);
    let catalog = Catalog::open_for_reading(lake)?;
    let mut findings = Findings::default();
    let Contents { segments, retired, frames, forgiven } =
        contents(lake, &catalog, moment, &mut findings)?;
    let mut report = VerifyReport {
        segments: (segments.len() + retired.len()) as u64,
        frames: frames.len() as u64,
        ..Default::default()
    };
    let frame_bytes = frames.iter().map(|placed| placed.frame.body.len() as u64).sum::<u64>();
    let all = segments.iter().chain(&retired);
    let total = frame_bytes + all.map(|segment| segment.bytes).sum::<u64>();
    progress(0, total);
    let (hot, unread) = sound_frames(lake, frames, &mut findings);
    report.bytes = frame_bytes;
    progress(report.bytes, total);
    let mut checker = Checker::new(lake, forgiven, &mut findings, stored);
    for table in unread {
        checker.cannot_read(table);
    }
    for table in ORDER {
        for segment in segments.iter().filter(|segment| segment.table == table) {
            verify_segment(lake, segment, &mut checker);
            report.bytes += segment.bytes;
            progress(report.bytes, total);
        }
        checker.hot(table, hot.iter().filter(|hot| hot.table == table).map(|hot| &hot.batch));
    }
    checker.finish();
    for segment in &retired {
        if let Err(error) = segment.check() {
            let advice = if segment.blocks.is_intact() { EXPIRE } else { MEND };
            add_error(checker.findings, &segment.path, advice, error);
        }
        report.bytes += segment.bytes;
        progress(report.bytes, total);
    }
    (report.rebuilt, report.without_ir) = checker.without_ir();
    (report.rows, report.ir) = (checker.rows, checker.ir);
    report.unobserved = checker.unobserved.len() as u64;
    report.lost_keyframes = checker.lost_keyframes.len() as u64;
    if moment == Moment::Now {
        verify_log(lake, &catalog, &mut findings)?;
    }
    report.findings = findings.into_list();
    Ok(report)
}

/// Checks the log of snapshots. Another process may forget snapshots meanwhile, so damage counts
/// only if it is there at a second look.
fn verify_log(lake: &Lake, catalog: &Catalog, findings: &mut Findings) -> Result<(), LakeError> {
    let look = || snapshot_log::damage(lake, &catalog.reading(manifest::snapshots)?);
    if !look()?.is_empty() {
        for (_, path, error) in look()? {
            add_error(findings, &path, REWRITE, error);
        }
    }
    Ok(())
}

impl Lake {
    /// Checks everything that can be checked without a compiler: the rows of this moment, and the
    /// digests of the files that only older snapshots have. `progress` is told how many bytes of
    /// how many are done.
    ///
    /// # Errors
    ///
    /// When the lake cannot be read at all. Damage is no error but a finding.
    pub fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport, LakeError> {
        verify(self, Moment::Now, progress, &mut |_| ())
    }

    /// Checks the rows that were sealed in snapshot `id`.
    ///
    /// # Errors
    ///
    /// As [`verify`](Self::verify), and [`LakeError::NoSnapshot`].
    pub fn verify_at(
        &self,
        id: SnapshotId,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<VerifyReport, LakeError> {
        verify(self, Moment::At(id), progress, &mut |_| ())
    }

    /// Checks this moment, or snapshot `at`, and hands over each state whose stored IR is what its
    /// SHA-1 says, on the way: whether it is that of the state only a compiler can tell.
    ///
    /// # Errors
    ///
    /// Those of [`verify_at`](Self::verify_at).
    pub fn verify_states(
        &self,
        at: Option<SnapshotId>,
        progress: &mut dyn FnMut(u64, u64),
        stored: &mut dyn FnMut(StoredState),
    ) -> Result<VerifyReport, LakeError> {
        let moment = at.map_or(Moment::Now, Moment::At);
        verify(self, moment, progress, stored)
    }
}

/// The frames that can be read; the others are findings, and their tables are named.
fn sound_frames(
    lake: &Lake,
    frames: Vec<PlacedFrame>,
    findings: &mut Findings,
) -> (Vec<HotBatch>, BTreeSet<Table>) {
    let (mut sound, mut unread) = (Vec::new(), BTreeSet::new());
    for placed in frames {
        let table = placed.frame.table;
        match decode(lake, vec![placed]) {
            Ok(hot) => sound.extend(hot),
            Err(error) => {
                unread.insert(table);
                add_error(findings, &lake.path.join(sqlite::FILE_NAME), RESTORE, error);
            }
        }
    }
    (sound, unread)
}

/// Checks one segment as far as it can be read.
fn verify_segment(lake: &Lake, segment: &Segment, checker: &mut Checker<'_>) {
    let advice = match segment.table.is_derived() {
        _ if !segment.blocks.is_intact() => MEND,
        true => DERIVE,
        false => RESTORE,
    };
    let footer =
        segment.check().and_then(|()| segment.footer(&segment.open()?, PageIndexPolicy::Skip));
    let footer = match footer {
        Ok(footer) => footer,
        Err(error) => {
            checker.cannot_read(segment.table);
            return add_error(checker.findings, &segment.path, advice, error);
        }
    };
    for (key, value) in footer_entries(&lake.identity, segment.table, footer.schema()) {
        let found = footer_entry(&footer, &key);
        if found.as_deref() != Some(&value) {
            let found = found.unwrap_or_else(|| "nothing".into());
            checker.findings.add(&segment.path, "footer", || {
                format!("its footer says {found} for {key}, and lake.json {value}: {RESTORE}")
            });
        }
    }
    let scan = Scan::new(
        lake.schemas.get(segment.table),
        std::slice::from_ref(segment),
        &[],
        ScanColumns::All,
    );
    for batch in scan {
        match batch {
            Ok(batch) => checker.sealed(segment, &batch),
            Err(error) => {
                checker.cannot_read(segment.table);
                add_error(checker.findings, &segment.path, advice, error);
            }
        }
    }
    checker.end_of_segment(segment);
}

fn footer_entry(footer: &ArrowReaderMetadata, key: &str) -> Option<String> {
    let entries = footer.metadata().file_metadata().key_value_metadata()?;
    entries.iter().find(|entry| entry.key == key)?.value.clone()
}

fn add_error(findings: &mut Findings, path: &Path, advice: &'static str, error: LakeError) {
    let what = match error {
        LakeError::Corrupt { what, .. } => what,
        other => match std::error::Error::source(&other) {
            Some(source) => format!("{other} ({source})"),
            None => other.to_string(),
        },
    };
    findings.add(path, advice, || format!("{what}: {advice}"));
}

/// Reads what another tool may have put in the place of a segment, for the fuzzer, under digests
/// that are right.
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
        let segment = Segment {
            table,
            path: path.clone(),
            rows: u64::try_from(rows).unwrap_or(0),
            bytes: digests.bytes,
            digest: digests.digest.clone(),
            key_range: Some((i64::MIN, i64::MAX)),
            blocks: digests.blocks.clone(),
            disk: lake.disk.clone(),
            layer: None,
            is_counted: false,
        };
        let (mut findings, mut stored) = (Findings::default(), |_| ());
        let mut checker = Checker::new(lake, Forgiven::default(), &mut findings, &mut stored);
        verify_segment(lake, &segment, &mut checker);
        checker.finish();
    }
}
