//! The tables and their columns, as `tables` declares them.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error as Unknown, StrDeserializer};
use serde::{Deserialize, Serialize};

use super::tables;
use crate::kernel::identity::{Identity, RecordedObservation};
use crate::kernel::ids::FORMAT_VERSION_OLDEST;
use steplake_model::{ItemType, StateId, ValueType};

/// A table of the lake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// The programs.
    Benchmarks,
    /// The actions of the environment: a copy of those in `lake.json`, for other tools.
    Actions,
    /// Episodes that are over.
    Episodes,
    /// Positions in episodes.
    Steps,
    /// The observations of each state.
    Observations,
    /// The IR of each state.
    Ir,
    /// Each (state, action) and its result. Derived.
    StateTransitions,
    /// (State, action) pairs with more than one result. Derived.
    Conflicts,
    /// (State, action) pairs on which the compiler failed, and states on which it failed at the
    /// start of an episode. Derived.
    Failures,
    /// Samples of spaces that differ from one observation to the next.
    Measurements,
    /// Sequences of actions that change what a program does.
    Miscompilations,
}

impl Table {
    /// All tables, in the order in which data reach them.
    pub const ALL: [Self; 11] = [
        Self::Benchmarks,
        Self::Actions,
        Self::Episodes,
        Self::Steps,
        Self::Observations,
        Self::Ir,
        Self::StateTransitions,
        Self::Conflicts,
        Self::Failures,
        Self::Measurements,
        Self::Miscompilations,
    ];

    /// The name in SQL and on disk.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The table called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::deserialize::<StrDeserializer<'_, Unknown>>(name.into_deserializer()).ok()
    }

    /// Whether dedup makes it from other tables.
    pub fn is_derived(self) -> bool {
        matches!(self, Self::StateTransitions | Self::Conflicts | Self::Failures)
    }

    /// Whether its rows come from recordings.
    pub fn is_recorded(self) -> bool {
        !self.is_derived() && self != Self::Actions
    }

    /// A one-line description of a row.
    pub fn doc(self) -> &'static str {
        self.spec().doc
    }

    /// The columns that identify a row. Segments are sorted by them, in this order.
    pub fn key(self) -> &'static [&'static str] {
        self.spec().key
    }

    /// The columns. Those that depend on the lake are patterns.
    pub fn columns(self) -> &'static [Column] {
        self.spec().columns
    }

    /// A one-line description of a column, which may be that of a space.
    pub fn column_doc(self, name: &str) -> Option<&'static str> {
        let columns = self.columns();
        let is_of_a_space = |column: &&Column| {
            column.each.is_some() && name.starts_with(column.name.trim_end_matches("{}"))
        };
        let column = columns.iter().find(|column| column.name == name);
        column.or_else(|| columns.iter().find(is_of_a_space)).map(|column| column.doc)
    }

    /// Whether older rows may lack this column: one of a space, or one that a format added.
    pub(crate) fn has_grown_by(self, column: &str) -> bool {
        let fixed = self.columns().iter().find(|fixed| fixed.name == column);
        fixed.is_none_or(|fixed| fixed.since > FORMAT_VERSION_OLDEST)
    }

    /// The number of rows in a row group of a segment.
    pub(crate) fn row_group_rows(self) -> usize {
        self.spec().row_group_rows
    }

    fn spec(self) -> &'static TableSpec {
        tables::ALL[self as usize]
    }

    /// The columns in a lake of this identity.
    pub fn schema(self, identity: &Identity) -> SchemaRef {
        let fields = self.columns().iter().flat_map(|column| column.fields(identity));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A column, or a pattern for one column per space of the lake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The name. In a pattern, `{}` stands for the name of the space.
    pub name: &'static str,
    /// The type of its values.
    pub kind: ColumnType,
    /// Whether a value can be missing.
    pub nullable: bool,
    /// The format that added it; 0 if each has it.
    pub since: u32,
    /// A one-line description.
    pub doc: &'static str,
    /// What a pattern is repeated for.
    pub each: Option<Each>,
}

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// True or false.
    Boolean,
    /// A 32-bit signed integer.
    Int32,
    /// A 64-bit signed integer.
    Int64,
    /// A 64-bit float.
    Float64,
    /// Text.
    Text,
    /// Text with few different values, stored as a dictionary.
    Symbol,
    /// Bytes.
    Binary,
    /// 20 bytes.
    StateId,
    /// A SHA-1: 20 bytes.
    Sha1,
    /// A list of 32-bit signed integers.
    IntList,
    /// A list of 64-bit floats.
    FloatList,
    /// The type of the space: see `observation_type`.
    Observation,
}

/// What a pattern of columns is repeated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Each {
    /// Each baseline that the lake records.
    Baseline,
    /// Each observation space that the lake records.
    Observation,
    /// Each reward space that the lake records.
    Reward,
}

impl Column {
    fn fields(&self, identity: &Identity) -> Vec<Field> {
        let field = |name: &str| {
            Field::new(self.name.replace("{}", name), self.kind.arrow(), self.nullable)
        };
        match self.each {
            None => vec![field("")],
            Some(Each::Baseline) => identity.baselines.iter().map(|name| field(name)).collect(),
            Some(Each::Reward) => identity.rewards.iter().map(|space| field(&space.name)).collect(),
            Some(Each::Observation) => {
                identity.observations.iter().map(observation_field).collect()
            }
        }
    }
}

impl ColumnType {
    fn arrow(self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Int32 => DataType::Int32,
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Symbol => {
                DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
            }
            Self::Binary => DataType::Binary,
            Self::StateId => DataType::FixedSizeBinary(STATE_ID_LEN),
            Self::Sha1 => DataType::FixedSizeBinary(SHA1_LEN),
            Self::IntList => list(DataType::Int32),
            Self::FloatList => list(DataType::Float64),
            Self::Observation => unreachable!("the type of such a column is its space's"),
        }
    }
}

/// The column of an observation space. Its metadata name the space and its features for readers of
/// Arrow schemas.
fn observation_field(space: &RecordedObservation) -> Field {
    let mut metadata = HashMap::from([(SPACE_KEY.to_owned(), space.name.clone())]);
    if !space.features.is_empty() {
        let features = serde_json::to_string(&space.features).expect("names serialise");
        metadata.insert(FEATURES_KEY.to_owned(), features);
    }
    Field::new(&space.name, observation_type(space.value_type), true).with_metadata(metadata)
}

/// The type of the column of an observation space.
fn observation_type(value_type: ValueType) -> DataType {
    match value_type {
        ValueType::Int => DataType::Int64,
        ValueType::Float => DataType::Float64,
        ValueType::Text => DataType::Utf8,
        ValueType::Bytes => DataType::Binary,
        ValueType::IntVector => list(DataType::Int32),
        ValueType::FloatVector => list(DataType::Float64),
        ValueType::TextList => list(DataType::Utf8),
        ValueType::ProgramGraph | ValueType::Tokens => DataType::Struct(list_fields(value_type)),
    }
}

/// The fields of the column of a type that is a struct of lists.
pub(crate) fn list_fields(value_type: ValueType) -> Fields {
    let field = |&(name, item): &(&str, ItemType)| {
        let item = match item {
            ItemType::Int8 => DataType::Int8,
            ItemType::Int32 => DataType::Int32,
            ItemType::Text => DataType::Utf8,
        };
        Field::new(name, list(item), false)
    };
    value_type.lists().iter().map(field).collect()
}

/// Whether rows may have kilobytes each: then fewer of them are held in memory at once.
pub(crate) fn has_large_rows(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| match field.data_type() {
        DataType::Binary | DataType::Struct(_) => true,
        DataType::Utf8 => field.metadata().contains_key(SPACE_KEY),
        _ => false,
    })
}

/// The key of a column's metadata that names its observation space.
pub const SPACE_KEY: &str = "steplake.space";
/// The key of a column's metadata that lists the features of its space, as a JSON array of names.
pub const FEATURES_KEY: &str = "steplake.features";

/// Bytes of a state id, as Arrow counts them.
pub(crate) const STATE_ID_LEN: i32 = {
    assert!(StateId::LEN == 20, "the format is written down for ids of 20 bytes");
    20
};

/// Bytes of a SHA-1, as Arrow counts them.
pub(crate) const SHA1_LEN: i32 = 20;

/// A list of items that are never null.
fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(list_item(item)))
}

/// The items of a list column, with the name that Parquet's list type requires.
pub(crate) fn list_item(data_type: DataType) -> Field {
    Field::new("element", data_type, false)
}

/// What is [declared](super::tables) of a table.
pub(crate) struct TableSpec {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) key: &'static [&'static str],
    pub(crate) row_group_rows: usize,
    pub(crate) columns: &'static [Column],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::identity::tests::identity;

    #[test]
    fn every_key_is_a_column() {
        for table in Table::ALL {
            let schema = table.schema(&identity());
            assert!(table.key().iter().all(|key| schema.field_with_name(key).is_ok()), "{table}");
            assert_eq!(Table::from_name(table.name()), Some(table));
            assert!(!table.doc().is_empty());
        }
    }

    /// What `docs/FORMAT.md` leaves out of the columns of tables.
    fn undescribed(format: &str) -> Vec<String> {
        let columns = |table: Table| {
            let heading = format!("**`{table}`**");
            let section = format.split_once(&heading).map_or("", |(_, rest)| rest);
            let section = section.split("\n**`").next().unwrap_or_default();
            let written = |column: &Column| format!("`{}`", column.name.replace("{}", "<space>"));
            let named = table.columns().iter().filter(|column| column.name != "{}").map(written);
            let left_out = named.filter(|written| !section.contains(written));
            left_out.map(|written| format!("{table}: {written}")).collect::<Vec<_>>()
        };
        Table::ALL.into_iter().flat_map(columns).collect()
    }

    #[test]
    fn the_format_describes_every_column() {
        let format = include_str!("../../../../../docs/FORMAT.md");
        assert_eq!(undescribed(format), [""; 0]);
        // Under the next table it does not count.
        let without = format.replace("| `keyframe` |", "| |");
        assert_eq!(undescribed(&without), ["steps: `keyframe`"]);
    }

    #[test]
    fn patterns_become_one_column_for_each_space() {
        let schema = Table::Steps.schema(&identity());
        assert!(schema.field_with_name("reward_Cost").is_ok());
        let schema = Table::Observations.schema(&identity());
        assert_eq!(schema.field_with_name("Size").unwrap().data_type(), &DataType::Int64);
        let vector = schema.field_with_name("Counts").unwrap();
        assert!(matches!(vector.data_type(), DataType::List(_)));
        assert_eq!(vector.metadata()[FEATURES_KEY], r#"["x","y","z"]"#);
        assert!(Table::Benchmarks.schema(&identity()).field_with_name("CostO0").is_ok());
    }
}
