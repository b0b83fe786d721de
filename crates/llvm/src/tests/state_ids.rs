//! A state's id says what its bitcode says, whatever is cached from earlier steps.

use std::collections::HashMap;

use super::{
    EVERYTHING, Engine, LocalNames, Module, PipelineEffect, assemble, engine, real_programs,
    walk_in,
};
use crate::LlvmEnvironment;
use crate::session::sha1;
use crate::spaces::ACTION_SPACES;
use steplake_env::{Environment, Session, Start, Watch};
use steplake_model::{Baselines, Benchmark, Provenance, StateId};

/// Returns the id of the state that is read back from a program's bitcode.
fn afresh(program: &mut Module) -> StateId {
    Module::revive(program.write()).unwrap().state_id()
}

/// Returns the program with one of everything: with debug info, or without if an engine adopts it.
fn everything(adopting: Option<&Engine>) -> Module {
    let mut program = Module::parse(&assemble(EVERYTHING).unwrap(), LocalNames::Drop).unwrap();
    if let Some(engine) = adopting {
        program.adopt(engine.machine()).unwrap();
    }
    program.canonicalise();
    program
}

#[test]
fn the_id_changes_with_every_field() {
    let mut engine = engine();
    for has_debug_info in [true, false] {
        let mut index = 0;
        let mut unchanged = Vec::new();
        loop {
            let mut program = everything((!has_debug_info).then_some(&engine));
            // This fills the caches before the field changes.
            let before = program.state_id();
            let Some(name) = program.mutate(index) else { break };
            index += 1;
            if engine.run(&mut program, "no-op-module").unwrap() == PipelineEffect::None {
                unchanged.push(name);
                continue;
            }
            program.canonicalise_changes();
            assert_ne!(program.state_id(), before, "{name}");
            if !has_debug_info {
                // Reading bitcode renumbers bundle tags and completes data layouts.
                let rereads = !["operand bundle tag", "data layout"].contains(&name.as_str());
                assert!(!rereads || afresh(&mut program) == program.state_id(), "{name}");
            }
        }
        assert!(index > 80, "only {index} mutations were tried");
        let about_debug_info: &[&str] =
            if has_debug_info { &[] } else { &["debug location", "debug records"] };
        assert_eq!(unchanged, about_debug_info);
    }
}

/// Without tags, the numbers of a block and a global could read as those of a global and another
/// block.
#[test]
fn mentions_of_globals_and_of_blocks_are_told_apart() {
    let program = |first: &str, second: &str| {
        let text = format!(
            "define void @f0(ptr %p) {{
                br label %b1
             b1:
                store ptr {first}, ptr %p
                store ptr {second}, ptr %p
                ret void
             }}
             define void @f1() {{ br label %b1
             b1: br label %b2
             b2: ret void }}
             define void @f2() {{ ret void }}
             @used = global [2 x ptr] [ptr blockaddress(@f0, %b1), ptr blockaddress(@f1, %b2)]"
        );
        super::begin(&engine(), text.as_bytes())
    };
    let mut one = program("blockaddress(@f0, %b1)", "@f2");
    let mut other = program("@f0", "blockaddress(@f1, %b2)");
    assert_ne!(one.write(), other.write());
    assert_ne!(one.state_id(), other.state_id());
}

/// The bytes of the two tables have the same XXH3-128: a word whose lower half equals the secret
/// adds nothing but itself to the state, so that what one element gains another may lose. Scheme 1
/// gave both programs one id.
#[test]
fn programs_that_were_forged_to_have_one_id_have_two() {
    // The lower halves of the first words of XXH3's secret, for stripes 0 and 1.
    let elements = |[first, second]: [u64; 2]| {
        let mut elements = [0_u64; 64];
        elements[0] = first << 32 | 0x396c_feb8;
        elements[8] = second << 32 | 0x2c81_017c;
        elements.map(|element| format!("i64 {element}")).join(", ")
    };
    let program = |upper: [u64; 2]| {
        let text = format!(
            "@table = constant [64 x i64] [{}]
             define i64 @f(i64 %at) {{
               %place = getelementptr [64 x i64], ptr @table, i64 0, i64 %at
               %found = load i64, ptr %place
               ret i64 %found
             }}",
            elements(upper)
        );
        super::begin(&engine(), text.as_bytes())
    };
    let [mut one, mut other] = [[5, 7], [6, 6]].map(program);
    assert_ne!(one.write(), other.write());
    assert_ne!(one.state_id(), other.state_id());
}

/// Two builds of one compiler name themselves in what they make.
#[test]
fn the_name_of_the_compiler_is_no_part_of_a_program() {
    let program = |name: &str| {
        let text = format!(
            "define void @f() {{ ret void }}
             !llvm.ident = !{{!0}}
             !0 = !{{!\"{name}\"}}"
        );
        super::begin(&engine(), text.as_bytes()).state_id()
    };
    assert_eq!(program("clang 22"), program("clang 22 of another build"));
}

#[test]
fn ids_and_bitcode_are_in_one_to_one_correspondence() {
    let mut bitcodes: HashMap<StateId, [u8; 20]> = HashMap::new();
    let mut ids: HashMap<[u8; 20], StateId> = HashMap::new();
    let mut steps = 0;
    // The default actions, and all actions, among which are those that rename things.
    for (seed, space) in [(4, 0), (5, 0), (6, 1), (7, 1)] {
        walk_in(space, seed, 130, &mut |pipeline, _, _, program| {
            let id = program.state_id();
            let bitcode = sha1(program.write());
            assert_eq!(*bitcodes.entry(id).or_insert(bitcode), bitcode, "{pipeline} ({seed})");
            assert_eq!(*ids.entry(bitcode).or_insert(id), id, "{pipeline} ({seed})");
            assert_eq!(afresh(program), id, "after {pipeline} (seed {seed})");
            steps += 1;
        });
    }
    assert!(steps >= 2000 && ids.len() > 300, "{steps} steps, {} states", ids.len());
}

/// Steps that are verified one by one and steps that are verified together lead to the same states.
#[test]
fn when_the_verifier_looks_makes_no_difference() {
    let environment = LlvmEnvironment::new();
    let actions = environment.spec().action_spaces[0].actions.len();
    for bitcode in real_programs() {
        let [mut careful, mut windowed] = [(); 2].map(|()| environment.session().unwrap());
        let benchmark = benchmark(bitcode);
        for session in [&mut careful, &mut windowed] {
            start(session.as_mut(), &benchmark, None);
        }
        for step in 0..100 {
            let action = steplake_model::ActionIndex(u32::try_from(step * 37 % actions).unwrap());
            let [one, other] = [careful.apply(action), windowed.apply_unchecked(action)]
                .map(|step| step.unwrap().outcome);
            assert_eq!(one, other, "step {step}");
            if step % 16 == 15 {
                assert_eq!(windowed.check().unwrap(), None);
            }
        }
    }
}

fn benchmark(program: Vec<u8>) -> Benchmark {
    let uri = "file:///program.bc".parse().unwrap();
    Benchmark { uri, program: program.into(), provenance: Provenance::default(), execution: None }
}

fn start(
    session: &mut dyn Session,
    benchmark: &Benchmark,
    baselines: Option<&Baselines>,
) -> Baselines {
    let watch = Watch::default();
    let start = Start { benchmark, action_space: ACTION_SPACES[0].0, baselines, watch: &watch };
    session.start(&start).unwrap().baselines
}

#[test]
fn baselines_are_those_of_the_caller_or_measured() {
    let environment = LlvmEnvironment::new();
    let benchmark = benchmark(real_programs().swap_remove(0));
    let names = ["IrInstructionCountO0", "IrInstructionCountO3", "IrInstructionCountOz"];
    let wrong = Baselines(names.map(|name| (name.to_owned(), 3)).into());
    let mut session = environment.session().unwrap();
    assert_eq!(start(session.as_mut(), &benchmark, Some(&wrong)), wrong);
    let measured = start(session.as_mut(), &benchmark, None);
    assert_ne!(measured, wrong);
    assert_eq!(start(session.as_mut(), &benchmark, Some(&wrong)), wrong);
    assert_eq!(start(session.as_mut(), &benchmark, None), measured);
}

#[test]
fn a_stored_state_has_its_id_in_any_session() {
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    let mut program = everything(Some(&engine()));
    assert_eq!(session.identify(program.write()).unwrap(), program.state_id());
    let error = session.identify(b"no bitcode").unwrap_err().to_string();
    assert!(error.contains("a stored state cannot be read"), "{error}");
}
