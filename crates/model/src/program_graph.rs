//! The graph of a program, as an observation.

use super::{List, Lists, Texts, ValueType};

/// The graph of a program, in the form of `ProGraML` 0.3.2: flat lists, with one item for each node
/// or each edge.
///
/// The order of the nodes and edges is part of the value: equal programs have equal graphs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProgramGraph {
    /// What each node is: 0 for an instruction, 1 for a variable, 2 for a constant.
    pub node_type: Vec<i8>,
    /// The text of each node: the opcode of an instruction, the type of a variable or a constant.
    pub node_text: Texts,
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

impl From<ProgramGraph> for Lists {
    fn from(graph: ProgramGraph) -> Self {
        let lists = vec![
            List::Int8(graph.node_type),
            List::Text(graph.node_text),
            List::Int32(graph.node_function),
            List::Int32(graph.node_block),
            List::Int8(graph.edge_flow),
            List::Int32(graph.edge_position),
            List::Int32(graph.edge_source),
            List::Int32(graph.edge_target),
        ];
        Self::new(ValueType::ProgramGraph, lists)
    }
}
