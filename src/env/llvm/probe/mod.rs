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
mod report;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use child::probe_child;
pub use report::{Finding, ProbeReport, SLOW_CPU_MIN};

use child::{Task, Trial};
use condition::CONDITIONS;
use process::{Child, Death};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::spaces::ACTION_SPACES;
use crate::model::{ActionSpace, Benchmark};

/// The number of steps of a walk: enough to reach states that no single action leads to, few enough
/// to leave something of the program.
const WALK_STEPS: usize = 40;

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

/// A walk to run under every condition.
struct Walk<'a> {
    benchmark: &'a Benchmark,
    /// The task under the first condition. The others have other seeds.
    task: Task,
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
    let findings = pipelines.map(|pipeline| (pipeline, Finding::default())).collect();
    let findings = Mutex::new(findings);
    std::thread::scope(|scope| {
        let work = || -> io::Result<()> {
            let children = [const { None }; CONDITIONS.len()];
            let mut prober = Prober { options, findings: &findings, children };
            while let Some(walk) = { lock(&walks).pop_front() } {
                prober.run(walk)?;
                let left = lock(&walks).len();
                progress(total - left, total);
            }
            Ok(())
        };
        let workers: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a prober panicked"))
    })?;
    Ok(ProbeReport { findings: findings.into_inner().unwrap_or_else(PoisonError::into_inner) })
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Plans all walks, and writes the programs to files.
fn plan<'a>(options: &'a ProbeOptions, folder: &Path) -> io::Result<Vec<Walk<'a>>> {
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
                let task = Task { program, shuffle: random.next_u64(), actions };
                walks.push(Walk { benchmark, task });
            }
        }
    }
    Ok(walks)
}

/// Runs walks, in one child for each condition.
struct Prober<'a> {
    options: &'a ProbeOptions,
    findings: &'a Mutex<BTreeMap<String, Finding>>,
    children: [Option<Child>; CONDITIONS.len()],
}

impl Prober<'_> {
    /// Runs a walk under every condition. An action that kills its child is left out from then on.
    fn run(&mut self, mut walk: Walk<'_>) -> io::Result<()> {
        let mut first: Option<Vec<Trial>> = None;
        let mut condition = 0;
        while condition < CONDITIONS.len() {
            match self.run_once(&walk.task, condition)? {
                Ok(trials) => {
                    match &first {
                        None => {
                            for (step, trial) in trials.iter().enumerate() {
                                self.note(&walk, step, |finding, place| {
                                    finding.record(trial, place);
                                });
                            }
                            first = Some(trials);
                        }
                        Some(first) => self.note_difference(&walk, first, &trials),
                    }
                    condition += 1;
                }
                Err((step, death)) => {
                    // Under the earlier conditions, the whole walk got past this action.
                    let differs = first.is_some() && death == Death::Crash;
                    self.note(&walk, step, |finding, place| {
                        let (count, what) = match death {
                            Death::TimeOut => (&mut finding.time_outs, "time-out"),
                            Death::Crash => (&mut finding.crashes, "crash"),
                        };
                        *count += 1;
                        finding.process_differs += u64::from(differs);
                        finding.point_out(what, place);
                    });
                    walk.task.actions.remove(step);
                    // The earlier results include the action that is now left out.
                    first = None;
                    condition = 0;
                }
            }
        }
        Ok(())
    }

    /// Runs a task under one condition. Returns the trials, or which step killed the child and how.
    fn run_once(
        &mut self,
        task: &Task,
        condition: usize,
    ) -> io::Result<Result<Vec<Trial>, (usize, Death)>> {
        let child = match &mut self.children[condition] {
            Some(child) => child,
            none => {
                let ProbeOptions { program, arguments, .. } = self.options;
                none.insert(Child::start(program, arguments, CONDITIONS[condition])?)
            }
        };
        let shuffle = task.shuffle.wrapping_add(condition as u64);
        let result = child.run(&Task { shuffle, ..task.clone() })?;
        if result.is_err() {
            self.children[condition] = None;
        }
        Ok(result)
    }

    /// Notes the first difference between the trials of two conditions: later steps start from
    /// different states.
    fn note_difference(&self, walk: &Walk<'_>, first: &[Trial], trials: &[Trial]) {
        let pairs = first.iter().zip(trials);
        let differs = |(a, b): (&Trial, &Trial)| a.state != b.state || a.replayed != b.replayed;
        if let Some(step) = pairs.into_iter().position(differs) {
            self.note(walk, step, |finding, place| {
                finding.process_differs += 1;
                finding.point_out("process", place);
            });
        }
    }

    /// Changes the finding of a step's pipeline. The change gets a description of the step's place,
    /// so that the step can be repeated by hand.
    fn note(&self, walk: &Walk<'_>, step: usize, change: impl FnOnce(&mut Finding, &str)) {
        let (before, rest) = walk.task.actions.split_at(step);
        let place = format!("{} after {}", walk.benchmark.uri, before.join(","));
        let mut findings = lock(self.findings);
        let finding = findings.get_mut(&rest[0]);
        change(finding.expect("findings begin with the pipelines"), &place);
    }
}
