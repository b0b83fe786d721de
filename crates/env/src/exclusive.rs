//! A lock that knows who holds it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

thread_local! {
    /// Its address names this thread, without the system call that asks for the thread's number.
    static THREAD: u8 = const { 0 };
}

/// A value that one thread uses at a time. A call that waits may run somebody else's code on its
/// thread, which may come back to the same value: [`is_mine`](Self::is_mine) tells it to stop,
/// where a lock alone would wait for itself.
///
/// A holder's panic changes nothing: the value has to be valid at every instant.
#[derive(Debug)]
pub struct Exclusive<T> {
    value: Mutex<T>,
    /// The thread that uses the value; 0 for none.
    user: AtomicUsize,
}

/// The use of a value.
#[derive(Debug)]
pub struct InUse<'a, T> {
    value: MutexGuard<'a, T>,
    user: &'a AtomicUsize,
}

impl<T> Exclusive<T> {
    /// A value that nobody uses yet.
    pub fn new(value: T) -> Self {
        Self { value: Mutex::new(value), user: AtomicUsize::new(0) }
    }

    /// Returns whether this very thread uses the value already.
    pub fn is_mine(&self) -> bool {
        self.user.load(Ordering::Relaxed) == this_thread()
    }

    /// Waits until no other thread uses the value.
    pub fn lock(&self) -> InUse<'_, T> {
        self.used(self.value.lock())
    }

    /// Returns the value unless somebody uses it.
    pub fn try_lock(&self) -> Option<InUse<'_, T>> {
        self.value.try_lock().map(|value| self.used(value))
    }

    fn used<'a>(&'a self, value: MutexGuard<'a, T>) -> InUse<'a, T> {
        self.user.store(this_thread(), Ordering::Relaxed);
        InUse { value, user: &self.user }
    }
}

/// Returns the name of this thread, which no other living thread has, and which is not 0.
fn this_thread() -> usize {
    THREAD.with(|own| std::ptr::from_ref(own).addr())
}

impl<T> Deref for InUse<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for InUse<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for InUse<'_, T> {
    fn drop(&mut self) {
        self.user.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use super::*;

    #[test]
    fn a_value_is_mine_until_its_use_ends() {
        let value = Exclusive::new(1);
        assert!(!value.is_mine());
        let held = value.lock();
        assert!(value.is_mine() && value.try_lock().is_none());
        let elsewhere = std::thread::scope(|scope| scope.spawn(|| value.is_mine()).join().unwrap());
        assert!(!elsewhere);
        drop(held);
        assert!(!value.is_mine());
        let panicked = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let _held = value.lock();
            panic!("in the middle of a use");
        }));
        assert!(panicked.is_err() && !value.is_mine());
        assert_eq!(value.try_lock().map(|value| *value), Some(1));
    }
}
