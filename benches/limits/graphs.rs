//! Program graphs: the time to build one, and what it takes in Parquet.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Duration;

use arrow::array::AsArray;
use steplake::env::llvm::LlvmEnvironment;
use steplake::env::{Environment, Start, Watch};
use steplake::generate::PolicyName;
use steplake::lake::{Lake, ScanColumns, Snapshot, Table};
use steplake::model::{Baselines, Benchmark, List, Provenance, StateId, Value};

use crate::campaign::{Episodes, LIBRARY_FILES, Loaded, record_in, workers};
use crate::{cpu_of, heading, line};

/// Random episodes of 50 steps for each program.
const EPISODES_EACH: u64 = 4;
/// The greatest number of states whose graphs are built.
const STATES_MAX: usize = 4000;

/// Returns some of the states, at equal distances.
fn states(snapshot: &Snapshot) -> Vec<StateId> {
    let mut states = BTreeSet::new();
    for batch in snapshot.scan(Table::Observations, ScanColumns::Named(&["state_id"])) {
        let batch = batch.expect("it was just recorded");
        let ids = batch["state_id"].as_fixed_size_binary();
        states.extend((0..batch.num_rows()).map(|row| StateId::from_slice(ids.value(row))));
    }
    let stride = states.len().div_ceil(STATES_MAX);
    states.into_iter().step_by(stride).collect()
}

/// What is known of one graph.
struct Built {
    /// CPU time.
    time: Duration,
    nodes: usize,
    edges: usize,
    bitcode: usize,
}

/// Builds the graphs of states in this process.
fn build(snapshot: &Snapshot, states: &[StateId]) -> Vec<Built> {
    let environment = LlvmEnvironment::new();
    let spec = environment.spec();
    let graph = spec.observation_index("Programl").expect("LLVM has it");
    let mut session = environment.session().expect("LLVM is here");
    let names = ["O0", "O3", "Oz"].map(|level| format!("IrInstructionCount{level}"));
    let baselines = Baselines(names.map(|name| (name, 1)).into());
    let mut built = Vec::new();
    for state in states {
        let ir = snapshot.ir(&[*state]).expect("it was just recorded").remove(0);
        let program = ir.expect("all IR is stored");
        let bitcode = program.len();
        let benchmark = Benchmark {
            uri: "file:///state.bc".parse().expect("it is one"),
            program: program.into(),
            provenance: Provenance::default(),
            execution: None,
        };
        let (action_space, watch) = (spec.action_spaces[0].name.as_str(), Watch::default());
        let baselines = Some(&baselines);
        session
            .start(&Start { benchmark: &benchmark, action_space, baselines, watch: &watch })
            .expect("a state is a program");
        let (value, time) = cpu_of(|| black_box(session.observe(graph)));
        let value = value.expect("an episode is under way");
        let Value::Lists(lists) = value else { panic!("another type") };
        let length = |name| lists.get(name).map_or(0, List::len);
        let (nodes, edges) = (length("node_type"), length("edge_flow"));
        built.push(Built { time, nodes, edges, bitcode });
    }
    built
}

pub(crate) fn run() {
    heading("Program graphs of the states of random episodes of 50 steps");
    let own = ["benchmark://steplake-v0/*"];
    let patterns: Vec<_> = LIBRARY_FILES.into_iter().chain(own).collect();
    let programs = Loaded::new(&patterns);
    programs.describe();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let count = EPISODES_EACH * programs.uris().len() as u64;
    let lakes = [None, Some("Programl")].map(|observe| {
        let path = folder.path().join(observe.unwrap_or("numbers"));
        let wanted =
            Episodes { count, jobs: 1, keyframes: Some(1), observe, policy: PolicyName::RANDOM };
        let recorded = record_in(&workers(), &path, &programs, &wanted);
        let lake = Lake::open(&path).and_then(|lake| lake.snapshot());
        (lake.expect("it was just recorded"), recorded)
    });
    let [(_, numbers), (snapshot, recorded)] = &lakes;
    let mut built = build(snapshot, &states(snapshot));
    built.sort_by_key(|one| one.time);
    let mean = |of: fn(&Built) -> f64| built.iter().map(of).sum::<f64>() / built.len() as f64;
    let ms = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    let at = |percent: usize| ms(built[(built.len() - 1) * percent / 100].time);
    let segments = snapshot.segments(Table::Observations).iter();
    let bytes = segments.map(|segment| segment.bytes).sum::<u64>() as f64
        / snapshot.rows(Table::Observations) as f64;
    let mean_time = mean(|one| one.time.as_secs_f64());
    let nodes = mean(|one| one.nodes as f64);
    line("graphs", &built.len().to_string(), "");
    line("nodes of a graph, mean", &format!("{nodes:.0}"), "");
    line("edges of a graph, mean", &format!("{:.0}", mean(|one| one.edges as f64)), "");
    line("CPU time for a graph, mean", &format!("{:.3} ms", mean_time * 1e3), "at most 9 ms");
    line("CPU time for a graph, p50", &at(50), "");
    line("CPU time for a graph, p99", &at(99), "");
    line("CPU time for a graph, greatest", &at(100), "");
    line("CPU time for a node, mean", &format!("{:.0} ns", mean_time / nodes * 1e9), "");
    line("bytes of bitcode, mean", &format!("{:.0}", mean(|one| one.bitcode as f64)), "");
    line("bytes of Parquet per state, `observations`", &format!("{bytes:.0}"), "302,000 elsewhere");
    line("CPU per recorded step, usual numbers", &format!("{:.0} µs", numbers.micros()), "");
    line("CPU per recorded step, graphs", &format!("{:.0} µs", recorded.micros()), "");
}
