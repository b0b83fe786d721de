//! The observation and reward spaces.

use std::fmt::Write as _;

use super::costs::{CACHES, Costs};
use super::cuda::{CudaSource, busiest_needs};
use super::kernel::{TooLarge, digest, module};
use super::outline::Outline;
use super::schedule::{BodyItem, LoopKind};
use super::state::LoopsState;
use super::text;
use steplake_model::{Name, ObservationSpace, RewardSpace, Scale, Value, ValueType};

/// The observation space that serialises a state.
pub(super) const STATE_SPACE: &str = "state";

/// The estimate of a schedule's time, and that of the initial schedule.
const CYCLES: &str = "EstimatedCycles";
const INITIAL_CYCLES: &str = "EstimatedCyclesInitial";

/// What an observation space shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Observation {
    Operations,
    CompulsoryBytes,
    TemporaryBytes,
    /// The bytes moved past the cache at this place of [`CACHES`].
    MovedBytes(usize),
    /// The same, of the program with its initial schedule.
    InitialMovedBytes(usize),
    InnermostBytes,
    EstimatedCycles,
    /// The same, of the program with its initial schedule.
    InitialEstimatedCycles,
    Threads,
    GridBlocks,
    BlockThreads,
    VectorLanes,
    UnrolledCopies,
    Registers,
    Occupancy,
    Loops,
    LoopTree,
    ActionState,
    KernelDigest,
    CudaKernelDigest,
    State,
}

/// The names of the cursor's numbers in `action_state`.
const ACTION_STATE: [&str; 3] = ["cursor", "size", "tail"];

/// Returns what the observation spaces show, with the spaces, in order.
pub(super) fn observations() -> Vec<(Observation, ObservationSpace)> {
    let int = |name: &'static str| ObservationSpace::int(name);
    let mut spaces = vec![
        (Observation::Operations, int("Operations").of_benchmark()),
        (Observation::CompulsoryBytes, int("CompulsoryBytes").of_benchmark()),
        (Observation::TemporaryBytes, int("TemporaryBytes")),
        (Observation::InnermostBytes, int("InnermostBytes")),
        (Observation::EstimatedCycles, int(CYCLES)),
        (Observation::InitialEstimatedCycles, int(INITIAL_CYCLES).of_benchmark()),
        (Observation::Threads, int("Threads")),
        (Observation::GridBlocks, int("GridBlocks")),
        (Observation::BlockThreads, int("BlockThreads")),
        (Observation::VectorLanes, int("VectorLanes")),
        (Observation::UnrolledCopies, int("UnrolledCopies")),
        (Observation::Registers, int("Registers")),
        (Observation::Occupancy, ObservationSpace::new("Occupancy", ValueType::Float)),
        (Observation::Loops, int("Loops")),
    ];
    for place in 0..CACHES.len() {
        spaces.push((Observation::MovedBytes(place), ObservationSpace::int(cost(place))));
    }
    for place in 0..CACHES.len() {
        let space = ObservationSpace::int(initial(place)).of_benchmark();
        spaces.push((Observation::InitialMovedBytes(place), space));
    }
    let tree = ObservationSpace::new("loop_tree", ValueType::Text).on_request();
    spaces.push((Observation::LoopTree, tree));
    let state = ObservationSpace::int_vector("action_state", &ACTION_STATE).on_request();
    spaces.push((Observation::ActionState, state));
    let digest = ObservationSpace::new("kernel_digest", ValueType::Text).on_request();
    spaces.push((Observation::KernelDigest, digest));
    let digest = ObservationSpace::new("cuda_kernel_digest", ValueType::Text).on_request();
    spaces.push((Observation::CudaKernelDigest, digest));
    spaces.push((Observation::State, ObservationSpace::new(STATE_SPACE, ValueType::Bytes)));
    spaces
}

/// Returns the reward spaces: what a step saves of the estimated cycles and of the bytes moved past
/// each cache, and the same relative to the program with its initial schedule.
pub(super) fn rewards() -> Vec<RewardSpace> {
    let moved = (0..CACHES.len()).map(|place| (cost(place), initial(place)));
    // The cost of the first reward is what searches look for, unless they are told otherwise.
    let all = [(CYCLES.into(), INITIAL_CYCLES.into())].into_iter().chain(moved);
    let of_cost = |(cost, initial): (Name, Name)| {
        let space = |name: String, scale| RewardSpace {
            name: name.into(),
            cost: cost.clone(),
            initial: initial.clone(),
            scale,
        };
        let relative = format!("{cost}Norm");
        [space(cost.to_string(), Scale::Absolute), space(relative, Scale::Initial)]
    };
    all.flat_map(of_cost).collect()
}

fn cost(place: usize) -> Name {
    format!("MovedBytes{}", CACHES[place].0).into()
}

fn initial(place: usize) -> Name {
    format!("MovedBytes{}Initial", CACHES[place].0).into()
}

/// Returns the costs that rewards are about, with the names of their spaces.
pub(super) fn rewarded(state: &LoopsState) -> Vec<(Name, i64)> {
    let costs = Costs::new(state);
    let moved = |place: usize| (cost(place), as_int(costs.moved_bytes(CACHES[place].1)));
    let cycles = (CYCLES.into(), as_int(costs.estimated_cycles()));
    std::iter::once(cycles).chain((0..CACHES.len()).map(moved)).collect()
}

/// Returns the baselines of a program: what its initial schedule costs, and what all of its
/// schedules have in common.
pub(super) fn baselines(initial_state: &LoopsState) -> Vec<(String, i64)> {
    let of_benchmark = observations().into_iter().filter(|(_, space)| space.of_benchmark);
    let value = |(observation, space): (Observation, ObservationSpace)| {
        let Ok(Value::Int(value)) = observe(observation, initial_state) else {
            unreachable!("baselines are integers")
        };
        (space.name.to_string(), value)
    };
    of_benchmark.map(value).collect()
}

fn as_int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Looks at a state.
///
/// # Errors
///
/// [`TooLarge`] if its kernel is.
pub(super) fn observe(observation: Observation, state: &LoopsState) -> Result<Value, TooLarge> {
    let costs = Costs::new(state);
    let count = match observation {
        Observation::LoopTree => return Ok(Value::Text(loop_tree(state))),
        Observation::ActionState => return Ok(Value::IntVector(action_state(state).into())),
        Observation::KernelDigest => return Ok(Value::Text(digest(&module(state)?))),
        Observation::CudaKernelDigest => return Ok(Value::Text(CudaSource::of(state).digest())),
        Observation::Occupancy => {
            let needs = busiest_needs(state).expect("a program has an output, which is computed");
            return Ok(Value::Float(needs.occupancy()));
        }
        Observation::State => return Ok(Value::Bytes(state.text().into_bytes())),
        Observation::InitialMovedBytes(place) => {
            let first = LoopsState::initial((*state.dag).clone());
            Costs::new(&first).moved_bytes(CACHES[place].1)
        }
        Observation::MovedBytes(place) => costs.moved_bytes(CACHES[place].1),
        Observation::Operations => costs.operations(),
        Observation::CompulsoryBytes => costs.compulsory_bytes(),
        Observation::TemporaryBytes => costs.temporary_bytes(),
        Observation::InnermostBytes => costs.innermost_bytes(),
        Observation::EstimatedCycles => costs.estimated_cycles(),
        Observation::InitialEstimatedCycles => {
            Costs::new(&LoopsState::initial((*state.dag).clone())).estimated_cycles()
        }
        Observation::Threads => costs.most_iterations(LoopKind::Parallel),
        Observation::GridBlocks => costs.product(LoopKind::Grid),
        Observation::BlockThreads => costs.product(LoopKind::Block),
        Observation::VectorLanes => costs.product(LoopKind::Vector),
        Observation::UnrolledCopies => costs.product(LoopKind::Unroll),
        Observation::Registers => costs.registers(),
        Observation::Loops => costs.loops(),
    };
    Ok(Value::Int(as_int(count)))
}

/// The cursor with the iterations of its loop and the tail, as `CompilerGym` has them; -1 without a
/// cursor.
fn action_state(state: &LoopsState) -> Vec<i32> {
    let Some(cursor) = state.cursor else { return vec![-1; ACTION_STATE.len()] };
    let outline = state.outline();
    let facts = &outline.loops[cursor.at];
    let whole = facts.range / facts.step;
    let numbers = [cursor.at as u64, whole, facts.tail()];
    numbers.map(|number| i32::try_from(number).unwrap_or(i32::MAX)).into()
}

/// The schedule for people: each loop with its number, its whole iterations and what remains, each
/// leaf with what it computes.
fn loop_tree(state: &LoopsState) -> String {
    let mut tree = String::new();
    write_tree(state, &state.outline(), &state.schedule.0, (0, &mut 0), &mut tree);
    tree
}

fn put(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part).expect("a string takes it");
}

fn write_tree(
    state: &LoopsState,
    outline: &Outline,
    items: &[BodyItem],
    (depth, next): (usize, &mut usize),
    tree: &mut String,
) {
    for item in items {
        tree.push_str(&"  ".repeat(depth));
        match item {
            BodyItem::Leaf(node) => {
                put(tree, format_args!("{node} = {}\n", text::operation(&state.dag, *node)));
            }
            BodyItem::Loop(inner) => {
                let (facts, number) = (&outline.loops[*next], *next);
                *next += 1;
                let whole = facts.range / facts.step;
                put(tree, format_args!("{number}: {} {whole}", state.dag.name(facts.dim)));
                if facts.tail() > 0 {
                    put(tree, format_args!(" + tail {}", facts.tail()));
                }
                if facts.step > 1 {
                    put(tree, format_args!(" by {}", facts.step));
                }
                text::write_marks(tree, inner.run, inner.is_cached, inner.is_streamed);
                tree.push('\n');
                write_tree(state, outline, &inner.body, (depth + 1, next), tree);
            }
        }
    }
}
