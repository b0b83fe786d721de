//! Options of LLVM's command line: who sees them, and for how long.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use super::{engine, real_programs};
use crate::engine::{Engine, PipelineEffect};
use crate::module::Module;
use crate::options::{SETTABLE, hold};
use crate::session::first_state;
use crate::spaces::action_spaces;
use steplake_model::{StateId, split_option};

const UNROLL: &str = "function(loop-unroll)";
const UNROLL_BY_4: &str = "with<unroll-count=4>(function(loop-unroll))";

/// The pipelines of actions that set an option.
fn with_options() -> Vec<String> {
    let actions = action_spaces().into_iter().flat_map(|space| space.actions);
    let pipelines = actions.map(|action| action.pipeline);
    pipelines.filter(|pipeline| split_option(pipeline).0.is_some()).collect()
}

/// States in which options make a difference to many passes.
fn states() -> Vec<Vec<u8>> {
    const FIRST: &str = "function(sroa,early-cse,simplifycfg,loop-simplify,loop-mssa(loop-rotate))";
    let mut engine = engine();
    let mut state = |bitcode: &Vec<u8>| {
        let mut program = first_state(&engine, bitcode).unwrap();
        assert_eq!(engine.run(&mut program, FIRST), Ok(PipelineEffect::Some));
        program.canonicalise_changes();
        program.write().to_vec()
    };
    real_programs()[..2].iter().map(&mut state).collect()
}

/// Runs each pipeline on each state.
fn play(engine: &mut Engine, states: &[Vec<u8>], pipelines: &[String]) -> Vec<StateId> {
    let mut ids = Vec::new();
    for bitcode in states {
        for pipeline in pipelines {
            let mut program = Module::revive(bitcode).unwrap();
            if engine.run(&mut program, pipeline).unwrap() == PipelineEffect::Some {
                program.canonicalise_changes();
            }
            ids.push(program.state_id());
        }
    }
    ids
}

#[test]
fn the_options_are_those_that_actions_set() {
    let name = |pipeline: &String| {
        let (option, _) = split_option(pipeline);
        option.unwrap().split_once('=').unwrap().0.to_owned()
    };
    let names: BTreeSet<String> = with_options().iter().map(name).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), SETTABLE);
}

/// Plays each list of pipelines in a thread of its own, all at once.
fn play_at_once<const N: usize>(states: &[Vec<u8>], lists: [&[String]; N]) -> [Vec<StateId>; N] {
    // Passes go deeper into large functions than the stack of a test's thread allows.
    const STACK_BYTES: usize = 16 << 20;
    thread::scope(|scope| {
        let threads = lists.map(|pipelines| {
            let thread = thread::Builder::new().stack_size(STACK_BYTES);
            thread.spawn_scoped(scope, || play(&mut engine(), states, pipelines)).unwrap()
        });
        threads.map(|thread| thread.join().unwrap())
    })
}

#[test]
fn a_thread_does_not_see_what_another_one_sets() {
    const ROUNDS: usize = 2;
    let states = states();
    let set = with_options();
    let plain: Vec<String> = set.iter().map(|text| split_option(text).1.to_owned()).collect();
    let [alone_set] = play_at_once(&states, [&set]);
    let [alone_plain] = play_at_once(&states, [&plain]);
    let differing = alone_set.iter().zip(&alone_plain).filter(|(set, plain)| set != plain);
    assert!(differing.count() > set.len(), "the options make a difference");
    for _ in 0..ROUNDS {
        let [beside_plain, beside_set] = play_at_once(&states, [&set, &plain]);
        assert!(beside_plain == alone_set && beside_set == alone_plain);
    }
}

#[test]
fn an_option_has_its_default_again_whatever_happened() {
    let states = states();
    let mut engine = engine();
    let mut plain = || play(&mut engine, &states, &[UNROLL.to_owned()]);
    let before = plain();
    let after_panic = || {
        let _held = hold(UNROLL_BY_4).unwrap();
        panic!("while the option is set");
    };
    assert!(catch_unwind(AssertUnwindSafe(after_panic)).is_err());
    assert_eq!(plain(), before);
    let mut run = |pipeline: &str| {
        let mut program = Module::revive(&states[0]).unwrap();
        engine.run(&mut program, pipeline).map(|_| ())
    };
    let error = run("with<unroll-count=4>(function(nonsense))").unwrap_err();
    assert!(error.contains("nonsense"), "{error}");
    run(UNROLL_BY_4).unwrap();
    assert_eq!(play(&mut engine, &states, &[UNROLL.to_owned()]), before);
}

#[test]
fn other_options_and_other_values_are_refused() {
    let mut engine = engine();
    let mut program = Module::revive(&states()[0]).unwrap();
    for (pipeline, problem) in [
        ("with<time-passes=1>(function(dce))", "`time-passes` is no option that actions set"),
        ("with<>(function(dce))", "`` is no option that actions set"),
        ("with<unroll-count=some>(function(dce))", "`unroll-count` cannot be `some`"),
        ("with<unroll-count=4>(with<unroll-count=2>(function(dce)))", "unknown pipeline name"),
        ("function(with<unroll-count=4>(loop-unroll))", "invalid use of 'with<"),
    ] {
        let error = engine.run(&mut program, pipeline).unwrap_err();
        assert!(error.contains(problem), "{pipeline}: {error}");
    }
}
