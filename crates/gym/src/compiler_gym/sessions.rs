//! The sessions of all clients.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tonic::Status;

use super::session::ClientSession;
use super::status::no_session;

/// The most sessions at a time. A client that leaves without ending its sessions leaves them
/// behind: an idle one takes its program, which others share, and its actions.
const SESSIONS_MAX: usize = 1 << 16;

/// Sessions that share a compiler, because they were forked from one another, by number. One of
/// them computes at a time.
type Family = Mutex<BTreeMap<i64, Box<ClientSession>>>;

/// The open sessions. Sessions that do not share a compiler never wait for each other.
#[derive(Debug)]
pub(super) struct Sessions {
    families: Mutex<HashMap<i64, Arc<Family>>>,
    next: AtomicI64,
}

impl Default for Sessions {
    fn default() -> Self {
        // A client that does not know that the service was started anew must not find the session
        // of another one under a number of its own.
        let mut first = [0; 4];
        if let Err(error) = getrandom::fill(&mut first) {
            tracing::warn!(%error, "sessions are numbered from the start");
        }
        let first = 1 + (i64::from(u32::from_le_bytes(first)) << 24);
        Self { families: Mutex::default(), next: AtomicI64::new(first) }
    }
}

impl Sessions {
    fn families(&self) -> MutexGuard<'_, HashMap<i64, Arc<Family>>> {
        self.families.lock()
    }

    /// Refuses one more session if there are too many.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE`: a client may wait for others to end theirs.
    pub(super) fn demand_room(&self) -> Result<(), Status> {
        if self.families().len() < SESSIONS_MAX {
            return Ok(());
        }
        Err(Status::unavailable(format!(
            "{SESSIONS_MAX} sessions are open: end some, or start the service anew"
        )))
    }

    /// Adds a session, and returns its number.
    pub(super) fn add(&self, session: ClientSession) -> i64 {
        let family = Arc::default();
        self.add_to(&family, &mut family.lock(), Box::new(session))
    }

    fn add_to(
        &self,
        family: &Arc<Family>,
        members: &mut BTreeMap<i64, Box<ClientSession>>,
        session: Box<ClientSession>,
    ) -> i64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        members.insert(id, session);
        self.families().insert(id, Arc::clone(family));
        id
    }

    /// Runs `work` with a session. If it fails in a way that ends the episode, or panics, the
    /// session is gone.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND` if there is no such session; those of `work`.
    pub(super) fn with<T>(
        &self,
        id: i64,
        work: impl FnOnce(&mut ClientSession) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let family = self.families().get(&id).cloned().ok_or_else(|| no_session(id))?;
        let mut members = family.lock();
        self.work(id, &mut members, work).unwrap_or_else(|| Err(no_session(id)))
    }

    /// Runs `work` with a session unless that has to wait for it. None if so, or if there is no
    /// such session, or `work` returns none.
    pub(super) fn try_with<T>(
        &self,
        id: i64,
        work: impl FnOnce(&mut ClientSession) -> Option<T>,
    ) -> Option<T> {
        let family = self.families().get(&id).cloned()?;
        let mut members = family.try_lock()?;
        self.work(id, &mut members, work).flatten()
    }

    /// Runs `work` with a session of a family; none if it is not there.
    fn work<T>(
        &self,
        id: i64,
        members: &mut BTreeMap<i64, Box<ClientSession>>,
        work: impl FnOnce(&mut ClientSession) -> T,
    ) -> Option<T> {
        let mut session = members.remove(&id)?;
        // Out of the family, so that a panic leaves nothing half done behind.
        let gone = Gone { sessions: self, id };
        let done = work(&mut session);
        if !session.has_failed() {
            members.insert(id, session);
            std::mem::forget(gone);
        }
        Some(done)
    }

    /// Opens a fork of a session, and returns its number.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND` if there is no such session; those of the fork.
    pub(super) fn fork(&self, id: i64) -> Result<i64, Status> {
        self.demand_room()?;
        let family = self.families().get(&id).cloned().ok_or_else(|| no_session(id))?;
        let fork = Box::new(self.with(id, ClientSession::fork)?);
        Ok(self.add_to(&family, &mut family.lock(), fork))
    }

    /// Ends a session, if it is there, and returns how many remain.
    pub(super) fn end(&self, id: i64) -> usize {
        let (family, remaining) = {
            let mut families = self.families();
            (families.remove(&id), families.len())
        };
        if let Some(family) = family {
            family.lock().remove(&id);
        }
        remaining
    }

    /// Ends all sessions: idle ones at once, and busy ones after their calls. Sessions whose calls
    /// take longer than `patience` are left to the end of the process.
    pub(super) fn end_all(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let mut families: Vec<_> = std::mem::take(&mut *self.families()).into_values().collect();
        loop {
            families.retain(|family| {
                let Some(mut members) = family.try_lock() else { return true };
                members.clear();
                false
            });
            if families.is_empty() {
                return;
            }
            if Instant::now() >= until {
                tracing::warn!(sessions = families.len(), "some sessions are still at work");
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Forgets the number of a session when it is dropped.
struct Gone<'a> {
    sessions: &'a Sessions,
    id: i64,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.sessions.families().remove(&self.id);
    }
}
