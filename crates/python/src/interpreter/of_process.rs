//! Values that belong to the process that made them.

/// A value that must not be used, nor dropped, in a process that was forked from its own: it has
/// threads that the fork lacks, or sockets that the fork shares.
#[derive(Debug)]
pub(crate) struct OfProcess<T> {
    process: u32,
    value: Option<T>,
}

impl<T> OfProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: std::process::id(), value: Some(value) }
    }

    /// Returns the value; `None` in a forked process.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.process == std::process::id())
    }

    /// Returns the value; `None` in a forked process.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.value.as_mut().filter(|_| self.process == std::process::id())
    }

    /// Takes the value out; `None` in a forked process, where it is left alone.
    pub(crate) fn take(mut self) -> Option<T> {
        if self.process == std::process::id() { self.value.take() } else { None }
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.value.take());
        }
    }
}
