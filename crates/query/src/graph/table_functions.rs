//! The table functions that walk the graph.

use datafusion::common::Result;

use super::arguments::CallArguments;
use super::question::GraphQuestion;
use super::{algebra, frontier, paths, returns, value_queries};
use crate::functions::of_the_field;

/// A table function. `schema/descriptions.json` describes it.
#[derive(Clone, Copy)]
pub(crate) struct TableFunction {
    pub(crate) name: &'static str,
    /// Makes a question of the arguments of a call.
    pub(super) question: fn(&CallArguments<'_>) -> Result<GraphQuestion>,
}

impl TableFunction {
    /// All of them, by name.
    pub(crate) const ALL: [Self; 11] = [
        Self { name: "advantage", question: value_queries::advantage },
        Self { name: "algebra", question: algebra::question },
        Self { name: "best_cost", question: value_queries::best_cost },
        Self { name: "best_known", question: value_queries::best_known },
        Self { name: "best_sequences", question: value_queries::best_sequences },
        Self { name: "frontier", question: frontier::question },
        Self { name: "reachable", question: paths::reachable },
        Self { name: "returns", question: returns::question },
        Self { name: "sequence_to", question: paths::sequence_to },
        Self { name: "sequences", question: paths::sequences },
        Self { name: "shortest_path", question: paths::shortest_path },
    ];

    /// The one of this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name == name)
    }

    /// How it is called.
    pub(crate) fn usage(self) -> &'static str {
        of_the_field(self.name).map_or(self.name, |(usage, _)| usage)
    }
}
