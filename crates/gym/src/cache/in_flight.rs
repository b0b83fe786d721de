//! Who is about to find something out, so that nobody else does the same.

use std::collections::HashSet;
use std::hash::Hash;

use parking_lot::{Condvar, Mutex, MutexGuard};

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
pub(super) struct InFlightKey<'a, K: Eq + Hash> {
    all: &'a InFlight<K>,
    key: K,
    /// Whether somebody else held the key before.
    pub(super) has_waited: bool,
}

impl<K: Clone + Eq + Hash> InFlight<K> {
    /// Holds a key, once nobody else does.
    pub(super) fn hold(&self, key: K) -> InFlightKey<'_, K> {
        self.hold_after(key, |held| self.released.wait(held))
    }

    fn hold_after(
        &self,
        key: K,
        wait: impl Fn(&mut MutexGuard<'_, HashSet<K>>),
    ) -> InFlightKey<'_, K> {
        let (mut held, mut has_waited) = (self.held.lock(), false);
        while held.contains(&key) {
            has_waited = true;
            wait(&mut held);
        }
        held.insert(key.clone());
        InFlightKey { all: self, key, has_waited }
    }
}

impl<K: Eq + Hash> Drop for InFlightKey<'_, K> {
    fn drop(&mut self) {
        self.all.held.lock().remove(&self.key);
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
                    all.released.wait(held);
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
