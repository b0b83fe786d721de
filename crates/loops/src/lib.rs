//! Schedules of loop nests, as `loops-v0`.
//!
//! A program is a graph of operations on arrays ([`Dag`]); a state is a program with a *schedule*,
//! a tree of loops that computes it ([`Schedule`]). A step is a change of the tree, so a state is
//! arithmetic, like one of `gcc-v0`, and its name is a hash of its [`text`].
//!
//! | file | holds |
//! |---|---|
//! | [`dag`] | programs |
//! | [`programs`] | the programs that have names |
//! | [`schedule`] | trees of loops, what they mean, and the bounds |
//! | [`outline`] | a schedule laid out flat |
//! | [`rules`] | what makes each schedule compute its program |
//! | [`storage`] | where values live, which follows from the tree |
//! | [`actions`], [`cursor`] | the actions of `loops-v0` and of `loop_tool-v0` |
//! | [`state`], [`text`] | states, and how they are written and named |
//! | [`costs`] | counts, and a model of caches |
//! | [`cuda`] | a schedule as code for GPUs |
//! | `environment`, `session`, `spaces` | the environment |
//! | [`reference`](mod@reference) | what a program computes in 64-bit arithmetic, with a bound of the error |
//! | [`check`] | which elements of a result are compared with it |
//! | [`kernel`] | code for processors, as LLVM's text |
//! | [`interpreter`] | a schedule run as it is written, without a compiler |
//!
//! Whatever actions are taken, a state's schedule computes its program: an action that would break
//! a rule changes nothing.

#![forbid(unsafe_code)]

pub mod actions;
pub mod check;
mod context;
pub mod costs;
pub mod cuda;
pub mod cursor;
pub mod dag;
mod datasets;
mod environment;
pub mod interpreter;
pub mod kernel;
pub mod outline;
pub mod programs;
pub mod reference;
pub mod rules;
pub mod schedule;
mod session;
mod spaces;
pub mod state;
pub mod storage;
#[cfg(test)]
mod tests;
pub mod text;

pub use self::actions::ScheduleAction;
pub use self::dag::Dag;
pub use self::environment::ENTRIES;
pub use self::environment::LoopsEnvironment;
pub use self::schedule::Schedule;
pub use self::state::LoopsState;

/// The environment's name.
pub const NAME: &str = "loops-v0";

/// The action space with a cursor, that of `CompilerGym`'s environment of loops.
pub const CURSOR_SPACE: &str = "loop_tool-v0";
