//! Descriptions of the tables, the views and their columns.

use arrow::datatypes::{DataType, Field};
use datafusion::common::TableReference;

use super::engine::Engine;
use super::error::QueryError;
use super::explain::SCHEMA;
use super::functions::{self, Function};
use crate::lake::{Column, FEATURES_KEY, Table};

/// A table or a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Its name in SQL.
    pub name: String,
    /// One line: what a row is.
    pub description: String,
    /// The number of rows of a table; none for a view. A row of a derived table counts once for
    /// each layer that has it.
    pub rows: Option<u64>,
    /// Its columns.
    pub columns: Vec<RelationColumn>,
}

/// A column of a table or a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationColumn {
    /// Its name in SQL.
    pub name: String,
    /// The type of its values, as one word.
    pub kind: String,
    /// One line: what it means.
    pub description: String,
}

impl Engine {
    /// The tables and views with their columns, in the order of [`tables`](Self::tables).
    ///
    /// # Errors
    ///
    /// [`QueryError::Failed`] if one of them does not exist any more.
    pub async fn relations(&self) -> Result<Vec<Relation>, QueryError> {
        let mut relations = Vec::new();
        for name in self.tables() {
            let (schema, table) = name.rsplit_once('.').unwrap_or((SCHEMA, name));
            let provider =
                self.context().table_provider(TableReference::partial(schema, table)).await;
            let provider = provider.map_err(QueryError::failed)?;
            let schema = provider.schema();
            relations.push(Relation {
                name: name.clone(),
                description: description(table).to_owned(),
                rows: self.rows_of(name),
                columns: schema.fields().iter().map(|field| column(table, field)).collect(),
            });
        }
        Ok(relations)
    }

    /// The functions that SQL may call, those of the field first, each kind by name.
    pub fn functions(&self) -> Vec<Function> {
        functions::list(&self.context().state())
    }
}

fn column(table: &str, field: &Field) -> RelationColumn {
    let kind = match field.data_type() {
        DataType::FixedSizeBinary(20) if field.name().ends_with("state_id") => "state id".into(),
        other => kind(other),
    };
    let features = field.metadata().get(FEATURES_KEY);
    let features = features.and_then(|names| serde_json::from_str::<Vec<String>>(names).ok());
    let kind = match features {
        Some(names) => kind.replace("[]", &format!("[{}]", names.len())),
        None => kind,
    };
    RelationColumn {
        name: field.name().clone(),
        kind,
        description: meaning(table, field.name()).unwrap_or_default(),
    }
}

/// A type as one word.
fn kind(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "text".to_owned(),
        DataType::Binary
        | DataType::BinaryView
        | DataType::LargeBinary
        | DataType::FixedSizeBinary(_) => "bytes".to_owned(),
        DataType::Dictionary(_, value) => kind(value),
        DataType::List(item) => format!("{}[]", kind(item.data_type())),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

/// Descriptions of the tables and views that `schema/tables.json` does not list.
const DESCRIPTIONS: [(&str, &str); 8] = [
    ("lake", "The lake's identity, and the state of its derived tables: one row."),
    ("runs", "The runs, with their arguments."),
    ("segments", "The Parquet files that hold the sealed rows."),
    ("snapshots", "The snapshots that have not expired."),
    ("retractions", "The retractions, with their reasons."),
    ("losses", "The rows that repairs had to drop."),
    ("steps_with_actions", "Each step with the actions that led to it, and its rewards as a list."),
    ("transitions_taken", "Each step with an action: the state before it, and the state after it."),
];

fn description(name: &str) -> &'static str {
    match Table::from_name(name) {
        Some(table) => table.doc(),
        None => DESCRIPTIONS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text),
    }
}

/// Descriptions of the columns that `schema/tables.json` does not list.
const MEANINGS: [(&str, &str, &str); 42] = [
    ("lake", "environment", "Environment of its recordings."),
    ("lake", "compiler", "Compiler, with its version."),
    ("lake", "target", "Target that the compiler makes code for."),
    ("lake", "action_space", "Name of the action space; the table `actions` lists it."),
    ("lake", "snapshot_id", "Newest snapshot that is read; hot rows are read in addition."),
    ("lake", "layers", "Layers of the derived tables."),
    ("lake", "uncounted_steps", "Rows of steps that the derived tables do not count yet."),
    ("runs", "run_id", "Number of the run in this lake."),
    ("runs", "arguments", "Its arguments, as JSON."),
    ("runs", "started_at", "Time of its start."),
    ("runs", "finished", "Whether it is complete."),
    ("runs", "uid", "Random name that distinguishes it from runs of other lakes."),
    (
        "runs",
        "repeated_windows",
        "Windows of steps that failed in one worker and not in a fresh one.",
    ),
    ("segments", "table_name", "Table that its rows belong to."),
    ("segments", "file", "Path in the lake."),
    ("segments", "rows", "Rows in it."),
    ("segments", "bytes", "Its size."),
    ("segments", "digest", "BLAKE3 of its bytes, hex."),
    ("segments", "layer", "Layer of a derived table; null for a recorded one."),
    ("snapshots", "snapshot_id", "Its number."),
    ("snapshots", "kind", "Operation that made it: a seal, dedup, retraction, repair or merge."),
    ("snapshots", "created_at", "Time when it was made."),
    ("snapshots", "rows_added", "Rows in the files that it added."),
    ("snapshots", "bytes_added", "Size of the files that it added."),
    ("snapshots", "detail", "Details, one line."),
    ("retractions", "retraction_id", "Its number."),
    ("retractions", "kind", "What was retracted: a benchmark, a run or an action."),
    ("retractions", "value", "The benchmark, the run or the action."),
    ("retractions", "reason", "The reason that was given."),
    ("retractions", "snapshot_id", "First snapshot without it."),
    ("losses", "table_name", "Table that lost rows."),
    ("losses", "file", "File that had them."),
    ("losses", "rows", "Number of the rows."),
    ("losses", "what", "What was wrong with the file."),
    ("losses", "snapshot_id", "Snapshot that the repair made."),
    ("steps_with_actions", "actions", "Actions from the first state to this one."),
    ("steps_with_actions", "rewards", "Rewards in the order of the lake's reward spaces."),
    ("transitions_taken", "changed", "Whether the action changed the state."),
    ("transitions_taken", "state_id", "State before the action."),
    ("transitions_taken", "state_key", "The first 8 bytes of state_id as an integer."),
    (
        "transitions_taken",
        "next_state_id",
        "State after the action; null where the compiler failed.",
    ),
    ("transitions_taken", "next_state_key", "The first 8 bytes of next_state_id as an integer."),
];

/// The description of a column. A column of a view that is not listed above means the same as in
/// `steps`.
fn meaning(table: &str, column: &str) -> Option<String> {
    let listed = MEANINGS.iter().find(|(of, name, _)| (*of, *name) == (table, column));
    if let Some((_, _, text)) = listed {
        return Some((*text).to_owned());
    }
    let columns = Table::from_name(table).unwrap_or(Table::Steps).columns();
    let itself = columns.iter().find(|known| known.name == column);
    let of_a_space = |known: &&Column| {
        known.each.is_some() && column.starts_with(known.name.trim_end_matches("{}"))
    };
    itself.or_else(|| columns.iter().find(of_a_space)).map(|known| known.doc.clone())
}
