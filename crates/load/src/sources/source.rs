//! What rows there are to load, and the columns that they have.

use std::sync::Arc;

use super::states::{ObservedStates, number_type};
use crate::error::LoadError;
use crate::matrices::numbers::NumberType;
use steplake_lake::{RecordedObservation, Table};
use steplake_model::ValueType;

/// The rows that a dataset is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Each transition once, by its state and action.
    StateTransitions,
    /// Each step with an action, episode by episode.
    Steps,
    /// Each state once.
    Observations,
}

/// Beside the columns of its relation, a source has those of its states' observations.
pub(crate) struct SourceSpec {
    pub(crate) name: &'static str,
    /// The table or view of the query engine.
    pub(crate) relation: &'static str,
    /// What its rows are sorted by, in SQL.
    pub(crate) order: &'static str,
    /// The columns that name a row: a state and a number, where there is a number.
    pub(crate) keys: &'static [&'static str],
    /// Whether a row leads from a state to a next one.
    pub(crate) leads: bool,
}

impl Source {
    const ALL: [Self; 3] = [Self::StateTransitions, Self::Steps, Self::Observations];

    pub(crate) fn spec(self) -> SourceSpec {
        match self {
            Self::StateTransitions => SourceSpec {
                name: "state_transitions",
                relation: "state_transitions",
                order: "state_key, state_id, action",
                keys: &["state_id", "action"],
                leads: true,
            },
            Self::Steps => SourceSpec {
                name: "steps",
                relation: "transitions_taken",
                order: "episode_id, step_index",
                keys: &["episode_id", "step_index"],
                leads: true,
            },
            Self::Observations => SourceSpec {
                name: "observations",
                relation: "observations",
                order: "state_key, state_id",
                keys: &["state_id"],
                leads: false,
            },
        }
    }

    /// The source of this name: `state_transitions`, `steps` or `observations`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The table of the lake.
    pub(crate) fn table(self) -> Table {
        match self {
            Self::StateTransitions => Table::StateTransitions,
            Self::Steps => Table::Steps,
            Self::Observations => Table::Observations,
        }
    }

    /// Whether a row leads from a state to a next one.
    pub(crate) fn leads(self) -> bool {
        self.spec().leads
    }

    /// The names of all sources.
    pub fn names() -> [&'static str; 3] {
        Self::ALL.map(Self::name)
    }
}

/// A column that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnRequest {
    /// A column of the rows; an observation space, for the observation in the state; or `next_` and
    /// an observation space, for that in the next state.
    pub name: String,
    /// The type of its numbers. `None`: that of the lake, except that rewards have 32 bits.
    pub number_type: Option<NumberType>,
}

/// Where the numbers of a column come from.
pub(crate) enum Origin {
    /// A number of each row, the relation's column of this name, or a computed one.
    Row,
    /// The state of the row, or the next one: its id.
    Id(StateLink),
    /// An observation in the state of the row, or in the next one.
    Observation(StateLink, RecordedObservation),
    /// The program graph of the state of the row, or of the next one.
    Graph(StateLink, RecordedObservation),
}

/// A state that a row names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateLink {
    State,
    NextState,
}

impl StateLink {
    /// The column with the state's id.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::State => "state_id",
            Self::NextState => "next_state_id",
        }
    }
}

/// What the computed columns of steps are called: whether the environment or a failure of the
/// compiler ended the episode with this step, and whether the episode ended for another reason.
pub(crate) const COMPUTED: [&str; 2] = ["terminated", "truncated"];

/// Finds where a column comes from.
pub(crate) fn origin(
    source: Source,
    states: &Arc<ObservedStates>,
    name: &str,
) -> Result<Origin, LoadError> {
    let spec = source.spec();
    for link in [StateLink::State, StateLink::NextState] {
        if link == StateLink::NextState && !spec.leads {
            continue;
        }
        if name == link.column() {
            return Ok(Origin::Id(link));
        }
        let prefix = if link == StateLink::NextState { "next_" } else { "" };
        if let Some(space) = name.strip_prefix(prefix).and_then(|name| states.space(name)) {
            if space.value_type == ValueType::ProgramGraph {
                return Ok(Origin::Graph(link, space.clone()));
            }
            number_type(space)?;
            return Ok(Origin::Observation(link, space.clone()));
        }
    }
    Ok(Origin::Row)
}
