//! An environment whose idle sessions give up their compilers.
//!
//! A client that has a thousand sessions uses a few of them at a time. A session that nobody has
//! used in the longest time is *parked*: it keeps its program and its actions, and its compiler
//! goes. Its next call starts a compiler again and plays the actions. A session in which an action
//! that may lead elsewhere next time has changed the state stays live.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use steplake::env::{Environment, Session, SessionError, Start, Started, Visit, Watch, flags};
use steplake::model::{
    ActionIndex, Baselines, Benchmark, EnvironmentSpec, ObservationIndex, Outcome, StateId, Step,
    Value,
};

/// An environment that wraps another one, and keeps few of its sessions live.
#[derive(Debug)]
pub(crate) struct ParkingEnvironment(Arc<Lot>);

#[derive(Debug)]
struct Lot {
    environment: Arc<dyn Environment>,
    /// The number of live sessions above which idle ones are parked.
    live_max: usize,
    /// The most sessions that wait for another program after their own ended.
    idle_max: usize,
    live: AtomicUsize,
    calls: AtomicU64,
    places: Mutex<Vec<Weak<Place>>>,
    idle: Mutex<Vec<Idle>>,
}

/// A live session without an owner, and the program that it knows.
struct Idle {
    session: Box<dyn Session>,
    program: Arc<[u8]>,
}

impl std::fmt::Debug for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Idle").field("bytes", &self.program.len()).finish_non_exhaustive()
    }
}

/// Where a session is, live or parked.
struct Place {
    /// The number of the last call.
    used: AtomicU64,
    held: Mutex<Held>,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("used", &self.used).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Held {
    live: Option<Box<dyn Session>>,
    /// Shared by live sessions that share a compiler.
    family: Arc<()>,
    way: Option<Way>,
}

/// How to come back to the state of an episode.
#[derive(Debug, Clone)]
struct Way {
    benchmark: Benchmark,
    action_space: String,
    baselines: Baselines,
    watch: Watch,
    actions: Vec<ActionIndex>,
    /// How many of the actions came before this session was forked off: a fork counts its
    /// keyframes from there, as its recorder does.
    before_fork: usize,
    state: StateId,
    /// Whether the actions lead to the state again for sure. If not, the session is not parked.
    is_sure: bool,
}

impl ParkingEnvironment {
    /// Wraps an environment. At most `live_max` sessions stay live beside those that are in use.
    pub(crate) fn new(environment: Arc<dyn Environment>, live_max: usize) -> Self {
        let idle_max = std::thread::available_parallelism().map_or(1, usize::from).min(live_max);
        Self(Arc::new(Lot {
            environment,
            live_max,
            idle_max,
            live: AtomicUsize::new(0),
            calls: AtomicU64::new(0),
            places: Mutex::default(),
            idle: Mutex::default(),
        }))
    }
}

impl Environment for ParkingEnvironment {
    fn spec(&self) -> &EnvironmentSpec {
        self.0.environment.spec()
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Parkable::new(Arc::clone(&self.0), Held::default())))
    }

    fn repeated_windows(&self) -> u64 {
        self.0.environment.repeated_windows()
    }
}

impl Lot {
    /// Returns a live session, if possible one that knows the program.
    fn open(&self, program: &Arc<[u8]>) -> Result<Box<dyn Session>, SessionError> {
        let known = {
            let mut idle = lock(&self.idle);
            let knows = idle.iter().position(|one| one.program == *program);
            match knows {
                Some(place) => Some(idle.swap_remove(place)),
                None => idle.pop(),
            }
        };
        match known {
            Some(Idle { session, .. }) => Ok(session),
            None => self.environment.session(),
        }
    }

    /// Keeps a session for the next program, unless enough wait already.
    fn keep(&self, session: Box<dyn Session>, program: Arc<[u8]>) {
        let mut idle = lock(&self.idle);
        if idle.len() < self.idle_max {
            idle.push(Idle { session, program });
        }
    }

    /// Parks sessions that nobody uses, the longest idle ones first, until few enough are live.
    fn park_idle(&self) {
        if self.live.load(Ordering::Relaxed) <= self.live_max {
            return;
        }
        let mut places: Vec<_> = {
            let mut places = lock(&self.places);
            places.retain(|place| place.strong_count() > 0);
            places.iter().filter_map(Weak::upgrade).collect()
        };
        // Others use their sessions meanwhile: each key is read once.
        places.sort_by_cached_key(|place| place.used.load(Ordering::Relaxed));
        for place in places {
            if self.live.load(Ordering::Relaxed) <= self.live_max {
                break;
            }
            let Ok(mut held) = place.held.try_lock() else { continue };
            let Held { live, family, way } = &mut *held;
            if let Some(way) = way.as_ref().filter(|way| way.is_sure)
                && let Some(session) = live.take()
            {
                // A compiler that forks share belongs to them.
                if Arc::strong_count(family) == 1 {
                    self.keep(session, Arc::clone(&way.benchmark.program));
                }
                *family = Arc::default();
                self.live.fetch_sub(1, Ordering::Relaxed);
                tracing::debug!("parked a session");
            }
        }
    }
}

/// A session that may be parked between two calls.
struct Parkable {
    lot: Arc<Lot>,
    place: Arc<Place>,
}

impl Parkable {
    fn new(lot: Arc<Lot>, held: Held) -> Self {
        let place = Arc::new(Place { used: AtomicU64::new(0), held: Mutex::new(held) });
        let mut places = lock(&lot.places);
        if places.len() == places.capacity() {
            // Before it grows: sessions that are gone leave their places behind.
            places.retain(|place| place.strong_count() > 0);
        }
        places.push(Arc::downgrade(&place));
        drop(places);
        Self { lot, place }
    }

    fn enter(&self) -> MutexGuard<'_, Held> {
        let call = self.lot.calls.fetch_add(1, Ordering::Relaxed);
        self.place.used.store(call, Ordering::Relaxed);
        lock(&self.place.held)
    }

    /// Runs `work` with the live session, which is brought back if it was parked.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut dyn Session, &mut Option<Way>) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        self.with_family(work).map(|(done, _family)| done)
    }

    /// The same, with the family of the live session that did the work.
    fn with_family<T>(
        &self,
        work: impl FnOnce(&mut dyn Session, &mut Option<Way>) -> Result<T, SessionError>,
    ) -> Result<(T, Arc<()>), SessionError> {
        let mut held = self.enter();
        let was_parked = held.live.is_none();
        if was_parked {
            let way = held.way.as_ref().ok_or(SessionError::NoEpisode)?;
            held.live = Some(revived(&self.lot, way)?);
            self.lot.live.fetch_add(1, Ordering::Relaxed);
        }
        let Held { live, way, family } = &mut *held;
        let session = live.as_mut().ok_or(SessionError::NoEpisode)?;
        let done = work(session.as_mut(), way);
        let family = Arc::clone(family);
        drop(held);
        if was_parked {
            self.lot.park_idle();
        }
        Ok((done?, family))
    }
}

/// Starts a session again, and plays the actions of its episode.
fn revived(lot: &Lot, way: &Way) -> Result<Box<dyn Session>, SessionError> {
    let mut session = lot.open(&way.benchmark.program)?;
    let started = session.start(&Start {
        benchmark: &way.benchmark,
        action_space: &way.action_space,
        baselines: Some(&way.baselines),
        watch: &way.watch,
    })?;
    let mut found = started.state.to_string();
    let (of_parents, own) = way.actions.split_at(way.before_fork);
    for (actions, is_forked) in [(of_parents, !of_parents.is_empty()), (own, false)] {
        session.multistep(actions, &mut |step, _| {
            found = match step.outcome {
                Outcome::State { id, .. } => id.to_string(),
                Outcome::Crashed(failure) => format!("{}: {}", failure.kind, failure.detail),
            };
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        if is_forked {
            session = session.fork()?;
        }
    }
    if found == way.state.to_string() {
        return Ok(session);
    }
    let (uri, expected) = (way.benchmark.uri.to_string(), way.state.to_string());
    Err(SessionError::Diverged { uri, expected, found })
}

impl Way {
    /// Notes a step; returns whether the episode goes on.
    fn note(&mut self, spec: &EnvironmentSpec, action: ActionIndex, outcome: &Outcome) -> bool {
        if let &Outcome::State { id, changed, .. } = outcome {
            self.is_sure &= !changed || flags(spec, &self.action_space, action).replayable;
            self.actions.push(action);
            self.state = id;
        }
        !outcome.ends_episode()
    }
}

impl Session for Parkable {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        let mut held = self.enter();
        held.way = None;
        if held.live.is_none() {
            held.live = Some(self.lot.open(&start.benchmark.program)?);
            self.lot.live.fetch_add(1, Ordering::Relaxed);
        }
        let live = held.live.as_mut().ok_or(SessionError::NoEpisode)?;
        let started = live.start(start)?;
        held.way = Some(Way {
            benchmark: start.benchmark.clone(),
            action_space: start.action_space.to_owned(),
            baselines: started.baselines.clone(),
            watch: start.watch.clone(),
            actions: Vec::new(),
            before_fork: 0,
            state: started.state,
            is_sure: true,
        });
        drop(held);
        self.lot.park_idle();
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let spec = self.lot.environment.spec();
        self.with(|session, way| {
            let step = session.apply(action)?;
            if !way.as_mut().is_some_and(|way| way.note(spec, action, &step.outcome)) {
                *way = None;
            }
            Ok(step)
        })
    }

    fn multistep(
        &mut self,
        actions: &[ActionIndex],
        visit: &mut Visit<'_>,
    ) -> Result<(), SessionError> {
        let spec = self.lot.environment.spec();
        self.with(|session, way| {
            let mut taken = actions.iter();
            session.multistep(actions, &mut |step, observe| {
                let action = taken.next();
                let goes_on = action.zip(way.as_mut());
                if !goes_on.is_some_and(|(action, way)| way.note(spec, *action, &step.outcome)) {
                    *way = None;
                }
                visit(step, observe)
            })
        })
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        self.with(|session, _| session.observe(space))
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        self.with(|session, _| session.identify(state))
    }

    fn text(&mut self, state: &[u8]) -> Result<String, SessionError> {
        self.with(|session, _| session.text(state))
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        // The family as it was then: this session may be parked by now, and in another one.
        let ((live, mut way), family) =
            self.with_family(|session, way| Ok((session.fork()?, way.clone())))?;
        if let Some(way) = &mut way {
            way.before_fork = way.actions.len();
        }
        self.lot.live.fetch_add(1, Ordering::Relaxed);
        let fork = Self::new(Arc::clone(&self.lot), Held { live: Some(live), family, way });
        self.lot.park_idle();
        Ok(Box::new(fork))
    }
}

impl Drop for Parkable {
    fn drop(&mut self) {
        let mut held = self.enter();
        let Some(session) = held.live.take() else { return };
        self.lot.live.fetch_sub(1, Ordering::Relaxed);
        // A compiler that forks share belongs to them.
        if let (1, Some(way)) = (Arc::strong_count(&held.family), held.way.take()) {
            self.lot.keep(session, way.benchmark.program);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use steplake::env::toy::{self, ToyEnvironment};

    use super::*;

    fn parking(live_max: usize) -> ParkingEnvironment {
        ParkingEnvironment::new(Arc::new(ToyEnvironment::default()), live_max)
    }

    fn begun(environment: &ParkingEnvironment, seed: u32) -> (Box<dyn Session>, StateId) {
        let mut session = environment.session().unwrap();
        let (benchmark, watch) = (toy::benchmark(seed), Watch::default());
        let start = Start {
            benchmark: &benchmark,
            action_space: toy::NAME,
            baselines: None,
            watch: &watch,
        };
        let started = session.start(&start).unwrap();
        (session, started.state)
    }

    fn state(step: &Step) -> Option<StateId> {
        step.outcome.state()
    }

    #[test]
    fn parked_sessions_come_back_to_their_states() {
        let environment = parking(2);
        let actions = [0, 1, 5, 6].map(ActionIndex);
        let mut sessions: Vec<_> = (0..20).map(|seed| begun(&environment, seed)).collect();
        let alone: Vec<_> = (0..20).map(|seed| begun(&parking(100), seed)).collect();
        for ((mut one, first), (session, other)) in alone.into_iter().zip(&mut sessions) {
            assert_eq!(first, *other);
            for action in actions {
                let [expected, found] =
                    [&mut one, &mut *session].map(|session| session.apply(action).unwrap());
                assert_eq!(state(&expected), state(&found));
            }
        }
        assert!(environment.0.live.load(Ordering::Relaxed) <= 2);
        // Once more, in the opposite order: each was parked in between.
        for (session, _) in sessions.iter_mut().rev() {
            session.observe(ObservationIndex(0)).unwrap();
        }
        assert!(environment.0.live.load(Ordering::Relaxed) <= 2);
        drop(sessions);
        assert_eq!(environment.0.live.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn sessions_that_are_gone_leave_nothing_behind() {
        let environment = parking(1000);
        let kept = begun(&environment, 1);
        for seed in 0..500 {
            drop(begun(&environment, seed));
        }
        assert!(lock(&environment.0.places).len() < 10);
        drop(kept);
    }

    #[test]
    fn forks_of_parked_sessions_are_on_their_own() {
        let environment = parking(1);
        let (mut first, _) = begun(&environment, 1);
        first.apply(ActionIndex(1)).unwrap();
        let mut forks: Vec<_> = (0..4).map(|_| first.fork().unwrap()).collect();
        let moved = first.apply(ActionIndex(5)).unwrap();
        for fork in &mut forks {
            assert_eq!(state(&fork.apply(ActionIndex(5)).unwrap()), state(&moved));
        }
    }

    #[test]
    fn a_session_that_may_not_come_back_stays_live() {
        let environment = ParkingEnvironment::new(Arc::new(ToyEnvironment::unsure()), 1);
        let scatter = environment.spec().action_spaces[0].index_of("scatter").unwrap();
        let (mut unsure, first) = begun(&environment, 1);
        assert_ne!(state(&unsure.apply(scatter).unwrap()), Some(first));
        let _others: Vec<_> = (2..5).map(|seed| begun(&environment, seed)).collect();
        assert_eq!(environment.0.live.load(Ordering::Relaxed), 1, "it alone is live");
        unsure.apply(ActionIndex(0)).unwrap();
        assert_eq!(environment.0.live.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn nothing_goes_on_after_the_end() {
        let environment = parking(1);
        let mut session = environment.session().unwrap();
        let none = session.apply(ActionIndex(0)).unwrap_err();
        assert!(matches!(none, SessionError::NoEpisode), "{none}");
    }
}
