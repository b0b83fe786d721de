//! What a lake must be, checked without a compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::PageIndexPolicy;

use super::catalog::{self, Catalog, PlacedFrame};
use super::check::{Checker, Forgiven};
use super::lock::ReadersLock;
use super::segment::footer_entries;
use super::snapshot::{Moment, demand_finished, demand_whole};
use super::writer::{HotBatch, decode};
use super::{Lake, Scan, ScanColumns, Segment, StoreError, Table, losses, manifest};
use crate::model::StateId;

/// One thing that is wrong with a lake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file that it was found in.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

/// A state whose IR is stored, as a verification comes upon it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredState {
    /// The file that it was found in.
    pub path: PathBuf,
    /// The state that it is stored as.
    pub state: StateId,
    /// Its serialisation, which is what its SHA-1 says.
    pub bitcode: Vec<u8>,
}

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
    /// States without IR that a recorded way leads to from a state that has it.
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

/// Things that are wrong, each kind in each file once, with the first example and how many there
/// are.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<(PathBuf, &'static str), (String, u64)>);

impl Findings {
    /// Adds a finding. `what` says what is wrong and what to do.
    pub(super) fn add(&mut self, path: &Path, kind: &'static str, what: impl FnOnce() -> String) {
        self.0.entry((path.to_owned(), kind)).or_insert_with(|| (what(), 0)).1 += 1;
    }

    fn into_list(self) -> Vec<Finding> {
        let finding = |((path, _), (what, count)): ((PathBuf, &str), (String, u64))| {
            let more =
                if count > 1 { format!(" ({} more such)", count - 1) } else { String::new() };
            Finding { path, what: what + &more }
        };
        self.0.into_iter().map(finding).collect()
    }
}

/// The tables in such an order that what rows refer to is read before them.
const ORDER: [Table; Table::ALL.len()] = [
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
) -> Result<Contents, StoreError> {
    let transaction = catalog.read()?;
    let history = manifest::snapshots(&transaction).map_err(catalog.error())?;
    let id = moment.find(&lake.path, &history)?;
    demand_finished(&lake.path, id, &history)?;
    let read = || {
        let damage = catalog::damage(&transaction)?;
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
) -> Result<VerifyReport, StoreError> {
    let _readers = ReadersLock::share(&lake.path);
    let catalog = Catalog::open_for_reading(&lake.path, &lake.identity, &lake.disk)?;
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
            add_error(checker.findings, &segment.place(), advice, error);
        }
        report.bytes += segment.bytes;
        progress(report.bytes, total);
    }
    (report.rebuilt, report.without_ir) = checker.without_ir();
    (report.rows, report.ir) = (checker.rows, checker.ir);
    report.unobserved = checker.unobserved.len() as u64;
    report.lost_keyframes = checker.lost_keyframes.len() as u64;
    report.findings = findings.into_list();
    Ok(report)
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
                add_error(findings, &lake.path.join(catalog::FILE_NAME), RESTORE, error);
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
    for (key, value) in footer_entries(&lake.identity, segment.table) {
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

fn add_error(findings: &mut Findings, path: &Path, advice: &'static str, error: StoreError) {
    let what = match error {
        StoreError::Corrupt { what, .. } => what,
        other => match std::error::Error::source(&other) {
            Some(source) => format!("{other} ({source})"),
            None => other.to_string(),
        },
    };
    findings.add(path, advice, || format!("{what}: {advice}"));
}

/// Checks a segment that is no part of the lake. For the fuzzer.
pub(super) fn fuzz_segment(lake: &Lake, segment: &Segment) {
    let (mut findings, mut stored) = (Findings::default(), |_| ());
    let mut checker = Checker::new(lake, Forgiven::default(), &mut findings, &mut stored);
    verify_segment(lake, segment, &mut checker);
    checker.finish();
}
