//! `algebra(['REWARD SPACE'])`: laws about actions, each with the number of states in which it was
//! tested and in which it held.

use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::arguments::CallArguments;
use super::cancellation::{CancellationToken, Cancelled};
use super::columns::{actions, integers, texts};
use super::csr::QueryGraph;
use super::question::{GraphQuestion, RequiredData, in_batches};
use super::walk::NONE;
use steplake_lake::graph::Node;
use steplake_model::ActionIndex;

steplake_model::named! {
    /// A law about one action or two. It is tested in the states whose transitions it needs are
    /// known, unless it is trivial there because the action does not change the state.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Law {
        /// Applying `action` again changes nothing.
        Idempotent = "idempotent",
        /// Both orders lead to the same state; both actions change the first one.
        Commuting = "commuting",
        /// `action` before `other` has no effect: `other` alone leads to the same state.
        Absorbed = "absorbed",
        /// Both lead to the same state; at least one of them changes the first one.
        Equal = "equal",
        /// `other` leads back to the state before `action`.
        Inverse = "inverse",
        /// The reward of `other` is at least that of `action`; at least one of them changes the
        /// state.
        Dominated = "dominated",
    }

    fn name;
}

/// Commuting and equal pairs are listed once, the smaller action first. The rewards of the space
/// decide which action dominates.
pub(super) fn question(arguments: &CallArguments<'_>) -> Result<GraphQuestion> {
    let space = arguments.has(0).then(|| arguments.reward(0)).transpose()?;
    let columns = [
        ("law", DataType::Utf8, false),
        ("action", DataType::Int32, false),
        ("other", DataType::Int32, true),
        ("support", DataType::Int64, false),
        ("holds", DataType::Int64, false),
    ];
    let has_rewards = space.is_some();
    Ok(GraphQuestion::new(
        columns,
        RequiredData { rewards: space, ..RequiredData::GRAPH },
        move |given, asked| {
            let graph = &given.graph;
            asked.reserve(LawCounts::bytes(width(graph)))?;
            let rewards = has_rewards.then_some(given.rewards.as_slice());
            let tally = tally(graph, &asked.token, rewards)?;
            let count = tally.found().count();
            asked.reserve(count * size_of::<LawRow>())?;
            let mut found = Vec::with_capacity(count);
            found.extend(tally.found());
            drop(tally);
            Ok(in_batches(
                asked,
                count,
                |_| 0,
                move |rows, column| {
                    let some = found[rows].iter();
                    Ok(match column {
                        "law" => texts(some.map(|row| row.law.name())),
                        "action" => actions(some.map(|row| Some(action(row.action)))),
                        "other" => actions(some.map(|row| row.other.map(action))),
                        "support" => integers(some.map(|row| Some(i64::from(row.support)))),
                        _ => integers(some.map(|row| Some(i64::from(row.holds)))),
                    })
                },
            ))
        },
    ))
}

/// How often each law could be tested, and how often it held.
pub(super) struct LawCounts {
    /// All actions are less than this.
    width: usize,
    /// For each law and each pair of actions.
    counts: [Vec<(u32, u32)>; Law::ALL.len()],
}

impl LawCounts {
    /// The bytes for `width` actions.
    fn bytes(width: usize) -> usize {
        Law::ALL.len() * width.saturating_mul(width).saturating_mul(size_of::<(u32, u32)>())
    }

    fn new(width: usize) -> Self {
        Self { width, counts: Law::ALL.map(|_| vec![(0, 0); width * width]) }
    }

    /// The laws that could be tested.
    fn found(&self) -> impl Iterator<Item = LawRow> {
        let of_law = move |law: Law| {
            let counts = self.counts[law as usize].iter().enumerate();
            counts.filter(|(_, (support, _))| *support > 0).map(
                move |(place, &(support, holds))| {
                    let other = (law != Law::Idempotent).then_some(place % self.width);
                    LawRow { law, action: place / self.width, other, support, holds }
                },
            )
        };
        Law::ALL.into_iter().flat_map(of_law)
    }

    fn test(&mut self, law: Law, action: usize, other: usize, holds: bool) {
        let (support, held) = &mut self.counts[law as usize][action * self.width + other];
        *support += 1;
        *held += u32::from(holds);
    }
}

/// The action of a place in the tables of a [`LawCounts`].
fn action(place: usize) -> ActionIndex {
    ActionIndex(u32::try_from(place).expect("a place is that of an action"))
}

/// Tests the laws about two steps in a row from `node`. `next` has where each action leads from it,
/// or [`NONE`].
fn test_sequences(graph: &QueryGraph, node: Node, next: &[Node], tally: &mut LawCounts) {
    for edge in graph.edges_of(node) {
        let (first, between) = (graph.actions()[edge].place(), graph.targets()[edge]);
        if between == node {
            continue;
        }
        for edge in graph.edges_of(between) {
            let (second, end) = (graph.actions()[edge].place(), graph.targets()[edge]);
            if first == second {
                tally.test(Law::Idempotent, first, first, end == between);
                continue;
            }
            tally.test(Law::Inverse, first, second, end == node);
            let alone = next[second];
            if alone == NONE {
                continue;
            }
            tally.test(Law::Absorbed, first, second, end == alone);
            if first < second
                && alone != node
                && let Some(other) = graph.follow(alone, action(first))
            {
                tally.test(Law::Commuting, first, second, end == other);
            }
        }
    }
}

/// Tests the laws about two actions in the same state.
fn test_choices(graph: &QueryGraph, node: Node, rewards: Option<&[f64]>, tally: &mut LawCounts) {
    for one in graph.edges_of(node) {
        for other in one + 1..graph.edges_of(node).end {
            let (first, second) = (graph.targets()[one], graph.targets()[other]);
            if first == node && second == node {
                continue;
            }
            let (action, another) = (graph.actions()[one].place(), graph.actions()[other].place());
            tally.test(Law::Equal, action, another, first == second);
            let Some(rewards) = rewards else { continue };
            if !rewards[one].is_nan() && !rewards[other].is_nan() {
                tally.test(Law::Dominated, action, another, rewards[one] <= rewards[other]);
                tally.test(Law::Dominated, another, action, rewards[other] <= rewards[one]);
            }
        }
    }
}

/// All actions are less than this.
fn width(graph: &QueryGraph) -> usize {
    graph.actions().iter().max().map_or(0, |action| action.place() + 1)
}

/// Tests all laws in all states.
pub(super) fn tally(
    graph: &QueryGraph,
    token: &CancellationToken,
    rewards: Option<&[f64]>,
) -> Result<LawCounts, Cancelled> {
    let width = width(graph);
    let mut tally = LawCounts::new(width);
    let mut next = vec![NONE; width];
    for node in graph.all_nodes() {
        token.check()?;
        let edges = graph.edges_of(node);
        for edge in edges.clone() {
            next[graph.actions()[edge].place()] = graph.targets()[edge];
        }
        test_sequences(graph, node, &next, &mut tally);
        test_choices(graph, node, rewards, &mut tally);
        for edge in edges {
            next[graph.actions()[edge].place()] = NONE;
        }
    }
    Ok(tally)
}

/// A row of the answer.
struct LawRow {
    law: Law,
    action: usize,
    other: Option<usize>,
    support: u32,
    holds: u32,
}
