//! Who is about to find something out, so that nobody else does the same.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The keys that somebody holds.
#[derive(Debug)]
pub(super) struct InFlight<K> {
    held: Mutex<HashSet<K>>,
    released: Condvar,
}

impl<K> Default for InFlight<K> {
    fn default() -> Self {
        Self { held: Mutex::default(), released: Condvar::new() }
    }
}

/// A key that is held until this is dropped, also by a panic.
#[derive(Debug)]
pub(super) struct Held<'a, K: Eq + Hash> {
    all: &'a InFlight<K>,
    key: K,
    /// Whether somebody else held the key before.
    pub(super) has_waited: bool,
}

impl<K: Clone + Eq + Hash> InFlight<K> {
    /// Holds a key, once nobody else does.
    pub(super) fn hold(&self, key: K) -> Held<'_, K> {
        self.hold_after(key, |held| {
            self.released.wait(held).unwrap_or_else(PoisonError::into_inner)
        })
    }

    fn hold_after<'a>(
        &'a self,
        key: K,
        wait: impl Fn(MutexGuard<'a, HashSet<K>>) -> MutexGuard<'a, HashSet<K>>,
    ) -> Held<'a, K> {
        let (mut held, mut has_waited) = (self.lock(), false);
        while held.contains(&key) {
            has_waited = true;
            held = wait(held);
        }
        held.insert(key.clone());
        Held { all: self, key, has_waited }
    }
}

impl<K> InFlight<K> {
    fn lock(&self) -> MutexGuard<'_, HashSet<K>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Held<'_, K> {
    fn drop(&mut self) {
        self.all.lock().remove(&self.key);
        self.all.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// When a test gives up.
    const LONG: Duration = Duration::from_mins(10);

    #[test]
    fn a_key_is_held_by_one_at_a_time_and_others_are_free() {
        let (all, is_done) = (InFlight::default(), AtomicBool::new(false));
        let first = all.hold(1);
        assert!(!first.has_waited && !all.hold(2).has_waited);
        // The other one says that it waits while it has the lock, which nobody can take before it
        // really waits.
        let (waits, waiting) = mpsc::channel();
        std::thread::scope(|scope| {
            let (all, is_done) = (&all, &is_done);
            scope.spawn(move || {
                let second = all.hold_after(1, |held| {
                    waits.send(()).unwrap();
                    all.released.wait(held).unwrap()
                });
                assert!(second.has_waited && is_done.load(Ordering::Relaxed));
            });
            // Moved here, so that a failure releases it and with it the other one.
            let first = first;
            waiting.recv_timeout(LONG).expect("the other one waits");
            is_done.store(true, Ordering::Relaxed);
            drop(first);
        });
        assert!(!all.hold(1).has_waited);
    }
}
