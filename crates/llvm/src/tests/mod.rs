//! Tests of internals, and what they share.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::assemble;
use super::engine::{Engine, PipelineEffect};
use super::module::{LocalNames, Module};
use super::session::first_state;
use super::spaces::action_spaces;
use steplake_model::ActionSpec;
use steplake_programs::datasets::{DatasetFolders, Datasets};

mod codegen;
mod features;
mod fingerprint;
mod inst2vec;
mod ir2vec;
mod options;
mod order;
mod phis;
mod pipelines;
mod programl;
mod state_ids;
mod tokens;
mod tools;
mod translation;
mod use_lists;

const EVERYTHING: &[u8] = include_bytes!("everything.ll");
const GOLDEN: &[u8] = include_bytes!("golden.ll");

fn engine() -> Engine {
    Engine::new().unwrap()
}

/// Returns a program in its initial state.
fn begin(engine: &Engine, text: &[u8]) -> Module {
    first_state(engine, &assemble(text).unwrap()).unwrap()
}

/// Returns bitcode of programs in which optimisers find something to do.
fn real_programs() -> Vec<Vec<u8>> {
    let cache = tempfile::tempdir().unwrap();
    let settings = DatasetFolders {
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

/// Receives the pipeline, the state before, the engine's answer, and the program after.
type Check<'a> = dyn FnMut(&str, &[u8], PipelineEffect, &mut Module) + 'a;

/// Walks randomly over programs that have something to optimise, in the default action space.
fn walk(seed: u64, steps: usize, check: &mut Check<'_>) {
    walk_in(0, seed, steps, check);
}

/// Walks in the given action space, by dependable actions.
fn walk_in(space: usize, seed: u64, steps: usize, check: &mut Check<'_>) {
    let actions = action_spaces().swap_remove(space).actions.into_iter();
    let actions: Vec<ActionSpec> = actions.filter(|one| one.flags.is_dependable()).collect();
    let mut engine = engine();
    for bitcode in real_programs() {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut program = first_state(&engine, &bitcode).unwrap();
        for _ in 0..steps {
            let choice = random.next_u32() as usize % actions.len();
            let pipeline = &actions[choice].pipeline;
            let before = program.write().to_vec();
            let change = engine.run(&mut program, pipeline).unwrap();
            if change == PipelineEffect::Some {
                program.verify_changes().unwrap();
                program.canonicalise_changes();
            }
            check(pipeline, &before, change, &mut program);
        }
    }
}
