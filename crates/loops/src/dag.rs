//! Programs: directed graphs of operations on arrays of 32-bit floating-point numbers, whose axes
//! are named dimensions.
//!
//! There is no rule of broadcasting but names: the value of a node has the dimensions of its
//! operands together, and a reduction takes some of them away. A matrix product is the product of
//! `[m, k]` and `[k, n]`, which has the dimensions `m`, `k` and `n`, summed over `k`.

use std::fmt;

/// The most dimensions of a program.
pub const DIMENSIONS_MAX: usize = 8;

/// The most nodes of a program.
pub const NODES_MAX: usize = 32;

/// The most elements of an input, of an output, or of one dimension.
pub const ELEMENTS_MAX: u64 = 1 << 30;

/// The place of a dimension in its program's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dim(pub u8);

impl Dim {
    /// Returns the place as an index.
    pub fn place(self) -> usize {
        usize::from(self.0)
    }
}

/// A set of dimensions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Dims(u8);

impl Dims {
    /// Returns whether a dimension is in the set.
    pub fn has(self, dim: Dim) -> bool {
        self.0 >> dim.0 & 1 == 1
    }

    /// Returns the set with one more dimension.
    #[must_use]
    pub fn with(self, dim: Dim) -> Self {
        Self(self.0 | 1 << dim.0)
    }

    /// Returns what is in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns what is in this set and not in the other one.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether no dimension is in the set.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether all of the set is in the other one.
    pub fn is_within(self, other: Self) -> bool {
        self.without(other).is_empty()
    }

    /// The dimensions of the set, in order.
    pub fn iter(self) -> impl Iterator<Item = Dim> {
        (0..8).map(Dim).filter(move |&dim| self.has(dim))
    }
}

impl FromIterator<Dim> for Dims {
    fn from_iter<I: IntoIterator<Item = Dim>>(dims: I) -> Self {
        dims.into_iter().fold(Self::default(), Self::with)
    }
}

/// A dimension: its name and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dimension {
    /// A letter, and then letters and digits, all small.
    pub name: String,
    /// The number of places, at least 1.
    pub size: u64,
}

/// The place of a node in its program's list. Operands come before the nodes that use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u8);

impl NodeId {
    /// Returns the place as an index.
    pub fn place(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

steplake_model::named! {
    /// Point-wise operations of one operand.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Unary {
        /// The natural exponential.
        Exp = "exp",
        /// The natural logarithm.
        Log = "log",
        /// The square root.
        Sqrt = "sqrt",
        /// The absolute value.
        Abs = "abs",
        /// The negative.
        Negate = "negate",
        /// One over the operand.
        Reciprocal = "reciprocal",
    }

    /// Its name in texts.
    fn name;
    fn from_name;
}

steplake_model::named! {
    /// Point-wise operations of two operands.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Binary {
        /// The sum.
        Add = "add",
        /// The first less the second.
        Subtract = "subtract",
        /// The product.
        Multiply = "multiply",
        /// The first over the second.
        Divide = "divide",
        /// The smaller one.
        Min = "min",
        /// The larger one.
        Max = "max",
    }

    /// Its name in texts.
    fn name;
    fn from_name;
}

steplake_model::named! {
    /// Reductions. Their results do not depend on the order but for rounding.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Reduction {
        /// The sum; it starts from 0.
        Sum = "sum",
        /// The largest one; it starts from minus infinity.
        Max = "max",
    }

    /// Its name in texts.
    fn name;
    fn from_name;
}

/// What a node computes.
#[derive(Debug, Clone, PartialEq)]
pub enum Operation {
    /// An array that the caller gives, in row-major order of its axes. The index of an axis is the
    /// sum of the indices of its dimensions: a convolution reads `[h+r, w+s]`.
    Input {
        /// The dimensions of each axis, at least one.
        axes: Vec<Vec<Dim>>,
        /// Whether all elements are positive, as a logarithm wants them.
        is_positive: bool,
    },
    /// A finite number.
    Constant(f32),
    /// A point-wise operation of one operand.
    Unary(Unary, NodeId),
    /// A point-wise operation of two operands.
    Binary(Binary, NodeId, NodeId),
    /// A reduction of the operand over some of its dimensions, at least one.
    Reduce(Reduction, Dims, NodeId),
}

/// A node with the dimensions of its value.
#[derive(Debug, Clone, PartialEq)]
pub struct DagNode {
    /// What it computes.
    pub operation: Operation,
    /// The dimensions of its value.
    pub dims: Dims,
}

impl DagNode {
    /// The operands, in order.
    pub fn operands(&self) -> impl Iterator<Item = NodeId> {
        let (first, second) = match self.operation {
            Operation::Input { .. } | Operation::Constant(_) => (None, None),
            Operation::Unary(_, one) | Operation::Reduce(_, _, one) => (Some(one), None),
            Operation::Binary(_, one, other) => (Some(one), Some(other)),
        };
        first.into_iter().chain(second)
    }

    /// The dimensions that a reduction takes away; none for other nodes.
    pub fn reduced(&self) -> Dims {
        match self.operation {
            Operation::Reduce(_, over, _) => over,
            _ => Dims::default(),
        }
    }

    /// The dimensions of the loops that compute the node.
    pub fn iterated(&self) -> Dims {
        self.dims.union(self.reduced())
    }

    /// Whether it is computed, and so has a place in every schedule.
    pub fn is_computed(&self) -> bool {
        !matches!(self.operation, Operation::Input { .. } | Operation::Constant(_))
    }

    /// Whether it is an input.
    pub fn is_input(&self) -> bool {
        matches!(self.operation, Operation::Input { .. })
    }
}

/// A node that the caller wants, in row-major order of its axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DagOutput {
    /// The node, which is computed.
    pub node: NodeId,
    /// The dimensions of the node, in any order.
    pub axes: Vec<Dim>,
}

/// A program. It is made by [`Dag::new`] alone, which checks it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dag {
    dimensions: Vec<Dimension>,
    nodes: Vec<DagNode>,
    outputs: Vec<DagOutput>,
}

impl Dag {
    /// Makes a program.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in one line.
    pub fn new(
        dimensions: Vec<Dimension>,
        operations: Vec<Operation>,
        outputs: Vec<DagOutput>,
    ) -> Result<Self, String> {
        check_dimensions(&dimensions)?;
        if operations.len() > NODES_MAX {
            return Err(format!("there are more than {NODES_MAX} nodes"));
        }
        let mut nodes: Vec<DagNode> = Vec::new();
        for (place, operation) in operations.into_iter().enumerate() {
            let dims = dims_of(&operation, &nodes, dimensions.len())
                .map_err(|what| format!("%{place}: {what}"))?;
            nodes.push(DagNode { operation, dims });
        }
        let dag = Self { dimensions, nodes, outputs };
        dag.check_outputs()?;
        dag.check_sizes()?;
        Ok(dag)
    }

    fn check_outputs(&self) -> Result<(), String> {
        let mut used = vec![false; self.nodes.len()];
        for (at, DagOutput { node, axes }) in self.outputs.iter().enumerate() {
            let found = self.nodes.get(node.place()).filter(|node| node.is_computed());
            let found = found.ok_or_else(|| format!("the output {node} is not computed"))?;
            let is_whole = axes.iter().copied().collect::<Dims>() == found.dims;
            if !is_whole || axes.len() != found.dims.iter().count() {
                return Err(format!("the output {node} has other dimensions"));
            }
            if self.outputs[..at].iter().any(|other| other.node == *node) {
                return Err(format!("{node} is an output twice"));
            }
            used[node.place()] = true;
        }
        if self.outputs.is_empty() {
            return Err("there is no output".to_owned());
        }
        for node in &self.nodes {
            node.operands().for_each(|operand| used[operand.place()] = true);
        }
        if let Some(unused) = used.iter().position(|used| !used) {
            return Err(format!("nothing uses %{unused}"));
        }
        let all = self.nodes.iter().fold(Dims::default(), |all, node| all.union(node.dims));
        match self.dims().find(|&dim| !all.has(dim)) {
            Some(dim) => Err(format!("nothing uses the dimension {}", self.name(dim))),
            None => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<(), String> {
        let elements = |node: NodeId| {
            let extents = self.extents(node);
            extents.iter().try_fold(1_u64, |product, &extent| product.checked_mul(extent))
        };
        let arrays = self.inputs().chain(self.outputs.iter().map(|output| output.node));
        for node in arrays {
            if elements(node).is_none_or(|elements| elements > ELEMENTS_MAX) {
                return Err(format!("{node} has more than {ELEMENTS_MAX} elements"));
            }
        }
        Ok(())
    }

    /// The dimensions, in order.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// The places of the dimensions, in order.
    pub fn dims(&self) -> impl Iterator<Item = Dim> + use<> {
        (0_u8..).take(self.dimensions.len()).map(Dim)
    }

    /// The name of a dimension.
    pub fn name(&self, dim: Dim) -> &str {
        &self.dimensions[dim.place()].name
    }

    /// The size of a dimension.
    pub fn size(&self, dim: Dim) -> u64 {
        self.dimensions[dim.place()].size
    }

    /// The nodes, in order.
    pub fn nodes(&self) -> &[DagNode] {
        &self.nodes
    }

    /// The places of the nodes, in order.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0_u8..).take(self.nodes.len()).map(NodeId)
    }

    /// The node at a place.
    pub fn node(&self, id: NodeId) -> &DagNode {
        &self.nodes[id.place()]
    }

    /// The inputs, in the order of the nodes.
    pub fn inputs(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.ids().filter(|&id| self.node(id).is_input())
    }

    /// The outputs, in order.
    pub fn outputs(&self) -> &[DagOutput] {
        &self.outputs
    }

    /// The output that a node is, if any.
    pub fn output(&self, node: NodeId) -> Option<&DagOutput> {
        self.outputs.iter().find(|output| output.node == node)
    }

    /// The nodes that have an operand.
    pub fn users(&self, operand: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.ids().filter(move |&id| self.node(id).operands().any(|one| one == operand))
    }

    /// The axes of the array of an input or of an output, outermost first: the dimensions whose
    /// indices add up to the index of each. Empty for other nodes.
    pub fn axes(&self, node: NodeId) -> Vec<Vec<Dim>> {
        match (&self.node(node).operation, self.output(node)) {
            (Operation::Input { axes, .. }, _) => axes.clone(),
            (_, Some(output)) => output.axes.iter().map(|&dim| vec![dim]).collect(),
            _ => Vec::new(),
        }
    }

    /// The extents of the axes of an input or of an output, outermost first.
    pub fn extents(&self, node: NodeId) -> Vec<u64> {
        let extent = |axis: &Vec<Dim>| {
            axis.iter().map(|&dim| self.size(dim) - 1).fold(1_u64, u64::saturating_add)
        };
        self.axes(node).iter().map(extent).collect()
    }

    /// The number of elements of an input or of an output.
    pub fn elements(&self, node: NodeId) -> u64 {
        self.extents(node).iter().product()
    }

    /// The number of iterations that compute a node.
    pub fn iterations(&self, node: NodeId) -> u64 {
        let sizes = self.node(node).iterated().iter().map(|dim| self.size(dim));
        sizes.fold(1, u64::saturating_mul)
    }
}

fn check_dimensions(dimensions: &[Dimension]) -> Result<(), String> {
    if dimensions.len() > DIMENSIONS_MAX {
        return Err(format!("there are more than {DIMENSIONS_MAX} dimensions"));
    }
    for (at, Dimension { name, size }) in dimensions.iter().enumerate() {
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        if !is_name {
            return Err(format!("`{name}` is no name of a dimension"));
        }
        if dimensions[..at].iter().any(|other| other.name == *name) {
            return Err(format!("the dimension {name} is there twice"));
        }
        if !(1..=ELEMENTS_MAX).contains(size) {
            return Err(format!("{name} is {size}: a size is from 1 to {ELEMENTS_MAX}"));
        }
    }
    Ok(())
}

/// Returns the dimensions of the value of an operation on the nodes before it.
fn dims_of(operation: &Operation, before: &[DagNode], dimensions: usize) -> Result<Dims, String> {
    let of = |id: &NodeId| {
        let node = before.get(id.place());
        node.map(|node| node.dims).ok_or_else(|| format!("{id} does not come before it"))
    };
    let all: Dims = (0_u8..).take(dimensions).map(Dim).collect();
    match operation {
        Operation::Input { axes, .. } => {
            let parts = || axes.iter().flatten().copied();
            let dims = parts().collect::<Dims>();
            if axes.iter().any(Vec::is_empty) || !dims.is_within(all) {
                return Err("an axis has no dimension, or one that there is not".to_owned());
            }
            if parts().count() != dims.iter().count() {
                return Err("a dimension is in it twice".to_owned());
            }
            Ok(dims)
        }
        Operation::Constant(number) if number.is_finite() => Ok(Dims::default()),
        Operation::Constant(_) => Err("a constant is a finite number".to_owned()),
        Operation::Unary(_, one) => of(one),
        Operation::Binary(_, one, other) => Ok(of(one)?.union(of(other)?)),
        Operation::Reduce(_, over, one) => {
            let dims = of(one)?;
            if over.is_empty() || !over.is_within(dims) {
                return Err("it reduces over what its operand does not have".to_owned());
            }
            Ok(dims.without(*over))
        }
    }
}
