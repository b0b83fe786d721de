//! Generating: plays the episodes of a [`Plan`] on many workers and records them.
//!
//! What a run leaves in the lake depends only on its plan, apart from the number of jobs;
//! `schedule` ensures that. [`ResumeState`] explains how an interrupted run is resumed.

mod beam;
mod best;
mod coreset;
mod effects;
mod error;
mod explore;
mod frontier;
mod frontier_walks;
mod past;
mod past_costs;
mod past_trials;
mod plan;
mod policy;
mod programs;
mod proposals;
mod resume;
mod schedule;
mod search;
mod settled;
mod shard;
mod start;
mod starts;
mod trials;
mod walks;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use self::beam::Beam;
pub use self::best::{Best, Found};
pub use self::coreset::{Coreset, Features};
pub use self::error::GenerateError;
use self::frontier::Frontier;
use self::past_costs::PastCosts;
use self::past_trials::PastTrials;
pub use self::plan::{Costed, Plan, Shard, Stop};
pub use self::policy::Policy;
use self::policy::Tried;
pub use self::programs::{ProgramError, Programs};
use self::resume::PastTries;
pub use self::resume::ResumeState;
use self::schedule::{Next, Played, Schedule};
use self::search::Search;
pub use self::settled::Settled;
use self::starts::{Starts, lock};
use self::walks::PastWalks;
use crate::env::{Environment, Session, SessionError};
use crate::lake::EpisodeRow;
use crate::model::{
    ActionIndex, Baselines, Benchmark, BenchmarkUri, Dice, EpisodeOutcome, StateId, Step,
};
use crate::record::{EpisodePlan, Recorder, Recording, Settle};

/// The progress of a run; any thread may read it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Steps made by this process.
    pub steps: AtomicU64,
    /// States that this process was the first to observe.
    pub states: AtomicU64,
    /// Steps at which the compiler failed, and failed starts.
    pub failures: AtomicU64,
    /// Settled episodes, including those of an earlier process.
    pub episodes: AtomicU64,
    /// The best that searches have found for each program in this process.
    pub best: Mutex<HashMap<BenchmarkUri, Best>>,
}

impl Progress {
    /// Returns the best sequences of actions that a search has found for a program, the best first.
    pub fn best_sequences(&self, program: &BenchmarkUri) -> Vec<Vec<ActionIndex>> {
        let best = lock(&self.best);
        let found = best.get(program).map(Best::found).unwrap_or_default().iter();
        // No action has a negative number.
        let action = |&gene: &i32| u32::try_from(gene).ok().map(ActionIndex);
        found.map(|found| found.proposal.iter().filter_map(action).collect()).collect()
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The run reached its stop.
    Complete,
    /// The search of every program was over before the run reached its stop.
    Exhausted,
    /// The run was interrupted.
    Interrupted,
}

/// Plays the episodes of `plan` that are not settled in `resumed`, until the plan's stop or until
/// `interrupt`.
///
/// If a program's first start in this run fails, this episode and all later ones of the program
/// have no steps: the compiler is not asked again. If a program has started before, a failing start
/// is tried once more in a fresh worker, and then ends the run.
///
/// # Errors
///
/// See [`GenerateError`]. The first one stops all jobs.
pub fn generate(
    environment: &dyn Environment,
    recording: &Recording,
    plan: &Plan,
    programs: &dyn Programs,
    mut resumed: ResumeState,
    progress: &Progress,
    interrupt: &AtomicBool,
) -> Result<Ending, GenerateError> {
    progress.episodes.store(resumed.episodes().into(), Ordering::Relaxed);
    let starts = Starts::new(std::mem::take(&mut resumed.starts));
    let campaign = Campaign {
        environment,
        recording,
        plan,
        programs,
        progress,
        interrupt,
        board: Mutex::new(Board {
            tried: std::mem::take(&mut resumed.tried),
            past_tries: std::mem::take(&mut resumed.past_tries),
            searches: HashMap::new(),
            past_costs: std::mem::take(&mut resumed.past_costs),
            beams: HashMap::new(),
            past_trials: std::mem::take(&mut resumed.past_trials),
            frontiers: HashMap::new(),
            past_walks: std::mem::take(&mut resumed.past_walks),
            schedule: Schedule::new(plan, resumed),
            error: None,
        }),
        settled: Condvar::new(),
        starts,
        cache: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| campaign.work());
        }
    });
    let board = campaign.board.into_inner().unwrap_or_else(PoisonError::into_inner);
    match board.error {
        Some(error) => Err(error),
        None if board.schedule.nothing_starts() => Err(GenerateError::NothingStarts),
        None if board.schedule.is_exhausted() => Ok(Ending::Exhausted),
        None if interrupt.load(Ordering::Relaxed) => Ok(Ending::Interrupted),
        None => Ok(Ending::Complete),
    }
}

/// Bytes of programs that are kept for their next episodes.
const CACHE_BYTES_MAX: usize = 256 << 20;

struct Campaign<'a> {
    environment: &'a dyn Environment,
    recording: &'a Recording,
    plan: &'a Plan,
    programs: &'a dyn Programs,
    progress: &'a Progress,
    interrupt: &'a AtomicBool,
    board: Mutex<Board>,
    settled: Condvar,
    starts: Starts,
    cache: Mutex<Cache>,
}

struct Board {
    schedule: Schedule,
    tried: HashMap<BenchmarkUri, Tried>,
    /// What they have to learn of those that were settled behind a missing one.
    past_tries: PastTries,
    /// The searches that nobody asks just now, by program.
    searches: HashMap<BenchmarkUri, Box<dyn Search>>,
    /// What those have to be told that this process has not begun.
    past_costs: PastCosts,
    /// The beam searches that nobody asks just now, by program, and what those have to be told that
    /// this process has not begun.
    beams: HashMap<BenchmarkUri, Beam>,
    past_trials: PastTrials,
    /// What is known of the programs that nobody walks in just now, and what this process has to
    /// learn of those in which it has not walked yet.
    frontiers: HashMap<BenchmarkUri, Frontier>,
    past_walks: PastWalks,
    error: Option<GenerateError>,
}

#[derive(Default)]
struct Cache {
    programs: HashMap<BenchmarkUri, Benchmark>,
    baselines: HashMap<BenchmarkUri, Arc<Baselines>>,
    bytes: usize,
}

/// Wakes everybody who waits for a job when it ends, in whatever way.
struct LastWord<'a>(&'a Campaign<'a>);

impl Drop for LastWord<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            lock(&self.0.board).schedule.abandon();
        }
        self.0.settled.notify_all();
    }
}

impl Campaign<'_> {
    /// Plays episodes until none is left.
    fn work(&self) {
        let _last = LastWord(self);
        let session = self.environment.session();
        let result = session.map_err(GenerateError::from).and_then(|session| {
            let mut recorder = self.recording.recorder(session);
            while let Some((ordinal, steps_max)) = self.next() {
                match self.play(&mut recorder, ordinal, steps_max)? {
                    Some(played) => self.settle(played)?,
                    None => break,
                }
            }
            Ok(())
        });
        let result = match result {
            Err(GenerateError::Session(SessionError::Interrupted)) if self.is_interrupted() => {
                Ok(())
            }
            other => other,
        };
        if let Err(error) = result {
            let mut board = lock(&self.board);
            board.error.get_or_insert(error);
            board.schedule.abandon();
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    fn next(&self) -> Option<(u32, u32)> {
        let mut board = lock(&self.board);
        loop {
            if self.is_interrupted() {
                board.schedule.abandon();
                self.settled.notify_all();
            }
            match board.schedule.next() {
                Next::Play { ordinal, steps_max } => return Some((ordinal, steps_max)),
                Next::Finished => return None,
                Next::Wait => {}
            }
            board = self.settled.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn settle(&self, played: Played) -> Result<(), SessionError> {
        let mut board = lock(&self.board);
        let rows = board.schedule.take(played);
        let is_failed_start =
            |row: &&EpisodeRow| row.steps == 0 && matches!(row.outcome, EpisodeOutcome::Failed(_));
        let failed_starts = rows.iter().filter(is_failed_start).count() as u64;
        self.progress.failures.fetch_add(failed_starts, Ordering::Relaxed);
        self.progress.episodes.store(board.schedule.settled().into(), Ordering::Relaxed);
        // Pushes the rows under the lock, so that the durable ones are always a prefix of the run.
        self.recording.settle(rows)?;
        drop(board);
        self.settled.notify_all();
        Ok(())
    }

    /// Plays one episode; `None` if it was interrupted.
    fn play(
        &self,
        recorder: &mut Recorder,
        ordinal: u32,
        steps_max: u32,
    ) -> Result<Option<Played>, GenerateError> {
        let uri = self.plan.benchmark(ordinal);
        recorder.plan(EpisodePlan {
            ordinal: Some(ordinal),
            seed: self.plan.seed,
            policy: self.plan.policy.as_str().to_owned(),
            settle: Settle::ByCaller,
            only: None,
        });
        if self.plan.policy.proposes() {
            return self.play_proposal(recorder, ordinal, steps_max, uri);
        }
        let state = match self.start(recorder, uri, None)? {
            Ok(state) => state,
            Err(failure) => return self.failed_start(recorder, uri, &failure),
        };
        let mut states = vec![state];
        let dice = Dice::new(self.plan.seed, ordinal);
        match self.plan.policy {
            Policy::Explore => {
                self.play_explore(recorder, ordinal, steps_max, uri, &mut states)?;
            }
            Policy::Greedy | Policy::Beam => {
                self.play_trial(recorder, ordinal, steps_max, uri, &mut states)?;
            }
            Policy::Frontier => self.play_walk(recorder, ordinal, steps_max, uri, &mut states)?,
            Policy::RandomPatience => {
                self.play_patiently(recorder, dice, steps_max, &mut states)?;
            }
            _ => self.play_random(recorder, dice, steps_max, &mut states)?,
        }
        if self.is_interrupted() {
            return Ok(None);
        }
        Ok(recorder.finish()?.map(|row| Played { row, states }))
    }

    /// Plays a random episode. All its actions are known at once, so they go to the worker in one
    /// batch.
    fn play_random(
        &self,
        recorder: &mut Recorder,
        mut dice: Dice,
        steps_max: u32,
        states: &mut Vec<StateId>,
    ) -> Result<(), SessionError> {
        let actions = self.actions();
        let batch: Vec<_> = (0..steps_max).map(|_| ActionIndex(dice.below(actions))).collect();
        recorder.multistep(&batch, &mut |step, _| {
            self.count(&step);
            states.extend(step.outcome.state());
            Ok(if self.is_interrupted() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        })
    }

    /// Plays random actions until as many of them as the patience have lowered no cost.
    fn play_patiently(
        &self,
        recorder: &mut Recorder,
        mut dice: Dice,
        steps_max: u32,
        states: &mut Vec<StateId>,
    ) -> Result<(), SessionError> {
        let actions = self.actions();
        let (mut lowest, mut in_vain) = (self.cost(recorder)?, 0);
        for _ in 0..steps_max {
            if self.is_interrupted() || in_vain >= self.plan.patience {
                break;
            }
            let step = recorder.apply(ActionIndex(dice.below(actions)))?;
            self.count(&step);
            states.extend(step.outcome.state());
            if step.outcome.ends_episode() {
                break;
            }
            let cost = self.cost(recorder)?;
            in_vain = if cost < lowest { 0 } else { in_vain + 1 };
            lowest = lowest.min(cost);
        }
        Ok(())
    }

    fn count(&self, step: &Step) {
        self.progress.steps.fetch_add(1, Ordering::Relaxed);
        if step.outcome.state().is_none() {
            self.progress.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.count_states();
    }

    fn count_states(&self) {
        self.progress.states.fetch_max(self.recording.states_new(), Ordering::Relaxed);
    }

    fn actions(&self) -> u32 {
        let space = self.environment.spec().action_space(&self.plan.action_space);
        space.map_or(0, |space| u32::try_from(space.actions.len()).unwrap_or(u32::MAX))
    }

    fn program(
        &self,
        uri: &BenchmarkUri,
    ) -> Result<(Benchmark, Option<Arc<Baselines>>), GenerateError> {
        {
            let cache = lock(&self.cache);
            if let Some(benchmark) = cache.programs.get(uri) {
                return Ok((benchmark.clone(), cache.baselines.get(uri).cloned()));
            }
        }
        let benchmark = self.programs.load(uri).map_err(GenerateError::Program)?;
        let there = self.recording.baselines(&benchmark);
        let kept = there.or_else(|| self.programs.baselines(&benchmark));
        let mut cache = lock(&self.cache);
        if cache.bytes >= CACHE_BYTES_MAX {
            cache.programs.clear();
            cache.bytes = 0;
        }
        cache.bytes += benchmark.program.len();
        cache.programs.insert(uri.clone(), benchmark.clone());
        if let (Some(kept), None) = (kept, cache.baselines.get(uri)) {
            cache.baselines.insert(uri.clone(), kept.into());
        }
        Ok((benchmark, cache.baselines.get(uri).cloned()))
    }
}
