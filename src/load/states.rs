//! The states of a snapshot: their numbers, and their features as matrices.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::{Array as _, ArrayRef, AsArray as _, ListArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type};

use super::error::LoadError;
use super::matrix::Matrix;
use super::matrix_builder::MatrixBuilder;
use super::matrix_cache::{MatrixCache, MatrixName};
use super::numbers::NumberType;
use crate::lake::decode::state_ids;
use crate::lake::shares::each_share;
use crate::lake::state_index::{StateIndex, place};
use crate::lake::{RecordedObservation, ScanColumns, Snapshot, Table};
use crate::model::{StateId, ValueType};

/// The observed states of a snapshot's sealed rows. A state's number is its place in the order of
/// the table `observations`, by state key and then by id.
#[derive(Debug)]
pub(super) struct States {
    snapshot: Arc<Snapshot>,
    cache: MatrixCache,
    threads: NonZeroUsize,
    /// Names the states and their order.
    digest: String,
    /// The ids, 20 bytes each, in their order.
    ids: Arc<Matrix>,
    /// Finds the number of an id. Made when rows are read that the cache does not have.
    index: OnceLock<StateIndex>,
    /// What is mapped, by space: a file that is mapped twice would count twice.
    features: Mutex<BTreeMap<String, Arc<Matrix>>>,
}

impl States {
    /// Reads the ids of all states, or takes them from the cache.
    pub(super) fn of(
        snapshot: Arc<Snapshot>,
        cache: &MatrixCache,
        threads: NonZeroUsize,
    ) -> Result<Self, LoadError> {
        let digest = digest(&snapshot, &[Table::Observations]);
        let name = MatrixName::of(["states", &digest]);
        let ids = cache.entry(&name, || {
            let mut ids = Vec::new();
            for batch in snapshot.scan(Table::Observations, ScanColumns::Named(&["state_id"])) {
                ids.extend(state_ids(&batch?, "state_id").flatten());
            }
            ids.sort_unstable_by_key(place);
            ids.dedup();
            demand_countable("states", ids.len())?;
            let mut matrix = MatrixBuilder::integers(ids.len(), StateId::LEN);
            for (row, id) in ids.iter().enumerate() {
                matrix.set_integers(row, id.0.iter().map(|&byte| i64::from(byte)));
            }
            Ok(matrix)
        })?;
        let (cache, index, features) = (cache.clone(), OnceLock::new(), Mutex::default());
        Ok(Self { snapshot, cache, threads, digest, ids, index, features })
    }

    /// Names the states and their order.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    /// The snapshot that they are of.
    pub(super) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Where what is read of them is kept.
    pub(super) fn cache(&self) -> &MatrixCache {
        &self.cache
    }

    /// The ids, 20 bytes each, in their order.
    pub(super) fn ids(&self) -> &Arc<Matrix> {
        &self.ids
    }

    /// Finds the numbers of ids.
    pub(super) fn index(&self) -> &StateIndex {
        self.index.get_or_init(|| {
            let id = |row| StateId::from_slice(self.ids.row_bytes(row));
            StateIndex::new((0..self.ids.rows()).map(id).collect())
        })
    }

    /// The observation space of this name.
    pub(super) fn space(&self, name: &str) -> Option<&RecordedObservation> {
        self.snapshot.identity().observations.iter().find(|space| space.name == name)
    }

    /// The observations of all states in a space, one row for each state.
    pub(super) fn features(&self, space: &RecordedObservation) -> Result<Arc<Matrix>, LoadError> {
        let mut mapped = self.features.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(matrix) = mapped.get(&space.name) {
            return Ok(Arc::clone(matrix));
        }
        let name = MatrixName::of(["features", &self.digest, &space.name]);
        let matrix = self.cache.entry(&name, || self.read_features(space))?;
        mapped.insert(space.name.clone(), Arc::clone(&matrix));
        Ok(matrix)
    }

    fn read_features(&self, space: &RecordedObservation) -> Result<MatrixBuilder, LoadError> {
        let column = space.name.as_str();
        let is_fraction = number_type(space)? == NumberType::F64;
        let matrix: Mutex<Option<MatrixBuilder>> = Mutex::new(None);
        let segments = self.snapshot.segments(Table::Observations);
        let columns = ["state_id", column];
        each_share(segments, self.threads, |segment| {
            for batch in self.snapshot.scan_segment(segment, ScanColumns::Named(&columns)) {
                let batch = batch?;
                let values = Vectors::of(&batch, column)?;
                let rows = self.numbers(&batch);
                let mut matrix = matrix.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(width) = values.width {
                    let new = if is_fraction {
                        MatrixBuilder::fractions
                    } else {
                        MatrixBuilder::integers
                    };
                    let matrix = matrix.get_or_insert_with(|| new(self.ids.rows(), width));
                    values.write(matrix, &rows)?;
                }
            }
            Ok::<_, LoadError>(())
        })?;
        let made = matrix.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(made.unwrap_or_else(|| MatrixBuilder::integers(self.ids.rows(), 1)))
    }

    /// The numbers of the states of a batch.
    pub(super) fn numbers(&self, batch: &RecordBatch) -> Vec<usize> {
        let index = self.index();
        let number =
            |id: Option<StateId>| id.and_then(|id| index.find(&id)).map(|row| row as usize);
        let rows = state_ids(batch, "state_id").map(number).collect::<Option<_>>();
        rows.expect("the index has every state of the table")
    }
}

/// Refuses more rows than 32 bits can count.
pub(super) fn demand_countable(what: &'static str, count: usize) -> Result<(), LoadError> {
    match u32::try_from(count) {
        Ok(count) if count < u32::MAX => Ok(()),
        _ => Err(LoadError::TooLarge { what, most: u32::MAX - 1 }),
    }
}

/// Names the sealed rows of some tables.
pub(super) fn digest(snapshot: &Snapshot, tables: &[Table]) -> String {
    let mut hasher = blake3::Hasher::new();
    for &table in tables {
        let mut digests: Vec<&str> =
            snapshot.segments(table).iter().map(|segment| segment.digest.as_str()).collect();
        digests.sort_unstable();
        hasher.update(table.name().as_bytes());
        for digest in digests {
            hasher.update(b" ").update(digest.as_bytes());
        }
        hasher.update(b"\n");
    }
    hasher.finalize().to_hex().to_string()
}

/// The type of the numbers of an observation space, as they are handed out.
pub(super) fn number_type(space: &RecordedObservation) -> Result<NumberType, LoadError> {
    match space.value_type {
        ValueType::Int => Ok(NumberType::I64),
        ValueType::IntVector => Ok(NumberType::I32),
        ValueType::Float | ValueType::FloatVector => Ok(NumberType::F64),
        ValueType::Text | ValueType::Bytes | ValueType::TextList | ValueType::ProgramGraph => {
            Err(not_numbers(space, "has no numbers, and tensors hold nothing else: leave it out"))
        }
        ValueType::Tokens => Err(not_numbers(
            space,
            "has lists of any length, and a tensor needs one length: leave it out, and ask for \
             the tokens in SQL",
        )),
    }
}

fn not_numbers(space: &RecordedObservation, problem: &str) -> LoadError {
    LoadError::NotNumbers { column: space.name.clone(), problem: problem.to_owned() }
}

/// The values of an observation space in a batch: vectors of one width, or numbers.
struct Vectors<'a> {
    column: &'a str,
    values: &'a ArrayRef,
    /// None if there is no value.
    width: Option<usize>,
}

impl<'a> Vectors<'a> {
    fn of(batch: &'a RecordBatch, column: &'a str) -> Result<Self, LoadError> {
        let values = batch.column_by_name(column).expect("the scan was asked for the column");
        let mut lengths = (0..values.len()).filter(|&row| values.is_valid(row)).map(|row| {
            let lists = values.as_list_opt::<i32>();
            lists.map_or(1, |lists| lists.value_offsets()[row + 1] - lists.value_offsets()[row])
        });
        let width = lengths.next();
        if let (Some(one), Some(other)) = (width, lengths.find(|&length| Some(length) != width)) {
            return Err(other_length(column, one, other));
        }
        let width = width.map(|width| usize::try_from(width).expect("a length is not negative"));
        Ok(Self { column, values, width })
    }

    /// Sets the rows of these numbers.
    fn write(&self, matrix: &mut MatrixBuilder, rows: &[usize]) -> Result<(), LoadError> {
        let width = self.width.unwrap_or_default();
        if matrix.width() != width {
            return Err(other_length(self.column, matrix.width(), width));
        }
        let offsets = self.values.as_list_opt::<i32>().map(ListArray::value_offsets);
        let begin = |row: usize| match offsets {
            Some(offsets) => usize::try_from(offsets[row]).expect("an offset is not negative"),
            None => row,
        };
        let numbers = Flat::of(self.values);
        for (row, &place) in rows.iter().enumerate().filter(|(row, _)| self.values.is_valid(*row)) {
            let range = begin(row)..begin(row) + width;
            match numbers {
                Flat::Int32(numbers) => {
                    let values = numbers[range].iter().map(|&value| i64::from(value));
                    matrix.set_integers(place, values);
                }
                Flat::Int64(numbers) => matrix.set_integers(place, numbers[range].iter().copied()),
                Flat::Float64(numbers) => {
                    matrix.set_fractions(place, numbers[range].iter().copied());
                }
            }
        }
        Ok(())
    }
}

/// All numbers of a column, those of its lists one after another.
enum Flat<'a> {
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float64(&'a [f64]),
}

impl<'a> Flat<'a> {
    fn of(column: &'a ArrayRef) -> Self {
        let flat = column.as_list_opt::<i32>().map_or(column, |lists| lists.values());
        match flat.data_type() {
            DataType::Int32 => Self::Int32(flat.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Self::Int64(flat.as_primitive::<Int64Type>().values()),
            _ => Self::Float64(flat.as_primitive::<Float64Type>().values()),
        }
    }
}

fn other_length(
    column: &str,
    one: impl std::fmt::Display,
    other: impl std::fmt::Display,
) -> LoadError {
    LoadError::NotNumbers {
        column: column.to_owned(),
        problem: format!(
            "has lists of {one} and of {other} numbers, and a tensor needs one length: leave it out"
        ),
    }
}
