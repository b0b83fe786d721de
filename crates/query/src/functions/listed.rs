//! The list of functions, with their descriptions.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::Documentation;
use serde::Deserialize;

steplake_model::named! {
    /// The kind of a function.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum FunctionKind {
        /// A value for each row.
        Scalar = "scalar",
        /// A value for a group of rows.
        Aggregate = "aggregate",
        /// A value for each row, computed from the rows around it.
        Window = "window",
        /// Rows: it is called in place of a table.
        Table = "table",
    }

    /// The word for it.
    fn as_str;
}

/// A function that SQL may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: FunctionKind,
    /// How it is called.
    pub syntax: String,
    /// One line: what it gives; empty if there is no description.
    pub description: String,
    /// Whether it belongs to the field and not to standard SQL.
    pub is_of_the_field: bool,
}

/// What `schema/descriptions.json` says of everything that is no column of a lake's table.
#[derive(Deserialize)]
pub(crate) struct Descriptions {
    /// The tables and views by name: what a row is.
    pub(crate) tables: BTreeMap<String, String>,
    /// The columns by table and name.
    pub(crate) columns: BTreeMap<String, BTreeMap<String, String>>,
    /// The usages and descriptions of the functions of the field.
    functions: BTreeMap<String, (String, String)>,
}

pub(crate) static DESCRIPTIONS: LazyLock<Descriptions> = LazyLock::new(|| {
    let text = include_str!("../../../../schema/descriptions.json");
    serde_json::from_str(text).expect("the file is part of the program")
});

/// The functions of a session, those of the field first.
pub(crate) fn list(state: &SessionState) -> Vec<Function> {
    let everywhere = SessionStateBuilder::new_with_default_features().build();
    let mut functions = Vec::new();
    // The session lists a function under its aliases too.
    for (name, of) in state.scalar_functions().iter().filter(|(name, of)| of.name() == *name) {
        let known = everywhere.scalar_functions().contains_key(name);
        functions.push(described(name, FunctionKind::Scalar, of.documentation(), known));
    }
    for (name, of) in state.aggregate_functions().iter().filter(|(name, of)| of.name() == *name) {
        let known = everywhere.aggregate_functions().contains_key(name);
        functions.push(described(name, FunctionKind::Aggregate, of.documentation(), known));
    }
    for (name, of) in state.window_functions().iter().filter(|(name, of)| of.name() == *name) {
        let known = everywhere.window_functions().contains_key(name);
        functions.push(described(name, FunctionKind::Window, of.documentation(), known));
    }
    functions.extend(state.table_functions().keys().map(|name| {
        let known = everywhere.table_functions().contains_key(name);
        described(name, FunctionKind::Table, None, known)
    }));
    functions.sort_by_cached_key(|f| (!f.is_of_the_field, f.kind, f.name.clone()));
    functions
}

/// The usage and the description of a function of the field.
pub(crate) fn of_the_field(name: &str) -> Option<(&'static str, &'static str)> {
    DESCRIPTIONS.functions.get(name).map(|(usage, about)| (usage.as_str(), about.as_str()))
}

fn described(
    name: &str,
    kind: FunctionKind,
    documentation: Option<&Documentation>,
    known: bool,
) -> Function {
    let own = of_the_field(name).filter(|_| !known);
    let (syntax, description) = match (own, documentation) {
        (Some((syntax, about)), _) => (syntax.to_owned(), about.to_owned()),
        (None, Some(text)) => (line(&text.syntax_example), first_sentence(&text.description)),
        (None, None) => (format!("{name}(…)"), String::new()),
    };
    Function { name: name.to_owned(), kind, syntax, description, is_of_the_field: !known }
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first sentence of a description: the rest is for the manual.
fn first_sentence(text: &str) -> String {
    let text = line(text);
    match text.find(". ") {
        Some(end) => text[..=end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_sentence_is_shown() {
        assert_eq!(first_sentence("Gives\n  1.5 times x. See y."), "Gives 1.5 times x.");
        assert_eq!(first_sentence("Gives x"), "Gives x");
    }
}
