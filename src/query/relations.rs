//! What the tables and views are called, and what they and their columns mean.

use arrow::datatypes::{DataType, Field};

use super::engine::Engine;
use super::error::QueryError;
use super::functions::{self, Function};
use crate::lake::{Column, Table};

/// A table or a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Its name in SQL.
    pub name: String,
    /// One line: what a row is.
    pub description: String,
    /// How many rows a table has; a view's are not known before it is asked. Rows of a derived
    /// table that lie in several layers count once for each.
    pub rows: Option<u64>,
    /// Its columns.
    pub columns: Vec<RelationColumn>,
}

/// A column of a table or a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationColumn {
    /// Its name in SQL.
    pub name: String,
    /// The type of its values, in a word.
    pub kind: String,
    /// One line: what it means.
    pub description: String,
}

impl Engine {
    /// The tables and views with their columns, in the order of [`tables`](Self::tables).
    ///
    /// # Errors
    ///
    /// [`QueryError::Failed`] when one of them has gone.
    pub async fn relations(&self) -> Result<Vec<Relation>, QueryError> {
        let mut relations = Vec::new();
        for name in self.tables() {
            let provider = self.context().table_provider(name.as_str()).await;
            let provider = provider.map_err(QueryError::failed)?;
            let schema = provider.schema();
            relations.push(Relation {
                name: name.clone(),
                description: description(name).to_owned(),
                rows: self.rows_of(name),
                columns: schema.fields().iter().map(|field| column(name, field)).collect(),
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
    RelationColumn {
        name: field.name().clone(),
        kind,
        description: meaning(table, field.name()).unwrap_or_default(),
    }
}

/// A type in a word that says what one may do with it.
fn kind(data_type: &DataType) -> String {
    match data_type {
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => "text".to_owned(),
        DataType::Binary
        | DataType::BinaryView
        | DataType::LargeBinary
        | DataType::FixedSizeBinary(_) => "bytes".to_owned(),
        DataType::Dictionary(_, value) => kind(value),
        DataType::List(item) => format!("{}[]", kind(item.data_type())),
        DataType::FixedSizeList(item, width) => format!("{}[{width}]", kind(item.data_type())),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

/// What tables and views beside those of `schema/tables.json` are.
const DESCRIPTIONS: [(&str, &str); 9] = [
    ("lake", "What the lake is a lake of, and how far its derived tables have come: one row."),
    ("actions", "The action space of the lake."),
    ("runs", "Who recorded, and with which arguments."),
    ("segments", "The Parquet files that hold the sealed rows."),
    ("snapshots", "The snapshots that have not expired."),
    ("retractions", "What was taken back, and why."),
    ("losses", "What repairs had to drop."),
    ("steps_with_actions", "Each step with the actions that led to it, and its rewards as a list."),
    ("transitions_taken", "Each time that an action was taken: the state before, the state after."),
];

fn description(name: &str) -> &'static str {
    match Table::from_name(name) {
        Some(table) => table.doc(),
        None => DESCRIPTIONS.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text),
    }
}

/// What the columns mean that `schema/tables.json` does not list.
const MEANINGS: [(&str, &str, &str); 49] = [
    ("lake", "environment", "Environment that it was recorded in."),
    ("lake", "compiler", "Compiler, with its version."),
    ("lake", "target", "What the compiler makes code for."),
    ("lake", "action_space", "Name of the action space; the table `actions` lists it."),
    ("lake", "snapshot_id", "Newest snapshot that is read; hot rows come beside it."),
    ("lake", "layers", "Layers of the derived tables."),
    ("lake", "uncounted_steps", "Rows of steps that the derived tables do not count yet."),
    ("actions", "action", "Number of the action, as in the other tables."),
    ("actions", "name", "Its name."),
    ("actions", "pipeline", "What the compiler is told."),
    ("actions", "replayable", "Whether it gives the same state each time, as far as was probed."),
    ("actions", "crashes", "Whether it is known to kill the compiler on some states."),
    ("actions", "slow", "Whether it is known to take very long on some states."),
    ("actions", "never_changes", "Whether it changed no state that was probed."),
    ("runs", "run_id", "Number of the run in this lake."),
    ("runs", "arguments", "What was asked for, as JSON."),
    ("runs", "started_at", "When it began."),
    ("runs", "finished", "Whether it came to its end."),
    ("runs", "uid", "Random name that tells it from the runs of other lakes."),
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
    ("snapshots", "kind", "What made it: a seal, dedup, retraction, repair or merge."),
    ("snapshots", "created_at", "When it was made."),
    ("snapshots", "rows_added", "Rows in the files that it brought."),
    ("snapshots", "bytes_added", "Size of the files that it brought."),
    ("snapshots", "detail", "What is to be said about it, one line."),
    ("retractions", "retraction_id", "Its number."),
    ("retractions", "kind", "What was taken back: a benchmark, a run or an action."),
    ("retractions", "value", "Which one."),
    ("retractions", "reason", "Why."),
    ("retractions", "snapshot_id", "Snapshot from which on it is gone."),
    ("losses", "table_name", "Table that lost rows."),
    ("losses", "file", "File that they were in."),
    ("losses", "rows", "How many."),
    ("losses", "what", "What was wrong with it."),
    ("losses", "snapshot_id", "Snapshot that the repair made."),
    ("steps_with_actions", "actions", "Actions from the first state to this one."),
    ("steps_with_actions", "rewards", "Rewards in the order of the lake's reward spaces."),
    ("transitions_taken", "changed", "Whether the state after is another one."),
    ("transitions_taken", "state_id", "State before the action."),
    ("transitions_taken", "state_key", "The first 8 bytes of state_id as an integer."),
    (
        "transitions_taken",
        "next_state_id",
        "State after the action; null where the compiler failed.",
    ),
    ("transitions_taken", "next_state_key", "The first 8 bytes of next_state_id as an integer."),
];

/// What a column means. Those of a view that are not listed above mean what they do in `steps`.
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
