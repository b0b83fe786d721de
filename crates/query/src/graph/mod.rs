//! The transition graph in memory, and the table functions that walk it.
//!
//! The graph is [that of the lake](steplake_lake::graph). It is built when a query first needs it,
//! from the sealed part of the engine's snapshot, and kept as long as the engine. The same holds
//! for its edges backwards, for the rewards of a reward space and the values of an observation
//! space. Engines whose sealed parts are equal share them: see [`GraphCache`].
//!
//! - A failed action counts as tried.
//! - A retracted action is not a candidate for what to try next.
//! - The initial states of all benchmarks are nodes. Benchmarks that are not sealed yet are added
//!   to the cached graph for each question.
//!
//! Memory, besides that of the graph: 8 bytes for each edge and 4 for each state once a question
//! walks backwards; 8 for each edge and reward space, 16 for each state and observation space. All
//! this counts against the memory of [`EngineOptions::graphs`](super::EngineOptions), whichever
//! engine asked. A question itself takes at most some 70 bytes for each state, which count as the
//! statement's own and are freed with its answer.
//!
//! A question holds a thread while it computes: until its first batch, and then for each batch that
//! the reader takes. It holds none while it waits for its reader, or for another question that
//! builds the graph.
//!
//! When the reader leaves, the work ends at the next node or batch, even while it builds the graph;
//! a question that waits for the graph then builds it. Only sorting is not interrupted.
//!
//! Among paths of equal value and length, the first in the order of their actions is taken: the
//! smallest first action, then the smallest second one, and so on.

mod algebra;
mod arguments;
mod build;
mod cache;
mod cancellation;
mod columns;
mod csr;
mod frontier;
mod function;
mod lowest_cost;
mod observations;
mod paths;
mod policy_iteration;
mod question;
mod returns;
mod source;
mod table_functions;
mod value_queries;
mod walk;

pub(super) use self::algebra::Law;
pub use self::cache::GraphCache;
pub(super) use self::function::{register, walked};
pub(super) use self::source::GraphSource;
pub(super) use self::table_functions::TableFunction;
