//! The pipelines of the action spaces.

use super::{GOLDEN, begin, engine};
use crate::spaces::{ACTION_SPACES, action_spaces};

#[test]
fn every_pipeline_is_one() {
    let mut engine = engine();
    for space in action_spaces() {
        for action in space.actions.iter().filter(|action| !action.pipeline.is_empty()) {
            // On an empty module, only passes that create something of their own do anything.
            let mut program = begin(&engine, b"");
            if !action.flags.crashes {
                engine.run(&mut program, &action.pipeline).unwrap();
            }
        }
    }
    assert_eq!(ACTION_SPACES.len(), 6);
}

#[test]
fn a_text_that_is_no_pipeline_is_refused() {
    let mut engine = engine();
    let mut program = begin(&engine, GOLDEN);
    let error = engine.run(&mut program, "function(nonsense)").unwrap_err();
    assert!(error.contains("nonsense"), "{error}");
}
