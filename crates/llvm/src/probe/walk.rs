//! The walks of a probe.

use std::io;
use std::path::Path;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::ProbeOptions;
use super::child::ProbeTask;
use steplake_model::Benchmark;

/// The number of steps of a walk: enough to reach states that no single action leads to, few enough
/// to leave something of the program.
const WALK_STEPS: usize = 40;

/// A walk to run under every condition.
pub(super) struct ProbeWalk<'a> {
    pub(super) benchmark: &'a Benchmark,
    /// The task under the first condition. The others have other seeds.
    pub(super) task: ProbeTask,
}

/// Plans all walks, and writes the programs to files.
pub(super) fn plan<'a>(options: &'a ProbeOptions, folder: &Path) -> io::Result<Vec<ProbeWalk<'a>>> {
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let mut walks = Vec::new();
    for (index, benchmark) in options.benchmarks.iter().enumerate() {
        let path = folder.join(format!("{index}.bc"));
        std::fs::write(&path, &benchmark.program)?;
        for _ in 0..options.rounds {
            let mut order = Vec::from_iter(&options.pipelines);
            for place in 0..order.len() {
                let left = u64::try_from(order.len() - place).expect("a usize is at most 64 bits");
                let other = usize::try_from(random.next_u64() % left).expect("below a usize");
                order.swap(place, place + other);
            }
            for actions in order.chunks(WALK_STEPS) {
                let actions = actions.iter().map(|&pipeline| pipeline.clone()).collect();
                let program = path.clone();
                let task = ProbeTask { program, shuffle: random.next_u64(), actions };
                walks.push(ProbeWalk { benchmark, task });
            }
        }
    }
    Ok(walks)
}
