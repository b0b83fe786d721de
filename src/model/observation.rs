use std::sync::Arc;

/// The place of an observation space in its environment's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObservationIndex(pub u8);

/// The form of an observation's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueKind {
    /// One whole number.
    Scalar,
    /// A vector of whole numbers, one for each of these names.
    Vector(Arc<[&'static str]>),
    /// Text.
    Text,
    /// Bytes.
    Bytes,
}

/// A way to look at a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservationSpace {
    /// The name used by CompilerGym, e.g. `InstCount`.
    pub name: &'static str,
    /// The form of the space's values.
    pub kind: ValueKind,
    /// True if the value depends on the benchmark alone and not on the state
    /// (`IrInstructionCountOz`). Such values are stored with the benchmark.
    pub of_benchmark: bool,
}

/// The value of an observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A value of a [`ValueKind::Scalar`].
    Scalar(i64),
    /// A value of a [`ValueKind::Vector`]: as many numbers as the space has names.
    Vector(Box<[i32]>),
    /// A value of a [`ValueKind::Text`].
    Text(String),
    /// A value of a [`ValueKind::Bytes`].
    Bytes(Vec<u8>),
}
