//! The recorded values of one observation space, for each state of a transition graph.

use std::fmt;
use std::ops::Range;

use super::graph::{RecordedGraph, StateRow};
use steplake_lake::{LakeError, Observed, RecordedObservation, Snapshot, ValueRef};
use steplake_model::{Value, ValueType, as_f64};

/// The values of one observation space, in the order of the states' rows.
///
/// Memory, besides one bit for each state: 8 bytes for each state and number, 4 for each state and
/// number of a vector of integers. Vectors whose numbers have names are one matrix. Texts, bytes
/// and other lists take their length and 16 bytes for each state. Structs of lists stay as they
/// were read, also those of states that the transition graph lacks: program graphs take some 17
/// bytes for each node and 13 for each edge, tokens some 40 bytes each.
pub struct SpaceValues {
    are_there: Bits,
    column: ValueColumn,
}

enum ValueColumn {
    Int(Vec<i64>),
    Float(Vec<f64>),
    IntMatrix(VectorRows<i32>),
    FloatMatrix(VectorRows<f64>),
    IntLists(Ragged<i32>),
    FloatLists(Ragged<f64>),
    Text(Ragged<u8>),
    Bytes(Ragged<u8>),
    TextLists(Vec<Vec<String>>),
    Structs(Structs),
}

impl fmt::Debug for SpaceValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observations").finish_non_exhaustive()
    }
}

impl SpaceValues {
    /// Reads the values of a space that the lake records. Values of states that the graph does not
    /// have are left out.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] with the file that is damaged.
    pub(super) fn read(
        snapshot: &Snapshot,
        graph: &RecordedGraph,
        space: &RecordedObservation,
    ) -> Result<Self, LakeError> {
        let rows = graph.states();
        let mut column = ValueColumn::new(space, rows);
        let mut are_there = Bits(vec![0; rows.div_ceil(64)]);
        for observed in snapshot.observations(space) {
            let observed = observed?;
            for (place, state) in observed.states() {
                if let Some(row) = graph.find(&state) {
                    are_there.set(row.place());
                    column.set(row.place(), &observed, place);
                }
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
        let ValueColumn::Int(values) = &self.column else { return None };
        self.is_recorded(row).then(|| values[row.place()])
    }

    /// Returns what a state costs; none if it was not recorded, or if the space has other values
    /// than single numbers.
    #[inline]
    pub fn cost(&self, row: StateRow) -> Option<f64> {
        let cost = match &self.column {
            ValueColumn::Int(values) => as_f64(values[row.place()]),
            ValueColumn::Float(values) => values[row.place()],
            _ => return None,
        };
        self.is_recorded(row).then_some(cost)
    }

    /// Returns the integers of all states; 0 where none was recorded. None if the space has other
    /// values. The same holds for the method below.
    pub fn ints(&self) -> Option<&[i64]> {
        if let ValueColumn::Int(values) = &self.column { Some(values) } else { None }
    }

    /// Returns the vectors of integers of all states, one after another, and their length. Vectors
    /// without names of their numbers may differ in length, and are not given.
    pub fn int_matrix(&self) -> Option<(&[i32], usize)> {
        let ValueColumn::IntMatrix(matrix) = &self.column else { return None };
        Some((&matrix.values, matrix.width))
    }
}

impl ValueColumn {
    fn new(space: &RecordedObservation, rows: usize) -> Self {
        let width = space.features.len();
        match space.value_type {
            ValueType::Int => Self::Int(vec![0; rows]),
            ValueType::Float => Self::Float(vec![0.0; rows]),
            ValueType::IntVector if width > 0 => Self::IntMatrix(VectorRows::new(rows, width)),
            ValueType::FloatVector if width > 0 => Self::FloatMatrix(VectorRows::new(rows, width)),
            ValueType::IntVector => Self::IntLists(Ragged::new(rows)),
            ValueType::FloatVector => Self::FloatLists(Ragged::new(rows)),
            ValueType::Text => Self::Text(Ragged::new(rows)),
            ValueType::Bytes => Self::Bytes(Ragged::new(rows)),
            ValueType::TextList => Self::TextLists(vec![Vec::new(); rows]),
            ValueType::ProgramGraph | ValueType::Tokens => Self::Structs(Structs::new(rows)),
        }
    }

    /// Copies the value at a place.
    fn set(&mut self, row: usize, all: &Observed, place: usize) {
        match (self, all.value(place)) {
            (Self::Int(values), ValueRef::Int(value)) => values[row] = value,
            (Self::Float(values), ValueRef::Float(value)) => values[row] = value,
            (Self::IntMatrix(matrix), ValueRef::IntVector(values)) => matrix.set(row, values),
            (Self::FloatMatrix(matrix), ValueRef::FloatVector(values)) => matrix.set(row, values),
            (Self::IntLists(lists), ValueRef::IntVector(values)) => lists.set(row, values),
            (Self::FloatLists(lists), ValueRef::FloatVector(values)) => lists.set(row, values),
            (Self::Text(lists), ValueRef::Text(text)) => lists.set(row, text.as_bytes()),
            (Self::Bytes(lists), ValueRef::Bytes(bytes)) => lists.set(row, bytes),
            (Self::TextLists(lists), ValueRef::TextList) => lists[row] = all.texts(place),
            (Self::Structs(structs), ValueRef::Lists) => structs.set(row, all, place),
            (_, other) => unreachable!("{other:?} is of another type than the space"),
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
            Self::Structs(structs) => structs.get(row),
        }
    }
}

/// Vectors of one length.
struct VectorRows<T> {
    width: usize,
    values: Vec<T>,
}

impl<T: Copy + Default> VectorRows<T> {
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

/// Structs of lists, as they were read.
struct Structs {
    read: Vec<Observed>,
    /// For each row, which of these, and the place in it.
    places: Vec<(usize, usize)>,
}

impl Structs {
    fn new(rows: usize) -> Self {
        Self { read: Vec::new(), places: vec![(0, 0); rows] }
    }

    fn get(&self, row: usize) -> Value {
        let (read, place) = self.places[row];
        Value::Lists(self.read[read].lists(place).into())
    }

    fn set(&mut self, row: usize, all: &Observed, place: usize) {
        if !self.read.last().is_some_and(|last| last.is_same(all)) {
            self.read.push(all.clone());
        }
        self.places[row] = (self.read.len() - 1, place);
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
