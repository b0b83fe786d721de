//! Finds out which actions are pure functions of the state, and which crash, are slow, or do
//! nothing.
//!
//! For every program and round, the pipelines are shuffled and cut into walks. Each walk runs under
//! several conditions: in processes with other settings of the allocator, on what the C library
//! takes for an older CPU, with and without address randomisation, and with heaps whose holes lie
//! in another order each time. Every step is also run from the stored bitcode of the state before.
//! If any two results differ, the action is not replayable. Nor is one that crashes under a later
//! condition but not under the first. An action that kills its child is left out of the walk from
//! then on.
//!
//! Each condition has a child process, since some actions kill theirs. The child is the caller's
//! own binary, executed again; it must call [`probe_child`].

mod child;
mod condition;
mod process;
mod prober;
mod report;
mod walk;

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

pub use child::probe_child;
pub use report::{ProbeReport, ProbedPipeline, SLOW_CPU_MIN};

use condition::CONDITIONS;
use prober::Prober;
use walk::plan;

use super::spaces::ACTION_SPACES;
use steplake_model::{ActionSpace, Benchmark};

/// The arguments of a probe.
#[derive(Debug, Clone)]
pub struct ProbeOptions {
    /// The binary whose children run the actions; it calls [`probe_child`].
    pub program: PathBuf,
    /// The arguments that make the binary do so.
    pub arguments: Vec<OsString>,
    /// The programs.
    pub benchmarks: Vec<Benchmark>,
    /// What to run on them.
    pub pipelines: BTreeSet<String>,
    /// How often every pipeline is run on every program.
    pub rounds: u32,
    /// The seed from which the walks are drawn.
    pub seed: u64,
    /// The number of walks at a time.
    pub jobs: usize,
}

/// Returns every pipeline of action spaces.
pub fn pipelines(spaces: &[ActionSpace]) -> BTreeSet<String> {
    let actions = spaces.iter().flat_map(|space| &space.actions);
    let pipelines = actions.map(|action| action.pipeline.clone());
    pipelines.filter(|pipeline| !pipeline.is_empty()).collect()
}

/// Runs the probe. After every walk, calls `progress` with the number of walks that are done and
/// the number of all walks.
///
/// # Errors
///
/// If a file cannot be written or a child cannot be started.
///
/// # Panics
///
/// If `progress` panics.
pub fn probe(
    options: &ProbeOptions,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> io::Result<ProbeReport> {
    let folder = tempfile::tempdir()?;
    let walks = plan(options, folder.path())?;
    let total = walks.len();
    let walks = Mutex::new(VecDeque::from(walks));
    let pipelines = options.pipelines.iter().cloned();
    let findings = pipelines.map(|pipeline| (pipeline, ProbedPipeline::default())).collect();
    let findings = Mutex::new(findings);
    std::thread::scope(|scope| {
        let work = || -> io::Result<()> {
            let children = [const { None }; CONDITIONS.len()];
            let mut prober = Prober { options, findings: &findings, children };
            while let Some(walk) = { walks.lock().pop_front() } {
                prober.run(walk)?;
                let left = walks.lock().len();
                progress(total - left, total);
            }
            Ok(())
        };
        let workers: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a prober panicked"))
    })?;
    Ok(ProbeReport { findings: findings.into_inner() })
}

/// Writes the flags into the tables of the action spaces, which are in `folder` of a source tree.
///
/// # Errors
///
/// If a table cannot be read or written.
pub fn write_tables(report: &ProbeReport, folder: &Path) -> io::Result<()> {
    for (name, _) in ACTION_SPACES {
        let path = folder.join(format!("{name}.csv"));
        let table = std::fs::read_to_string(&path)?;
        std::fs::write(&path, report.update_table(&table).map_err(io::Error::other)?)?;
    }
    Ok(())
}
