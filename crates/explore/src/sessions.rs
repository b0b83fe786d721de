//! The live sessions of all clients.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::answers::Problem;
use super::tree::Tree;

/// How often sessions that nobody uses are looked for.
const LOOKS_PER_TIMEOUT: u32 = 4;

/// The open sessions by id.
pub(super) struct Sessions {
    open: Mutex<HashMap<String, Arc<TreeSession>>>,
    /// The most sessions at a time.
    max: NonZeroUsize,
    /// How long a session is kept that nobody uses.
    idle_max: Duration,
}

/// A session, which one request uses at a time.
struct TreeSession {
    /// One of std, whose poison tells of a panic that has left the tree half changed.
    tree: std::sync::Mutex<Tree>,
    used_at: Mutex<Instant>,
}

impl TreeSession {
    fn idle(&self) -> Duration {
        self.used_at.lock().elapsed()
    }
}

impl Sessions {
    pub(super) fn new(max: NonZeroUsize, idle_max: Duration) -> Self {
        Self { open: Mutex::default(), max, idle_max }
    }

    /// Adds a session, and returns its id. If there are too many, the one ends that nobody has used
    /// in the longest time.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub(super) fn add(&self, tree: Tree) -> Result<String, Problem> {
        // Nobody guesses the id of another client's session.
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_error| Problem::defect())?;
        let id = format!("{:032x}", u128::from_le_bytes(random));
        let kept =
            TreeSession { tree: std::sync::Mutex::new(tree), used_at: Mutex::new(Instant::now()) };
        let mut ended = Vec::new();
        let mut open = self.open.lock();
        while open.len() >= self.max.get() {
            let longest = open.iter().max_by_key(|(_, kept)| kept.idle());
            let Some(id) = longest.map(|(id, _)| id.clone()) else { break };
            ended.extend(open.remove(&id));
        }
        open.insert(id.clone(), Arc::new(kept));
        drop(open);
        // Ending a session may wait for its compiler, and so may nobody else.
        drop(ended);
        Ok(id)
    }

    /// Runs `work` with a session.
    ///
    /// # Errors
    ///
    /// If there is no such session; those of `work`.
    pub(super) fn with<T>(
        &self,
        id: &str,
        work: impl FnOnce(&mut Tree) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let kept = self.open.lock().get(id).cloned().ok_or_else(|| no_session(id))?;
        *kept.used_at.lock() = Instant::now();
        let Ok(mut tree) = kept.tree.lock() else {
            self.end(id);
            return Err(no_session(id));
        };
        let done = work(&mut tree);
        *kept.used_at.lock() = Instant::now();
        done
    }

    /// Ends a session; returns whether it was there.
    pub(super) fn end(&self, id: &str) -> bool {
        let ended = self.open.lock().remove(id);
        ended.is_some()
    }

    /// Ends all sessions.
    pub(super) fn end_all(&self) {
        let ended = std::mem::take(&mut *self.open.lock());
        drop(ended);
    }

    /// Ends the sessions that nobody has used for too long.
    fn end_idle(&self) {
        let mut ended = Vec::new();
        self.open.lock().retain(|_, kept| {
            let stays = kept.idle() <= self.idle_max;
            if !stays {
                ended.push(Arc::clone(kept));
            }
            stays
        });
        if !ended.is_empty() {
            tracing::info!(sessions = ended.len(), "nobody used them for a while: they end");
        }
    }
}

/// Ends sessions that nobody uses, as long as it is polled.
pub(super) async fn end_idle(sessions: Arc<Sessions>) {
    loop {
        tokio::time::sleep(sessions.idle_max / LOOKS_PER_TIMEOUT).await;
        let idle = Arc::clone(&sessions);
        let _ = tokio::task::spawn_blocking(move || idle.end_idle()).await;
    }
}

fn no_session(id: &str) -> Problem {
    Problem::missing(format!("there is no session {id}: it has ended; start another one"))
}
