//! The recorded values of one observation space, for each state of a transition graph.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{ArrowPrimitiveType, Float64Type, Int32Type, Int64Type};

use super::graph::{StateRow, TransitionGraph};
use crate::lake::decode::States;
use crate::lake::lists;
use crate::lake::{LakeError, RecordedObservation, ScanColumns, Snapshot, Table};
use crate::model::{Lists, Value, ValueType, as_f64};

/// The values of one observation space, in the order of the states' rows.
///
/// Memory, besides one bit for each state: 8 bytes for each state and number, 4 for each state and
/// number of a vector of integers. Vectors whose numbers have names are one matrix. Texts, bytes
/// and other lists take their length and 16 bytes for each state. Structs of lists stay as they
/// were read, also those of states that the transition graph lacks: program graphs take some 17
/// bytes for each node and 13 for each edge, tokens some 40 bytes each.
pub struct Observations {
    are_there: Bits,
    column: Column,
}

enum Column {
    Int(Vec<i64>),
    Float(Vec<f64>),
    IntMatrix(Matrix<i32>),
    FloatMatrix(Matrix<f64>),
    IntLists(Ragged<i32>),
    FloatLists(Ragged<f64>),
    Text(Ragged<u8>),
    Bytes(Ragged<u8>),
    TextLists(Vec<Vec<String>>),
    Structs(Structs),
}

impl fmt::Debug for Observations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observations").finish_non_exhaustive()
    }
}

impl Observations {
    /// Reads the values of a space that the lake records. Values of states that the graph does not
    /// have are left out.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub(super) fn read(
        snapshot: &Snapshot,
        graph: &TransitionGraph,
        space: &RecordedObservation,
    ) -> Result<Self, LakeError> {
        let rows = graph.states();
        let mut column = Column::new(space, rows);
        let mut are_there = Bits(vec![0; rows.div_ceil(64)]);
        let columns = ["state_id", space.name.as_str()];
        for batch in snapshot.scan(Table::Observations, ScanColumns::Named(&columns)) {
            let batch = batch?;
            let values = &batch[space.name.as_str()];
            for (place, row) in found(&batch, graph).filter(|&(place, _)| values.is_valid(place)) {
                are_there.set(row.place());
                column.set(row.place(), values, place);
            }
        }
        Ok(Self { are_there, column })
    }

    /// Returns whether the value of a state was recorded.
    ///
    /// # Panics
    ///
    /// If there is no such row. The same holds for the other methods that take a row.
    pub fn is_recorded(&self, row: StateRow) -> bool {
        self.are_there.get(row.place())
    }

    /// Returns the value of a state; none if it was not recorded.
    pub fn row(&self, row: StateRow) -> Option<Value> {
        self.is_recorded(row).then(|| self.column.get(row.place()))
    }

    /// Returns the values of consecutive states.
    pub fn rows(&self, rows: Range<u32>) -> impl Iterator<Item = Option<Value>> + '_ {
        rows.map(|row| self.row(StateRow(row)))
    }

    /// Returns the integer of a state; none if it was not recorded, or if the space has other
    /// values.
    #[inline]
    pub fn int(&self, row: StateRow) -> Option<i64> {
        let Column::Int(values) = &self.column else { return None };
        self.is_recorded(row).then(|| values[row.place()])
    }

    /// Returns what a state costs; none if it was not recorded, or if the space has other values
    /// than single numbers.
    #[inline]
    pub fn cost(&self, row: StateRow) -> Option<f64> {
        let cost = match &self.column {
            Column::Int(values) => as_f64(values[row.place()]),
            Column::Float(values) => values[row.place()],
            _ => return None,
        };
        self.is_recorded(row).then_some(cost)
    }

    /// Returns the integers of all states; 0 where none was recorded. None if the space has other
    /// values. The same holds for the methods below.
    pub fn ints(&self) -> Option<&[i64]> {
        if let Column::Int(values) = &self.column { Some(values) } else { None }
    }

    /// Returns the floating-point numbers of all states.
    pub fn floats(&self) -> Option<&[f64]> {
        if let Column::Float(values) = &self.column { Some(values) } else { None }
    }

    /// Returns the vectors of integers of all states, one after another, and their length. Vectors
    /// without names of their numbers may differ in length, and are not given.
    pub fn int_matrix(&self) -> Option<(&[i32], usize)> {
        let Column::IntMatrix(matrix) = &self.column else { return None };
        Some((&matrix.values, matrix.width))
    }

    /// Returns the vectors of floating-point numbers of all states, one after another, and their
    /// length. Vectors without names of their numbers may differ in length, and are not given.
    pub fn float_matrix(&self) -> Option<(&[f64], usize)> {
        let Column::FloatMatrix(matrix) = &self.column else { return None };
        Some((&matrix.values, matrix.width))
    }
}

/// The rows of a batch whose states are in the graph: their places and rows.
fn found<'a>(
    batch: &'a RecordBatch,
    graph: &'a TransitionGraph,
) -> impl Iterator<Item = (usize, StateRow)> + 'a {
    let states = States::of(batch, "state_id");
    (0..batch.num_rows()).filter_map(move |place| Some((place, graph.find(&states.get(place)?)?)))
}

impl Column {
    fn new(space: &RecordedObservation, rows: usize) -> Self {
        let width = space.features.len();
        match space.value_type {
            ValueType::Int => Self::Int(vec![0; rows]),
            ValueType::Float => Self::Float(vec![0.0; rows]),
            ValueType::IntVector if width > 0 => Self::IntMatrix(Matrix::new(rows, width)),
            ValueType::FloatVector if width > 0 => Self::FloatMatrix(Matrix::new(rows, width)),
            ValueType::IntVector => Self::IntLists(Ragged::new(rows)),
            ValueType::FloatVector => Self::FloatLists(Ragged::new(rows)),
            ValueType::Text => Self::Text(Ragged::new(rows)),
            ValueType::Bytes => Self::Bytes(Ragged::new(rows)),
            ValueType::TextList => Self::TextLists(vec![Vec::new(); rows]),
            ValueType::ProgramGraph | ValueType::Tokens => {
                Self::Structs(Structs::new(space.value_type, rows))
            }
        }
    }

    /// Copies a value of an array, whose type is that of the lake's column.
    fn set(&mut self, row: usize, array: &ArrayRef, place: usize) {
        match self {
            Self::Int(values) => values[row] = array.as_primitive::<Int64Type>().value(place),
            Self::Float(values) => values[row] = array.as_primitive::<Float64Type>().value(place),
            Self::IntMatrix(matrix) => numbers::<Int32Type>(array, place, |it| matrix.set(row, it)),
            Self::FloatMatrix(matrix) => {
                numbers::<Float64Type>(array, place, |it| matrix.set(row, it));
            }
            Self::IntLists(lists) => numbers::<Int32Type>(array, place, |it| lists.set(row, it)),
            Self::FloatLists(lists) => {
                numbers::<Float64Type>(array, place, |it| lists.set(row, it));
            }
            Self::Text(lists) => lists.set(row, array.as_string::<i32>().value(place).as_bytes()),
            Self::Bytes(lists) => lists.set(row, array.as_binary::<i32>().value(place)),
            Self::TextLists(lists) => {
                let texts = array.as_list::<i32>().value(place);
                let texts = texts.as_string::<i32>().iter().flatten().map(str::to_owned);
                lists[row] = texts.collect();
            }
            Self::Structs(structs) => structs.set(row, array, place),
        }
    }

    fn get(&self, row: usize) -> Value {
        match self {
            Self::Int(values) => Value::Int(values[row]),
            Self::Float(values) => Value::Float(values[row]),
            Self::IntMatrix(matrix) => Value::IntVector(matrix.row(row).into()),
            Self::FloatMatrix(matrix) => Value::FloatVector(matrix.row(row).into()),
            Self::IntLists(lists) => Value::IntVector(lists.row(row).into()),
            Self::FloatLists(lists) => Value::FloatVector(lists.row(row).into()),
            Self::Text(lists) => Value::Text(String::from_utf8_lossy(lists.row(row)).into_owned()),
            Self::Bytes(lists) => Value::Bytes(lists.row(row).into()),
            Self::TextLists(lists) => Value::TextList(lists[row].clone()),
            Self::Structs(structs) => Value::Lists(structs.get(row).into()),
        }
    }
}

/// Calls `take` with the numbers of a list.
fn numbers<T: ArrowPrimitiveType>(array: &ArrayRef, place: usize, take: impl FnOnce(&[T::Native])) {
    let lists = array.as_list::<i32>();
    let offsets = lists.value_offsets();
    let begin = usize::try_from(offsets[place]).expect("offsets are not negative");
    let end = usize::try_from(offsets[place + 1]).expect("offsets are not negative");
    take(&lists.values().as_primitive::<T>().values()[begin..end]);
}

/// Vectors of one length.
struct Matrix<T> {
    width: usize,
    values: Vec<T>,
}

impl<T: Copy + Default> Matrix<T> {
    fn new(rows: usize, width: usize) -> Self {
        Self { width, values: vec![T::default(); rows * width] }
    }

    fn row(&self, row: usize) -> &[T] {
        &self.values[row * self.width..][..self.width]
    }

    /// The lake has checked the length when it was written; a damaged one changes no other row.
    fn set(&mut self, row: usize, values: &[T]) {
        let length = values.len().min(self.width);
        self.values[row * self.width..][..length].copy_from_slice(&values[..length]);
    }
}

/// Lists of any length, in the order in which they were read.
struct Ragged<T> {
    values: Vec<T>,
    /// The begin and the length of each row's list.
    spans: Vec<(usize, usize)>,
}

impl<T: Copy> Ragged<T> {
    fn new(rows: usize) -> Self {
        Self { values: Vec::new(), spans: vec![(0, 0); rows] }
    }

    fn row(&self, row: usize) -> &[T] {
        let (begin, length) = self.spans[row];
        &self.values[begin..begin + length]
    }

    fn set(&mut self, row: usize, values: &[T]) {
        self.spans[row] = (self.values.len(), values.len());
        self.values.extend_from_slice(values);
    }
}

/// Structs of lists, in the batches that were read.
struct Structs {
    value_type: ValueType,
    batches: Vec<ArrayRef>,
    /// The batch of each row, and the place in it.
    places: Vec<(usize, usize)>,
}

impl Structs {
    fn new(value_type: ValueType, rows: usize) -> Self {
        Self { value_type, batches: Vec::new(), places: vec![(0, 0); rows] }
    }

    fn get(&self, row: usize) -> Lists {
        let (batch, place) = self.places[row];
        lists::value(self.value_type, self.batches[batch].as_struct(), place)
    }

    fn set(&mut self, row: usize, batch: &ArrayRef, place: usize) {
        if !self.batches.last().is_some_and(|last| Arc::ptr_eq(last, batch)) {
            self.batches.push(Arc::clone(batch));
        }
        self.places[row] = (self.batches.len() - 1, place);
    }
}

/// One bit for each row.
struct Bits(Vec<u64>);

impl Bits {
    #[inline]
    fn get(&self, row: usize) -> bool {
        self.0[row / 64] >> (row % 64) & 1 == 1
    }

    fn set(&mut self, row: usize) {
        self.0[row / 64] |= 1 << (row % 64);
    }
}
