//! Random actions.

use std::sync::Arc;

use proptest::prelude::*;

use super::{initial, wrong};
use crate::actions::ScheduleAction;
use crate::cursor::CursorAction;
use crate::rules::check;
use crate::state::LoopsState;

/// Small programs of every kind, with sizes that no factor divides among them.
pub(super) const SMALL: [&str; 12] = [
    "add-37",
    "divide-9",
    "log-16",
    "exp-70",
    "sums-5x19",
    "maxima-7x16",
    "matmul-6x9x17",
    "matmul-8x16x8",
    "linear-5x7x12",
    "softmax-6x21",
    "layernorm-4x18",
    "conv-3x2x5x7x3x2",
];

/// Follows actions by random numbers, of which three of four look for one that changes something.
pub(super) fn walk(start: LoopsState, choices: &[(usize, bool)]) -> LoopsState {
    let all = ScheduleAction::all();
    choices.iter().fold(start, |state, &(choice, is_searching)| {
        let from = all.iter().cycle().skip(choice % all.len()).take(all.len());
        let tries = if is_searching { 150 } else { 1 };
        let next = from.take(tries).find_map(|action| action.apply(&state));
        next.unwrap_or(state)
    })
}

pub(super) fn choices() -> impl Strategy<Value = Vec<(usize, bool)>> {
    prop::collection::vec((0..10_000_usize, prop::bool::weighted(0.75)), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_is_done_a_schedule_computes_its_program(
        name in prop::sample::select(&SMALL[..]),
        choices in choices(),
    ) {
        let start = initial(name);
        let state = walk(start.clone(), &choices);
        check(&state.schedule, &state.dag).unwrap();
        let text = state.text();
        let read = LoopsState::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&read, &state);
        prop_assert_eq!(read.identify(), state.identify());
        prop_assert_eq!(read.text(), text.clone());
        prop_assert_eq!(&state.dag, &start.dag);
        let found = wrong(&state, 7);
        prop_assert!(found.is_none(), "{}\n{}", found.unwrap_or_default(), text);
    }

    #[test]
    fn a_cursor_goes_its_way(
        size in 1..50_u64,
        choices in prop::collection::vec(0..4_usize, 0..60),
    ) {
        let start = initial(&format!("add-{size}")).with_cursor().unwrap();
        let state = choices.iter().fold(start, |state, &choice| {
            CursorAction::ALL[choice].apply(&state).unwrap_or(state)
        });
        let text = state.text();
        prop_assert_eq!(&LoopsState::parse(text.as_bytes()).unwrap(), &state);
        let found = wrong(&state, 7);
        prop_assert!(found.is_none(), "{}\n{}", found.unwrap_or_default(), text);
        prop_assert!(Arc::ptr_eq(&state.dag, &state.clone().dag));
    }
}
