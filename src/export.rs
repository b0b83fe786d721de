//! Datasets of a lake for the programs: opened, split, and exported with a card.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::Int64Type;
use futures::TryStreamExt as _;
use sha2::{Digest as _, Sha256};

use crate::Error;
use crate::datasets::ProgramCache;
use crate::engine;
use crate::environments::Environments;
use crate::lake::{Identity, Lake, LakeError, ScanColumns, Snapshot, SnapshotId};
use crate::load::{
    ColumnRequest, DatasetRequest, ExportedFile, Leaks, LoadError, MatrixCache, ROW_GROUP_ROWS,
    SealedRows, Source, Split, SplitBy, SplitRequest, TrainingDataset, export,
};
use crate::model::ValueType;
use crate::query::{EngineOptions, QueryError};
use steplake_terminal::output::counted;

/// Opens the folder of matrices, in the cache that programs are in too.
///
/// # Errors
///
/// If there is no place for a cache, or others may write to it.
pub fn matrix_cache() -> Result<MatrixCache, Error> {
    let root = ProgramCache::users_root()?;
    Ok(MatrixCache::new(ProgramCache::new(root).folder("load")?))
}

/// Opens the sealed rows of a lake, by default of its newest snapshot.
///
/// # Errors
///
/// If the lake cannot be read, or has no such snapshot.
pub async fn sealed_rows(
    environments: &Environments,
    lake: &Path,
    snapshot: Option<SnapshotId>,
) -> Result<SealedRows, Error> {
    let lake = Lake::open(lake)?;
    let number = match snapshot {
        Some(number) => number,
        None => lake.newest()?,
    };
    let (asked, read) = (lake.snapshot_at(number)?, lake.snapshot_at(number)?);
    let engine = engine::open(environments, asked, EngineOptions::default()).await?;
    Ok(SealedRows::open(Arc::new(engine), Arc::new(read), &matrix_cache()?).await?)
}

/// The columns of a source that have numbers, and the ids of the states.
pub fn all_columns(identity: &Identity, source: Source) -> Vec<String> {
    let is_numbers = |kind: ValueType| {
        matches!(
            kind,
            ValueType::Int | ValueType::Float | ValueType::IntVector | ValueType::FloatVector
        )
    };
    let spaces = identity.observations.iter().filter(|space| is_numbers(space.value_type));
    let spaces: Vec<&str> = spaces.map(|space| space.name.as_str()).collect();
    let mut columns = vec!["state_id".to_owned()];
    if source != Source::Observations {
        columns.extend(["next_state_id".to_owned(), "action".to_owned()]);
        columns.extend(identity.rewards.iter().map(|space| format!("reward_{}", space.name)));
    }
    match source {
        Source::StateTransitions => columns.push("count".to_owned()),
        Source::Steps => columns
            .extend(["episode_id", "step_index", "terminated", "truncated"].map(str::to_owned)),
        Source::Observations => {}
    }
    columns.extend(spaces.iter().map(|&space| space.to_owned()));
    if source != Source::Observations {
        columns.extend(spaces.iter().map(|space| format!("next_{space}")));
    }
    columns
}

/// What is exported.
#[derive(Debug, Clone)]
pub struct TrainingExport {
    /// The rows.
    pub source: Source,
    /// Their columns; all that have numbers if none is named.
    pub columns: Vec<String>,
    /// How rows are split.
    pub split: SplitRequest,
    /// The folder, which must not exist yet.
    pub folder: PathBuf,
}

/// What was exported.
#[derive(Debug, Clone)]
pub struct Exported {
    /// The files, without the card and the checksums.
    pub files: Vec<ExportedFile>,
    /// The split.
    pub split: Split,
    /// What the split gives away, by the names of the parts that are held out.
    pub leaks: Vec<(&'static str, Leaks)>,
}

/// Writes a dataset, split into training, validation and test rows, as shuffled Parquet with a card
/// and checksums. The folder appears complete, or not at all; a killed process leaves a hidden
/// folder `.steplake-export-…` beside it.
///
/// # Errors
///
/// If the folder exists, the lake cannot be read, or a file cannot be written.
pub async fn export_training(
    lake: &SealedRows,
    request: &TrainingExport,
) -> Result<Exported, Error> {
    let (identity, target) = (lake.identity(), &request.folder);
    let failed = |error| Error::from(LoadError::Export { path: target.clone(), error });
    if target.exists() {
        let exists = std::io::Error::other("it exists already: name a new folder");
        return Err(failed(exists));
    }
    let names = match &request.columns[..] {
        [] => all_columns(identity, request.source),
        names => names.to_vec(),
    };
    let is_again = |place: usize| names[..place].contains(&names[place]);
    if let Some(place) = (0..names.len()).find(|&place| is_again(place) || names[place] == "split")
    {
        let name = &names[place];
        return Err(Error::usage(format!(
            "the column `{name}` would be there twice: a column of the export called `split` names \
             the part, and each other column is named once"
        )));
    }
    let column = |name: String| ColumnRequest { name, number_type: None };
    let columns = names.into_iter().map(column).collect();
    let asked = DatasetRequest { columns, ..DatasetRequest::all(request.source) };
    let dataset = TrainingDataset::open(lake, &asked).await?;
    if let Some(column) = dataset.graphs().first() {
        return Err(Error::usage(format!(
            "the column `{}` has graphs, and an export has numbers: read graphs from the table \
             `observations`",
            column.name
        )));
    }
    let split = dataset.split(lake, request.split).await?;
    let leaks = leaks_of(&split);
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty());
    let beside = tempfile::Builder::new()
        .prefix(".steplake-export-")
        .tempdir_in(parent.unwrap_or(Path::new(".")))
        .map_err(failed)?;
    let files = export(&split.parts(), request.split.seed, ROW_GROUP_ROWS, beside.path())?;
    let licences = licences(lake).await?;
    let card = card(identity, lake.snapshot(), request, &dataset, &split, &leaks, &licences);
    let written = || {
        write_synced(&beside.path().join("README.md"), &card)?;
        let sums = checksums(beside.path(), &files)?;
        write_synced(&beside.path().join("SHA256SUMS"), &sums)?;
        for folder in [beside.path().join("data"), beside.path().to_owned()] {
            fs::File::open(folder)?.sync_all()?;
        }
        fs::rename(beside.path(), target)?;
        // It is not there any more under the name by which it would be deleted.
        let _ = beside.keep();
        Ok(())
    };
    written().map_err(failed)?;
    Ok(Exported { files, split, leaks })
}

/// Writes a file that a power cut does not take away.
fn write_synced(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// The SHA-256 digests of the files, as the program `sha256sum` checks them.
fn checksums(folder: &Path, files: &[ExportedFile]) -> std::io::Result<String> {
    let mut lines = String::new();
    let names = files.iter().map(|file| file.name.as_str()).chain(["README.md"]);
    for name in names {
        let mut file = fs::File::open(folder.join(name))?;
        let (mut hasher, mut some) = (Sha256::new(), vec![0; 1 << 16]);
        loop {
            match file.read(&mut some)? {
                0 => break,
                bytes => hasher.update(&some[..bytes]),
            }
        }
        for byte in hasher.finalize() {
            let _ = write!(lines, "{byte:02x}");
        }
        let _ = writeln!(lines, "  {name}");
    }
    Ok(lines)
}

/// The licences of the programs, each with the number of programs.
async fn licences(lake: &SealedRows) -> Result<BTreeMap<String, i64>, QueryError> {
    let text = "SELECT licence, count(*) AS programs FROM benchmarks GROUP BY licence";
    let mut answer = lake.engine().sql(text).await?;
    let mut licences = BTreeMap::new();
    while let Some(batch) = answer.try_next().await? {
        let names = batch.column(0).as_string::<i32>();
        let counts = batch.column(1).as_primitive::<Int64Type>();
        for row in 0..batch.num_rows() {
            let name = match names.value(row) {
                "" => "unknown",
                name => name,
            };
            licences.insert(name.to_owned(), counts.value(row));
        }
    }
    Ok(licences)
}

/// The card of an exported dataset: what it is, where it is from, how it was split.
fn card(
    identity: &Identity,
    snapshot: SnapshotId,
    request: &TrainingExport,
    dataset: &TrainingDataset,
    split: &Split,
    leaks: &[(&str, Leaks)],
    licences: &BTreeMap<String, i64>,
) -> String {
    let mut text = String::from("---\nconfigs:\n- config_name: default\n  data_files:\n");
    let mut sizes = String::new();
    for (name, rows) in split.parts() {
        let _ = writeln!(text, "  - split: {name}\n    path: data/{name}-*.parquet");
        let _ = writeln!(sizes, "| {name} | {} |", rows.len());
    }
    text.push_str("---\n\n");
    let (source, by) = (request.source.name(), request.split.by.name());
    let Identity { environment, compiler, target, action_space, .. } = identity;
    let _ = write!(
        text,
        "# {source} of {environment}\n\nRows of a steplake lake, snapshot {}, recorded with \
         {compiler} for {target}, action space {}.\nThe rows are shuffled over all files; seed \
         {}.\n\n| part | rows |\n|---|---:|\n{sizes}\nSplit by {by}: {}. {}\n\n## Columns\n\n| column | type |\n|---|---|\n",
        snapshot.0,
        action_space.name,
        request.split.seed,
        split_text(request.split.by, split),
        leak_texts(leaks).join(" "),
    );
    for column in dataset.columns() {
        let number_type = match column.width {
            Some(width) if column.is_id() => format!("{width} bytes"),
            Some(width) => format!("{} numbers, {}", width, column.number_type.name()),
            None => column.number_type.name().to_owned(),
        };
        let _ = writeln!(text, "| `{}` | {number_type} |", column.name);
    }
    let names: Vec<String> = split.parts().iter().map(|(name, _)| format!("`{name}`")).collect();
    let _ = writeln!(text, "| `split` | text: {} |", names.join(" or "));
    for space in identity.observations.iter().filter(|space| !space.features.is_empty()) {
        let _ = write!(text, "\nNumbers of `{}`: {}.\n", space.name, space.features.join(", "));
    }
    text.push_str("\n## Actions\n\n");
    let names = action_space.actions.iter().map(|action| format!("`{}`", action.name));
    let _ = writeln!(text, "By index, from 0: {}.", names.collect::<Vec<_>>().join(", "));
    text.push_str("\n## Programs\n\n| licence | programs |\n|---|---:|\n");
    for (licence, programs) in licences {
        let _ = writeln!(text, "| {licence} | {programs} |");
    }
    text.push_str("\n`sha256sum --check SHA256SUMS` checks the files.\n");
    text
}

/// Says in one sentence what a split did.
pub fn split_text(by: SplitBy, split: &Split) -> String {
    let report = split.report;
    match by {
        SplitBy::Row => "rows were drawn at random".to_owned(),
        SplitBy::Family | SplitBy::Benchmark => {
            let group = if by == SplitBy::Family { "group" } else { "program" };
            let groups = |count: usize| counted(count as u64, group);
            let validation = match split.validation {
                Some(_) => format!(", {} for validation", groups(report.validation_groups)),
                None => String::new(),
            };
            format!(
                "{} for training{validation} and {} for test; {} left out",
                groups(report.train_groups),
                groups(report.test_groups),
                counted(report.purged_rows as u64, "row"),
            )
        }
    }
}

/// Says how many rows the parts of a split have.
pub fn sizes_text(split: &Split) -> String {
    let row = |rows: &TrainingDataset| counted(rows.len() as u64, "row");
    let validation = split.validation.as_ref();
    let validation =
        validation.map_or_else(String::new, |rows| format!(", {} for validation", row(rows)));
    format!("{} for training{validation}, {} for test", row(&split.train), row(&split.test))
}

/// What the parts of a split that are held out give away of the training rows: the validation rows,
/// if there are such, and the test rows.
pub fn leaks_of(split: &Split) -> Vec<(&'static str, Leaks)> {
    // The first part is that of the training rows.
    let held_out = split.parts().into_iter().skip(1);
    held_out.map(|(part, rows)| (part, Leaks::of(&split.train, rows))).collect()
}

/// Says what each part that is held out gives away, in a sentence.
pub fn leak_texts(leaks: &[(&str, Leaks)]) -> Vec<String> {
    leaks.iter().map(|&(part, leaks)| leak_text(part, leaks)).collect()
}

/// Says in one sentence what a part of a split gives away.
pub fn leak_text(part: &str, leaks: Leaks) -> String {
    if leaks.none() {
        let states = counted(leaks.test_states as u64, "state");
        return format!("None of the {states} of {part} rows is one of a training row.");
    }
    format!(
        "{} of the {} of {part} rows are states of training rows; {} of {} begin in one.",
        counted(leaks.shared_states as u64, "state"),
        counted(leaks.test_states as u64, "state"),
        counted(leaks.rows_of_shared_states as u64, "row"),
        counted(leaks.test_rows as u64, &format!("{part} row")),
    )
}

/// The number of closed steps with an action that the sealed rows of a snapshot leave out.
///
/// # Errors
///
/// [`LakeError`] if steps that no layer counts cannot be read.
pub fn newer_steps(snapshot: &Snapshot, source: Source) -> Result<u64, LakeError> {
    let mut newer = snapshot.closed_hot_steps();
    if source == Source::StateTransitions {
        for segment in snapshot.uncounted() {
            for batch in snapshot.scan_segment(segment, ScanColumns::Named(&["action"])) {
                let actions = batch?;
                // The row of the state in which an episode begins has none.
                newer += (actions.num_rows() - actions.column(0).null_count()) as u64;
            }
        }
    }
    Ok(newer)
}
