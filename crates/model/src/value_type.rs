//! The types of values of observation spaces.

use serde::{Deserialize, Serialize};

/// The type of a value: how workers send it, and what a lake has as a column for it.
///
/// No type nests further than a [struct of flat lists](Self::lists), which readers of Parquet know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueType {
    /// An integer of 64 bits.
    Int,
    /// A floating-point number of 64 bits.
    Float,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// A vector of integers of 32 bits.
    IntVector,
    /// A vector of floating-point numbers of 64 bits.
    FloatVector,
    /// A list of texts.
    TextList,
    /// The graph of a program: a struct of lists, those of a [`ProgramGraph`](super::ProgramGraph).
    ProgramGraph,
    /// The tokens of a program's text: a struct of lists.
    Tokens,
}

impl ValueType {
    /// The lists of a type that is a struct of lists, with the types of their items; none for other
    /// types.
    pub fn lists(self) -> &'static [(&'static str, ItemType)] {
        match self {
            Self::ProgramGraph => &[
                ("node_type", ItemType::Int8),
                ("node_text", ItemType::Text),
                ("node_function", ItemType::Int32),
                ("node_block", ItemType::Int32),
                ("edge_flow", ItemType::Int8),
                ("edge_position", ItemType::Int32),
                ("edge_source", ItemType::Int32),
                ("edge_target", ItemType::Int32),
            ],
            Self::Tokens => &[
                ("token_id", ItemType::Int32),
                ("token_kind", ItemType::Text),
                ("token_category", ItemType::Text),
                ("token_value", ItemType::Text),
            ],
            _ => &[],
        }
    }
}

/// The type of the items of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemType {
    /// An integer of 8 bits.
    Int8,
    /// An integer of 32 bits.
    Int32,
    /// Text.
    Text,
}
