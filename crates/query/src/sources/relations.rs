//! Descriptions of the tables, the views and their columns.

use arrow::datatypes::{DataType, Field};
use datafusion::common::TableReference;

use crate::contexts::CONTEXT;
use crate::engine::Engine;
use crate::errors::error::QueryError;
use crate::errors::explain::SCHEMA;
use crate::functions::{self, DESCRIPTIONS, Function};
use steplake_lake::{FEATURES_KEY, Table};

/// A table or a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// Its name in SQL.
    pub name: String,
    /// One line: what a row is.
    pub description: String,
    /// The number of rows of a table; none for a view.
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
        DataType::Struct(fields) => {
            let fields = fields.iter();
            let named = fields.map(|field| format!("{} {}", field.name(), kind(field.data_type())));
            format!("struct({})", named.collect::<Vec<_>>().join(", "))
        }
        DataType::Timestamp(..) => "timestamp".to_owned(),
        other => other.to_string().to_lowercase(),
    }
}

fn description(name: &str) -> &'static str {
    match Table::from_name(name) {
        Some(table) => table.doc(),
        None => DESCRIPTIONS.tables.get(name).map_or("", String::as_str),
    }
}

/// The description of a column. A column of a view that is not listed above means the same as in
/// `steps`.
fn meaning(table: &str, column: &str) -> Option<String> {
    if column == CONTEXT {
        return Some("Name of the context that the row is of.".to_owned());
    }
    if let Some(text) = DESCRIPTIONS.columns.get(table).and_then(|columns| columns.get(column)) {
        return Some(text.clone());
    }
    let table = Table::from_name(table).unwrap_or(Table::Steps);
    table.column_doc(column).map(str::to_owned)
}
