//! The transition graph of a snapshot, in memory.
//!
//! States are nodes, numbered with 32 bits in the order of the lake's tables; each row of
//! `state_transitions` is an edge. The edges of a node are consecutive, in the order of their
//! actions (compressed sparse rows). A [`GraphReader`] reads the graph and what belongs to it in
//! several threads. It reads the sealed part of the snapshot alone.
//!
//! - A failed action has no edge, because it leads to no state. Its state is a node, even without
//!   any edge.
//! - The edge of a conflict is its most frequent result; the others are not in the graph.
//! - A retracted action has neither edges nor failures.
//! - States that the caller names are nodes, even without any step: the first states of programs.
//! - Steps that are not sealed or not deduplicated yet are not in the graph.
//!
//! Memory: at most 28 bytes for each node (20 are its id), 12 for each edge and 8 for each failure.
//! Building the graph takes some 20 bytes for each edge and 50 for each node in addition.

mod build;
mod csr;
mod reader;

pub use self::csr::{EdgeIndex, RowOffsets, TransitionGraph};
pub use self::reader::{GoOn, GraphReader, RecordedFailure};
pub use super::state_index::{Node, StateIndex};
