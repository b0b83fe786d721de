//! Derived tables in layers.
//!
//! A *layer* is the result of one dedup pass over some of the steps: segments of
//! `state_transitions`, `conflicts` and `failures`, each table sorted by its key. A layer holds
//! everything about its *edges* (a state, an action, and the state after it or none): the number of
//! steps, their total time, and the first step with its rewards. Layers can therefore be merged,
//! and the result equals one pass over all steps, row for row. `rule` states how edges become rows.
//!
//! Each (state, action) has its rows in one layer: in older ones they are deleted. So the tables of
//! a lake are all layers together. [`LayeredTable`] reads one of them in the order of its key.

mod change;
mod compare;
mod coverage;
mod edge;
mod encode;
mod merge;
mod older;
mod read;
mod rule;
mod scan;
mod scratch;
mod writer;

pub use change::LayerChange;
pub(crate) use compare::{Comparison, Difference, Differences};
pub(crate) use edge::{
    Edge, EdgeHead, FailureText, StateWords, edge_words, key_of_place, rewards_of,
};
pub(crate) use encode::Encoder;
pub(crate) use merge::{EdgeSource, LayerEdges, Merge};
pub(crate) use older::{MovedRows, OlderLayer, PairKey, pair_key};
pub use read::LayeredTable;
pub(crate) use rule::absorb;
pub use scan::{KeyRange, key_ranges};
pub(crate) use scratch::{Scratch, WordRange};
pub use writer::LayerWriter;
