//! Finds out which actions are pure functions of the state, and which crash, are slow, or do
//! nothing.
//!
//! For every program and round, all pipelines are shuffled and cut into walks. Each walk runs under
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

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub use child::probe_child;
pub use report::{Finding, ProbeReport, SLOW_CPU_MIN};

use child::Trial;
use condition::{CONDITIONS, pipelines};
use process::{Child, Death};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::spaces::ACTION_SPACES;
use crate::model::Benchmark;

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
    /// How often every pipeline is run on every program.
    pub rounds: u32,
    /// The seed from which the walks are drawn.
    pub seed: u64,
    /// The number of walks at a time.
    pub jobs: usize,
}

/// The progress of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeProgress {
    /// The number of walks that are done.
    pub walks_done: usize,
    /// The number of all walks.
    pub walks: usize,
}

/// A walk to run under every condition.
struct Walk<'a> {
    benchmark: &'a Benchmark,
    path: PathBuf,
    seed: u64,
    actions: Vec<usize>,
}

/// Runs the probe. Calls `progress` after every walk.
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
    progress: &(dyn Fn(ProbeProgress) + Sync),
) -> io::Result<ProbeReport> {
    let folder = tempfile::tempdir()?;
    let walks = plan(options, folder.path())?;
    let mut report = ProbeReport::default();
    report.findings.extend(pipelines().into_iter().map(|text| (text, Finding::default())));
    let total = walks.len();
    let shared = Mutex::new((VecDeque::from(walks), report));
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        let work = || -> io::Result<()> {
            let mut prober = Prober::new(options);
            while let Some(walk) = { lock().0.pop_front() } {
                prober.run(walk, &mut |pipeline, change| {
                    let findings = &mut lock().1.findings;
                    change(findings.get_mut(pipeline).expect("findings begin with all pipelines"));
                })?;
                let left = lock().0.len();
                progress(ProbeProgress { walks_done: total - left, walks: total });
            }
            Ok(())
        };
        let workers: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a prober panicked"))
    })?;
    Ok(shared.into_inner().unwrap_or_else(PoisonError::into_inner).1)
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
    let count = pipelines().len();
    let mut random = ChaCha8Rng::seed_from_u64(options.seed);
    let mut walks = Vec::new();
    for (index, benchmark) in options.benchmarks.iter().enumerate() {
        let path = folder.join(format!("{index}.bc"));
        std::fs::write(&path, &benchmark.program)?;
        for _ in 0..options.rounds {
            let mut order: Vec<usize> = (0..count).collect();
            for place in 0..count {
                let left = u64::try_from(count - place).expect("a usize is at most 64 bits");
                let other = usize::try_from(random.next_u64() % left).expect("below a usize");
                order.swap(place, place + other);
            }
            for actions in order.chunks(WALK_STEPS) {
                let (path, actions) = (path.clone(), actions.to_vec());
                walks.push(Walk { benchmark, path, seed: random.next_u64(), actions });
            }
        }
    }
    Ok(walks)
}

/// Changes the finding of a pipeline.
type Note<'a> = dyn FnMut(&str, &dyn Fn(&mut Finding)) + 'a;

/// One child for each condition.
struct Prober<'a> {
    options: &'a ProbeOptions,
    pipelines: Vec<String>,
    children: [Option<Child>; CONDITIONS.len()],
}

impl<'a> Prober<'a> {
    fn new(options: &'a ProbeOptions) -> Self {
        Self { options, pipelines: pipelines(), children: [const { None }; CONDITIONS.len()] }
    }

    /// Runs a walk under every condition. An action that kills its child is left out from then on.
    fn run(&mut self, mut walk: Walk<'_>, note: &mut Note<'_>) -> io::Result<()> {
        let mut first: Option<Vec<Trial>> = None;
        let mut condition = 0;
        while condition < CONDITIONS.len() {
            match self.run_once(&walk, condition)? {
                Ok(trials) => {
                    match &first {
                        None => {
                            self.note_trials(&walk, &trials, note);
                            first = Some(trials);
                        }
                        Some(first) => self.note_differences(&walk, first, &trials, note),
                    }
                    condition += 1;
                }
                Err((step, death)) => {
                    let action = walk.actions.remove(step);
                    let place = self.place(&walk, step);
                    // Under the earlier conditions, the whole walk got past this action.
                    let differs = first.is_some() && matches!(death, Death::Crash);
                    note(&self.pipelines[action], &|finding| {
                        let (count, what) = match death {
                            Death::TimeOut => (&mut finding.time_outs, "time-out"),
                            Death::Crash => (&mut finding.crashes, "crash"),
                        };
                        *count += 1;
                        finding.process_differs += u64::from(differs);
                        finding.point_out(what, &place);
                    });
                    // The earlier results include the action that is now left out.
                    first = None;
                    condition = 0;
                }
            }
        }
        Ok(())
    }

    /// Runs a walk under one condition. Returns the trials, or which step killed the child and how.
    fn run_once(
        &mut self,
        walk: &Walk<'_>,
        condition: usize,
    ) -> io::Result<Result<Vec<Trial>, (usize, Death)>> {
        let child = match &mut self.children[condition] {
            Some(child) => child,
            none => none.insert(Child::start(
                &self.options.program,
                &self.options.arguments,
                CONDITIONS[condition],
            )?),
        };
        let shuffle = walk.seed.wrapping_add(u64::try_from(condition).expect("a small number"));
        let result = child.run(&walk.path, shuffle, &walk.actions)?;
        if result.is_err() {
            self.children[condition] = None;
        }
        Ok(result)
    }

    fn note_trials(&self, walk: &Walk<'_>, trials: &[Trial], note: &mut Note<'_>) {
        for (step, trial) in trials.iter().enumerate() {
            let place = self.place(walk, step);
            note(&self.pipelines[walk.actions[step]], &|finding| finding.record(trial, &place));
        }
    }

    /// Compares up to the first difference: later steps start from different states.
    fn note_differences(
        &self,
        walk: &Walk<'_>,
        first: &[Trial],
        trials: &[Trial],
        note: &mut Note<'_>,
    ) {
        let pairs = first.iter().zip(trials);
        let differs = |(a, b): (&Trial, &Trial)| a.state != b.state || a.replayed != b.replayed;
        if let Some(step) = pairs.into_iter().position(differs) {
            let place = self.place(walk, step);
            note(&self.pipelines[walk.actions[step]], &|finding| {
                finding.process_differs += 1;
                finding.point_out("process", &place);
            });
        }
    }

    /// Describes the place of a step, so that it can be repeated by hand.
    fn place(&self, walk: &Walk<'_>, step: usize) -> String {
        let before = walk.actions[..step].iter().map(|&action| self.pipelines[action].as_str());
        let before: Vec<_> = before.collect();
        format!("{} after {}", walk.benchmark.uri, before.join(","))
    }
}
