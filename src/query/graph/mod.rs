//! The transition graph in memory, and the table functions that walk it.
//!
//! States are nodes, named by 32-bit numbers in the order of their ids; each row of
//! `state_transitions` is an edge. The edges of a node lie together, by action (compressed sparse
//! rows). The graph is made when a query first asks for it, from the sealed part of the engine's
//! snapshot, and kept as long as the engine; so are the rewards of a reward space and the values of
//! an observation space. Engines whose sealed parts are equal share them: see [`Graphs`].
//!
//! - A failed action has no edge: there is no state that it leads to. It counts as tried, and its
//!   state is a node, be it one that nothing else leads to or from.
//! - Of a conflict the most frequent result is the edge; the others are not in the graph.
//! - A retracted action has no edges, and is no candidate for what to try next.
//! - The initial states of all benchmarks are nodes, also those that no step has left yet. For each
//!   question, benchmarks that are not sealed yet are added to the graph that is kept.
//! - Steps that are not sealed or not deduplicated yet are not in the graph.
//!
//! Memory: 10 bytes an edge and 28 a state; 8 an edge and 4 a state more once a question walks
//! backwards; 8 an edge for each reward space, 16 a state for each observation space. While it is
//! made, some 20 an edge and 50 a state more. It counts against the memory of
//! [`EngineOptions::graphs`](super::EngineOptions), whoever asked. What a question itself needs is
//! at most some 70 bytes a state; it counts as that question's own, and is let go with its answer.
//!
//! A question holds a thread while it computes: until its first batch is there, and then for each
//! batch that the reader takes. It holds none while it waits for its reader, or for what another
//! question makes.
//!
//! When the reader leaves, the work ends at the next node or batch that it comes to, also while it
//! makes the graph; a question that waits for the graph then makes it anew. Only sorting is not
//! interrupted.
//!
//! Of several ways of equal worth and length the one is taken whose actions come first: the
//! smallest first action, then the smallest second one, and so on.

mod algebra;
mod arguments;
mod build;
mod cancellation;
mod columns;
mod csr;
mod frontier;
mod function;
mod index;
mod kept;
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

pub(super) use self::function::register;
pub use self::kept::Graphs;
pub(super) use self::source::GraphSource;
pub(super) use self::table_functions::TableFunction;
