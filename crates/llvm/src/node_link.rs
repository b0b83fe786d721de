//! `ProgramlJson`: the graph of a program as the node-link data of networkx.

use std::collections::HashMap;

use serde::Serialize;

use steplake_model::ProgramGraph;

/// A `MultiDiGraph` of networkx, with the keys and their order of `CompilerGym`.
#[derive(Serialize)]
struct NodeLink<'a> {
    directed: bool,
    graph: NoAttributes,
    links: Vec<Link>,
    multigraph: bool,
    nodes: Vec<Node<'a>>,
}

#[derive(Serialize)]
struct NoAttributes {}

#[derive(Serialize)]
struct Link {
    flow: i8,
    key: u32,
    position: i32,
    source: i32,
    target: i32,
}

#[derive(Serialize)]
struct Node<'a> {
    block: i32,
    function: i32,
    id: usize,
    text: &'a str,
    #[serde(rename = "type")]
    kind: i8,
}

/// Returns a sound graph as text, with its nodes and edges in their order.
///
/// Edges that lead from one node to one other have the keys 0, 1 and so on. If all had the key 0,
/// networkx would keep one of them.
pub(super) fn node_link_json(graph: &ProgramGraph) -> String {
    let node = |(id, text)| Node {
        block: graph.node_block[id],
        function: graph.node_function[id],
        id,
        text,
        kind: graph.node_type[id],
    };
    let mut keys = HashMap::new();
    let mut link = |edge: usize| {
        let (source, target) = (graph.edge_source[edge], graph.edge_target[edge]);
        let next = keys.entry((source, target)).or_insert(0);
        let key = *next;
        *next += 1;
        let (flow, position) = (graph.edge_flow[edge], graph.edge_position[edge]);
        Link { flow, key, position, source, target }
    };
    let data = NodeLink {
        directed: true,
        graph: NoAttributes {},
        links: (0..graph.edge_flow.len()).map(&mut link).collect(),
        multigraph: true,
        nodes: graph.node_text.iter().enumerate().map(node).collect(),
    };
    serde_json::to_string(&data).expect("numbers and texts can be written as JSON")
}
