//! The list of functions, with their descriptions.

use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::Documentation;

use crate::query::graph::TableFunction;

/// The kind of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FunctionKind {
    /// A value for each row.
    Scalar,
    /// A value for a group of rows.
    Aggregate,
    /// A value for each row, computed from the rows around it.
    Window,
    /// Rows: it is called in place of a table.
    Table,
}

impl FunctionKind {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Aggregate => "aggregate",
            Self::Window => "window",
            Self::Table => "table",
        }
    }
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
    /// Whether it is one of the field, and not one of standard SQL.
    pub is_of_the_field: bool,
}

/// The usages and descriptions of the functions of the field that do not document themselves.
const FIELD: [(&str, &str, &str); 10] = [
    ("state", "state('<40 hex digits>')", "A state id."),
    ("hex", "hex(bytes)", "Lower-case hexadecimal digits."),
    (
        "ir",
        "ir(state_id)",
        "The IR of a state as text, rebuilt where it is not stored; null where none is kept.",
    ),
    (
        "ir_diff",
        "ir_diff(state_a, state_b)",
        "What differs between the IR of two states, as a unified diff.",
    ),
    ("feature", "feature(vector, 'name')", "One number of an observation vector, by its name."),
    (
        "feature_delta",
        "feature_delta(before, after)",
        "The numbers of a vector that another one has otherwise.",
    ),
    ("action_name", "action_name(action)", "The name of an action."),
    ("commandline", "commandline(actions)", "One action or a list as a command line."),
    ("action_list", "action_list(step_index, action)", "The actions of an episode in order."),
    ("action_prefix", "action_prefix(actions, length)", "The first actions of a list."),
];

/// The functions of a session, those of the field first.
pub(in crate::query) fn list(state: &SessionState) -> Vec<Function> {
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
    for name in state.table_functions().keys() {
        let known = everywhere.table_functions().contains_key(name);
        functions.push(described(name, FunctionKind::Table, None, known));
    }
    functions.sort_by_cached_key(|f| (!f.is_of_the_field, f.kind, f.name.clone()));
    functions
}

/// The usage and the description of a function of the field.
fn of_the_field(name: &str) -> Option<(&'static str, &'static str)> {
    let own =
        FIELD.iter().find(|(own, ..)| *own == name).map(|&(_, syntax, about)| (syntax, about));
    own.or_else(|| TableFunction::from_name(name).map(|walk| (walk.usage, walk.description)))
}

/// Whether a function is one of the field.
pub(in crate::query) fn is_of_the_field(name: &str) -> bool {
    of_the_field(name).is_some()
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
