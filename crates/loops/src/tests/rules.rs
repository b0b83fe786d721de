//! What actions do, and which they may not.

use super::{after, initial, schedule, wrong};
use crate::actions::ScheduleAction;
use crate::cursor::CursorAction;
use crate::state::LoopsState;
use crate::storage::Storage;

/// A matrix product in tiles that fit into registers, with one operand packed.
const TILED: [&str; 19] = [
    "pack[1]",
    "swap[0]",
    "split[0,16]",
    "swap[1]",
    "swap[4]",
    "swap[3]",
    "split[3,16]",
    "fuse[0]",
    "swap[3]",
    "split[3,4]",
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

#[test]
fn a_matrix_product_is_tiled_by_actions() {
    let state = after("matmul-18x32x64", &TILED);
    let text = "\
for n by 16 parallel
  for k by 1
    for n by 1 vectorize
      %1
  for m by 4
    for k by 1 cache
      for m by 1 unroll
        for n by 8 unroll
          for n by 1 vectorize
            %2
            %3
";
    assert_eq!(schedule(&state), text);
    assert_eq!(wrong(&state, 1), None);
    let outline = state.outline();
    let packed = Storage::of(&outline, &state.dag, &outline.leaves[0]);
    let axes = packed.axes.iter().map(|axis| (state.dag.name(axis.dim), axis.extent));
    assert_eq!(axes.collect::<Vec<_>>(), [("k", 32), ("n", 16)], "one panel of the operand");
    assert_eq!((packed.shared, packed.places()), (1, 512));
    let sum = &outline.leaves[2];
    let cached = outline.cached(&state.dag, sum).unwrap();
    assert_eq!((cached, outline.tile(&state.dag, sum, cached)), (2, vec![5, 6, 7]));
}

#[test]
fn all_lanes_of_a_sum_count_though_the_last_turn_is_short() {
    let actions = ["cache[1]", "split[1,8]", "vectorize[2]"];
    for name in ["sums-3x19", "maxima-3x19"] {
        let state = after(name, &actions);
        assert!(schedule(&state).contains("for n by 8 cache\n    for n by 1 vectorize"));
        assert_eq!(wrong(&state, 5), None);
    }
}

/// The action changes nothing.
fn refused(state: &LoopsState, action: &str) {
    let found = ScheduleAction::from_name(action).unwrap().apply(state);
    assert!(found.is_none(), "{action} changes\n{}to\n{}", schedule(state), found.unwrap().text());
}

#[test]
fn what_would_break_a_program_changes_nothing() {
    let softmax = initial("softmax-8x32");
    assert_eq!(
        schedule(&softmax),
        "for r by 1\n  for c by 1\n    %1\nfor r by 1\n  for c by 1\n    %2\n    %3\n\
         for r by 1\n  for c by 1\n    %4\nfor r by 1\n  for c by 1\n    %5\n",
    );
    // A loop over the columns may not use the largest element before it is known.
    let rows = after("softmax-8x32", &["fuse[0]"]);
    refused(&rows, "fuse[1]");
    // Two threads may not add to one sum, and not all iterations are one operation.
    refused(&after("softmax-8x32", &["swap[0]"]), "parallel[0]");
    refused(&softmax, "vectorize[0]");
    refused(&softmax, "vectorize[1]");
    refused(&softmax, "parallel[1]");
    refused(&softmax, "cache[0]");
    refused(&softmax, "stream[1]");
    refused(&softmax, "merge[0]");
    refused(&softmax, "split[1,32]");
    refused(&softmax, "unfuse[1]");
    refused(&softmax, "split[23,2]");
    // Lanes of a sum need a tile.
    let lanes = after("sums-8x32", &["cache[1]", "vectorize[1]"]);
    refused(&lanes, "cache[1]");
    refused(&after("sums-8x32", &[]), "vectorize[1]");
    // A block has 1,024 threads.
    let blocks = after("add-65536", &["split[0,1024]", "grid[0]", "block[1]"]);
    refused(&blocks, "block[0]");
    refused(&after("add-65536", &["block[0]"][..0]), "block[0]");
}

#[test]
fn marks_go_where_they_mean_something() {
    let state = after("add-64", &["stream[0]", "parallel[0]", "split[0,8]"]);
    assert_eq!(schedule(&state), "for n by 8 parallel\n  for n by 1 stream\n    %2\n");
    let back = ScheduleAction::Merge(0).apply(&state).unwrap();
    assert_eq!(schedule(&back), "for n by 1 parallel stream\n  %2\n");
    let state = after("softmax-8x32", &["fuse[0]", "fuse[0]", "fuse[0]", "cache[3]"]);
    let text = schedule(&state);
    assert!(text.contains("for c by 1 cache\n    %4"), "{text}");
    assert_eq!(wrong(&state, 3), None);
    let outline = state.outline();
    let sizes = outline.leaves.iter().map(|leaf| Storage::of(&outline, &state.dag, leaf).places());
    // The largest element and the sum are numbers, and the powers are a row.
    assert_eq!(sizes.collect::<Vec<_>>(), [1, 1, 32, 1, 256]);
}

#[test]
fn texts_that_are_no_states_are_refused() {
    let good = after("matmul-4x4x4", &["split[0,2]", "cache[2]"]).text();
    LoopsState::parse(good.as_bytes()).unwrap();
    for (from, to) in [
        ("state 1", "state 2"),
        ("m = 4", "m = 04"),
        ("m = 4", "m = 0"),
        ("m = 4", "m = 4294967296"),
        ("%2 = multiply %0 %1", "%2 = multiply %0 %3"),
        ("%2 = multiply", "%2 = product"),
        ("sum[k]", "sum[m, k, n]"),
        ("output %3[m, n]", "output %3[m]"),
        ("output %3[m, n]", "output %2[m, k, n]"),
        ("  for m by 1", "  for m by 3"),
        ("  for m by 1", "  for m by 1 serial"),
        ("  for m by 1", " for m by 1"),
        ("for k by 1 cache", "for k by 1 unroll cache vectorize"),
        ("        %3\n", ""),
        ("        %3\n", "        %3\n        %3\n"),
        ("        %2\n        %3\n", "        %3\n        %2\n"),
        ("        %3\n", "        %3\ncursor 0 move\n"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        assert!(LoopsState::parse(bad.as_bytes()).is_err(), "{bad}");
    }
}

#[test]
fn the_cursor_takes_from_the_loop_around_it() {
    use CursorAction::{Down, ToggleMode, ToggleThread, Up};
    let run = |actions: &[CursorAction]| {
        let start = initial("add-100").with_cursor().unwrap();
        actions.iter().fold(start, |state, action| action.apply(&state).unwrap())
    };
    assert!(Up.apply(&run(&[])).is_none(), "the outermost loop has none around it");
    let state = run(&[ToggleMode, Up, ToggleMode, Up, Up]);
    let sizes = |state: &LoopsState| {
        let loops = state.outline().loops;
        loops.iter().map(|facts| (facts.extent(), facts.tail())).collect::<Vec<_>>()
    };
    // 34 times 3, of which the last one is a tail of 1.
    assert_eq!(sizes(&state), [(34, 1), (3, 0), (1, 0)]);
    assert_eq!(sizes(&Down.apply(&state).unwrap()), [(50, 0), (2, 0), (1, 0)]);
    assert!(state.text().ends_with("cursor 1 resize\n"));
    assert!(ToggleThread.apply(&state).is_none(), "only the outermost loop has threads");
    assert!(run(&[]).text().contains("for n by 1 parallel\n"), "it begins with threads");
    assert!(!run(&[ToggleThread]).text().contains("parallel"));
    assert_eq!(run(&[ToggleThread, ToggleThread]), run(&[]));
    assert!(initial("matmul-4x4x4").with_cursor().is_err());
}

/// The example of CompilerGym's own docstring: each loop with its whole iterations and its tail.
#[test]
fn the_cursor_goes_the_way_of_the_peers_example() {
    use CursorAction::{Down, ToggleMode, Up};
    let mut state = initial("add-1024").with_cursor().unwrap();
    let mut play = |actions: &[CursorAction]| {
        for action in actions {
            state = action.apply(&state).unwrap();
        }
        let loops = state.outline().loops;
        loops.iter().map(|facts| (facts.range / facts.step, facts.tail())).collect::<Vec<_>>()
    };
    let inwards = [ToggleMode, Up, ToggleMode];
    let outwards = [ToggleMode, Down, ToggleMode];
    assert_eq!(play(&inwards), [(1024, 0), (1, 0), (1, 0)]);
    assert_eq!(play(&[Up]), [(512, 0), (2, 0), (1, 0)]);
    assert_eq!(play(&[Up]), [(341, 1), (3, 0), (1, 0)]);
    assert_eq!(play(&[Up]), [(256, 0), (4, 0), (1, 0)]);
    play(&inwards);
    assert_eq!(play(&[Up]), [(256, 0), (2, 0), (2, 0)]);
    assert_eq!(play(&[Up]), [(256, 0), (1, 1), (3, 0)]);
    play(&outwards);
    assert_eq!(play(&[Down]), [(341, 1), (1, 0), (3, 0)]);
    play(&inwards);
    assert_eq!(play(&[Down]), [(341, 1), (1, 1), (2, 0)]);
    play(&outwards);
    assert_eq!(play(&[Down]), [(512, 0), (1, 0), (2, 0)]);
    // Beyond the innermost loop comes the outermost one.
    play(&[ToggleMode, Up, Up, ToggleMode]);
    assert!(Down.apply(&state).is_none());
}

#[test]
fn a_sum_has_a_cursor_and_no_threads() {
    let text = "// loops-v0 state 1\nn = 64\n%0 = input[n]\n%1 = sum[n] %0\noutput %1[]\n";
    let state = LoopsState::parse(text.as_bytes()).unwrap().with_cursor().unwrap();
    assert!(!state.text().contains("parallel"));
    assert!(CursorAction::ToggleThread.apply(&state).is_none());
}
