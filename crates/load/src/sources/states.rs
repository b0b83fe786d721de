//! The states of a snapshot: their numbers, and their features as matrices.

use std::collections::BTreeMap;
use std::iter;
use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use parking_lot::Mutex;

use crate::error::LoadError;
use crate::matrices::matrix::Matrix;
use crate::matrices::matrix_builder::MatrixBuilder;
use crate::matrices::matrix_cache::{MatrixCache, MatrixName};
use crate::matrices::numbers::NumberType;
use steplake_lake::graph::StateIndex;
use steplake_lake::progress::each_share;
use steplake_lake::{Observed, RecordedObservation, ScanColumns, Snapshot, Table, ValueRef};
use steplake_model::{StateId, ValueType};

/// The observed states of a snapshot's sealed rows. A state's number is its place in the order of
/// the table `observations`, by state key and then by id.
#[derive(Debug)]
pub(crate) struct ObservedStates {
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

impl ObservedStates {
    /// Reads the ids of all states, or takes them from the cache.
    pub(crate) fn of(
        snapshot: Arc<Snapshot>,
        cache: &MatrixCache,
        threads: NonZeroUsize,
    ) -> Result<Self, LoadError> {
        let digest = digest(&snapshot, &[Table::Observations]);
        let name = MatrixName::of(["states", &digest]);
        let ids = cache.entry(&name, || {
            let mut ids = Vec::new();
            for batch in snapshot.scan(Table::Observations, ScanColumns::Named(&["state_id"])) {
                ids.extend(state_ids(&batch?));
            }
            ids.sort_unstable_by_key(|id: &StateId| id.order());
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
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// The snapshot that they are of.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Where what is read of them is kept.
    pub(crate) fn cache(&self) -> &MatrixCache {
        &self.cache
    }

    /// The ids, 20 bytes each, in their order.
    pub(crate) fn ids(&self) -> &Arc<Matrix> {
        &self.ids
    }

    /// Finds the numbers of ids.
    pub(crate) fn index(&self) -> &StateIndex {
        self.index.get_or_init(|| {
            let id = |row| StateId::from_slice(self.ids.row_bytes(row));
            StateIndex::new((0..self.ids.rows()).map(id).collect())
        })
    }

    /// The observation space of this name.
    pub(crate) fn space(&self, name: &str) -> Option<&RecordedObservation> {
        self.snapshot.identity().observations.iter().find(|space| space.name == name)
    }

    /// The observations of all states in a space, one row for each state.
    pub(crate) fn features(&self, space: &RecordedObservation) -> Result<Arc<Matrix>, LoadError> {
        let mut mapped = self.features.lock();
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
        each_share(segments, self.threads, |segment| {
            for observed in self.snapshot.segment_observations(segment, space) {
                let observed = observed?;
                let Some(width) = width(&observed, column)? else { continue };
                let rows = observed.states().map(|(place, state)| (self.number(state), place));
                let rows: Vec<(usize, usize)> = rows.collect();
                let mut matrix = matrix.lock();
                let new =
                    if is_fraction { MatrixBuilder::fractions } else { MatrixBuilder::integers };
                let matrix = matrix.get_or_insert_with(|| new(self.ids.rows(), width));
                if matrix.width() != width {
                    return Err(other_length(column, matrix.width(), width));
                }
                for (row, at) in rows {
                    write(matrix, row, observed.value(at));
                }
            }
            Ok::<_, LoadError>(())
        })?;
        let made = matrix.into_inner();
        Ok(made.unwrap_or_else(|| MatrixBuilder::integers(self.ids.rows(), 1)))
    }

    /// The numbers of the states of a batch.
    pub(crate) fn numbers(&self, batch: &RecordBatch) -> Vec<usize> {
        state_ids(batch).map(|id| self.number(id)).collect()
    }

    fn number(&self, id: StateId) -> usize {
        self.index().find(&id).expect("the index has every state of the table") as usize
    }
}

/// The states of a batch of `observations`, which has no null among them.
fn state_ids(batch: &RecordBatch) -> impl Iterator<Item = StateId> {
    let ids = batch.column_by_name("state_id").expect("the scan was asked for the column");
    let ids = ids.as_fixed_size_binary();
    (0..ids.len()).map(|row| StateId::from_slice(ids.value(row)))
}

/// Refuses more rows than 32 bits can count.
pub(crate) fn demand_countable(what: &'static str, count: usize) -> Result<(), LoadError> {
    match u32::try_from(count) {
        Ok(count) if count < u32::MAX => Ok(()),
        _ => Err(LoadError::TooLarge { what, most: u32::MAX - 1 }),
    }
}

/// Names the sealed rows of some tables.
pub(crate) fn digest(snapshot: &Snapshot, tables: &[Table]) -> String {
    let mut hasher = blake3::Hasher::new();
    for &table in tables {
        let segments = snapshot.segments(table).iter();
        let mut names: Vec<String> = segments.map(|segment| segment.rows_name()).collect();
        names.sort_unstable();
        hasher.update(table.name().as_bytes());
        for name in names {
            hasher.update(b" ").update(name.as_bytes());
        }
        hasher.update(b"\n");
    }
    hasher.finalize().to_hex().to_string()
}

/// The type of the numbers of an observation space, as they are handed out.
pub(crate) fn number_type(space: &RecordedObservation) -> Result<NumberType, LoadError> {
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

/// The number of numbers of each value; none if there is no value.
fn width(observed: &Observed, column: &str) -> Result<Option<usize>, LoadError> {
    let length = |(place, _)| match observed.value(place) {
        ValueRef::IntVector(numbers) => numbers.len(),
        ValueRef::FloatVector(numbers) => numbers.len(),
        _ => 1,
    };
    let mut lengths = observed.states().map(length);
    let width = lengths.next();
    match (width, lengths.find(|&length| Some(length) != width)) {
        (Some(one), Some(other)) => Err(other_length(column, one, other)),
        _ => Ok(width),
    }
}

fn write(matrix: &mut MatrixBuilder, row: usize, value: ValueRef<'_>) {
    match value {
        ValueRef::Int(number) => matrix.set_integers(row, iter::once(number)),
        ValueRef::Float(number) => matrix.set_fractions(row, iter::once(number)),
        ValueRef::IntVector(numbers) => {
            matrix.set_integers(row, numbers.iter().map(|&number| number.into()));
        }
        ValueRef::FloatVector(numbers) => matrix.set_fractions(row, numbers.iter().copied()),
        other => unreachable!("{other:?} is no number"),
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
