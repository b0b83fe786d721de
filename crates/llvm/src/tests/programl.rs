//! Program graphs against those of the original tool: `programl/golden.py` makes them again.
//!
//! The tool numbers nodes differently in each run, so graphs are compared as multisets: of nodes,
//! of edges with what is at their ends, and of what is around each node. It is of LLVM 10, whose
//! types of pointers are all `ptr` by now.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{begin, engine, real_programs};
use crate::module::Module;
use crate::node_link::node_link_json;
use crate::session::first_state;
use steplake_model::{Lists, ProgramGraph};

macro_rules! golden {
    ($($name:literal)*) => {
        [$((
            $name,
            include_str!(concat!("programl/", $name, ".ll")),
            include_str!(concat!("programl/", $name, ".json")),
        )),*]
    };
}

/// The name of each module, its text, and its golden graph.
const GOLDEN: [(&str, &str, &str); 13] = golden!(
    "aggregates" "branches" "calls" "constants" "declarations" "globals" "indirect" "intrinsics"
    "invokes" "memory" "switches" "unreachable" "vectors"
);

#[derive(Deserialize)]
struct Golden {
    /// Type, text, function, block.
    nodes: Vec<(i8, String, i32, i32)>,
    /// Flow, position, source, target.
    edges: Vec<(i8, i32, usize, usize)>,
}

impl From<ProgramGraph> for Golden {
    fn from(graph: ProgramGraph) -> Self {
        let place = |&place: &i32| usize::try_from(place).unwrap();
        let node = |(at, text): (usize, &str)| {
            (graph.node_type[at], text.to_owned(), graph.node_function[at], graph.node_block[at])
        };
        let edge = |at: usize| {
            let ends = (place(&graph.edge_source[at]), place(&graph.edge_target[at]));
            (graph.edge_flow[at], graph.edge_position[at], ends.0, ends.1)
        };
        Self {
            nodes: graph.node_text.iter().enumerate().map(node).collect(),
            edges: (0..graph.edge_flow.len()).map(edge).collect(),
        }
    }
}

impl Golden {
    /// What is at each node, then what is around it up to `rounds` edges away (the refinement of
    /// Weisfeiler and Lehman), as a multiset.
    fn around(&self, rounds: usize) -> Vec<String> {
        let node = |(kind, text, function, block): &(i8, String, i32, i32)| {
            let text = if text.ends_with('*') { "ptr" } else { text };
            format!("{kind} {text} f{function} b{block}")
        };
        let mut seen: Vec<String> = self.nodes.iter().map(node).collect();
        for _ in 0..rounds {
            let mut edges = vec![Vec::new(); seen.len()];
            for &(flow, position, source, target) in &self.edges {
                edges[source].push(format!("{flow} {position} to {}", seen[target]));
                edges[target].push(format!("{flow} {position} from {}", seen[source]));
            }
            let around = edges.into_iter().zip(&seen).map(|(mut edges, own)| {
                edges.sort_unstable();
                let text = format!("{own}: {}", edges.join("; "));
                // Later rounds see this one as a digest, or texts would grow without bound.
                if rounds == 1 { text } else { blake3::hash(text.as_bytes()).to_string() }
            });
            seen = around.collect();
        }
        seen.sort_unstable();
        seen
    }
}

#[test]
fn graphs_are_those_of_the_original_tool() {
    let engine = engine();
    for (name, text, golden) in GOLDEN {
        let ours = Golden::from(begin(&engine, text.as_bytes()).program_graph());
        let theirs: Golden = serde_json::from_str(golden).unwrap();
        assert_eq!(ours.edges.len(), theirs.edges.len(), "{name}");
        for rounds in [0, 1, 8] {
            assert_eq!(ours.around(rounds), theirs.around(rounds), "{name}, {rounds} rounds");
        }
    }
}

/// Node-link data, read with the names that networkx reads.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeLink {
    directed: bool,
    graph: serde_json::Map<String, serde_json::Value>,
    links: Vec<BTreeMap<String, i32>>,
    multigraph: bool,
    nodes: Vec<BTreeMap<String, serde_json::Value>>,
}

impl NodeLink {
    fn of(program: &mut Module) -> Self {
        let data: Self = serde_json::from_str(&node_link_json(&program.program_graph())).unwrap();
        assert!(data.directed && data.multigraph && data.graph.is_empty());
        data
    }
}

impl From<NodeLink> for Golden {
    fn from(data: NodeLink) -> Self {
        let node = |(at, node): (usize, &BTreeMap<String, serde_json::Value>)| {
            let number = |name: &str| node[name].as_i64().unwrap();
            assert_eq!((node.len(), number("id")), (5, i64::try_from(at).unwrap()));
            let text = node["text"].as_str().unwrap().to_owned();
            let [kind, function, block] =
                ["type", "function", "block"].map(|name| i32::try_from(number(name)).unwrap());
            (i8::try_from(kind).unwrap(), text, function, block)
        };
        let edge = |link: &BTreeMap<String, i32>| {
            assert_eq!(link.len(), 5);
            let [source, target] =
                ["source", "target"].map(|name| usize::try_from(link[name]).unwrap());
            (i8::try_from(link["flow"]).unwrap(), link["position"], source, target)
        };
        Self {
            nodes: data.nodes.iter().enumerate().map(node).collect(),
            edges: data.links.iter().map(edge).collect(),
        }
    }
}

#[test]
fn node_link_data_is_the_graph_of_the_original_tool() {
    let engine = engine();
    for (name, text, golden) in GOLDEN {
        let ours = Golden::from(NodeLink::of(&mut begin(&engine, text.as_bytes())));
        let theirs: Golden = serde_json::from_str(golden).unwrap();
        assert_eq!(ours.edges.len(), theirs.edges.len(), "{name}");
        assert_eq!(ours.around(8), theirs.around(8), "{name}");
    }
}

#[test]
fn no_two_links_have_the_same_ends_and_key() {
    let text = b"define i32 @f(i1 %x) {
        br i1 %x, label %next, label %next
      next:
        %y = add i32 1, 1
        ret i32 %y
      }";
    let keys = |program: &mut Module| {
        let mut keys = Vec::new();
        let mut known = BTreeSet::new();
        for link in NodeLink::of(program).links {
            let names = ["source", "target", "key"].map(|name| link[name]);
            assert!(known.insert(names), "{names:?}");
            keys.push(link["key"]);
        }
        keys
    };
    let engine = engine();
    let found = keys(&mut begin(&engine, text));
    assert_eq!(found.iter().filter(|&&key| key == 1).count(), 2, "successors, operands: {found:?}");
    for bitcode in real_programs() {
        assert!(keys(&mut first_state(&engine, &bitcode).unwrap()).contains(&1));
    }
}

#[test]
fn an_edge_that_leads_elsewhere_is_told() {
    let (_, text, golden) = GOLDEN[1];
    let golden: Golden = serde_json::from_str(golden).unwrap();
    let ours = Golden::from(begin(&engine(), text.as_bytes()).program_graph());
    for at in 0..ours.edges.len() {
        let mut other = Golden { nodes: ours.nodes.clone(), edges: ours.edges.clone() };
        let (_, position, source, target) = &mut other.edges[at];
        match at % 3 {
            0 => *position += 1,
            1 => *target = (*target + 1) % ours.nodes.len(),
            _ => *source = (*source + 1) % ours.nodes.len(),
        }
        assert_ne!(other.around(1), golden.around(1), "edge {at}");
    }
}

#[test]
fn a_graph_depends_on_the_program_alone() {
    let engine = engine();
    for bitcode in real_programs() {
        let mut program = first_state(&engine, &bitcode).unwrap();
        let graph = program.program_graph();
        assert!(Lists::from(graph.clone()).is_sound());
        assert_eq!(program.program_graph(), graph);
        assert_eq!(Module::revive(program.write()).unwrap().program_graph(), graph);
        let instructions = graph.node_type.iter().zip(graph.node_text.iter());
        let declared =
            instructions.filter(|(kind, text)| **kind == 0 && !text.starts_with([';', '[']));
        assert_eq!(i64::try_from(declared.count()).unwrap(), program.instructions());
    }
}

#[test]
fn a_struct_without_a_name_is_its_elements() {
    let text = b"
        %0 = type { i8, i32 }
        %1 = type <{ [2 x %0], {} }>
        define [3 x %1] @f([3 x %1] %x, [1 x %0] %y) {
          %z = extractvalue [1 x %0] %y, 0
          ret [3 x %1] %x
        }";
    let graph = begin(&engine(), text).program_graph();
    let types = ["[3 x <{ [2 x { i8, i32 }], {} }>]", "[1 x { i8, i32 }]"];
    for name in types {
        assert!(
            graph.node_text.distinct.iter().any(|text| text == name),
            "{name}: {:?}",
            graph.node_text.distinct
        );
    }
}
