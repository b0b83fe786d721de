//! Sessions that are answered from the cache.

use std::sync::Arc;
use std::time::Duration;

use steplake::env::{Session, SessionError, Start, Started};
use steplake::lake::KnownBenchmark;
use steplake::model::{ActionIndex, ObservationIndex, Outcome, StateId, Step, Value};
use steplake::record::{NewValues, TransitionRecorder};

use super::episode::{CacheEpisode, EpisodeStart, cost};
use super::follower::Follower;
use super::shared::{Cache, Missed};
use super::transitions::{Led, ValueTable};

/// Opens a session of a cache.
pub(crate) fn open(cache: &Arc<Cache>) -> Box<dyn Session> {
    Box::new(CacheSession::new(Arc::clone(cache)))
}

/// A session of the cache. What it returns is what a session of the compiler returned once, bit for
/// bit, but for the time of a step, which is zero for a hit. See the [module](super).
///
/// Environments that end episodes by themselves are played on after a hit, since transitions do not
/// tell.
#[derive(Debug)]
pub(super) struct CacheSession {
    cache: Arc<Cache>,
    follower: Follower,
    episode: Option<CacheEpisode>,
    /// Whether the last step was known.
    was_hit: bool,
}

impl CacheSession {
    pub(super) fn new(cache: Arc<Cache>) -> Self {
        Self { cache, follower: Follower::default(), episode: None, was_hit: false }
    }

    /// Whether the last step was known, rather than taken by the compiler.
    pub(super) fn was_hit(&self) -> bool {
        self.was_hit
    }

    /// The present state.
    pub(super) fn state(&self) -> Option<StateId> {
        self.episode.as_ref().map(|episode| episode.state)
    }

    /// Goes to a known state of the benchmark under way.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotRecorded`] if nobody has been there from this benchmark: rewards would be
    /// relative to another program's baselines.
    pub(super) fn go_to(&mut self, state: StateId) -> Result<(), SessionError> {
        if !self.cache.transitions.has_state(state) {
            return Err(SessionError::NotRecorded {
                what: format!("state {state}"),
                advice: "begin in the first state of a benchmark".to_owned(),
            });
        }
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        if !self.cache.transitions.is_of(episode.start.state, state) {
            return Err(episode.no_way(state));
        }
        self.follower.forget();
        episode.go_to(&self.cache, state)
    }

    /// Starts a benchmark with the compiler, and records the start.
    fn miss_start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        let (cache, uri) = (Arc::clone(&self.cache), &start.benchmark.uri);
        let started = self.follower.begin(&cache, start);
        if let Err(SessionError::StartFailed { failure, .. }) = &started {
            self.follower.recorder(&cache)?.record_failed_start(uri, failure)?;
            cache.transitions.add_failed_start(start.benchmark, failure.clone());
        }
        let started = started?;
        let recorder = self.follower.recorder(&cache)?;
        let seen = recorder.record_start(start.benchmark, &started);
        if let Err(SessionError::StartFailed { failure, .. }) = &seen {
            cache.transitions.add_failed_start(start.benchmark, failure.clone());
        }
        let seen = seen?;
        let seen = completed(&cache, recorder, started.state, seen);
        let known = KnownBenchmark {
            program_digest: blake3::hash(&start.benchmark.program).to_hex().to_string(),
            initial_state: Some(started.state),
            baselines: started.baselines.clone(),
        };
        cache.transitions.add_benchmark(uri.as_str(), known, seen, cache.spec().state_index());
        Ok(started)
    }

    /// Returns how a benchmark starts, if that is known.
    fn known_start(&self, start: &Start<'_>) -> Result<Option<Started>, SessionError> {
        let (cache, uri) = (&self.cache, start.benchmark.uri.as_str());
        if let Some(known) = cache.known(start.benchmark)?
            && let Some(state) = known.initial_state
        {
            cache.counters.start_hits.count();
            let mut baselines = start.baselines.cloned().unwrap_or_default();
            // Those of the lake take precedence.
            baselines.0.retain(|(name, _)| known.baselines.get(name).is_none());
            baselines.0.extend(known.baselines.0.iter().cloned());
            return Ok(Some(Started { state, baselines }));
        }
        let Some(failure) = cache.failed_start(start.benchmark)? else { return Ok(None) };
        cache.counters.start_hits.count();
        Err(SessionError::StartFailed { uri: uri.to_owned(), failure })
    }

    /// Finds out how a benchmark starts.
    fn started(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        if let Some(started) = self.known_start(start)? {
            return Ok(started);
        }
        let cache = Arc::clone(&self.cache);
        let _held = cache.in_flight.hold(Missed::Start(start.benchmark.uri.to_string()));
        // Somebody else may have found it out meanwhile.
        if let Some(started) = self.known_start(start)? {
            return Ok(started);
        }
        cache.counters.start_misses.count();
        self.miss_start(start)
    }

    /// Goes where a known action leads.
    fn follow(&mut self, action: ActionIndex, led: Led) -> Result<Step, SessionError> {
        let cache = &self.cache;
        cache.counters.hits.count();
        self.was_hit = true;
        match led {
            Led::To(next) => {
                let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
                let changed = next != episode.state;
                episode.advance(action, next);
                let rewards = if changed {
                    episode.rewards.advance(|name| cost(cache, next, name))
                } else {
                    episode.rewards.rest()
                };
                let outcome = Outcome::State {
                    id: next,
                    changed,
                    end_of_episode: false,
                    action_space_changed: false,
                };
                Ok(Step { outcome, rewards, wall_time: Duration::ZERO })
            }
            Led::Failed(failure) => {
                self.episode = None;
                let spaces = cache.spec().reward_spaces.len();
                Ok(Step::failed(failure, spaces, Duration::ZERO))
            }
        }
    }

    /// Has the compiler take a step, and records it.
    fn miss(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let cache = Arc::clone(&self.cache);
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let from = episode.state;
        let mut step = self.follower.apply(&cache, episode, action)?;
        let recorded = {
            let uri = &episode.start.benchmark.uri;
            let recorder = self.follower.recorder(&cache)?;
            let seen = recorder.record_step(uri, from, action, &mut step);
            match (seen, step.outcome.state()) {
                (Ok(seen), Some(state)) => Ok(completed(&cache, recorder, state, seen)),
                (seen, _) => seen,
            }
        };
        // The compiler has taken a step of which nobody will know.
        let seen = recorded.inspect_err(|_| self.follower.forget())?;
        cache.transitions.add((from, action), &step.outcome, seen, cache.spec().state_index());
        cache.counters.misses.count();
        self.was_hit = false;
        match &step.outcome {
            Outcome::State { id, end_of_episode, .. } => {
                episode.advance(action, *id);
                episode.has_ended = *end_of_episode;
                // The rewards of the compiler are the same; this notes the costs.
                let _rewards = episode.rewards.advance(|name| cost(&cache, *id, name));
            }
            Outcome::Crashed(_) => {
                cache.counters.failures.count();
                self.follower.forget();
                self.episode = None;
            }
        }
        Ok(step)
    }
}

/// Adds what a recorder left out because the lake had it already, if the cache does not know it: a
/// state of an episode that nobody has closed. What cannot be observed now is left out: the step is
/// recorded, so it has to become known.
fn completed(
    cache: &Cache,
    recorder: &mut TransitionRecorder,
    state: StateId,
    mut seen: NewValues,
) -> NewValues {
    if cache.transitions.has_state(state) {
        return seen;
    }
    for space in recorder.observed() {
        if seen.iter().any(|(known, _)| *known == space) {
            continue;
        }
        match recorder.session().observe(space) {
            Ok(value) => seen.push((space, value)),
            Err(SessionError::Unobservable(_)) => {}
            Err(error) => {
                tracing::warn!(%error, %state, "a new state lacks observations until the next start");
                break;
            }
        }
    }
    seen
}

impl Session for CacheSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.episode = None;
        self.follower.forget();
        if start.action_space != self.cache.action_space() {
            return Err(SessionError::UnknownSpace {
                name: start.action_space.to_owned(),
                environment: self.cache.spec().name.to_string(),
            });
        }
        let started = self.started(start)?;
        let episode = EpisodeStart {
            benchmark: start.benchmark.clone(),
            baselines: started.baselines.clone(),
            watch: start.watch.clone(),
            state: started.state,
        };
        self.episode = Some(CacheEpisode::new(&self.cache, episode)?);
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let episode = self.episode.as_ref().filter(|episode| !episode.has_ended);
        let state = episode.ok_or(SessionError::NoEpisode)?.state;
        let cache = Arc::clone(&self.cache);
        let space = cache.transitions.action_space();
        if space.get(action).is_none() {
            let (index, space, len) = (action.0, space.name.clone(), space.actions.len());
            return Err(SessionError::InvalidAction { index, space, len });
        }
        if let Some(led) = cache.transitions.led(state, action) {
            return self.follow(action, led);
        }
        let held = cache.in_flight.hold(Missed::Step(state, action));
        // Somebody else may have found it out meanwhile.
        if let Some(led) = cache.transitions.led(state, action) {
            if held.has_waited {
                cache.counters.shared.count();
            }
            return self.follow(action, led);
        }
        self.miss(action)
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        self.follower.recorder(&self.cache)?.session().identify(state)
    }

    fn text(&mut self, state: &[u8]) -> Result<String, SessionError> {
        self.follower.recorder(&self.cache)?.session().text(state)
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let cache = &self.cache;
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        let unknown = || SessionError::UnknownSpace {
            name: format!("observation space {}", space.0),
            environment: cache.spec().name.to_string(),
        };
        let (name, source) = cache.transitions.space(space).ok_or_else(unknown)?;
        let known = match source {
            ValueTable::States => cache.transitions.value(episode.state, space)?,
            ValueTable::Ir => cache.transitions.ir(episode.state)?.map(Value::Bytes),
            ValueTable::Benchmarks => episode.start.baselines.get(name).map(Value::Int),
            ValueTable::Compiler => None,
        };
        if let Some(value) = known {
            cache.counters.observation_hits.count();
            return Ok(value);
        }
        cache.counters.observation_misses.count();
        if source == ValueTable::Benchmarks {
            let start = Arc::clone(&episode.start);
            return self.follower.observe_program(cache, &start, space);
        }
        self.follower.observe(cache, episode, space)
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let episode = self.episode.clone().ok_or(SessionError::NoEpisode)?;
        let mut fork = Self::new(Arc::clone(&self.cache));
        fork.episode = Some(episode);
        Ok(Box::new(fork))
    }
}
