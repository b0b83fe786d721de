//! The schedules that are measured, as names of actions from a program's initial schedule.

use steplake::env::loops::ScheduleAction;
use steplake::env::loops::programs::program;
use steplake::env::loops::state::LoopsState;

/// The factors that powers of two are split by, largest first.
const FACTORS: [u64; 9] = [1024, 256, 128, 64, 32, 16, 8, 4, 2];

/// The most threads of a block in a sweep.
const SWEPT_BLOCK_THREADS_MAX: u64 = 256;

/// The lanes of one load: four numbers of 32 bits.
const LANES: u64 = 4;

/// A program with actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedSchedule {
    /// What the schedule is called among those of its program.
    pub(crate) name: String,
    /// The name of the program.
    pub(crate) program: String,
    /// The names of the actions.
    pub(crate) actions: Vec<String>,
}

impl NamedSchedule {
    /// The state after the actions.
    ///
    /// # Errors
    ///
    /// If there is no such program, or an action changes nothing.
    pub(crate) fn state(&self) -> Result<LoopsState, String> {
        let start = LoopsState::initial(program(&self.program)?);
        self.actions.iter().try_fold(start, |state, name| {
            let next = ScheduleAction::from_name(name).and_then(|action| action.apply(&state));
            next.ok_or_else(|| format!("{name} changes nothing of {}", self.program))
        })
    }
}

/// How the elements of an array are dealt, each a power of two: blocks take ranges, in turns of as
/// many elements as their threads have lanes.
#[derive(Debug, Clone, Copy)]
struct Deal {
    blocks: u64,
    turns: u64,
    threads: u64,
    lanes: u64,
    is_streamed: bool,
}

impl Deal {
    /// The actions that deal the one loop of a point-wise program so.
    fn actions(self) -> Vec<String> {
        let Self { blocks, turns, threads, lanes, is_streamed } = self;
        let loops = [("grid", blocks), ("", turns), ("block", threads), ("vectorize", lanes)];
        let loops = loops.into_iter().filter(|&(_, extent)| extent > 1).collect::<Vec<_>>();
        let mut actions = Vec::new();
        for &(_, extent) in loops.iter().skip(1).rev() {
            for (part, factor) in factors(extent).into_iter().enumerate() {
                actions.push(format!("split[0,{factor}]"));
                if part > 0 {
                    actions.push("merge[1]".to_owned());
                }
            }
        }
        for (number, (mark, _)) in loops.iter().enumerate() {
            if !mark.is_empty() {
                actions.push(format!("{mark}[{number}]"));
            }
        }
        if is_streamed {
            actions.push(format!("stream[{}]", loops.len().saturating_sub(1)));
        }
        actions
    }
}

/// Factors of actions whose product is a power of two.
fn factors(mut product: u64) -> Vec<u64> {
    let mut factors = Vec::new();
    while let Some(factor) = FACTORS.into_iter().find(|factor| product.is_multiple_of(*factor)) {
        factors.push(factor);
        product /= factor;
    }
    factors
}

/// Schedules of point-wise addition, of a power of two of elements that is at least 1024.
pub(crate) fn adds(elements: u64) -> Vec<NamedSchedule> {
    let deal = |(turns, threads, is_streamed): (u64, u64, bool)| {
        let blocks = elements / (turns * threads * LANES);
        let deal = Deal { blocks, turns, threads, lanes: LANES, is_streamed };
        let times = if turns > 1 { format!(", {turns} times each") } else { String::new() };
        let streamed = if is_streamed { ", streamed" } else { "" };
        NamedSchedule {
            name: format!("{threads} threads of {LANES} lanes{times}{streamed}"),
            program: format!("add-{elements}"),
            actions: deal.actions(),
        }
    };
    let kinds = [(1, 128, false), (1, 256, true), (2, 256, true), (4, 256, true)];
    let fits = |(turns, threads, _): &(u64, u64, bool)| turns * threads * LANES <= elements;
    kinds.into_iter().filter(fits).map(deal).collect()
}

/// Addition of a power of two of elements by another one of threads, no more than there are
/// elements.
pub(crate) fn swept(elements: u64, threads: u64) -> NamedSchedule {
    let of_block = threads.min(SWEPT_BLOCK_THREADS_MAX);
    let lanes = LANES.min(elements / threads);
    let deal = Deal {
        blocks: threads / of_block,
        turns: elements / (threads * lanes),
        threads: of_block,
        lanes,
        is_streamed: false,
    };
    NamedSchedule {
        name: format!("{threads} threads"),
        program: format!("add-{elements}"),
        actions: deal.actions(),
    }
}

/// Tiles of a matrix product: of a block, of a thread, and how deep the operands are that are in
/// shared memory at a time.
#[derive(Debug, Clone, Copy)]
struct Tiles {
    block: (u64, u64),
    thread: (u64, u64),
    depth: u64,
    form: Form,
}

/// How a thread's tile lies in that of its block.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// In one piece. A thread adds a term to the whole tile before the next one.
    Whole,
    /// In four, one in each quarter of the block's, so that neighbours among the threads read
    /// neighbours in shared memory. All terms of a part are unrolled.
    Quarters,
}

impl Tiles {
    fn actions(self) -> Vec<String> {
        let Self { block: (rows, columns), thread: (own_rows, own_columns), depth, form } = self;
        let split = |number: u64, factor: u64| format!("split[{number},{factor}]");
        let swap = |number: u64| format!("swap[{number}]");
        let mut actions = vec![swap(1), split(0, rows), swap(1), split(1, columns), swap(2)];
        // The loop over the terms of the sums goes out of those over a tile, in parts.
        actions.extend([split(4, depth), swap(3), swap(2)]);
        let marks = match form {
            Form::Whole => {
                actions.extend([split(3, own_rows), swap(4), split(4, own_columns)]);
                actions.extend([swap(5), swap(6), swap(5)]);
                ["block[3]", "block[4]", "unroll[6]", "vectorize[7]"].as_slice()
            }
            Form::Quarters => {
                actions.extend([swap(4), swap(3)]);
                actions.extend([split(4, rows / 2), swap(5), split(5, columns / 2), swap(6)]);
                actions.extend([split(6, own_rows / 2), swap(7), split(7, own_columns / 2)]);
                actions.push(swap(8));
                let unrolled = ["unroll[3]", "unroll[4]", "unroll[5]", "unroll[8]"];
                actions.extend(unrolled.map(str::to_owned));
                ["block[6]", "block[7]", "vectorize[9]"].as_slice()
            }
        };
        actions.extend(["cache[2]", "grid[0]", "grid[1]"].map(str::to_owned));
        actions.extend(marks.iter().map(|&mark| mark.to_owned()));
        actions
    }
}

/// Schedules of the product of square matrices, whose size the tiles divide.
pub(crate) fn products(size: u64) -> Vec<NamedSchedule> {
    let named = |(block, thread, depth, form): ((u64, u64), (u64, u64), u64, Form)| NamedSchedule {
        name: format!(
            "tiles of {} by {}, {} by {} a thread{}, {depth} deep",
            block.0,
            block.1,
            thread.0,
            thread.1,
            if matches!(form, Form::Quarters) { " in quarters" } else { "" },
        ),
        program: format!("matmul-{size}x{size}x{size}"),
        actions: Tiles { block, thread, depth, form }.actions(),
    };
    let tiles = [
        ((128, 128), (8, 8), 8, Form::Quarters),
        ((64, 128), (8, 8), 16, Form::Quarters),
        ((128, 128), (8, 8), 8, Form::Whole),
        ((128, 128), (16, 4), 8, Form::Whole),
    ];
    tiles.into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use steplake::env::loops::cuda::CudaSource;

    #[test]
    fn actions_of_all_sizes_apply_and_no_two_schedules_are_alike() {
        for power in 10..=28 {
            let state = |named: &NamedSchedule| named.state().unwrap().identify();
            let mut states = adds(1 << power).iter().map(state).collect::<Vec<_>>();
            let count = states.len();
            states.sort();
            states.dedup();
            assert_eq!(states.len(), count);
            assert_eq!(
                count,
                if power == 10 {
                    2
                } else if power == 11 {
                    3
                } else {
                    4
                }
            );
        }
        assert_eq!(products(4096).iter().filter(|named| named.state().is_ok()).count(), 4);
    }

    #[test]
    fn a_sweep_deals_to_as_many_threads_as_it_says() {
        for (elements, most) in [(1 << 10, 10), (1 << 18, 18), (1 << 28, 20)] {
            for threads in (0..=most).map(|power| 1 << power) {
                let source = CudaSource::of(&swept(elements, threads).state().unwrap());
                let [kernel] = source.kernels.as_slice() else { panic!("one nest") };
                assert_eq!(u64::from(kernel.blocks) * u64::from(kernel.threads), threads);
            }
        }
    }
}
