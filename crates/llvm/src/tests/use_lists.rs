//! The order of use-lists, which bitcode does not hold, is restored before each step.

use super::{engine, real_programs};
use crate::engine::PipelineEffect;
use crate::module::Module;
use crate::session::first_state;

#[test]
fn the_order_of_use_lists_is_restored_without_a_change() {
    let mut engine = engine();
    for bitcode in real_programs() {
        let mut program = first_state(&engine, &bitcode).unwrap();
        let mut untouched = Module::revive(program.write()).unwrap();
        program.reverse_uses();
        assert_eq!(engine.run(&mut program, "no-op-module"), Ok(PipelineEffect::None));
        // Passes that depend on use-lists now do the same to both.
        let pipeline = "function(sroa,early-cse,instcombine<no-verify-fixpoint>,gvn)";
        for program in [&mut program, &mut untouched] {
            assert_eq!(engine.run(program, pipeline), Ok(PipelineEffect::Some));
            program.canonicalise_changes();
        }
        assert_eq!(program.state_id(), untouched.state_id());
    }
}

#[test]
fn the_order_is_restored_beside_a_change_elsewhere_too() {
    let mut engine = engine();
    for bitcode in real_programs() {
        let mut program = first_state(&engine, &bitcode).unwrap();
        let mut untouched = Module::revive(program.write()).unwrap();
        program.reverse_uses();
        // The first pipeline changes linkages and looks at no use-list; the others depend on them.
        let pipelines = ["internalize", "function(sroa,early-cse)", "function(gvn,simplifycfg)"];
        for pipeline in pipelines {
            for program in [&mut program, &mut untouched] {
                assert_eq!(engine.run(program, pipeline), Ok(PipelineEffect::Some), "{pipeline}");
                program.canonicalise_changes();
            }
        }
        assert_eq!(program.state_id(), untouched.state_id());
    }
}
