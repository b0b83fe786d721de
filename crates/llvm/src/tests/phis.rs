//! The order of the entries of phi nodes, and the addresses of blocks, follow from the content.

use super::{begin, engine, real_programs};
use crate::engine::PipelineEffect;
use crate::module::Module;
use crate::session::first_state;

#[test]
fn the_order_of_entries_makes_no_state() {
    let mut engine = engine();
    for bitcode in real_programs() {
        let mut program = first_state(&engine, &bitcode).unwrap();
        let pipeline = "function(sroa,simplifycfg,instcombine<no-verify-fixpoint>)";
        assert_eq!(engine.run(&mut program, pipeline), Ok(PipelineEffect::Some));
        program.canonicalise_changes();
        let (before, bitcode) = (program.state_id(), program.write().to_vec());
        program.reverse_entries();
        // The order is put right by the next step, which changes nothing, as by a read.
        assert_ne!(program.write(), bitcode);
        assert_eq!(Module::revive(program.write()).unwrap().state_id(), before);
        assert_eq!(engine.run(&mut program, "no-op-module"), Ok(PipelineEffect::None));
        assert_eq!(program.write(), bitcode);
        // Passes that see the order do the same to both.
        let mut untouched = Module::revive(&bitcode).unwrap();
        for program in [&mut program, &mut untouched] {
            let pipeline = "function(loop(loop-rotate),gvn,jump-threading,loop-unroll<O3>)";
            assert_eq!(engine.run(program, pipeline), Ok(PipelineEffect::Some));
            program.canonicalise_changes();
        }
        assert_eq!(program.state_id(), untouched.state_id());
    }
}

/// Nothing uses the address once the table is gone, but in the context it would live on, and passes
/// would take the block for the target of a jump.
#[test]
fn the_address_of_a_block_does_not_outlive_its_last_use() {
    let text = b"@table = internal constant ptr blockaddress(@f, %second)
                 define i32 @f(i32 %x) {
                   br label %second
                 second:
                   %y = add i32 %x, 1
                   ret i32 %y
                 }";
    let mut engine = engine();
    let mut program = begin(&engine, text);
    let run = |program: &mut Module, engine: &mut crate::engine::Engine, pipeline| {
        assert_eq!(engine.run(program, pipeline), Ok(PipelineEffect::Some));
        program.canonicalise_changes();
    };
    run(&mut program, &mut engine, "globaldce");
    let mut revived = Module::revive(program.write()).unwrap();
    for program in [&mut program, &mut revived] {
        run(program, &mut engine, "function(simplifycfg)");
    }
    assert_eq!(program.state_id(), revived.state_id());
    assert_eq!(program.instructions(), 2);
}
