//! Random walks in a worker, to make a profile of it and to compare workers: `scripts/bolt.sh` runs
//! this.
//!
//! Arguments: the worker's program, a seed, a number of episodes, and benchmarks of the project's
//! own and of csmith. Prints a digest of all states, and the CPU seconds of the worker.

use std::path::PathBuf;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use steplake_env::worker::{WorkerConfig, WorkerEnvironment};
use steplake_env::{Environment, Start, Watch};
use steplake_model::{ActionIndex, Dice, StateId};
use steplake_programs::datasets::{DatasetFolders, Datasets};

/// The steps of an episode.
const STEPS: u32 = 50;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("arguments: WORKER SEED EPISODES BENCHMARK...");
    let (program, seed, episodes) = (PathBuf::from(next()?), next()?.parse()?, next()?.parse()?);
    let benchmarks: Vec<String> = arguments.collect();
    let (digest, steps) = play(program, seed, episodes, &benchmarks)?;
    // The worker has ended, and its time counts as that of a child.
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let milliseconds = (usage.user_time() + usage.system_time()).num_milliseconds();
    #[expect(clippy::print_stdout, reason = "the result")]
    {
        println!("{digest} {steps} steps {milliseconds} ms");
    }
    Ok(())
}

/// Plays episodes of benchmarks in turns. Returns a digest of their states, and their steps.
fn play(
    program: PathBuf,
    seed: i64,
    episodes: u32,
    benchmarks: &[String],
) -> Result<(String, u64), Failure> {
    let llvm = steplake_compilers::open(steplake_compilers::DEFAULT)?;
    let spec = llvm.spec().clone();
    let (space, watch) = (spec.action_spaces[0].clone(), Watch::default());
    let cache = tempfile::tempdir()?;
    let datasets = Datasets::new(&DatasetFolders {
        cache: cache.path().into(),
        apt_sources: cache.path().into(),
        mirrors: Vec::new(),
    });
    let programs = benchmarks.iter().map(|uri| Ok(datasets.benchmark(&uri.parse()?)?));
    let programs = programs.collect::<Result<Vec<_>, Failure>>()?;
    let mut session = WorkerEnvironment::new(spec, WorkerConfig::new(program)).session()?;
    let (mut digest, mut steps) = (blake3::Hasher::new(), 0);
    for (ordinal, benchmark) in (0..episodes).zip(programs.iter().cycle()) {
        let mut dice = Dice::new(seed, ordinal);
        let actions = u32::try_from(space.actions.len())?;
        let actions: Vec<_> = (0..STEPS).map(|_| ActionIndex(dice.below(actions))).collect();
        let action_space = space.name.as_str();
        let start = Start { benchmark, action_space, baselines: None, watch: &watch };
        digest.update(&session.start(&start)?.state.0);
        session.multistep(&actions, &mut |step, _| {
            steps += 1;
            digest.update(&step.outcome.state().map_or([0; StateId::LEN], |state| state.0));
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
    }
    Ok((digest.finalize().to_hex().to_string(), steps))
}
