//! What an engine keeps from earlier steps affects no later one.

use std::collections::BTreeSet;

use super::{ActionSpec, PipelineEffect, action_spaces, begin, engine};

/// Attributes that a target machine takes into its options.
const FAST: &str = "\"no-infs-fp-math\"=\"true\" \"no-nans-fp-math\"=\"true\" \
                    \"no-signed-zeros-fp-math\"=\"true\"";

/// Returns a function with these attributes, in which passes find something to do.
fn function(name: &str, attributes: &str) -> String {
    format!(
        "define float @{name}(ptr %numbers, i64 %count, float %by) {attributes} {{
         entry:
           br label %loop
         loop:
           %i = phi i64 [ 0, %entry ], [ %next, %loop ]
           %most = phi float [ 0.0, %entry ], [ %more, %loop ]
           %place = getelementptr float, ptr %numbers, i64 %i
           %number = load float, ptr %place
           %part = fdiv float %number, %by
           %is_more = fcmp ogt float %part, %most
           %more = select i1 %is_more, float %part, float %most
           %next = add i64 %i, 1
           %is_end = icmp eq i64 %next, %count
           br i1 %is_end, label %end, label %loop
         end:
           %negative = fsub float -0.0, %more
           ret float %negative
         }}\n"
    )
}

#[test]
fn it_does_not_matter_which_function_asked_a_target_machine_first() {
    let both = function("fast", FAST) + &function("strict", "");
    let actions = action_spaces().into_iter().flat_map(|space| space.actions);
    let is_taken = |action: &ActionSpec| action.flags.is_dependable();
    let pipelines: BTreeSet<_> = actions.filter(is_taken).map(|action| action.pipeline).collect();
    assert!(pipelines.len() > 100);
    let mut changing = 0;
    for pipeline in pipelines.into_iter().filter(|pipeline| !pipeline.is_empty()) {
        let [(after_fast, change), (after_strict, _)] = [FAST, ""].map(|attributes| {
            let mut engine = engine();
            let mut first = begin(&engine, function("first", attributes).as_bytes());
            engine.run(&mut first, "function(slp-vectorizer)").unwrap();
            let mut program = begin(&engine, both.as_bytes());
            let change = engine.run(&mut program, &pipeline).unwrap();
            if change == PipelineEffect::Some {
                program.canonicalise_changes();
            }
            (program.state_id(), change)
        });
        assert_eq!(after_fast, after_strict, "{pipeline}");
        changing += u32::from(change == PipelineEffect::Some);
    }
    assert!(changing > 20, "only {changing} pipelines found something to do");
}
