//! What a lake lists: named queries, tables and views.

use pyo3::prelude::*;
use steplake::query;

/// A question with a name.
#[pyclass(frozen, get_all, module = "steplake")]
pub(crate) struct NamedQuery {
    /// Its name.
    name: String,
    /// What it asks.
    title: String,
    /// Its parameters: name, kind, default and description of each.
    parameters: Vec<(String, String, Option<String>, String)>,
    /// Its text in SQL.
    sql: String,
}

impl NamedQuery {
    pub(crate) fn new(query: &query::NamedQuery) -> Self {
        let parameters = query.parameters.iter().map(|one| {
            let default = one.default.map(str::to_owned);
            (one.name.to_owned(), one.kind.as_str().to_owned(), default, one.description.to_owned())
        });
        Self {
            name: query.name.to_owned(),
            title: query.title.to_owned(),
            parameters: parameters.collect(),
            sql: query.sql.to_owned(),
        }
    }
}

#[pymethods]
impl NamedQuery {
    fn __repr__(&self) -> String {
        let parameters = self.parameters.iter().map(|(name, kind, default, _)| match default {
            Some(default) => format!("{name}: {kind} = {default}"),
            None => format!("{name}: {kind}"),
        });
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        format!("{}({parameters})  {}", self.name, self.title)
    }
}

/// A table or a view.
#[pyclass(frozen, get_all, module = "steplake")]
pub(crate) struct Relation {
    /// Its name.
    name: String,
    /// What it holds.
    description: String,
    /// The number of its rows; None for a view.
    rows: Option<u64>,
    /// Its columns: name, type and description of each.
    columns: Vec<(String, String, String)>,
}

impl Relation {
    pub(crate) fn new(relation: query::Relation) -> Self {
        let columns = relation.columns.into_iter();
        Self {
            name: relation.name,
            description: relation.description,
            rows: relation.rows,
            columns: columns.map(|one| (one.name, one.kind, one.description)).collect(),
        }
    }
}
