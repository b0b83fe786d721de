//! The transition graph against a model.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use proptest::prelude::*;
use steplake::env::Environment;
use steplake::env::toy::ToyEnvironment;
use steplake::lake::Identity;
use steplake::model::{
    ActionIndex, EnvironmentSpec, ObservationSpace, RewardSpace, Scale, StateId, Value, ValueType,
};
use steplake::replay::cached::{CachedEnvironment, CachedOptions, MissingEdge, Recorded};

use super::{cached, recorded};
use crate::fixtures::layered_lake::{Played, pieces, record};
use crate::fixtures::support::engine;
use crate::fixtures::toy_lake::state;

/// The environment that the handmade lake would be of.
fn spec(lake: &Identity) -> EnvironmentSpec {
    let reward = |name: &'static str, scale| RewardSpace {
        name: name.into(),
        cost: "Size".into(),
        initial: "SizeO0".into(),
        scale,
    };
    EnvironmentSpec {
        name: "handmade-v0".into(),
        compiler: lake.compiler.clone(),
        target: lake.target.clone(),
        action_spaces: vec![lake.action_space.clone()],
        observation_spaces: vec![
            ObservationSpace::new("Text", ValueType::Bytes),
            ObservationSpace::int("Size"),
            ObservationSpace::int_vector("Counts", &["x", "y", "z"]),
            ObservationSpace::int("SizeO0").of_benchmark(),
        ],
        reward_spaces: vec![reward("Size", Scale::Absolute), reward("SizeNorm", Scale::Initial)],
        baselines: "none".into(),
        state_space: "Text".into(),
        action_costs: BTreeMap::new(),
        state_scheme: 1,
    }
}

/// By state and action: the counts of the results, a state or a failure.
type Model = BTreeMap<(StateId, u32), BTreeMap<Option<StateId>, u32>>;

fn model(pieces: &[Vec<Played>]) -> Model {
    let mut model = Model::new();
    for (first, path) in pieces.iter().flatten() {
        let mut at = state(*first);
        for &(action, to) in path {
            let results = model.entry((at, action)).or_default();
            *results.entry(to.map(state)).or_default() += 1;
            at = to.map_or(at, state);
        }
    }
    model
}

/// The most frequent next state; among equally frequent ones the smallest.
fn led(results: &BTreeMap<Option<StateId>, u32>) -> Option<(StateId, u32)> {
    let led = results.iter().filter_map(|(to, &count)| Some(((*to)?, count)));
    led.min_by_key(|&(to, count)| (std::cmp::Reverse(count), to))
}

fn check(environment: &CachedEnvironment, model: &Model, firsts: &BTreeSet<StateId>) {
    let graph = environment.graph();
    // A state that only the losing result of a conflict led to is not in the graph, unless
    // something was tried there.
    let reached = model.values().filter_map(led).map(|(to, _)| to);
    let from = model.keys().map(|(from, _)| *from);
    let states: BTreeSet<StateId> = from.chain(reached).chain(firsts.iter().copied()).collect();
    assert_eq!(graph.rows().map(|row| graph.state(row)).collect::<BTreeSet<_>>(), states);
    assert_eq!((graph.states(), graph.known_pairs()), (states.len(), model.len()));
    let transitions = model.values().filter_map(led).count();
    assert_eq!((graph.transitions(), graph.edges().count()), (transitions, transitions));
    assert!(graph.edges().map(|edge| edge.place).eq(0..transitions));
    for &from in &states {
        let node = graph.node(&from).unwrap();
        assert_eq!((graph.state(node.row), graph.find(&from)), (from, Some(node.row)));
        let of = |action| model.get(&(from, action)).cloned().unwrap_or_default();
        let known =
            (0..8).filter_map(|action| led(&of(action)).map(|(to, count)| (action, to, count)));
        let edges = graph.edges_of(node.row);
        let edges = edges.map(|edge| (edge.action.0, graph.state(edge.to), edge.count));
        assert!(edges.eq(known));
        let failed = (0..8).filter_map(|action| Some((action, *of(action).get(&None)?)));
        let failures = graph.failures_of(node.row).map(|failed| (failed.action.0, failed.count));
        assert!(failures.eq(failed));
        assert_eq!(graph.edges_of(node.row).count(), node.transitions);
        assert_eq!(graph.failures_of(node.row).count(), node.failures);
        for action in 0..8 {
            let results = of(action);
            let (led, failed) = (led(&results), results.get(&None).copied().unwrap_or(0));
            match graph.recorded(node.row, ActionIndex(action)) {
                Recorded::Led(edge) => {
                    assert_eq!(Some((graph.state(edge.to), edge.count)), led);
                    assert!(edge.count >= failed);
                }
                Recorded::Failed(known) => {
                    assert_eq!(known.count, failed);
                    assert!(led.is_none_or(|(_, count)| count < failed));
                }
                Recorded::Nothing => assert!(results.is_empty()),
            }
        }
    }
    let several = |results: &&BTreeMap<_, _>| results.keys().flatten().count() > 1;
    assert_eq!(environment.conflicts().unwrap(), model.values().filter(several).count() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn the_graph_is_what_was_recorded(pieces in pieces(), threads in 1_usize..4) {
        let folder = tempfile::tempdir().unwrap();
        let lake = record(folder.path(), &pieces);
        let threads = NonZeroUsize::new(threads);
        let snapshot = Arc::new(lake.snapshot().unwrap());
        let spec = spec(snapshot.identity());
        let options = CachedOptions { missing_edge: MissingEdge::Stay, threads };
        let environment = CachedEnvironment::open(snapshot, &spec, options).unwrap();
        let firsts = pieces.iter().flatten().map(|(first, _)| state(*first)).collect();
        check(&environment, &model(&pieces), &firsts);
        let sizes = environment.observations("Size").unwrap().unwrap();
        let counts = environment.observations("Counts").unwrap().unwrap();
        let (matrix, width) = counts.int_matrix().unwrap();
        prop_assert!(sizes.int_matrix().is_none() && counts.ints().is_none());
        for number in 0..12_i32 {
            let known = environment.graph().find(&state(number.cast_unsigned()));
            let Some(row) = known else { continue };
            prop_assert_eq!(sizes.row(row), Some(Value::Int(number.into())));
            prop_assert_eq!(sizes.ints().unwrap()[row.place()], i64::from(number));
            prop_assert_eq!(&matrix[row.place() * width..][..width], &[1, number, -3]);
            let value = counts.rows(row.0..row.0 + 1).next().unwrap();
            prop_assert_eq!(value, Some(Value::IntVector([1, number, -3].into())));
        }
    }
}

#[tokio::test]
async fn coverage_is_what_sql_says() {
    let (_folder, lake) = recorded(300);
    let environment = cached(&lake, MissingEdge::Error);
    let engine = engine(&lake).await;
    let ask = async |sql: &str| {
        use arrow::array::AsArray as _;
        use futures::TryStreamExt as _;
        let batches: Vec<arrow::array::RecordBatch> =
            engine.sql(sql).await.unwrap().try_collect().await.unwrap();
        let column = batches[0].column(0).as_primitive::<arrow::datatypes::Int64Type>();
        column.value(0).cast_unsigned()
    };
    let coverage = environment.coverage();
    let pairs = "SELECT state_id, action FROM state_transitions UNION SELECT state_id, action FROM failures";
    assert_eq!(coverage.known_pairs, ask(&format!("SELECT count(*) FROM ({pairs})")).await);
    let states = "SELECT state_id FROM state_transitions UNION SELECT next_state_id FROM state_transitions \
                  UNION SELECT state_id FROM failures UNION SELECT initial_state_id FROM benchmarks";
    let states = ask(&format!("SELECT count(*) FROM ({states})")).await;
    assert_eq!((coverage.states, coverage.all_pairs), (states, states * 8));
    let pairs = "SELECT count(*) FROM (SELECT DISTINCT state_id, action FROM conflicts)";
    assert_eq!(environment.conflicts().unwrap(), ask(pairs).await);
    let toy = ToyEnvironment::default();
    assert_eq!(environment.spec().action_spaces, toy.spec().action_spaces);
}
