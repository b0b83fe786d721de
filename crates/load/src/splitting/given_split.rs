//! Splits that somebody else made, read from files.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::leaks::Leaks;
use super::parts::SplitBy;
use super::splits::{StateAdjacency, programs};
use crate::dataset::{DatasetRequest, TrainingDataset};
use crate::error::LoadError;
use crate::sources::sealed_rows::SealedRows;
use crate::sources::source::Source;
use steplake_lake::guarded;
use steplake_model::StateId;

/// The part that others are compared with.
const TRAIN: &str = "train";

/// A split that a file gives: which program, family or row is of which part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenSplit {
    /// The lines of the files.
    lines: SplitLines,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SplitLines {
    /// Names of programs or families, each with its part.
    Programs(SplitBy, BTreeMap<String, String>),
    /// Rows: the part, the state, and the state that the row leads to, if the file has one.
    Rows(Vec<(String, StateId, StateId)>),
}

/// What a part of a given split has in common with its training part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenLeaks {
    /// The name of the part.
    pub part: String,
    /// The rows of the training part.
    pub train_rows: usize,
    /// What the part gives away.
    pub leaks: Leaks,
}

/// What a split of programs or families gives away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenReport {
    /// The parts beside the training part.
    pub parts: Vec<GivenLeaks>,
    /// The names of the split that the lake does not have.
    pub unknown: usize,
    /// The programs of the lake that the split does not name.
    pub unnamed: usize,
}

/// The columns that say what a line is about; the first one that a file has counts.
const KEYS: [&str; 3] = ["state_id", "benchmark_uri", "family"];

impl GivenSplit {
    /// Reads CSV or Parquet files, which have the columns `split` and one of `benchmark_uri`,
    /// `family` and `state_id`. With `state_id`, each line is a row, and the file may have
    /// `next_state_id`; an export has both.
    ///
    /// # Errors
    ///
    /// [`LoadError::SplitFile`].
    ///
    /// # Panics
    ///
    /// If there is no file.
    pub fn read(paths: &[PathBuf]) -> Result<Self, LoadError> {
        let mut lines: Option<SplitLines> = None;
        for path in &files(paths)? {
            let failed = |problem: String| LoadError::SplitFile { path: path.clone(), problem };
            for batch in guarded(|| batches(path)).map_err(failed)? {
                let key = KEYS.into_iter().find(|key| batch.column_by_name(key).is_some());
                let (Some(key), Some(parts)) = (key, texts(&batch, "split")) else {
                    return Err(failed(format!(
                        "a split needs a column `split`, and one of {}",
                        KEYS.join(", ")
                    )));
                };
                let lines = lines.get_or_insert_with(|| match key {
                    "state_id" => SplitLines::Rows(Vec::new()),
                    "family" => SplitLines::Programs(SplitBy::Family, BTreeMap::new()),
                    _ => SplitLines::Programs(SplitBy::Benchmark, BTreeMap::new()),
                });
                lines.add(&batch, &parts).map_err(failed)?;
            }
        }
        let split = Self { lines: lines.unwrap_or_else(|| SplitLines::Rows(Vec::new())) };
        let parts = split.parts();
        if parts.len() < 2 || !parts.contains(&TRAIN) {
            let problem = format!(
                "its parts are {parts:?}: one has to be called `{TRAIN}`, and there has to be another"
            );
            return Err(LoadError::SplitFile { path: paths[0].clone(), problem });
        }
        Ok(split)
    }

    /// The names of the parts.
    fn parts(&self) -> Vec<&str> {
        let mut parts: Vec<&str> = match &self.lines {
            SplitLines::Programs(_, parts) => parts.values().map(String::as_str).collect(),
            SplitLines::Rows(rows) => rows.iter().map(|(part, ..)| part.as_str()).collect(),
        };
        parts.sort_unstable();
        parts.dedup();
        parts
    }

    /// Compares each part with the one called `train`. Returns none for a split of programs or
    /// families, for which [`leaks_in`](Self::leaks_in) asks the lake.
    pub fn leaks_of_rows(&self) -> Option<Vec<GivenLeaks>> {
        match &self.lines {
            SplitLines::Rows(rows) => Some(compared(numbered(rows))),
            SplitLines::Programs(..) => None,
        }
    }

    /// Compares each part of a split of programs or families with the one called `train`.
    ///
    /// The rows of a part are those of `source` that its programs reach, also if programs of
    /// another part reach them.
    ///
    /// # Errors
    ///
    /// [`LoadError::NoProgram`] if the lake has no program of a part, and those of reading the
    /// lake.
    ///
    /// # Panics
    ///
    /// If it is a split of rows, or if `source` is [`Source::Steps`], whose rows have one program
    /// each.
    pub async fn leaks_in(
        &self,
        lake: &SealedRows,
        source: Source,
    ) -> Result<GivenReport, LoadError> {
        assert_ne!(source, Source::Steps, "a step has one program");
        let SplitLines::Programs(by, parts) = &self.lines else { panic!("it is a split of rows") };
        let mut starts: BTreeMap<&String, Vec<u32>> =
            parts.values().map(|part| (part, Vec::new())).collect();
        let (mut named, mut unnamed) = (BTreeSet::new(), 0);
        for program in programs(lake).await? {
            let name = if *by == SplitBy::Family { program.family } else { program.uri };
            if let Some(starts) = parts.get(&name).and_then(|part| starts.get_mut(part)) {
                starts.push(program.start);
                named.insert(name);
            } else {
                unnamed += 1;
            }
        }
        if let Some((part, _)) = starts.iter().find(|(_, starts)| starts.is_empty()) {
            return Err(LoadError::NoProgram { part: (*part).clone() });
        }
        let parts_of_rows = reached(lake, source, starts).await?;
        let unknown = parts.len() - named.len();
        Ok(GivenReport { parts: compared(parts_of_rows), unknown, unnamed })
    }
}

/// Compares each part with the one called `train`.
fn compared(mut rows: BTreeMap<String, EdgeEnds>) -> Vec<GivenLeaks> {
    let train = rows.remove(TRAIN).unwrap_or_default();
    let compare = |(part, test): (String, EdgeEnds)| GivenLeaks {
        part,
        train_rows: train.0.len(),
        leaks: Leaks::between(&train, &test),
    };
    rows.into_iter().map(compare).collect()
}

/// The numbers of the states of rows, and of the states that they lead to.
type EdgeEnds = (Vec<u32>, Vec<u32>);

/// The rows of each part, with numbers in place of ids.
fn numbered(rows: &[(String, StateId, StateId)]) -> BTreeMap<String, EdgeEnds> {
    let mut known = HashMap::new();
    let mut parts: BTreeMap<String, EdgeEnds> = BTreeMap::new();
    for (part, state, next) in rows {
        let [state, next] = [state, next].map(|state| {
            let new = u32::try_from(known.len()).expect("states are counted in 32 bits");
            *known.entry(*state).or_insert(new)
        });
        if !parts.contains_key(part) {
            parts.insert(part.clone(), EdgeEnds::default());
        }
        let ends = parts.get_mut(part).expect("it was just put there");
        ends.0.push(state);
        ends.1.push(next);
    }
    parts
}

/// The rows of the lake that programs of each part reach from their first states.
async fn reached(
    lake: &SealedRows,
    source: Source,
    starts: BTreeMap<&String, Vec<u32>>,
) -> Result<BTreeMap<String, EdgeEnds>, LoadError> {
    let graph = StateAdjacency::new(lake).await?;
    let dataset = TrainingDataset::open(lake, &DatasetRequest::all(source)).await?;
    let (states, next) = dataset.states(&dataset.all_places().collect::<Vec<_>>());
    let rows = starts.into_iter().map(|(part, starts)| {
        let mut is_reached = vec![false; graph.states()];
        graph.walk(&starts, |state| !std::mem::replace(&mut is_reached[state as usize], true));
        let ends = states.iter().zip(&next).filter(|(state, _)| is_reached[**state as usize]);
        (part.clone(), ends.unzip())
    });
    Ok(rows.collect())
}

impl SplitLines {
    fn add(&mut self, batch: &RecordBatch, parts: &[String]) -> Result<(), String> {
        match self {
            Self::Rows(rows) => {
                let states = ids(batch, "state_id")?;
                let next = match batch.column_by_name("next_state_id") {
                    Some(_) => ids(batch, "next_state_id")?,
                    None => states.clone(),
                };
                let lines = parts.iter().zip(states).zip(next);
                rows.extend(lines.map(|((part, state), next)| (part.clone(), state, next)));
            }
            Self::Programs(by, known) => {
                let key = if *by == SplitBy::Family { "family" } else { "benchmark_uri" };
                let names = texts(batch, key).ok_or_else(|| missing(key))?;
                for (name, part) in names.into_iter().zip(parts) {
                    match known.insert(name.clone(), part.clone()) {
                        Some(other) if other != *part => {
                            return Err(format!("{name} is of the parts {other} and {part}"));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

/// The files that are named; of a folder, as an export makes it, those with rows.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, LoadError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = |problem: String| LoadError::SplitFile { path: path.clone(), problem };
        let data = path.join("data");
        let folder = if data.is_dir() { &data } else { path };
        let entries = fs::read_dir(folder).and_then(|entries| {
            entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()
        });
        let mut found = entries.map_err(|error| failed(error.to_string()))?;
        found.retain(|file| file.extension().is_some_and(|extension| extension == "parquet"));
        if found.is_empty() {
            return Err(failed("the folder has no Parquet files of an export".to_owned()));
        }
        found.sort_unstable();
        files.append(&mut found);
    }
    Ok(files)
}

/// The wanted columns of a file, batch by batch.
fn batches(path: &Path) -> io::Result<Vec<RecordBatch>> {
    let mut file = File::open(path)?;
    let is_wanted = |name: &str| KEYS.contains(&name) || ["split", "next_state_id"].contains(&name);
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
        let (inferred, _) = Format::default()
            .with_header(true)
            .infer_schema(&mut file, Some(1))
            .map_err(io::Error::other)?;
        file.rewind()?;
        let names = inferred.fields().iter().map(|field| field.name());
        let wanted = (0..).zip(names.clone()).filter(|(_, name)| is_wanted(name));
        let wanted = wanted.map(|(place, _)| place).collect();
        let text = |name: &String| Field::new(name, DataType::Utf8, true);
        let schema = Arc::new(Schema::new(names.map(text).collect::<Vec<_>>()));
        let reader = ReaderBuilder::new(schema).with_header(true).with_projection(wanted);
        return reader.build(file).and_then(Iterator::collect).map_err(io::Error::other);
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(file)?;
    let names = reader.schema().fields().iter().map(|field| field.name().as_str());
    let mask =
        ProjectionMask::columns(reader.parquet_schema(), names.filter(|name| is_wanted(name)));
    let reader = reader.with_projection(mask).build()?;
    reader.collect::<Result<_, _>>().map_err(io::Error::other)
}

fn missing(name: &str) -> String {
    format!("a line has no `{name}`, which the first file has")
}

/// The texts of a column; none if it is missing or has other values.
fn texts(batch: &RecordBatch, name: &str) -> Option<Vec<String>> {
    let column = cast(batch.column_by_name(name)?, &DataType::Utf8).ok()?;
    column.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
}

/// The state ids of a column: 20 bytes each, or their text.
fn ids(batch: &RecordBatch, name: &str) -> Result<Vec<StateId>, String> {
    let wrong = || format!("`{name}` has to have state ids: 20 bytes, or 40 hexadecimal digits");
    let column = batch.column_by_name(name).ok_or_else(|| missing(name))?;
    if matches!(column.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
        let texts = texts(batch, name).ok_or_else(wrong)?;
        return texts.iter().map(|text| text.parse().map_err(|_wrong| wrong())).collect();
    }
    let column = cast(column, &DataType::Binary).map_err(|_other| wrong())?;
    let bytes = column.as_binary::<i32>();
    if bytes.null_count() > 0 {
        return Err(wrong());
    }
    bytes
        .iter()
        .flatten()
        .map(|id| <[u8; StateId::LEN]>::try_from(id).map(StateId).map_err(|_length| wrong()))
        .collect()
}
