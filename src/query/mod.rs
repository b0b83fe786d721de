//! Questions to a lake, in SQL.
//!
//! An [`Engine`] answers about one snapshot: every table holds its sealed rows and its hot rows
//! together. Beside the tables of the lake there are `actions`, `runs`, `segments` and `snapshots`,
//! two views and the functions of the field; `SHOW TABLES` and `DESCRIBE <table>` list them.
//!
//! - The view `steps_with_actions` is the paper's `Steps` (arXiv 2109.08267, III-F): for each step
//!   the actions that led to it as a list, and its rewards as a list in the order of the reward
//!   spaces.
//! - The view `transitions_taken` has a row for each step with an action: the state before, the
//!   action, the state after, and whether that changed anything.
//!
//! Names are taken as they are written: `SELECT InstCount FROM observations`. A state id is written
//! as it is shown, `state_id = '<40 hex digits>'`; such a filter reads only the row groups and
//! pages that may hold the state. In `steps`, which lie in the order of episodes, these are all pages of
//! the states' column.
//!
//! A [`Query`] is a question with a name, and [`write()`] brings an [`Answer`] into a [`Format`].
//!
//! Architecture invariant: nothing here writes to a lake, and nothing here knows a compiler; the
//! text of an IR comes from an [`IrRenderer`] that the caller gives, and the IR of a state that is not stored
//! from an [`IrRebuilder`].

mod answer;
mod catalog;
mod deal;
mod drawing;
mod engine;
mod error;
mod explain;
mod functions;
mod keys;
mod layered;
mod literals;
mod named;
mod near;
mod output;
mod readers;
mod statements;
mod tables;
mod views;

pub use answer::Answer;
pub use drawing::TableLimits;
pub use engine::{Engine, EngineOptions, IrRebuilder, IrRenderer};
pub use error::{Position, QueryError};
pub use named::{Parameter, ParameterKind, Query};
pub use output::{Format, Written, write};
