//! The graph of a program, as an observation.

use serde::{Deserialize, Serialize};

/// The graph of a program, in the form of `ProGraML` 0.3.2: flat lists, with one item for each node
/// or each edge.
///
/// The order of the nodes and edges is part of the value: equal programs have equal graphs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramGraph {
    /// The distinct texts of nodes.
    pub texts: Vec<String>,
    /// What each node is: 0 for an instruction, 1 for a variable, 2 for a constant.
    pub node_type: Vec<i8>,
    /// The text of each node, as its place in `texts`: the opcode of an instruction, the type of
    /// a variable or a constant.
    pub node_text: Vec<u32>,
    /// The number of each node's function, from 0 in the order of the program.
    pub node_function: Vec<i32>,
    /// The number of each node's block, from 0 over all functions.
    pub node_block: Vec<i32>,
    /// What goes along each edge: 0 for control, 1 for data, 2 for calls and returns.
    pub edge_flow: Vec<i8>,
    /// The number of the successor or of the operand that each edge is for.
    pub edge_position: Vec<i32>,
    /// The place of the node where each edge begins.
    pub edge_source: Vec<i32>,
    /// The place of the node where each edge ends.
    pub edge_target: Vec<i32>,
}

impl ProgramGraph {
    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.node_type.len()
    }

    /// The number of edges.
    pub fn edges(&self) -> usize {
        self.edge_flow.len()
    }

    /// The text of each node.
    pub fn node_texts(&self) -> impl Iterator<Item = &str> {
        self.node_text.iter().map(|&text| self.texts[text as usize].as_str())
    }

    /// About how many bytes it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        const NODE: usize = 1 + 3 * size_of::<i32>();
        const EDGE: usize = 1 + 3 * size_of::<i32>();
        self.texts.iter().map(String::len).sum::<usize>()
            + self.nodes() * NODE
            + self.edges() * EDGE
    }

    /// Whether the lists of the nodes have one length, those of the edges too, and all places are
    /// there.
    pub fn is_sound(&self) -> bool {
        let (nodes, edges) = (self.nodes(), self.edges());
        let of_nodes = [self.node_text.len(), self.node_function.len(), self.node_block.len()];
        let of_edges = [self.edge_position.len(), self.edge_source.len(), self.edge_target.len()];
        let is_node = |&place: &i32| usize::try_from(place).is_ok_and(|place| place < nodes);
        of_nodes == [nodes; 3]
            && of_edges == [edges; 3]
            && self.node_text.iter().all(|&text| (text as usize) < self.texts.len())
            && self.edge_source.iter().chain(&self.edge_target).all(is_node)
    }
}
