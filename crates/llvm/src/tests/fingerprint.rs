//! The fingerprint tells what a pipeline changed, and a check finds what it broke.

use super::{EVERYTHING, begin, engine, walk};
use crate::assemble;
use crate::engine::PipelineEffect;
use crate::module::{LocalNames, Module};

#[test]
fn the_fingerprint_sees_every_field() {
    let mut engine = engine();
    let bitcode = assemble(EVERYTHING).unwrap();
    let mut index = 0;
    loop {
        let mut program = Module::parse(&bitcode, LocalNames::Drop).unwrap();
        program.canonicalise();
        assert_eq!(engine.run(&mut program, "no-op-module"), Ok(PipelineEffect::None));
        let Some(name) = program.mutate(index) else { break };
        assert_eq!(engine.run(&mut program, "no-op-module"), Ok(PipelineEffect::Some), "{name}");
        index += 1;
    }
    assert!(index > 70, "only {index} mutations were tried");
}

#[test]
fn a_constant_that_is_broken_in_place_is_found() {
    let mut engine = engine();
    let text = b"@llvm.used = appending global [2 x ptr] [ptr @first, ptr @second], section \"llvm.metadata\"
                declare void @first()
                declare void @second()";
    let mut program = Module::parse(&assemble(text).unwrap(), LocalNames::Drop).unwrap();
    program.canonicalise();
    // Entries of `llvm.used` must be globals, and only a check of the whole module finds a null
    // there.
    program.break_constant();
    assert_eq!(engine.run(&mut program, "no-op-module"), Ok(PipelineEffect::Some));
    let broken = program.verify_changes().unwrap_err();
    assert!(broken.contains("llvm.used"), "{broken}");
}

#[test]
fn a_constant_that_is_broken_beside_a_change_of_a_function_is_found() {
    let mut engine = engine();
    let text = b"@llvm.used = appending global [2 x ptr] [ptr @first, ptr @second], section \"llvm.metadata\"
                declare void @first()
                declare void @second()
                define i32 @f(i32 %x) {
                  %y = add i32 %x, 0
                  ret i32 %y
                }";
    let mut program = Module::parse(&assemble(text).unwrap(), LocalNames::Drop).unwrap();
    program.canonicalise();
    program.break_constant();
    assert_eq!(engine.run(&mut program, "function(instsimplify)"), Ok(PipelineEffect::Some));
    let broken = program.verify_changes().unwrap_err();
    assert!(broken.contains("llvm.used"), "{broken}");
}

/// 2^40 paths lead to the function: a walk over all of them would never end.
#[test]
fn a_constant_that_many_ways_lead_to_is_visited_once() {
    let mut engine = engine();
    let mut program = begin(&engine, b"declare void @first()");
    program.nest_constants(40);
    assert_eq!(engine.run(&mut program, "no-op-module"), Ok(PipelineEffect::Some));
    program.canonicalise_changes();
    let id = program.state_id();
    assert_eq!(Module::revive(program.write()).unwrap().state_id(), id);
}

#[test]
fn no_change_is_missed() {
    walk(1, 60, &mut |pipeline, before, change, program| {
        if change == PipelineEffect::None {
            assert!(before == program.write(), "{pipeline} changed something (seed 1)");
        }
    });
}
