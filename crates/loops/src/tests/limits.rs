//! Programs and schedules at the bounds, and past them.

use std::fmt::Write as _;

use super::LoopsState;
use crate::check::elements;
use crate::dag::NodeId;
use crate::kernel::module;
use crate::reference::Reference;

/// A program with a nest for each node, since each value but the last two is used twice, and a
/// schedule of one nest.
fn many_nodes(nodes: usize) -> String {
    let mut text =
        "// loops-v0 state 1\nm = 4\nn = 4\n%0 = input[m, n]\n%1 = add %0 %0\n".to_owned();
    for node in 2..=nodes {
        writeln!(text, "%{node} = add %{} %{}", node - 1, node - 2).unwrap();
    }
    write!(text, "output %{nodes}[m, n]\nfor m by 1\n  for n by 1\n").unwrap();
    (1..=nodes).for_each(|node| writeln!(text, "    %{node}").unwrap());
    text
}

#[test]
fn a_program_whose_initial_schedule_has_too_many_loops_is_refused() {
    let state = LoopsState::parse(many_nodes(12).as_bytes()).unwrap();
    assert_eq!(LoopsState::initial((*state.dag).clone()).outline().loops.len(), 22);
    let refused = LoopsState::parse(many_nodes(16).as_bytes()).unwrap_err();
    assert_eq!(refused, "its initial schedule: there are more than 24 loops");
}

#[test]
fn a_program_with_too_many_dimensions_is_refused() {
    let mut text = "// loops-v0 state 1\n".to_owned();
    "abcdefghi".chars().for_each(|name| writeln!(text, "{name} = 2").unwrap());
    text.push_str("%0 = input[a, i]\n%1 = sum[i] %0\noutput %1[a]\n");
    let refused = LoopsState::parse(text.as_bytes()).unwrap_err();
    assert_eq!(refused, "`i = 2`: there are more than 8 dimensions");
}

#[test]
fn a_value_that_is_used_twice_is_computed_once() {
    // Without memory, an element takes three times 2^27 evaluations.
    let mut text = "// loops-v0 state 1\nk = 3\nn = 2\n%0 = input[n, k]\n".to_owned();
    (1..=27).for_each(|node| writeln!(text, "%{node} = add %{0} %{0}", node - 1).unwrap());
    text.push_str("%28 = sum[k] %27\n%29 = add %28 %28\noutput %29[n]\n");
    let state = LoopsState::parse(text.as_bytes()).unwrap();
    let mut reference = Reference::new(&state.dag, 3);
    let output = state.dag.outputs()[0].node;
    for place in 0..2 {
        let index = reference.index(output, place);
        let input = (0..3).map(|k| {
            let mut index = index;
            index[0] = k;
            reference.value(NodeId(0), &index).value
        });
        let sum = input.sum::<f64>();
        let found = reference.value(output, &index).value;
        assert!((found - sum * f64::from(1 << 28)).abs() < 1e-3, "{found} {sum}");
    }
}

#[test]
fn fewer_elements_are_checked_where_sums_are_of_sums() {
    // An element of (A B) C takes 1,024 elements of A B, and each of them 1,024 products.
    let text = "// loops-v0 state 1\nm = 1024\nk = 1024\nj = 1024\nn = 1024\n%0 = input[m, k]\n\
                %1 = input[k, j]\n%2 = multiply %0 %1\n%3 = sum[k] %2\n%4 = input[j, n]\n\
                %5 = multiply %3 %4\n%6 = sum[j] %5\noutput %6[m, n]\n";
    let state = LoopsState::parse(text.as_bytes()).unwrap();
    assert_eq!(elements(&state.dag, 1).len(), 64);
    // The sum of a row is the same for all of its elements: softmax takes it once.
    let softmax = super::initial("softmax-1024x1024");
    assert_eq!(elements(&softmax.dag, 1).len(), 1022);
}

/// The places of all arrays that a text reserves on the stack.
fn local_places(text: &str) -> u64 {
    let arrays = text.lines().filter_map(|line| line.split_once("alloca [")?.1.split_once(' '));
    arrays.map(|(places, _)| places.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_tile_is_reserved_once_and_a_large_one_not_on_the_stack() {
    let tiled = |n: u64| {
        let text = format!(
            "// loops-v0 state 1\na = 16\nb = 16\nk = 2\nn = {n}\n%0 = input[a, b, k, n]\n\
             %1 = sum[k] %0\noutput %1[a, b, n]\nfor a by 1 unroll\n  for b by 1 unroll\n    \
             for k by 1 cache\n      for n by 1\n        %1\n"
        );
        module(&LoopsState::parse(text.as_bytes()).unwrap()).unwrap()
    };
    assert_eq!(local_places(&tiled(1024)), 1024);
    let large = tiled(16384);
    assert_eq!(local_places(&large), 0);
    assert!(large.contains("@loops_private_bytes = constant i64 65536\n"), "{large}");
}
