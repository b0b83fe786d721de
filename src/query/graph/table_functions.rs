//! The table functions that walk the graph: their names, usages and descriptions.

/// A table function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::query) enum TableFunction {
    Advantage,
    Algebra,
    BestCost,
    BestKnown,
    BestSequences,
    Frontier,
    Reachable,
    Returns,
    SequenceTo,
    Sequences,
    ShortestPath,
}

impl TableFunction {
    /// All of them, by name.
    pub(in crate::query) const ALL: [Self; 11] = [
        Self::Advantage,
        Self::Algebra,
        Self::BestCost,
        Self::BestKnown,
        Self::BestSequences,
        Self::Frontier,
        Self::Reachable,
        Self::Returns,
        Self::SequenceTo,
        Self::Sequences,
        Self::ShortestPath,
    ];

    /// The one of this name.
    pub(in crate::query) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    pub(in crate::query) fn name(self) -> &'static str {
        self.usage().split('(').next().unwrap_or_default()
    }

    /// How it is called.
    pub(in crate::query) fn usage(self) -> &'static str {
        match self {
            Self::Advantage => "advantage('REWARD SPACE' [, gamma])",
            Self::Algebra => "algebra(['REWARD SPACE'])",
            Self::BestCost => "best_cost('OBSERVATION SPACE')",
            Self::BestKnown => "best_known('REWARD SPACE' [, gamma])",
            Self::BestSequences => "best_sequences('OBSERVATION SPACE')",
            Self::Frontier => "frontier('REWARD SPACE' [, actions])",
            Self::Reachable => "reachable('STATE' [, steps])",
            Self::Returns => "returns('REWARD SPACE' [, steps [, gamma]])",
            Self::SequenceTo => "sequence_to('STATE')",
            Self::Sequences => "sequences([steps])",
            Self::ShortestPath => "shortest_path('FROM', 'TO')",
        }
    }

    /// One line: what its rows are.
    pub(in crate::query) fn description(self) -> &'static str {
        match self {
            Self::Advantage => {
                "For each transition Q, and its advantage over the best known and over what was done."
            }
            Self::Algebra => {
                "Laws about actions and pairs of them, with how often each could be tested and held."
            }
            Self::BestCost => {
                "For each state the lowest cost that it reaches, and the shortest way there."
            }
            Self::BestKnown => "For each state its best-known value, and the shortest way to it.",
            Self::BestSequences => {
                "For each benchmark the lowest cost that it reaches, and the shortest way there."
            }
            Self::Frontier => "For each state its most promising untried actions.",
            Self::Reachable => {
                "The states that can be reached from a state, and in how many steps."
            }
            Self::Returns => {
                "For each step the discounted sum of its reward and those after it in its episode."
            }
            Self::SequenceTo => "For each benchmark the shortest sequence of actions to a state.",
            Self::Sequences => "For each benchmark the shortest sequence of actions to each state.",
            Self::ShortestPath => "The shortest way from one state to another, step by step.",
        }
    }
}
