//! Tests of internals: features, the fingerprint, canonical form.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::engine::{Change, Engine};
use super::features::{autophase_names, inst_count_names};
use super::program::{LocalNames, Program, ProgramError};
use super::session::first_state;
use super::spaces::{ACTION_SPACES, action_spaces, unrolls_loops};
use super::{assemble, disassemble};
use crate::datasets::{Datasets, Settings};
use crate::model::ActionSpec;

mod codegen;
mod identity;
mod inst2vec;
mod ir2vec;
mod options;
mod order;
mod programl;
mod tokens;
mod tools;

const EVERYTHING: &[u8] = include_bytes!("everything.ll");
const GOLDEN: &[u8] = include_bytes!("golden.ll");

fn engine() -> Engine {
    Engine::new().unwrap()
}

/// Returns a program in its initial state.
fn begin(engine: &Engine, text: &[u8]) -> Program {
    first_state(engine, &assemble(text).unwrap()).unwrap()
}

/// Returns bitcode of programs in which optimisers find something to do.
fn real_programs() -> Vec<Vec<u8>> {
    let cache = tempfile::tempdir().unwrap();
    let settings = Settings {
        cache: cache.path().into(),
        apt_sources: cache.path().into(),
        mirrors: Vec::new(),
    };
    let datasets = Datasets::new(&settings);
    ["json_reader", "huffman", "fourier", "introsort"]
        .map(|name| format!("benchmark://steplake-v0/{name}").parse().unwrap())
        .map(|uri| datasets.benchmark(&uri).unwrap().program.to_vec())
        .into()
}

/// Returns the numbers that are not zero, with their names.
fn named<'a>(names: &[&'a str], numbers: &[i32]) -> Vec<(&'a str, i32)> {
    let pairs = names.iter().zip(numbers).filter(|(_, number)| **number != 0);
    pairs.map(|(name, number)| (*name, *number)).collect()
}

#[test]
fn features_of_a_program_counted_by_hand() {
    let features = begin(&engine(), GOLDEN).features();
    assert_eq!(
        named(&inst_count_names(), &features.inst_count),
        [
            ("TotalInsts", 19),
            ("TotalBlocks", 7),
            ("TotalFuncs", 4),
            ("Ret", 1),
            ("Br", 4),
            ("Switch", 1),
            ("Invoke", 1),
            ("Add", 2),
            ("Alloca", 1),
            ("Load", 1),
            ("Store", 1),
            ("GetElementPtr", 1),
            ("ICmp", 1),
            ("PHI", 1),
            ("Call", 1),
            ("ExtractElement", 1),
            ("LandingPad", 1),
            ("Freeze", 1),
        ]
    );
    assert_eq!(
        named(&autophase_names(), &features.autophase),
        [
            ("BBNumArgsLo", 1),
            ("onePred", 4),
            ("onePredOneSuc", 3),
            ("onePredTwoSuc", 1),
            ("oneSuccessor", 3),
            ("twoPred", 1),
            ("twoEach", 1),
            ("twoSuccessor", 2),
            ("morePreds", 1),
            ("BB03Phi", 1),
            ("BBNoPhi", 6),
            ("BeginPhi", 1),
            ("BranchCount", 4),
            ("returnInt", 1),
            ("CriticalCount", 4),
            ("NumEdges", 11),
            // Three of them are the switch's cases.
            ("const32Bit", 8),
            ("const64Bit", 4),
            ("numConstZeroes", 5),
            ("numConstOnes", 5),
            ("UncondBranches", 3),
            ("binaryConstArg", 2),
            ("NumAddInst", 2),
            ("NumAllocaInst", 1),
            ("BlockLow", 7),
            ("NumBrInst", 4),
            ("NumCallInst", 1),
            ("NumGetElementPtrInst", 1),
            ("NumICmpInst", 1),
            ("NumLoadInst", 1),
            ("NumPHIInst", 1),
            ("NumRetInst", 1),
            ("NumStoreInst", 1),
            ("TotalBlocks", 7),
            ("TotalInsts", 19),
            ("TotalMemInst", 6),
            ("TotalFuncs", 4),
            ("ArgsPhi", 5),
            ("testUnary", 3),
        ]
    );
}

#[test]
fn the_two_vectors_agree_where_they_count_the_same() {
    let engine = engine();
    for bitcode in real_programs() {
        let mut program = first_state(&engine, &bitcode).unwrap();
        let features = program.features();
        let count = |name: &str| {
            let place = inst_count_names().iter().position(|known| *known == name).unwrap();
            features.inst_count[place]
        };
        for (name, &number) in autophase_names().iter().zip(&features.autophase) {
            let opcode = name.strip_prefix("Num").and_then(|name| name.strip_suffix("Inst"));
            if let Some(opcode) = opcode {
                assert_eq!(number, count(opcode), "{name}");
            }
        }
        assert_eq!(features.inst_count[3..].iter().sum::<i32>(), count("TotalInsts"));
        assert_eq!(program.instructions(), i64::from(count("TotalInsts")));
    }
}

#[test]
fn the_fingerprint_sees_every_field() {
    let mut engine = engine();
    let bitcode = assemble(EVERYTHING).unwrap();
    let mut index = 0;
    loop {
        let mut program = Program::parse(&bitcode, LocalNames::Drop).unwrap();
        program.canonicalise();
        assert_eq!(engine.run(&mut program, "no-op-module"), Ok(Change::None));
        let Some(name) = program.mutate(index) else { break };
        assert_eq!(engine.run(&mut program, "no-op-module"), Ok(Change::Some), "{name}");
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
    let mut program = Program::parse(&assemble(text).unwrap(), LocalNames::Drop).unwrap();
    program.canonicalise();
    // Entries of `llvm.used` must be globals, and only a check of the whole module finds a null
    // there.
    program.break_constant();
    assert_eq!(engine.run(&mut program, "no-op-module"), Ok(Change::Some));
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
    let mut program = Program::parse(&assemble(text).unwrap(), LocalNames::Drop).unwrap();
    program.canonicalise();
    program.break_constant();
    assert_eq!(engine.run(&mut program, "function(instsimplify)"), Ok(Change::Some));
    let broken = program.verify_changes().unwrap_err();
    assert!(broken.contains("llvm.used"), "{broken}");
}

/// 2^40 paths lead to the function: a walk over all of them would never end.
#[test]
fn a_constant_that_many_ways_lead_to_is_visited_once() {
    let mut engine = engine();
    let mut program = begin(&engine, b"declare void @first()");
    program.nest_constants(40);
    assert_eq!(engine.run(&mut program, "no-op-module"), Ok(Change::Some));
    program.canonicalise_changes();
    let id = program.state_id();
    assert_eq!(Program::revive(program.write()).unwrap().state_id(), id);
}

#[test]
fn the_order_of_use_lists_is_restored_without_a_change() {
    let mut engine = engine();
    for bitcode in real_programs() {
        let mut program = first_state(&engine, &bitcode).unwrap();
        let mut untouched = Program::revive(program.write()).unwrap();
        program.reverse_uses();
        assert_eq!(engine.run(&mut program, "no-op-module"), Ok(Change::None));
        // Passes that depend on use-lists now do the same to both.
        let pipeline = "function(sroa,early-cse,instcombine<no-verify-fixpoint>,gvn)";
        for program in [&mut program, &mut untouched] {
            assert_eq!(engine.run(program, pipeline), Ok(Change::Some));
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
        let mut untouched = Program::revive(program.write()).unwrap();
        program.reverse_uses();
        // The first pipeline changes linkages and looks at no use-list; the others depend on them.
        let pipelines = ["internalize", "function(sroa,early-cse)", "function(newgvn,simplifycfg)"];
        for pipeline in pipelines {
            for program in [&mut program, &mut untouched] {
                assert_eq!(engine.run(program, pipeline), Ok(Change::Some), "{pipeline}");
                program.canonicalise_changes();
            }
        }
        assert_eq!(program.state_id(), untouched.state_id());
    }
}

/// Receives the pipeline, the state before, the engine's answer, and the program after.
type Check<'a> = dyn FnMut(&str, &[u8], Change, &mut Program) + 'a;

/// Walks randomly over programs that have something to optimise, in the default action space.
fn walk(seed: u64, steps: usize, check: &mut Check<'_>) {
    walk_in(0, seed, steps, check);
}

/// Walks in the given action space, by dependable actions and by those that unroll loops: of these
/// programs, unrolling makes the same each time.
fn walk_in(space: usize, seed: u64, steps: usize, check: &mut Check<'_>) {
    let actions = action_spaces().swap_remove(space).actions.into_iter();
    let is_taken =
        |action: &ActionSpec| action.flags.is_dependable() || unrolls_loops(&action.pipeline);
    let actions: Vec<ActionSpec> = actions.filter(is_taken).collect();
    let mut engine = engine();
    for bitcode in real_programs() {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut program = first_state(&engine, &bitcode).unwrap();
        for _ in 0..steps {
            let choice = random.next_u32() as usize % actions.len();
            let pipeline = &actions[choice].pipeline;
            let before = program.write().to_vec();
            let change = engine.run(&mut program, pipeline).unwrap();
            if change == Change::Some {
                program.verify_changes().unwrap();
                program.canonicalise_changes();
            }
            check(pipeline, &before, change, &mut program);
        }
    }
}

#[test]
fn no_change_is_missed() {
    walk(1, 60, &mut |pipeline, before, change, program| {
        if change == Change::None {
            assert!(before == program.write(), "{pipeline} changed something (seed 1)");
        }
    });
}

#[test]
fn states_come_back_the_same_from_their_bitcode() {
    walk(2, 40, &mut |pipeline, _, _, program| {
        let mut again = Program::revive(program.write()).unwrap();
        assert!(again.write() == program.write(), "after {pipeline} (seed 2)");
        assert_eq!(again.instructions(), program.instructions());
        assert_eq!(again.features(), program.features());
        assert_eq!(program.registered(), "", "{pipeline}");
    });
}

#[test]
fn replayed_steps_lead_where_the_first_ones_led() {
    let mut second = engine();
    walk(3, 40, &mut |pipeline, before, _, program| {
        let mut replay = Program::revive(before).unwrap();
        if second.run(&mut replay, pipeline).unwrap() == Change::Some {
            replay.canonicalise_changes();
        }
        assert!(replay.write() == program.write(), "{pipeline} (seed 3)");
    });
}

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
    assert_eq!(ACTION_SPACES.len(), 5);
}

#[test]
fn a_text_that_is_no_pipeline_is_refused() {
    let mut engine = engine();
    let mut program = begin(&engine, GOLDEN);
    let error = engine.run(&mut program, "function(nonsense)").unwrap_err();
    assert!(error.contains("nonsense"), "{error}");
}

#[test]
fn what_is_no_program_is_refused_in_one_line() {
    let unreadable = |bytes: &[u8]| match assemble(bytes) {
        Err(ProgramError::Unreadable(message)) => message,
        other => panic!("{other:?}"),
    };
    assert!(unreadable(b"define i32 @f() {\n  ret nothing\n}").starts_with("line 2: "));
    let broken = b"define i32 @f() {\n  br label %a\na:\n  %x = add i32 %x, 1\n  ret i32 %x\n}";
    assert!(unreadable(broken).contains("Only PHI nodes may reference their own value"));
    let bitcode = assemble(GOLDEN).unwrap();
    for end in [4, 5, 40, bitcode.len() / 2] {
        let message = unreadable(&bitcode[..end]);
        assert!(!message.is_empty() && !message.contains('\n'), "{message}");
    }
}

#[test]
fn a_program_for_another_machine_is_refused() {
    let engine = engine();
    let bitcode = assemble(b"target triple = \"aarch64-linux-gnu\"").unwrap();
    let error = first_state(&engine, &bitcode).unwrap_err();
    assert!(matches!(&error, ProgramError::WrongTarget(text) if text.contains("aarch64")));
}

#[test]
fn names_and_debug_info_make_no_difference_to_the_state() {
    let engine = engine();
    let text = std::str::from_utf8(GOLDEN).unwrap();
    let renamed = text.replace("%sum", "%total").replace("other", "rest");
    let state = |text: &str| begin(&engine, text.as_bytes()).state_id();
    assert_eq!(state(&renamed), state(&format!("source_filename = \"x.c\"\n{text}")));
}

#[test]
fn text_goes_through_bitcode_and_back() {
    let bitcode = assemble(GOLDEN).unwrap();
    let text = disassemble(&bitcode).unwrap();
    assert!(text.contains("switch i32 %sum, label %other ["), "{text}");
    assert_eq!(assemble(text.as_bytes()).map(|again| disassemble(&again)), Ok(Ok(text)));
}

/// Where LLVM upgrades the intrinsics of its older versions, it leaves declarations behind that
/// have the type of the old ones and the name of the new.
#[test]
fn a_program_of_an_older_llvm_becomes_a_valid_state() {
    let old = b"@number = internal global i32 1
        declare void @llvm.lifetime.start.p0(i64, ptr)
        define i32 @main() {
          %place = alloca i32
          call void @llvm.lifetime.start.p0(i64 4, ptr %place)
          %number = load i32, ptr @number
          ret i32 %number
        }";
    let mut engine = engine();
    // Text, which is upgraded as old bitcode is.
    let mut program = Program::parse(old, LocalNames::Keep).unwrap();
    program.adopt(engine.machine()).unwrap();
    program.canonicalise();
    // A pass that changes names has the whole module verified.
    assert_eq!(engine.run(&mut program, "strip"), Ok(Change::Some));
    program.verify_changes().unwrap();
    let text = disassemble(program.write()).unwrap();
    assert!(text.contains("@llvm.lifetime.start.p0(ptr"), "{text}");
    assert!(!text.contains("@llvm.lifetime.start.i64"), "{text}");
}
