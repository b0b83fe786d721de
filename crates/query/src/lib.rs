//! Questions to a lake, in SQL.
//!
//! An [`Engine`] answers about one snapshot: every table holds its sealed rows and its hot rows
//! together. In addition to the tables of the lake there are `lake`, `actions`, `runs`, `segments`,
//! `snapshots`, `retractions` and `losses`, three views and the functions of the field. `SHOW
//! TABLES` and `DESCRIBE <table>` list them. [`Engine::over`] joins the engines of several
//! contexts.
//!
//! - The view `program_episodes` has the episodes that begin at the first state of their program. A
//!   fork, or a step of a cache, usually begins at a later one.
//! - The view `steps_with_actions` is the paper's `Steps` (arXiv 2109.08267, III-F): for each step,
//!   the list of the actions that led to it, and its rewards as a list in the order of the reward
//!   spaces.
//! - The view `transitions_taken` has a row for each step with an action: the state before, the
//!   action, the state after, and whether that is another state.
//!
//! Names are case-sensitive: `SELECT InstCount FROM observations`. A state id is written as it is
//! shown, `state_id = '<40 hex digits>'`. Such a filter reads only the row groups and pages that
//! may hold the state. In `steps`, which is sorted by episode, these are all pages of the column.
//!
//! Table functions ([`Engine::table_functions`]) walk the transition graph, over the sealed and
//! deduplicated part of the lake. Their arguments are constants, and their answers are tables. If
//! an action led from one state to several, they use the most frequent result, as
//! `state_transitions` does:
//!
//! - `reachable('STATE' [, steps])`, `shortest_path('FROM', 'TO')`, `sequence_to('STATE')` and
//!   `sequences([steps])`: shortest paths, across episodes. They are minimal: every step changes
//!   the state.
//! - `best_cost('OBSERVATION SPACE')`: for each state the lowest cost that it reaches, and the
//!   shortest path there; `best_sequences('OBSERVATION SPACE')`: the same for each benchmark.
//! - `best_known('REWARD SPACE' [, gamma])`: the best-known value `V` of each state. `V(s)` is the
//!   greatest of 0 and all `Q(s, a) = r(s, a) + gamma V(s')` over the recorded transitions: an
//!   episode may stop anywhere, and an untried action counts as 0. Values that differ by less than
//!   a billionth of the largest reward in their connected component count as equal. With a
//!   discount, a cycle of transitions that pays is followed for ever, and values are exact to a
//!   billionth of that reward for a gamma of up to 0.99. For a gamma nearer to 1, values grow and
//!   rounding errors with them. Without a discount, there is no value if a cycle pays, and the
//!   answer is an error. Rewards that are differences of a cost never do that within one program.
//!   If programs share states and a reward space is scaled program by program, an edge has the
//!   reward of the first step that took it. Rewards of different scales are then added up, and a
//!   cycle may pay: use the reward space that is not scaled.
//! - `advantage('REWARD SPACE' [, gamma])`: for each transition `Q`, `advantage` and
//!   `advantage_over_mean`. `advantage` is `Q(s, a) - V(s)`, which is at most 0.
//!   `advantage_over_mean` is `Q(s, a)` less the mean of the `Q` of all recorded steps from the
//!   state.
//! - `returns('REWARD SPACE' [, steps [, gamma]])`: for each step, the discounted sum of its reward
//!   and the later ones in its episode, over a number of steps or, with NULL, to the end. It reads
//!   steps, including hot ones.
//! - `frontier('REWARD SPACE' [, actions])`: for each state its most promising untried actions. The
//!   promise of an action is the mean of its rewards over all transitions.
//! - `algebra(['REWARD SPACE'])`: laws about actions and pairs of actions, each with the number of
//!   states in which it could be tested and in which it held.
//!
//! A [`Statement`] is SQL with values for its parameters and a memory limit of its own. A
//! [`NamedQuery`] is SQL with a name. [`write()`] writes an [`Answer`] in a [`Format`].
//! [`Engine::relations`] and [`Engine::functions`] describe the tables and functions;
//! [`QueryProgress`] is the progress of an answer.
//!
//! A derived table (`state_transitions`, `conflicts`, `failures`) is an error, not a table without
//! rows, if no dedup has counted steps. If dedup has counted only some, there is a warning. The
//! same holds for the functions that walk the graph.
//!
//! A [`Backend`] lets queries run elsewhere.
//!
//! Plans are walked by recursion. The nesting of a statement is bounded, and a thread that polls an
//! engine needs a stack of [`STACK_BYTES`]. Functions that could make a value far larger than their
//! arguments refuse to.
//!
//! Architecture invariant: nothing here writes to a lake or knows a compiler. The caller provides
//! an [`IrRenderer`] for the text of an IR, and an [`IrRebuilder`] for the IR of states that is not
//! stored.

#![forbid(unsafe_code)]

mod answers;
mod arithmetic;
mod backend;
mod bounded;
mod contexts;
mod engine;
mod errors;
mod forward;
mod functions;
mod graph;
mod options;
mod progress;
mod questions;
mod rules;
mod session;
mod sources;
mod spill;
pub mod tokens;
mod understood;

pub use datafusion::common::ScalarValue;
pub use datafusion::datasource::TableType;

pub use answers::answer::Answer;
pub use answers::format::{Format, TableLimits, Written};
pub use answers::graphml::{WrittenGraph, write_graphml};
pub use answers::json::NonFiniteAsText;
pub use answers::output::write;
pub use backend::Backend;
pub use engine::Engine;
pub use errors::dumps::printed_error;
pub use errors::error::{Position, QueryError};
pub use functions::{
    FieldFunctions, Function, FunctionKind, identity_of, speedup, speedup_interval,
};
pub use graph::GraphCache;
pub use options::{EngineOptions, IrRebuilder, IrRenderer};
pub use progress::QueryProgress;
pub use questions::named::{NamedQuery, Topic};
pub use questions::nesting::STACK_BYTES;
pub use questions::parameters::{Parameter, ParameterKind};
pub use questions::parts::AnswerPart;
pub use questions::prepared::{Statement, StatementDescription};
pub use sources::dedup_coverage::Uncounted;
pub use sources::relations::{Relation, RelationColumn};
pub use spill::SpillSpace;
