//! A session that may be parked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

use steplake::env::{
    Destination, Expected, Route, Session, SessionError, Start, Started, Strayed, Visit, Watch,
    flags,
};
use steplake::model::{
    ActionIndex, Baselines, Benchmark, EnvironmentSpec, Failure, ObservationIndex, Outcome,
    StateId, Step, Value,
};

use super::Lot;

/// Where a session is, live or parked.
pub(super) struct SessionSlot {
    /// The number of the last call.
    pub(super) used: AtomicU64,
    pub(super) held: Mutex<SlotState>,
}

impl std::fmt::Debug for SessionSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionSlot").field("used", &self.used).finish_non_exhaustive()
    }
}

#[derive(Default)]
pub(super) struct SlotState {
    pub(super) live: Option<Box<dyn Session>>,
    /// Shared by live sessions that share a compiler.
    pub(super) family: Arc<()>,
    pub(super) way: Option<ParkedEpisode>,
}

/// How to come back to the state of an episode.
#[derive(Debug, Clone)]
pub(super) struct ParkedEpisode {
    pub(super) benchmark: Benchmark,
    action_space: String,
    baselines: Baselines,
    watch: Watch,
    /// The state in which the episode began.
    first: StateId,
    actions: Vec<ActionIndex>,
    /// How many of the actions came before this session was forked off, and the state then: a fork
    /// counts its keyframes from there, as its recorder does.
    fork: (usize, StateId),
    state: StateId,
    /// Whether the actions lead to the state again for sure. If not, the session is not parked.
    pub(super) is_sure: bool,
}

/// A session that may be parked between two calls.
pub(super) struct Parkable {
    lot: Arc<Lot>,
    place: Arc<SessionSlot>,
}

impl Parkable {
    pub(super) fn new(lot: Arc<Lot>, held: SlotState) -> Self {
        let place = Arc::new(SessionSlot { used: AtomicU64::new(0), held: Mutex::new(held) });
        let mut places = lot.places.lock();
        if places.len() == places.capacity() {
            // Before it grows: sessions that are gone leave their places behind.
            places.retain(|place| place.strong_count() > 0);
        }
        places.push(Arc::downgrade(&place));
        drop(places);
        Self { lot, place }
    }

    fn enter(&self) -> MutexGuard<'_, SlotState> {
        let call = self.lot.calls.fetch_add(1, Ordering::Relaxed);
        self.place.used.store(call, Ordering::Relaxed);
        self.place.held.lock()
    }

    /// Runs `work` with the live session, which is brought back if it was parked.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut dyn Session, &mut Option<ParkedEpisode>) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        self.with_family(work).map(|(done, _family)| done)
    }

    /// The same, with the family of the live session that did the work.
    fn with_family<T>(
        &self,
        work: impl FnOnce(&mut dyn Session, &mut Option<ParkedEpisode>) -> Result<T, SessionError>,
    ) -> Result<(T, Arc<()>), SessionError> {
        let mut held = self.enter();
        let was_parked = held.live.is_none();
        if was_parked {
            let way = held.way.as_ref().ok_or(SessionError::NoEpisode)?;
            held.live = Some(revived(&self.lot, way)?);
            self.lot.live.fetch_add(1, Ordering::Relaxed);
        }
        let SlotState { live, way, family } = &mut *held;
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
fn revived(lot: &Lot, way: &ParkedEpisode) -> Result<Box<dyn Session>, SessionError> {
    let mut session = lot.open(&way.benchmark.program)?;
    let started = session.start(&Start {
        benchmark: &way.benchmark,
        action_space: &way.action_space,
        baselines: Some(&way.baselines),
        watch: &way.watch,
    })?;
    let uri = &way.benchmark.uri;
    let begun = Strayed::at_start(Destination::State(started.state), way.first);
    begun.map_err(|strayed| strayed.diverged(uri, way.first))?;
    let (before_fork, forked_in) = way.fork;
    let (of_parents, own) = way.actions.split_at(before_fork);
    for (actions, last, is_forked) in
        [(of_parents, forked_in, before_fork > 0), (own, way.state, false)]
    {
        let route = Route { actions, expected: Expected::Last(last) };
        let brought = route.bring(session.as_mut(), |_, _| {})?;
        brought.map_err(|strayed| strayed.diverged(uri, last))?;
        if is_forked {
            session = session.fork()?;
        }
    }
    Ok(session)
}

impl ParkedEpisode {
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

#[deny(clippy::missing_trait_methods)]
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
        held.way = Some(ParkedEpisode {
            benchmark: start.benchmark.clone(),
            action_space: start.action_space.to_owned(),
            baselines: started.baselines.clone(),
            watch: start.watch.clone(),
            first: started.state,
            actions: Vec::new(),
            fork: (0, started.state),
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

    /// A session may be parked after each call, and comes back by steps that are checked.
    fn apply_unchecked(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        self.apply(action)
    }

    /// No step is left to be checked.
    fn check(&mut self) -> Result<Option<Failure>, SessionError> {
        Ok(None)
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

    /// Only a live session hears of it: one that has to come back first gains nothing by it.
    fn announce(&mut self, actions: &[ActionIndex]) {
        if let Some(session) = &mut self.enter().live {
            session.announce(actions);
        }
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
            way.fork = (way.actions.len(), way.state);
        }
        self.lot.live.fetch_add(1, Ordering::Relaxed);
        let fork = Self::new(Arc::clone(&self.lot), SlotState { live: Some(live), family, way });
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
