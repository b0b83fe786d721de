//! Deals the episodes of a run to workers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

use super::earlier::Earlier;
use super::first_starts::FirstStarts;
use super::past::Past;
use super::policies::Policy;
use super::schedule::{EpisodeSchedule, JobStep, PlayedEpisode};
use super::{CampaignEnd, GenerateError, ProgramProvider, ResumeState, RunPlan, RunProgress};
use crate::record::Recording;
use steplake_env::{Environment, SessionError};
use steplake_model::{Baselines, Benchmark, BenchmarkUri, EpisodeOutcome};

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
    plan: &RunPlan,
    programs: &dyn ProgramProvider,
    mut resumed: ResumeState,
    progress: &RunProgress,
    interrupt: &AtomicBool,
) -> Result<CampaignEnd, GenerateError> {
    progress.episodes.store(resumed.episodes().into(), Ordering::Relaxed);
    let starts = FirstStarts::new(std::mem::take(&mut resumed.starts));
    let earlier = Mutex::new(std::mem::take(&mut resumed.earlier));
    let campaign = Campaign {
        environment,
        recording,
        plan,
        programs,
        progress,
        interrupt,
        board: Mutex::new(CampaignBoard {
            policies: HashMap::new(),
            past: std::mem::take(&mut resumed.past),
            schedule: EpisodeSchedule::new(plan, resumed),
            error: None,
        }),
        settled: Condvar::new(),
        starts,
        earlier,
        cache: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| campaign.work());
        }
    });
    let board = campaign.board.into_inner();
    match board.error {
        Some(error) => Err(error),
        None if board.schedule.nothing_starts() => Err(GenerateError::NothingStarts),
        None if board.schedule.is_exhausted() => Ok(CampaignEnd::Exhausted),
        None if interrupt.load(Ordering::Relaxed) => Ok(CampaignEnd::Interrupted),
        None => Ok(CampaignEnd::Complete),
    }
}

/// Bytes of programs that are kept for their next episodes.
const CACHE_BYTES_MAX: usize = 256 << 20;

pub(super) struct Campaign<'a> {
    pub(super) environment: &'a dyn Environment,
    pub(super) recording: &'a Recording,
    pub(super) plan: &'a RunPlan,
    pub(super) programs: &'a dyn ProgramProvider,
    pub(super) progress: &'a RunProgress,
    pub(super) interrupt: &'a AtomicBool,
    pub(super) board: Mutex<CampaignBoard>,
    pub(super) settled: Condvar,
    pub(super) starts: FirstStarts,
    pub(super) earlier: Mutex<Earlier>,
    pub(super) cache: Mutex<KeptPrograms>,
}

pub(super) struct CampaignBoard {
    pub(super) schedule: EpisodeSchedule,
    /// The policies that look back and that nobody asks just now, by program.
    pub(super) policies: HashMap<BenchmarkUri, Box<dyn Policy>>,
    /// What they have to learn of episodes that this process has not played.
    pub(super) past: Past,
    pub(super) error: Option<GenerateError>,
}

#[derive(Default)]
pub(super) struct KeptPrograms {
    programs: HashMap<BenchmarkUri, Benchmark>,
    pub(super) baselines: HashMap<BenchmarkUri, Arc<Baselines>>,
    bytes: usize,
}

/// Wakes everybody who waits for a job when it ends, in whatever way.
struct LastWord<'a>(&'a Campaign<'a>);

impl Drop for LastWord<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.board.lock().schedule.abandon();
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
            let mut board = self.board.lock();
            board.error.get_or_insert(error);
            board.schedule.abandon();
        }
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    fn next(&self) -> Option<(u32, u32)> {
        let mut board = self.board.lock();
        loop {
            if self.is_interrupted() {
                board.schedule.abandon();
                self.settled.notify_all();
            }
            match board.schedule.next() {
                JobStep::Play { ordinal, steps_max } => return Some((ordinal, steps_max)),
                JobStep::Finished => return None,
                JobStep::Wait => {}
            }
            self.settled.wait(&mut board);
        }
    }

    fn settle(&self, played: PlayedEpisode) -> Result<(), SessionError> {
        let mut board = self.board.lock();
        let rows = board.schedule.take(played);
        let mut failures = self.progress.failures.lock();
        for row in &rows {
            if let EpisodeOutcome::Failed(kind) = row.outcome {
                *failures.entry(kind).or_default() += 1;
            }
        }
        drop(failures);
        self.progress.episodes.store(board.schedule.settled().into(), Ordering::Relaxed);
        let episodes: Vec<_> = rows.iter().map(|row| row.id).collect();
        // Pushes the rows under the lock, so that the durable ones are always a prefix of the run.
        self.recording.settle(rows)?;
        drop(board);
        self.settled.notify_all();
        self.recording.audit(episodes);
        Ok(())
    }

    pub(super) fn count_step(&self) {
        self.progress.steps.fetch_add(1, Ordering::Relaxed);
        self.count_states();
    }

    pub(super) fn count_states(&self) {
        self.progress.states.fetch_max(self.recording.states_new(), Ordering::Relaxed);
    }

    pub(super) fn program(
        &self,
        uri: &BenchmarkUri,
    ) -> Result<(Benchmark, Option<Arc<Baselines>>), GenerateError> {
        {
            let cache = self.cache.lock();
            if let Some(benchmark) = cache.programs.get(uri) {
                return Ok((benchmark.clone(), cache.baselines.get(uri).cloned()));
            }
        }
        let benchmark = self.programs.load(uri).map_err(GenerateError::Program)?;
        let there = self.recording.baselines(&benchmark);
        let kept = there.or_else(|| self.programs.baselines(&benchmark));
        let mut cache = self.cache.lock();
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
