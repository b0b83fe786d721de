//! Random schedules of small programs.

use steplake::env::loops::actions::ScheduleAction;
use steplake::env::loops::programs::program;
use steplake::env::loops::schedule::{LOOPS_MAX, LoopKind};
use steplake::env::loops::state::LoopsState;

/// Small programs of every kind, with sizes that no factor divides among them.
pub(crate) const SMALL: [&str; 14] = [
    "add-37",
    "add-256",
    "divide-9",
    "log-16",
    "exp-70",
    "sums-5x19",
    "maxima-7x16",
    "matmul-6x9x17",
    "matmul-8x16x8",
    "matmul-16x16x16",
    "linear-5x7x12",
    "softmax-6x21",
    "layernorm-4x18",
    "conv-3x2x5x7x3x2",
];

/// `SplitMix64` (Steele, Lea and Flood, 2014).
#[derive(Debug)]
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((bits ^ (bits >> 31)) % bound as u64).expect("it is below the bound")
    }
}

/// The state of a program after actions by names, each of which changes it.
pub(crate) fn after(name: &str, actions: &[&str]) -> LoopsState {
    actions.iter().fold(LoopsState::initial(program(name).unwrap()), |state, action| {
        let found = ScheduleAction::from_name(action).unwrap_or_else(|| panic!("{action}"));
        found.apply(&state).unwrap_or_else(|| panic!("{action} changes nothing of {state:?}"))
    })
}

/// A program with a random schedule, in which many loops are mapped.
pub(crate) fn random(numbers: &mut Numbers) -> LoopsState {
    let name = SMALL[numbers.below(SMALL.len())];
    let all = ScheduleAction::all();
    let mut state = LoopsState::initial(program(name).unwrap());
    for _ in 0..numbers.below(30) {
        let choice = numbers.below(all.len());
        let from = all.iter().cycle().skip(choice).take(150);
        state = from.copied().find_map(|action| action.apply(&state)).unwrap_or(state);
    }
    for number in 0..LOOPS_MAX {
        let runs = [LoopKind::Grid, LoopKind::Block, LoopKind::Block, LoopKind::Vector];
        let run = runs[numbers.below(runs.len())];
        let is_serial =
            state.outline().loops.get(number).is_some_and(|facts| facts.run == LoopKind::Serial);
        if is_serial && let Some(next) = ScheduleAction::Run(number, run).apply(&state) {
            state = next;
        }
    }
    state
}

/// A matrix product as GPUs like it: tiles in registers, operands in shared memory.
pub(crate) fn tiled(name: &str) -> LoopsState {
    after(name, &TILED)
}

/// The actions of [`tiled`], for tiles of 16 by 16 that 4 by 4 threads compute.
const TILED: [&str; 20] = [
    "swap[1]",
    "split[0,16]",
    "swap[1]",
    "split[1,16]",
    "swap[2]",
    "split[4,8]",
    "swap[3]",
    "swap[2]",
    "split[3,4]",
    "swap[4]",
    "split[4,4]",
    "swap[5]",
    "swap[6]",
    "swap[5]",
    "cache[2]",
    "grid[0]",
    "grid[1]",
    "block[3]",
    "block[4]",
    "unroll[6]",
];
