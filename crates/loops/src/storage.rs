//! Where the value of a node lives, which follows from the loops that its leaf shares with its
//! uses.
//!
//! Within the loops that the leaf and all uses share, only what one iteration makes has to be kept.
//! So the extent of an axis is the step of the innermost shared loop of its dimension, or the
//! dimension's size. A value that shares all its loops is one number: a register. Outputs have all
//! their elements, wherever they are used.
//!
//! Iterations of a shared loop that run at the same time have a place each: of a parallel loop each
//! thread, of the grid each block, and of a block each thread.

use super::dag::{Dag, Dim, NodeId};
use super::outline::{LeafFacts, Outline};

/// An axis of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// The dimension.
    pub dim: Dim,
    /// The number of places.
    pub extent: u64,
}

/// The place of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// The node.
    pub node: NodeId,
    /// The number of loops, from the outermost one, that its leaf shares with all uses. The index
    /// of an axis is the sum of the positions, each times its step, of the other loops of its
    /// dimension.
    pub shared: usize,
    /// The axes, outermost first, without those of one place. Values between nodes have them in the
    /// order in which the leaf's loops go over them.
    pub axes: Vec<Axis>,
    /// Whether it is an output, which has its own array.
    pub is_output: bool,
}

impl Storage {
    /// Returns where the value of a leaf lives.
    pub fn of(outline: &Outline, dag: &Dag, leaf: &LeafFacts) -> Self {
        let node = leaf.node;
        if let Some(output) = dag.output(node) {
            let axes = output.axes.iter().map(|&dim| Axis { dim, extent: dag.size(dim) });
            return Self { node, shared: 0, axes: axes.collect(), is_output: true };
        }
        let uses = dag.users(node).filter_map(|user| outline.leaf(user));
        let shared = uses.map(|user| Outline::shared(leaf, user)).min().unwrap_or(0);
        let mut axes: Vec<Axis> = Vec::new();
        for facts in outline.path(leaf).skip(shared) {
            let dim = facts.dim;
            if dag.node(node).dims.has(dim) && !axes.iter().any(|axis| axis.dim == dim) {
                axes.push(Axis { dim, extent: facts.range });
            }
        }
        Self { node, shared, axes, is_output: false }
    }

    /// The number of places.
    pub fn places(&self) -> u64 {
        self.axes.iter().map(|axis| axis.extent).fold(1, u64::saturating_mul)
    }

    /// Each axis with the distance between neighbours on it.
    pub fn strides(&self) -> Vec<(Dim, u64)> {
        let mut stride = 1;
        let mut strides = Vec::new();
        for axis in self.axes.iter().rev() {
            strides.push((axis.dim, stride));
            stride *= axis.extent;
        }
        strides.reverse();
        strides
    }
}
