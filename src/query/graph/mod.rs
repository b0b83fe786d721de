//! The transition graph in memory, and the table functions that walk it.
//!
//! States are nodes, numbered with 32 bits in the order of their ids; each row of
//! `state_transitions` is an edge. The edges of a node are consecutive, sorted by action
//! (compressed sparse rows). The graph is built when a query first needs it, from the sealed part
//! of the engine's snapshot, and kept as long as the engine. The same holds for the rewards of a
//! reward space and the values of an observation space. Engines whose sealed parts are equal share
//! them: see [`Graphs`].
//!
//! - A failed action has no edge, because it leads to no state. It counts as tried, and its state
//!   is a node, even without any edge.
//! - The edge of a conflict is its most frequent result; the others are not in the graph.
//! - A retracted action has no edges, and is not a candidate for what to try next.
//! - The initial states of all benchmarks are nodes, even without any step. Benchmarks that are not
//!   sealed yet are added to the cached graph for each question.
//! - Steps that are not sealed or not deduplicated yet are not in the graph.
//!
//! Memory: 10 bytes for each edge and 28 for each state; another 8 for each edge and 4 for each
//! state once a question walks backwards; 8 for each edge and reward space, 16 for each state and
//! observation space. Building the graph takes some 20 bytes for each edge and 50 for each state in
//! addition. All this counts against the memory of [`EngineOptions::graphs`](super::EngineOptions),
//! whichever engine asked. A question itself takes at most some 70 bytes for each state, which
//! count as the statement's own and are freed with its answer.
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
mod read;
mod returns;
mod source;
mod table_functions;
mod value_queries;
mod walk;

pub(super) use self::algebra::LAW_NAMES;
pub use self::cache::Graphs;
pub(super) use self::function::register;
pub(super) use self::source::GraphSource;
pub(super) use self::table_functions::TableFunction;
