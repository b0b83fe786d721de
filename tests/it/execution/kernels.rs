//! Kernels of schedules: what they compute, and that a wrong one is found.

use proptest::prelude::*;
use steplake::env::loops::kernel::module;
use steplake::env::loops::programs::program;
use steplake::env::loops::{LoopsState, ScheduleAction};
use steplake::execution::{ProgramEnd, RunSettings};
use steplake::measure::{BuiltKernel, KernelError, Timing};

use super::linked;

/// Small programs of every kind, with sizes that no factor divides among them.
const SMALL: [&str; 13] = [
    "add-37",
    "divide-9",
    "log-16",
    "exp-70",
    "sums-3x67",
    "maxima-7x16",
    "matmul-6x9x17",
    "matmul-8x16x8",
    "linear-5x7x12",
    "softmax-6x21",
    "softmax-4x50",
    "layernorm-4x18",
    "conv-3x2x5x7x3x2",
];

fn initial(name: &str) -> LoopsState {
    LoopsState::initial(program(name).unwrap())
}

fn after(name: &str, actions: &[&str]) -> LoopsState {
    actions.iter().fold(initial(name), |state, action| {
        ScheduleAction::from_name(action)
            .unwrap()
            .apply(&state)
            .unwrap_or_else(|| panic!("{action}"))
    })
}

fn kernel(state: &LoopsState) -> BuiltKernel {
    let built = BuiltKernel::build(state, &RunSettings::default());
    built.unwrap_or_else(|error| panic!("{error}\n{}", state.text()))
}

fn timing(seed: u64, threads: u64) -> Timing {
    Timing { seed, threads, warmups: 0, samples: 2 }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_kernel_computes_its_program_whatever_was_done(
        name in prop::sample::select(&SMALL[..]),
        choices in prop::collection::vec(0..10_000_usize, 0..40),
        threads in 1..4_u64,
    ) {
        let all = ScheduleAction::all();
        let state = choices.iter().fold(initial(name), |state, choice| {
            let mut from = all.iter().cycle().skip(choice % all.len()).take(all.len());
            from.find_map(|action| action.apply(&state)).unwrap_or(state)
        });
        let ran = kernel(&state).run(&timing(3, threads));
        prop_assert!(ran.is_ok(), "{}\n{}", ran.unwrap_err(), state.text());
    }
}

#[test]
fn copies_of_a_tile_take_its_place_once() {
    let text = "// loops-v0 state 1\na = 16\nb = 16\nk = 2\nn = 16384\n\
        %0 = input[a, b, k, n]\n%1 = sum[k] %0\noutput %1[a, b, n]\n\
        for a by 1 unroll\n  for b by 1 unroll\n    for k by 1 cache\n      for n by 1\n        %1\n";
    let state = LoopsState::parse(text.as_bytes()).unwrap();
    let samples = kernel(&state).run(&timing(1, 1)).unwrap();
    assert_eq!(samples.len(), 2);
}

#[test]
fn a_product_in_registers_is_right_and_timed() {
    let actions = [
        "pack[1]",
        "swap[0]",
        "split[0,16]",
        "swap[1]",
        "swap[4]",
        "swap[3]",
        "split[3,16]",
        "fuse[0]",
        "swap[3]",
        "split[3,6]",
        "swap[5]",
        "swap[4]",
        "cache[4]",
        "unroll[5]",
        "split[6,8]",
        "vectorize[7]",
        "unroll[6]",
        "vectorize[2]",
        "parallel[0]",
    ];
    let state = after("matmul-64x128x96", &actions);
    let samples = kernel(&state).run(&timing(1, 2)).unwrap();
    assert!(samples.len() == 2 && samples.iter().all(|&seconds| seconds > 0.0), "{samples:?}");
    let text = module(&state).unwrap();
    assert!(text.contains("fadd contract <8 x float>"), "the tile is one of vectors");
    assert_eq!(module(&state).unwrap(), text, "the text is the same each time");
}

#[test]
fn outputs_go_past_the_caches_where_that_is_asked_for() {
    let actions = ["split[0,8]", "vectorize[1]", "stream[1]", "parallel[0]"];
    let state = after("add-1000", &actions);
    assert!(module(&state).unwrap().contains("!nontemporal"));
    kernel(&state).run(&timing(2, 2)).unwrap();
    // Rows whose ends are not aligned cannot.
    let state = after("add-1000", &["split[0,6]", "split[1,2]", "vectorize[2]", "stream[2]"]);
    kernel(&state).run(&timing(2, 1)).unwrap();
}

#[test]
fn functions_of_vectors_are_right_for_large_and_small_numbers() {
    // The sums of rows make operands of a few hundred, which overflow.
    let text = "// loops-v0 state 1\nm = 64\nn = 300\n%0 = input[m, n]\n%1 = positive[m]\n\
                %2 = sum[n] %0\n%3 = multiply %2 %1\n%4 = exp %3\n%5 = exp %4\n%6 = log %4\n\
                output %4[m]\noutput %6[m]\noutput %5[m]\n";
    let state = LoopsState::parse(text.as_bytes()).unwrap();
    let ran = kernel(&state).run(&timing(9, 1));
    assert!(ran.is_ok(), "{ran:?}");
}

#[test]
fn a_wrong_result_is_found() {
    // The kernel of another program, with arrays of the same sizes, is not that of this one.
    let wrong = kernel(&initial("subtract-100"));
    let right = initial("add-100");
    match wrong.run_as(&right, &timing(4, 1)) {
        Err(KernelError::Wrong(what)) => assert!(what.contains("is right up to"), "{what}"),
        other => panic!("{other:?}"),
    }
}

/// A kernel of three nests in C. The last one, which thread 0 runs alone, ends the program if not
/// all threads have run the others as often as itself. It takes its time, so that the other threads
/// wait and are late when it ends.
const COUNTING: &str = "
static _Atomic uint64_t runs;

static void counts(float **arrays, char *private, uint64_t thread, uint64_t threads) {
    (void)arrays, (void)private, (void)thread, (void)threads;
    atomic_fetch_add(&runs, 1);
}

static void looks(float **arrays, char *private, uint64_t thread, uint64_t threads) {
    static uint64_t rounds;
    (void)arrays, (void)private, (void)thread;
    for (uint64_t begin = now_ns(); now_ns() - begin < 20000;) {
    }
    if (atomic_load(&runs) != 2 * threads * ++rounds) fail(\"threads run different nests\");
}

const uint64_t loops_nest_count = 3, loops_array_count = 1, loops_private_bytes = 0;
nest *const loops_nests[] = {counts, counts, looks};
const uint8_t loops_is_parallel[] = {1, 1, 0}, loops_contents[] = {OUTPUT};
const uint64_t loops_elements[] = {1};
";

#[test]
fn threads_keep_step_while_a_kernel_is_timed() {
    let harness = include_str!("../../../data/loops/harness.c");
    let program = linked(&format!("{harness}{COUNTING}"), &RunSettings::default());
    for _ in 0..30 {
        // Four threads, one sample of 0.2 ms at least, so that the kernel runs several times.
        let run = program.run(b"1 4 0 1 200000 0\n").unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.behaviour.end, ProgramEnd::Exit(0), "{stderr}");
    }
}
