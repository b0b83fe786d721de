//! Faults of the disk of every kind at every place. Whatever happens, an answer is right or an
//! error that names a file, and nothing that was acknowledged is lost.

mod broken_ends;
mod changes;
mod clocks;
mod flips;
mod layers;
mod older;
mod questions;
mod readings;
mod recordings;
mod upkeep;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use steplake::lake::{
    Disk, DiskOperation, FaultEffect, Lake, LakeError, ScanColumns, Snapshot, Table,
};
use steplake::upkeep::Keep;

use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::state;
use crate::lake::failing_disk::{Act, Machine, Model, script};

/// A generator of places for faults (splitmix64): the same ones in every run of the tests.
struct Places(u64);

impl Places {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).unwrap()
    }
}

/// The files of a lake, by their path in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Image(BTreeMap<PathBuf, Vec<u8>>);

impl Image {
    fn of(lake: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![lake.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_symlink() {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let inner = path.strip_prefix(lake).unwrap().to_owned();
                    files.insert(inner, fs::read(&path).unwrap());
                }
            }
        }
        Self(files)
    }

    fn lay(&self, lake: &Path) {
        for (inner, content) in &self.0 {
            let path = lake.join(inner);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    /// The segments.
    fn segments(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        let files = self.0.iter().map(|(path, content)| (path.as_path(), content.as_slice()));
        files.filter(|(path, _)| is_segment(path))
    }

    /// The segments of a table.
    fn segments_of(&self, table: Table) -> impl Iterator<Item = (&Path, &[u8])> {
        self.segments()
            .filter(move |(path, _)| path.starts_with(Path::new("data").join(table.name())))
    }
}

/// Leaves only the files of the newest snapshot.
fn forget_older_snapshots(machine: Machine) {
    let lake = machine.lake.clone();
    drop(machine);
    let mut maintenance = lake.maintenance().unwrap();
    maintenance.expire(Keep::Newest(NonZeroU64::MIN)).unwrap();
    maintenance.collect().unwrap();
}

fn is_segment(path: &Path) -> bool {
    let is_in_log = path.components().any(|part| part.as_os_str() == "_delta_log");
    path.starts_with("data") && !is_in_log && path.extension().is_some_and(|end| end == "parquet")
}

/// The script of acts, with the lake and what it should say before and after each.
struct Stages {
    acts: Vec<Act>,
    images: Vec<Image>,
    models: Vec<Model>,
    answers: Vec<Vec<String>>,
}

impl Stages {
    fn play() -> Self {
        let folder = scratch();
        let path = folder.path().join("lake");
        let acts = script();
        let mut models = vec![Model::default()];
        let mut machine = Machine::start(Disk::default(), &path).unwrap();
        let (mut images, mut answers) = (Vec::new(), Vec::new());
        for act in acts.iter().map(Some).chain([None]) {
            answers.push(self::answers(&machine.lake).unwrap());
            drop(machine);
            images.push(Image::of(&path));
            machine = Machine::start(Disk::default(), &path).unwrap();
            if let Some(act) = act {
                machine.act(act).unwrap();
                models.push(models.last().unwrap().after(act));
            }
        }
        Self { acts, images, models, answers }
    }

    /// The lake after the last act: rows in segments of every table, and in the log.
    fn last() -> (Image, Vec<String>) {
        let stages = Self::play();
        let mut author = crate::fixtures::toy_lake::Author::default();
        let folder = scratch();
        let path = folder.path().join("lake");
        stages.images.last().unwrap().lay(&path);
        let mut machine = Machine::start(Disk::default(), &path).unwrap();
        author.episode(
            steplake::model::EpisodeId::new(steplake::model::RunId(1), 9),
            6,
            &[(1, Some(7)), (2, Some(8))],
        );
        machine.act(&Act::Append(author.take())).unwrap();
        let answers = answers(&machine.lake).unwrap();
        forget_older_snapshots(machine);
        let image = Image::of(&path);
        let tables = Table::ALL.map(|table| image.segments_of(table).count());
        assert!(tables.iter().all(|&count| count > 0), "a table has no segment: {tables:?}");
        (image, answers)
    }
}

/// The rows of a batch as text.
fn cells(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let columns = batch.columns().iter();
    let columns: Vec<_> =
        columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let row = |row| columns.iter().map(|cell| cell.value(row).to_string() + " ").collect();
    (0..batch.num_rows()).map(row).collect()
}

/// All that a lake says.
fn answers(lake: &Lake) -> Result<Vec<String>, LakeError> {
    told(&lake.snapshot()?)
}

/// All that a snapshot says.
fn told(snapshot: &Snapshot) -> Result<Vec<String>, LakeError> {
    let mut lines = snapshot.runs().iter().map(|run| format!("{run:?}")).collect::<Vec<_>>();
    for table in Table::ALL {
        let mut rows = Vec::new();
        for batch in snapshot.scan(table, ScanColumns::All) {
            rows.extend(cells(&batch?).into_iter().map(|row| format!("{table} {row}")));
        }
        rows.sort();
        lines.extend(rows);
    }
    let states = (0..10).map(state).collect::<Vec<_>>();
    lines.extend(snapshot.ir(&states)?.iter().map(|ir| format!("{ir:?}")));
    Ok(lines)
}

/// What became of the cases.
#[derive(Debug, Default)]
struct Tally {
    right: u32,
    refused: u32,
}

impl Tally {
    /// Takes an answer that is right, or an error that names a file of the lake.
    fn judge(
        &mut self,
        case: &dyn Display,
        lake: &Path,
        answer: Result<Vec<String>, impl Display>,
        truth: &[String],
    ) {
        match answer {
            Ok(answer) => {
                assert!(answer == truth, "{case}: a wrong answer: {answer:#?}\nnot {truth:#?}");
                self.right += 1;
            }
            Err(error) => self.refuse(case, lake, &error),
        }
    }

    /// Takes an error that names a file of the lake.
    fn refuse(&mut self, case: &dyn Display, lake: &Path, error: &dyn Display) {
        let error = error.to_string();
        let named = error.contains(lake.to_str().unwrap()) && !error.contains('\n');
        assert!(named, "{case}: an error that names no file: {error}");
        self.refused += 1;
    }

    /// Says that so many of a hundred cases were refused at least: damage that is looked for is
    /// found.
    fn demand_refused(&self, percent: u32) {
        let cases = self.right + self.refused;
        assert!(self.refused * 100 >= cases * percent, "{} of {cases} refused", self.refused);
    }

    /// Says how many cases there were, and that they were not too few.
    #[expect(clippy::print_stdout, reason = "how much was tried is for whoever asks")]
    fn report(&self, kind: &str, cases_min: u32) {
        let cases = self.right + self.refused;
        println!("{cases} cases of {kind}: {} right, {} refused", self.right, self.refused);
        assert!(cases >= cases_min, "only {cases} cases of {kind}");
    }
}

/// A disk on which one operation, of those that `counts` says, is not done as it should be.
fn faulty(
    at: usize,
    counts: fn(&DiskOperation<'_>) -> bool,
    fault: fn(&DiskOperation<'_>) -> FaultEffect,
) -> (Disk, Arc<Mutex<Option<usize>>>) {
    let left = Arc::new(Mutex::new(Some(at)));
    let shared = Arc::clone(&left);
    let disk = Disk::with_faults(move |operation| {
        let mut left = shared.lock().unwrap();
        match *left {
            Some(0) if counts(&operation) => {
                *left = None;
                fault(&operation)
            }
            Some(more) if counts(&operation) => {
                *left = Some(more - 1);
                FaultEffect::Proceed
            }
            _ => FaultEffect::Proceed,
        }
    });
    (disk, left)
}

fn is_reading(operation: &DiskOperation<'_>) -> bool {
    matches!(operation, DiskOperation::Open(_) | DiskOperation::Read(..))
}
