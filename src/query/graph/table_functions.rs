//! The table functions that walk the graph: their usages, descriptions and questions.

use datafusion::common::Result;

use super::arguments::Arguments;
use super::question::Question;
use super::{algebra, frontier, paths, returns, value_queries};

/// A table function.
#[derive(Clone, Copy)]
pub(in crate::query) struct TableFunction {
    /// How it is called.
    pub(in crate::query) usage: &'static str,
    /// One line: what its rows are.
    pub(in crate::query) description: &'static str,
    /// Makes a question of the arguments of a call.
    pub(super) question: fn(&Arguments<'_>) -> Result<Question>,
}

impl TableFunction {
    /// All of them, by name.
    pub(in crate::query) const ALL: [Self; 11] = [
        Self {
            usage: "advantage('REWARD SPACE' [, gamma])",
            description: "For each transition Q, and its advantage over the best and over the recorded actions.",
            question: value_queries::advantage,
        },
        Self {
            usage: "algebra(['REWARD SPACE'])",
            description: "Laws about actions and pairs of actions, and the numbers of states that test and confirm them.",
            question: algebra::question,
        },
        Self {
            usage: "best_cost('OBSERVATION SPACE')",
            description: "For each state the lowest cost that it reaches, and the shortest path there.",
            question: value_queries::best_cost,
        },
        Self {
            usage: "best_known('REWARD SPACE' [, gamma])",
            description: "For each state its best-known value, and the shortest path that earns it.",
            question: value_queries::best_known,
        },
        Self {
            usage: "best_sequences('OBSERVATION SPACE')",
            description: "For each benchmark the lowest cost that it reaches, and the shortest path there.",
            question: value_queries::best_sequences,
        },
        Self {
            usage: "frontier('REWARD SPACE' [, actions])",
            description: "For each state its most promising untried actions.",
            question: frontier::question,
        },
        Self {
            usage: "reachable('STATE' [, steps])",
            description: "The states that can be reached from a state, and in how many steps.",
            question: paths::reachable,
        },
        Self {
            usage: "returns('REWARD SPACE' [, steps [, gamma]])",
            description: "For each step the discounted sum of its reward and the later rewards of its episode.",
            question: returns::question,
        },
        Self {
            usage: "sequence_to('STATE')",
            description: "For each benchmark the shortest sequence of actions to a state.",
            question: paths::sequence_to,
        },
        Self {
            usage: "sequences([steps])",
            description: "For each benchmark the shortest sequence of actions to each state.",
            question: paths::sequences,
        },
        Self {
            usage: "shortest_path('FROM', 'TO')",
            description: "The shortest path from one state to another, step by step.",
            question: paths::shortest_path,
        },
    ];

    /// The one of this name.
    pub(in crate::query) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    pub(in crate::query) fn name(&self) -> &'static str {
        self.usage.split('(').next().unwrap_or_default()
    }
}
