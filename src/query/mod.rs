//! Questions to a lake, in SQL.
//!
//! An [`Engine`] answers about one snapshot: every table holds its sealed rows and its hot rows
//! together. Beside the tables of the lake there are `lake`, `actions`, `runs`, `segments` and
//! `snapshots`, two views and the functions of the field; `SHOW TABLES` and `DESCRIBE <table>` list
//! them.
//!
//! - The view `steps_with_actions` is the paper's `Steps` (arXiv 2109.08267, III-F): for each step
//!   the actions that led to it as a list, and its rewards as a list in the order of the reward
//!   spaces.
//! - The view `transitions_taken` has a row for each step with an action: the state before, the
//!   action, the state after, and whether that changed anything.
//!
//! Names are taken as they are written: `SELECT InstCount FROM observations`. A state id is written
//! as it is shown, `state_id = '<40 hex digits>'`; such a filter reads only the row groups and
//! pages that may hold the state. In `steps`, which lie in the order of episodes, these are all
//! pages of the states' column.
//!
//! The transition graph is walked by table functions ([`Engine::table_functions`]), whose arguments
//! are constants and whose answers are tables like others, over the sealed and deduplicated part of
//! the lake. Of an action that led from one state to several, they know the most frequent result,
//! as `state_transitions` does:
//!
//! - `reachable('STATE' [, steps])`, `shortest_path('FROM', 'TO')`, `sequence_to('STATE')` and
//!   `sequences([steps])`: shortest ways, across episodes. They are minimal: no step of one changes
//!   nothing.
//! - `best_cost('OBSERVATION SPACE')`: for each state the lowest cost that it reaches, and the
//!   shortest way there; `best_sequences('OBSERVATION SPACE')`: the same for each benchmark.
//! - `best_known('REWARD SPACE' [, gamma])`: the best-known value `V` of each state. `V(s)` is the
//!   greatest of 0 and all `Q(s, a) = r(s, a) + gamma V(s')` over the recorded transitions: one may
//!   stop anywhere, and what was never tried is worth nothing. Values within a billionth of the
//!   largest reward among the states that are connected count as equal. With a discount a cycle of
//!   transitions that pays is walked for ever, and values are exact to a billionth of that reward
//!   for a gamma of up to 0.99; nearer to 1 they grow, and rounding with them. Without a discount
//!   there is no such value where a cycle pays, and the answer is an error that says so; rewards
//!   that are differences of a cost never do that within one program. Where programs share states
//!   and a reward space is scaled program by program, an edge has the reward of the first step that
//!   took it: then rewards of different scales are added up, and a cycle may pay. Take the space
//!   that is not scaled.
//! - `advantage('REWARD SPACE' [, gamma])`: for each transition `Q`, `advantage`, which is
//!   `Q(s, a) - V(s)` and at most 0, and `advantage_over_mean`, which is `Q(s, a)` less the mean of
//!   the `Q` of what was done in the state, each as often as it was done.
//! - `returns('REWARD SPACE' [, steps [, gamma]])`: for each step the discounted sum of its reward
//!   and those after it in its episode, of so many steps together or, with NULL, to the end. It
//!   reads steps, hot ones too.
//! - `frontier('REWARD SPACE' [, actions])`: for each state its most promising untried actions. An
//!   action promises the mean of its rewards over all transitions.
//! - `algebra(['REWARD SPACE'])`: laws about actions and pairs of them, with the number of states
//!   in which each could be tested and in which it held.
//!
//! A [`Statement`] is a question with values for its parameters and a limit of its own; a [`Query`]
//! is one with a name, and [`write()`] brings an [`Answer`] into a [`Format`]. What can be asked
//! about is described by [`Engine::relations`] and [`Engine::functions`]; how far an answer has
//! come, by its [`QueryProgress`].
//!
//! A derived table (`state_transitions`, `conflicts`, `failures`) that no dedup has made of the
//! steps that there are is an error, not a table without rows; one that does not count all of them
//! comes with a warning. So do the functions that walk the graph.
//!
//! A [`Backend`] lets queries run elsewhere.
//!
//! Plans are walked by recursion. A statement may nest so deeply and no deeper, for which a thread
//! that polls an engine wants a stack of [`STACK_BYTES`]; the few functions that could make a value
//! far larger than what they are given refuse to.
//!
//! Architecture invariant: nothing here writes to a lake, and nothing here knows a compiler; the
//! text of an IR comes from an [`IrRenderer`] that the caller gives, and the IR of a state that is
//! not stored from an [`IrRebuilder`].

mod answer;
mod backend;
mod bounded;
mod catalog;
mod counted;
mod deal;
mod drawing;
mod engine;
mod error;
mod expanded;
mod explain;
mod format;
mod functions;
mod graph;
mod graphml;
mod keys;
mod layered;
mod literals;
mod lookup;
mod named;
mod near;
mod nesting;
mod options;
mod output;
mod parameters;
mod progress;
mod prepared;
mod pulled;
mod readers;
mod relations;
mod session;
mod signatures;
mod spill;
mod statements;
mod tables;
mod views;
mod yielding;

pub use answer::Answer;
pub use backend::Backend;
pub use counted::Uncounted;
pub use engine::Engine;
pub use error::{Position, QueryError};
pub use format::{Format, TableLimits, Written};
pub use functions::{FieldFunctions, Function, FunctionKind, identity_of};
pub use graph::Graphs;
pub use graphml::{WrittenGraph, write_graphml};
pub use named::{Query, Topic};
pub use nesting::STACK_BYTES;
pub use options::{EngineOptions, IrRebuilder, IrRenderer};
pub use output::write;
pub use parameters::{Parameter, ParameterKind};
pub use prepared::{Described, Statement};
pub use progress::QueryProgress;
pub use relations::{Relation, RelationColumn};
pub use spill::SpillSpace;
