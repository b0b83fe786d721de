//! Observation spaces and their values.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Lists, Name, ValueType};

/// The place of an observation space in its environment's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObservationIndex(pub u8);

/// A value of a [`ValueType`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// A value of [`ValueType::Int`].
    Int(i64),
    /// A value of [`ValueType::Float`].
    Float(f64),
    /// A value of [`ValueType::Text`].
    Text(String),
    /// A value of [`ValueType::Bytes`].
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A value of [`ValueType::IntVector`].
    IntVector(Box<[i32]>),
    /// A value of [`ValueType::FloatVector`].
    FloatVector(Box<[f64]>),
    /// A value of [`ValueType::TextList`].
    TextList(Vec<String>),
    /// A value of a type that is a [struct of lists](ValueType::lists).
    Lists(Box<Lists>),
}

impl Value {
    /// About how many bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Int(_) | Self::Float(_) => 0,
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::IntVector(numbers) => size_of_val(&**numbers),
            Self::FloatVector(numbers) => size_of_val(&**numbers),
            Self::TextList(texts) => texts.iter().map(String::len).sum(),
            Self::Lists(lists) => lists.bytes(),
        }
    }
}

/// A way to look at a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservationSpace {
    /// The name used by CompilerGym, e.g. `InstCount`.
    pub name: Name,
    /// The type of the space's values.
    pub value_type: ValueType,
    /// The names of the numbers of a vector; empty for other types, and for vectors whose numbers
    /// have no names.
    pub features: Arc<[Name]>,
    /// True if the value depends on the benchmark alone and not on the state
    /// (`IrInstructionCountOz`). Such values are stored with the benchmark.
    pub of_benchmark: bool,
    /// True if the space is recorded only when it is named: its values take far longer than a step,
    /// or follow from those of another space. The compiler may fail on such an observation without
    /// a fault of the action before, so it is made apart from the step.
    pub on_request: bool,
    /// True if the value is what the compiler makes of the state, and no action asks the compiler
    /// for anything: if it fails on this observation, it has failed on the action that led there.
    /// A failure on any other observation leaves the value unknown and the step as it is.
    pub is_compiled: bool,
}

impl ObservationSpace {
    /// Returns a space of integers.
    pub fn int(name: impl Into<Name>) -> Self {
        Self::new(name, ValueType::Int)
    }

    /// Returns a space of values of a type that has no features.
    pub fn new(name: impl Into<Name>, value_type: ValueType) -> Self {
        Self {
            name: name.into(),
            value_type,
            features: Arc::new([]),
            of_benchmark: false,
            on_request: false,
            is_compiled: false,
        }
    }

    /// Returns a space of vectors of integers with these names.
    pub fn int_vector(name: impl Into<Name>, features: &[&'static str]) -> Self {
        let features = features.iter().copied().map(Name::Borrowed).collect();
        Self { features, ..Self::new(name, ValueType::IntVector) }
    }

    /// Returns a space of vectors of floating-point numbers with these names.
    pub fn float_vector(name: impl Into<Name>, features: impl Into<Arc<[Name]>>) -> Self {
        Self { features: features.into(), ..Self::new(name, ValueType::FloatVector) }
    }

    /// Returns the same space, of the benchmark alone.
    #[must_use]
    pub fn of_benchmark(self) -> Self {
        Self { of_benchmark: true, ..self }
    }

    /// Returns the same space, recorded only when it is named.
    #[must_use]
    pub fn on_request(self) -> Self {
        Self { on_request: true, ..self }
    }

    /// Returns the same space, of what the compiler makes of a state.
    #[must_use]
    pub fn compiled(self) -> Self {
        Self { is_compiled: true, ..self }
    }
}
