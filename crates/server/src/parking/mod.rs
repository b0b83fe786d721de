//! An environment whose idle sessions give up their compilers.
//!
//! A client that has a thousand sessions uses a few of them at a time. A session that nobody has
//! used in the longest time is *parked*: it keeps its program and its actions, and its compiler
//! goes. Its next call starts a compiler again and plays the actions. A session in which an action
//! that may lead elsewhere next time has changed the state stays live.

mod session;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use steplake::env::worker::WorkerConfig;
use steplake::env::{Environment, Session, SessionError, forward};

use self::session::{Parkable, SessionSlot, SlotState};

/// An environment that wraps another one, and keeps few of its sessions live.
#[derive(Debug)]
pub struct ParkingEnvironment(Arc<Lot>);

#[derive(Debug)]
struct Lot {
    environment: Arc<dyn Environment>,
    /// The number of live sessions above which idle ones are parked.
    live_max: usize,
    /// The most sessions that wait for another program after their own ended.
    idle_max: usize,
    live: AtomicUsize,
    calls: AtomicU64,
    places: Mutex<Vec<Weak<SessionSlot>>>,
    idle: Mutex<Vec<IdleSession>>,
}

/// A live session without an owner, and the program that it knows.
struct IdleSession {
    session: Box<dyn Session>,
    program: Arc<[u8]>,
}

impl std::fmt::Debug for IdleSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdleSession").field("bytes", &self.program.len()).finish_non_exhaustive()
    }
}

impl ParkingEnvironment {
    /// Wraps an environment. At most `live_max` sessions stay live beside those that are in use.
    pub fn new(environment: Arc<dyn Environment>, live_max: usize) -> Self {
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

#[deny(clippy::missing_trait_methods)]
impl Environment for ParkingEnvironment {
    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Parkable::new(Arc::clone(&self.0), SlotState::default())))
    }

    fn within(&self, config: &WorkerConfig) -> Option<Box<dyn Environment>> {
        let environment = self.0.environment.within(config)?;
        Some(Box::new(Self::new(environment.into(), self.0.live_max)))
    }

    forward!(self => self.0.environment; spec, repeated_windows, audit_session, served, may_live_here);
    forward!(self => self.0.environment; keyframes, choices, front_end, own_datasets);
}

impl Lot {
    /// Returns a live session, if possible one that knows the program.
    fn open(&self, program: &Arc<[u8]>) -> Result<Box<dyn Session>, SessionError> {
        let known = {
            let mut idle = self.idle.lock();
            let knows = idle.iter().position(|one| one.program == *program);
            match knows {
                Some(place) => Some(idle.swap_remove(place)),
                None => idle.pop(),
            }
        };
        match known {
            Some(IdleSession { session, .. }) => Ok(session),
            None => self.environment.session(),
        }
    }

    /// Keeps a session for the next program, unless enough wait already.
    fn keep(&self, session: Box<dyn Session>, program: Arc<[u8]>) {
        let mut idle = self.idle.lock();
        if idle.len() < self.idle_max {
            idle.push(IdleSession { session, program });
        }
    }

    /// Parks sessions that nobody uses, the longest idle ones first, until few enough are live.
    fn park_idle(&self) {
        if self.live.load(Ordering::Relaxed) <= self.live_max {
            return;
        }
        let mut places: Vec<_> = {
            let mut places = self.places.lock();
            places.retain(|place| place.strong_count() > 0);
            places.iter().filter_map(Weak::upgrade).collect()
        };
        // Others use their sessions meanwhile: each key is read once.
        places.sort_by_cached_key(|place| place.used.load(Ordering::Relaxed));
        for place in places {
            if self.live.load(Ordering::Relaxed) <= self.live_max {
                break;
            }
            let Some(mut held) = place.held.try_lock() else { continue };
            let SlotState { live, family, way } = &mut *held;
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
