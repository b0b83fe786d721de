//! Schedules: trees of loops with the nodes of a program as leaves.
//!
//! # What a schedule means
//!
//! A loop goes over one dimension in steps. Its *range* is the step of the nearest loop around it
//! of the same dimension, or the dimension's size: `for m by 6` around `for m by 1` are tiles of 6,
//! and the last one is shorter if 6 does not divide the size. The index of a dimension is the sum
//! of the loops' positions, each times its step. A leaf computes one element of its node, for the
//! indices of the loops around it. The items of a body are run in order.
//!
//! A leaf that is an input copies it: what uses the input then reads the copy. That is how
//! operands are packed.
//!
//! # Where values are
//!
//! A value lives where its uses need it, and this follows from the tree: see
//! [`storage`](super::storage).
//!
//! # Reductions
//!
//! A reduction begins anew before its *outermost reducing loop*, the first one on its path that
//! goes over a dimension that it takes away. In a loop that is marked `cache`, it is accumulated in
//! a tile of its own, with a place for each position of the loops within, which is combined with
//! the value where the loop ends.
//!
//! # Rules
//!
//! [`rules`](super::rules) has those that make each schedule compute its program. An action that
//! would break one changes nothing.

use super::dag::{Dag, Dim, Dims, NodeId, Operation};

/// The most loops of a schedule.
pub const LOOPS_MAX: usize = 24;

/// The largest extent of a loop that is one vector operation.
pub const VECTOR_EXTENT_MAX: u64 = 64;

/// The largest extent of a loop that is unrolled.
pub const UNROLL_EXTENT_MAX: u64 = 32;

/// The most copies of a leaf that unrolled loops make.
pub const COPIES_MAX: u64 = 256;

/// The most places of a tile in which a reduction is accumulated.
pub const TILE_PLACES_MAX: u64 = 1 << 14;

/// The most bytes of all values between nodes.
pub const TEMPORARY_BYTES_MAX: u64 = 256 << 20;

/// The most loops that are mapped to the grid, and the most to a block: the axes that a GPU has.
pub const MAPPED_LOOPS_MAX: usize = 3;

/// The most threads of a block.
pub const BLOCK_THREADS_MAX: u64 = 1024;

/// How the iterations of a loop are run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum LoopKind {
    /// One after another.
    #[default]
    Serial,
    /// Dealt to the threads of a processor, in ranges of equal length.
    Parallel,
    /// Dealt to the blocks of a GPU. A processor runs them one after another.
    Grid,
    /// Dealt to the threads of a block of a GPU. A processor runs them one after another.
    Block,
    /// As one operation on vectors.
    Vector,
    /// One after another, without a loop.
    Unroll,
}

impl LoopKind {
    /// Those that are marked in texts.
    pub const MARKED: [Self; 5] =
        [Self::Parallel, Self::Grid, Self::Block, Self::Vector, Self::Unroll];

    /// The word in texts; none for [`LoopKind::Serial`].
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Serial => None,
            Self::Parallel => Some("parallel"),
            Self::Grid => Some("grid"),
            Self::Block => Some("block"),
            Self::Vector => Some("vectorize"),
            Self::Unroll => Some("unroll"),
        }
    }

    /// Whether iterations may run at the same time.
    pub fn is_concurrent(self) -> bool {
        matches!(self, Self::Parallel | Self::Grid | Self::Block)
    }
}

/// A loop.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Loop {
    /// The dimension that it goes over.
    pub dim: Dim,
    /// How far one iteration goes.
    pub step: u64,
    /// How its iterations are run.
    pub run: LoopKind,
    /// Whether the reductions over its dimension within are accumulated in tiles.
    pub is_cached: bool,
    /// Whether the outputs in its body are stored past the caches.
    pub is_streamed: bool,
    /// What each iteration does.
    pub body: Vec<BodyItem>,
}

impl Loop {
    /// A loop without marks.
    pub fn new(dim: Dim, step: u64, body: Vec<BodyItem>) -> Self {
        let (run, is_cached, is_streamed) = (LoopKind::Serial, false, false);
        Self { dim, step, run, is_cached, is_streamed, body }
    }
}

/// A part of a body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BodyItem {
    /// A loop.
    Loop(Loop),
    /// The computation of one element of a node, or the copy of one of an input.
    Leaf(NodeId),
}

/// A schedule: the items that are run in order. The loops among them are its *nests*.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Schedule(pub Vec<BodyItem>);

impl Schedule {
    /// The schedule that a program begins with: a nest for each node, in the dimensions' order. A
    /// node that only one other uses is in the nest of that one, if they have the same loops.
    pub fn initial(dag: &Dag) -> Self {
        let mut items: Vec<(Dims, Vec<NodeId>)> = Vec::new();
        for id in dag.ids().filter(|&id| dag.node(id).is_computed()) {
            let dims = dag.node(id).iterated();
            let mut leaves = vec![id];
            for operand in dag.node(id).operands() {
                let is_single = dag.users(operand).count() == 1 && dag.output(operand).is_none();
                let is_same = |(known, leaves): &(Dims, Vec<NodeId>)| {
                    *known == dims && leaves.last() == Some(&operand)
                };
                let is_whole = dag.node(operand).reduced().is_empty();
                if is_single
                    && is_whole
                    && let Some(place) = items.iter().position(is_same)
                {
                    let (_, mut before) = items.remove(place);
                    before.append(&mut leaves);
                    leaves = before;
                }
            }
            items.push((dims, leaves));
        }
        let nest = |(dims, leaves): (Dims, Vec<NodeId>)| {
            nest(dims, leaves.into_iter().map(BodyItem::Leaf).collect())
        };
        Self(items.into_iter().flat_map(nest).collect())
    }

    /// Drops marks that mean nothing: of caches where nothing is reduced, and of streams where no
    /// output is stored.
    pub fn drop_idle_marks(&mut self, dag: &Dag) {
        self.0.iter_mut().for_each(|item| drop_idle_marks(item, dag));
    }

    /// The leaf of a node, if it has one.
    pub fn has_leaf(&self, node: NodeId) -> bool {
        self.0.iter().any(|item| has_leaf(item, node))
    }
}

/// Returns loops over dimensions, in their order, around a body.
pub(super) fn nest(dims: Dims, body: Vec<BodyItem>) -> Vec<BodyItem> {
    let mut dims: Vec<Dim> = dims.iter().collect();
    let mut body = body;
    while let Some(dim) = dims.pop() {
        body = vec![BodyItem::Loop(Loop::new(dim, 1, body))];
    }
    body
}

fn has_leaf(item: &BodyItem, node: NodeId) -> bool {
    match item {
        BodyItem::Leaf(leaf) => *leaf == node,
        BodyItem::Loop(inner) => inner.body.iter().any(|item| has_leaf(item, node)),
    }
}

/// Whether a leaf of the item reduces over a dimension.
fn reduces(item: &BodyItem, dag: &Dag, dim: Dim) -> bool {
    match item {
        BodyItem::Leaf(leaf) => dag.node(*leaf).reduced().has(dim),
        BodyItem::Loop(inner) => inner.body.iter().any(|item| reduces(item, dag, dim)),
    }
}

/// Whether an item is a leaf whose stores can go past the caches: of a point-wise output.
pub(super) fn is_streamable(item: &BodyItem, dag: &Dag) -> bool {
    let is_reduction = |leaf: NodeId| matches!(dag.node(leaf).operation, Operation::Reduce(..));
    matches!(item, BodyItem::Leaf(leaf) if dag.output(*leaf).is_some() && !is_reduction(*leaf))
}

fn drop_idle_marks(item: &mut BodyItem, dag: &Dag) {
    let BodyItem::Loop(inner) = item else { return };
    let dim = inner.dim;
    inner.is_cached &= inner.body.iter().any(|item| reduces(item, dag, dim));
    inner.is_streamed &= inner.body.iter().any(|item| is_streamable(item, dag));
    inner.body.iter_mut().for_each(|item| drop_idle_marks(item, dag));
}
