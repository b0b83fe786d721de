//! Code for GPUs: a state as CUDA C++.
//!
//! Each root item of a schedule is a kernel, and the kernels are run one after another, so that
//! what one makes is there before the next one begins. The text depends on the state alone, and its
//! hash is the *kernel digest* of measurements.
//!
//! # What the marks become
//!
//! | mark | on a GPU |
//! |---|---|
//! | `grid` | the loop's iterations are blocks |
//! | `block` | they are threads of a block; the innermost such loop goes over neighbours |
//! | `parallel` | each is one thread, in blocks of up to 128 |
//! | `vectorize` | the thread computes all lanes; loads and stores are `float4` or `float2` where the lanes are neighbours and begin at a multiple of that, and one by one elsewhere |
//! | `unroll` | `#pragma unroll` |
//! | `cache` | the tile is an array of each thread, which has the places of its own positions; up to 256 places are indexed by constants alone, so the compiler can hold them in registers |
//! | `stream` | stores that the caches give up first (`st.global.cs`) |
//!
//! No mark asks for shared memory, and no leaf may copy an operand in loops that it lacks. So the
//! back end puts operands there by a rule of its own: see `stage` and `fill`. The same holds for
//! values between nodes that several threads of a block need: up to 16 KiB are in shared memory,
//! more of them in the memory of the device.
//!
//! A schedule without `grid`, `block` and `parallel` is run by one thread. Where threads would have
//! to wait for each other within a loop that is dealt to them, that loop is run by one thread
//! instead: see `mapping`.

mod address;
mod emitter;
mod fill;
mod leaf;
mod lines;
mod mapping;
mod occupancy;
mod stage;
mod walk;

use sha1::{Digest as _, Sha1};

use self::emitter::Emitter;
use self::mapping::{Mapping, leaves_in};
pub use self::occupancy::{BlockNeeds, SYSTEM_BYTES};
use super::dag::Dag;
use super::schedule::BodyItem;
use super::state::LoopsState;

/// The version of the texts. The number changes with the text of any state, whose times would
/// otherwise be compared with those of another kernel.
pub const VERSION: u32 = 1;

/// What all texts begin with.
const PREAMBLE: &str = include_str!("preamble.cuh");

/// How a kernel is launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelLaunch {
    /// The function's name.
    pub name: String,
    /// The number of blocks, all along the first axis.
    pub blocks: u32,
    /// The number of threads of each block.
    pub threads: u32,
}

/// A state as CUDA C++.
///
/// The arguments of each kernel are the inputs, in the order of the program, the outputs, in
/// theirs, and the scratch memory, as pointers to numbers of 32 bits that begin at multiples of 256
/// bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaSource {
    /// The text of all kernels.
    pub text: String,
    /// The kernels, in the order in which they are run.
    pub kernels: Vec<KernelLaunch>,
    /// The numbers of the scratch memory.
    pub scratch_places: u64,
}

impl CudaSource {
    /// Writes the code of a state.
    pub fn of(state: &LoopsState) -> Self {
        let (dag, mapping) = (&*state.dag, Mapping::of(state));
        let mut text = PREAMBLE.to_owned();
        let mut kernels = Vec::new();
        let mut next = (0, 0);
        for (root, item) in state.schedule.0.iter().enumerate() {
            let launch = mapping.launches[root];
            let name = format!("nest{root}");
            let mut emitter = Emitter::new(dag, &mapping, root, stage::staged(dag, &mapping, root));
            let (threads, arguments) = (launch.threads, arguments(dag));
            emitter.lines.open(&format!(
                "\nextern \"C\" __global__ void __launch_bounds__({threads}) {name}({arguments})"
            ));
            emitter.kernel(item, next);
            emitter.lines.close(1);
            text.push_str(&emitter.lines.text);
            next = (next.0 + loops_in(item), next.1 + leaves_in(item));
            let count = |count: u64| u32::try_from(count).expect("a launch has its bounds");
            kernels.push(KernelLaunch {
                name,
                blocks: count(launch.blocks),
                threads: count(threads),
            });
        }
        Self { text, kernels, scratch_places: mapping.scratch_places }
    }

    /// The kernel digest: the SHA-1 of the text and the launches, in hexadecimal.
    pub fn digest(&self) -> String {
        let mut hash = Sha1::new();
        hash.update(&self.text);
        for KernelLaunch { name, blocks, threads } in &self.kernels {
            hash.update(format!("\n// {name} {blocks} {threads}"));
        }
        let digits = hash.finalize().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
    }
}

/// What a block needs of the kernel that computes most, its registers by an estimate; nothing for a
/// schedule without a kernel.
pub(super) fn busiest_needs(state: &LoopsState) -> Option<BlockNeeds> {
    let (dag, mapping) = (&*state.dag, Mapping::of(state));
    let operations = |root: usize| {
        let leaves = mapping.outline.leaves.iter().zip(&mapping.roots);
        let own = leaves.filter(|(_, of)| **of == root).map(|(leaf, _)| dag.iterations(leaf.node));
        own.fold(0, u64::saturating_add)
    };
    // Of equals the first one.
    let busiest = (0..mapping.launches.len()).rev().max_by_key(|&root| operations(root))?;
    let staged = stage::staged(dag, &mapping, busiest);
    Some(Emitter::new(dag, &mapping, busiest, staged).needs())
}

fn loops_in(item: &BodyItem) -> usize {
    match item {
        BodyItem::Leaf(_) => 0,
        BodyItem::Loop(inner) => 1 + inner.body.iter().map(loops_in).sum::<usize>(),
    }
}

fn arguments(dag: &Dag) -> String {
    let inputs = (0..dag.inputs().count()).map(|at| format!("const float* __restrict__ a{at}"));
    let outputs = (0..dag.outputs().len()).map(|at| format!("float* __restrict__ o{at}"));
    let scratch = "float* scratch".to_owned();
    inputs.chain(outputs).chain([scratch]).collect::<Vec<_>>().join(", ")
}
