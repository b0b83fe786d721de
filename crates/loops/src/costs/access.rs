//! What the leaves of a schedule touch.

use crate::dag::{Dag, Dim, NodeId, Operation};
use crate::outline::{LeafFacts, Outline};
use crate::storage::Storage;

/// An array that a leaf touches.
#[derive(Debug, Clone)]
pub(super) struct ArrayAccess {
    /// The node whose array it is.
    pub(super) node: NodeId,
    /// The leaf that touches it.
    pub(super) leaf: usize,
    /// The dimensions of each axis, outermost first.
    pub(super) axes: Vec<Vec<Dim>>,
    /// The number of places on each axis.
    pub(super) extents: Vec<u64>,
    /// Whether it is the array of the caller: a packed input is a second one.
    pub(super) is_of_caller: bool,
    /// The number of loops of the leaf's path that do not matter: what they make lies in one place.
    pub(super) shared: usize,
}

/// The access to the array of the caller.
pub(super) fn in_caller(dag: &Dag, node: NodeId, leaf: usize) -> ArrayAccess {
    let (axes, extents) = (dag.axes(node), dag.extents(node));
    ArrayAccess { node, leaf, axes, extents, is_of_caller: true, shared: 0 }
}

/// The access to what another leaf, or the same one, makes; none if that is one number.
pub(super) fn between(
    outline: &Outline,
    dag: &Dag,
    made: &LeafFacts,
    leaf: usize,
) -> Option<ArrayAccess> {
    let storage = Storage::of(outline, dag, made);
    let axes = storage.axes.iter().map(|axis| vec![axis.dim]).collect::<Vec<_>>();
    let is_number = axes.is_empty() && !storage.is_output;
    let is_constant = matches!(dag.node(made.node).operation, Operation::Constant(_));
    (!is_number && !is_constant).then_some(ArrayAccess {
        node: made.node,
        leaf,
        axes,
        extents: storage.axes.iter().map(|axis| axis.extent).collect(),
        is_of_caller: false,
        shared: storage.shared,
    })
}
