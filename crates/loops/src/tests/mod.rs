//! Tests of schedules: whatever actions make of them, they compute their programs.

mod episodes;
mod limits;
mod random;
mod rules;

use super::actions::ScheduleAction;
use super::dag::Dag;
use super::interpreter;
use super::programs::program;
use super::reference::Reference;
use super::state::LoopsState;

/// A program by its name, with its initial schedule.
fn initial(name: &str) -> LoopsState {
    LoopsState::initial(program(name).unwrap())
}

/// The state after actions, each of which changes it.
fn after(name: &str, actions: &[&str]) -> LoopsState {
    actions.iter().fold(initial(name), |state, action| {
        let found = ScheduleAction::from_name(action).unwrap_or_else(|| panic!("{action}"));
        found
            .apply(&state)
            .unwrap_or_else(|| panic!("{action} changes nothing of\n{}", state.text()))
    })
}

/// The schedule of a state, without its program.
fn schedule(state: &LoopsState) -> String {
    let text = state.text();
    let begins = text.find("\nfor ").unwrap() + 1;
    text[begins..].to_owned()
}

/// Compares outputs with the reference. Returns the first difference.
fn difference(dag: &Dag, seed: u64, outputs: &[Vec<f32>]) -> Option<String> {
    let mut reference = Reference::new(dag, seed);
    for (output, found) in dag.outputs().iter().zip(outputs) {
        assert_eq!(found.len() as u64, dag.elements(output.node));
        for (place, &found) in (0..).zip(found) {
            let index = reference.index(output.node, place);
            let right = reference.value(output.node, &index);
            assert!(right.error.is_finite(), "nothing can be said of {place}: {right:?}");
            // A comparison with NaN fails.
            let is_near = (f64::from(found) - right.value).abs() <= right.error;
            if !is_near {
                return Some(format!("{} at {place}: {found}, not {right:?}", output.node));
            }
        }
    }
    None
}

/// Runs a state without a compiler and compares what it computes.
fn wrong(state: &LoopsState, seed: u64) -> Option<String> {
    difference(&state.dag, seed, &interpreter::run(state, seed))
}
