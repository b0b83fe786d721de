//! The compiler of a session, which follows it as far behind as it can.

use std::sync::Arc;

use steplake::env::{Destination, Expected, Route, SessionError, Start, Started, Strayed};
use steplake::generate::ProgramProvider as _;
use steplake::model::line;
use steplake::model::{ActionIndex, Benchmark, ObservationIndex, Outcome, StateId, Step, Value};
use steplake::record::TransitionRecorder;

use super::episode::{CacheEpisode, EpisodeStart};
use super::shared::Cache;

/// A session of the compiler, opened and brought in step when it is first needed.
#[derive(Debug, Default)]
pub(super) struct Follower {
    recorder: Option<TransitionRecorder>,
    /// The number of the episode's actions that it has played; none if it is not in that episode.
    played: Option<usize>,
}

impl Follower {
    /// Forgets the episode.
    pub(super) fn forget(&mut self) {
        self.played = None;
    }

    /// Returns the session of the compiler, opened if need be.
    pub(super) fn recorder(
        &mut self,
        cache: &Cache,
    ) -> Result<&mut TransitionRecorder, SessionError> {
        let recorder = match self.recorder.take() {
            Some(recorder) => recorder,
            None => cache.compiler()?,
        };
        Ok(self.recorder.insert(recorder))
    }

    /// Begins an episode with a program.
    pub(super) fn begin(
        &mut self,
        cache: &Cache,
        start: &Start<'_>,
    ) -> Result<Started, SessionError> {
        self.played = None;
        let recorder = self.recorder(cache)?;
        let watch = recorder.watch(start.watch);
        let started = recorder.session().start(&Start { watch: &watch, ..*start })?;
        self.played = Some(0);
        Ok(started)
    }

    /// Begins an episode in a state: with the benchmark's own program in its first state, and
    /// otherwise with the IR of the state.
    fn begin_in(
        &mut self,
        cache: &Cache,
        start: &EpisodeStart,
        state: StateId,
    ) -> Result<(), SessionError> {
        let mut benchmark = start.benchmark.clone();
        if state != start.state || benchmark.program.is_empty() {
            benchmark.program = match cache.transitions.ir(state)? {
                Some(ir) => ir.into(),
                None if state == start.state => program(cache, &benchmark)?,
                None => return Err(not_here(&benchmark, state)),
            };
        }
        let began = self.begin(
            cache,
            &Start {
                benchmark: &benchmark,
                action_space: cache.action_space(),
                baselines: start.whole_baselines(cache),
                watch: &start.watch,
            },
        )?;
        Strayed::at_start(Destination::State(began.state), state).map_err(|strayed| {
            self.played = None;
            strayed.diverged(&start.benchmark.uri, state)
        })
    }

    /// Brings the compiler to the present state.
    fn catch_up(&mut self, cache: &Cache, episode: &mut CacheEpisode) -> Result<(), SessionError> {
        let replayed = self.replay(cache, episode);
        let Err(SessionError::Diverged { found, .. }) = &replayed else { return replayed };
        cache.counters.diverged.count();
        let (start, state) = (&episode.start, episode.state);
        tracing::debug!(%state, found, "recorded actions led elsewhere");
        // Only the program itself tells its baselines.
        if !start.has_all_baselines(cache) || cache.transitions.ir(state)?.is_none() {
            return replayed;
        }
        self.begin_in(cache, start, state)?;
        self.played = episode.actions.as_ref().map(Vec::len);
        Ok(())
    }

    /// Begins the episode if need be, and plays the actions that the compiler lacks.
    fn replay(&mut self, cache: &Cache, episode: &mut CacheEpisode) -> Result<(), SessionError> {
        let (start, state) = (Arc::clone(&episode.start), episode.state);
        let actions = episode.way(cache)?;
        if self.played.is_none() {
            self.begin_in(cache, &start, start.state)?;
        }
        // Until all went well, nobody knows where the compiler is.
        let lacks = &actions[self.played.take().unwrap_or(0)..];
        let route = Route { actions: lacks, expected: Expected::Last(state) };
        let session = self.recorder(cache)?.session();
        let brought = route.bring(session, |_, _| cache.counters.replayed.count())?;
        brought.map_err(|strayed| strayed.diverged(&start.benchmark.uri, state))?;
        self.played = Some(actions.len());
        Ok(())
    }

    /// Applies an action in the present state.
    pub(super) fn apply(
        &mut self,
        cache: &Cache,
        episode: &mut CacheEpisode,
        action: ActionIndex,
    ) -> Result<Step, SessionError> {
        self.catch_up(cache, episode)?;
        let played = self.played.take();
        let step = self.recorder(cache)?.session().apply(action)?;
        if let Outcome::State { changed, .. } = step.outcome {
            self.played = played.map(|played| played + usize::from(changed));
        }
        Ok(step)
    }

    /// Looks at the present state.
    pub(super) fn observe(
        &mut self,
        cache: &Cache,
        episode: &mut CacheEpisode,
        space: ObservationIndex,
    ) -> Result<Value, SessionError> {
        self.catch_up(cache, episode)?;
        self.recorder(cache)?.session().observe(space)
    }

    /// Looks at what belongs to the program of an episode.
    pub(super) fn observe_program(
        &mut self,
        cache: &Cache,
        start: &EpisodeStart,
        space: ObservationIndex,
    ) -> Result<Value, SessionError> {
        self.begin_in(cache, start, start.state)?;
        self.recorder(cache)?.session().observe(space)
    }
}

/// Makes the program of a benchmark that the lake has without the IR of its first state.
fn program(cache: &Cache, benchmark: &Benchmark) -> Result<Arc<[u8]>, SessionError> {
    let made = cache.catalogue.load(&benchmark.uri).map_err(|error| SessionError::BadProgram {
        uri: benchmark.uri.to_string(),
        detail: format!("{}; start a session with it", line(&error)),
    })?;
    cache.known(&made)?;
    Ok(made.program)
}

fn not_here(benchmark: &Benchmark, state: StateId) -> SessionError {
    SessionError::NotRecorded {
        what: format!("the IR of state {state} of {}", benchmark.uri),
        advice: "start a session with the program itself".to_owned(),
    }
}
