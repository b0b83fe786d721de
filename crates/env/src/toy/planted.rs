//! Failures that tests plant into programs of the [toy environment](super).
//!
//! A plant is written into the program after its numbers, so every state of the program has it.
//! Most plants end the whole process: play such programs in a [worker](crate::worker).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use serde::{Deserialize, Serialize};

use crate::cpu_time;

/// The least stack that [`Harm::Recurses`] uses: more than most users have by default.
const RECURSION_BYTES: usize = 12 << 20;

/// The address space that [`Harm::Leaks`] takes each time, in bytes.
const LEAK_BYTES: usize = 384 << 20;

/// The CPU time that [`Harm::Plods`] takes each time.
const PLOD: Duration = Duration::from_millis(600);

/// The word for the start of the program, in place of an action's name.
pub(super) const START: &str = "start";

/// The word for a check, in place of an action's name.
pub(super) const CHECK: &str = "check";

/// A failure, and where it happens.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plant {
    /// What happens.
    pub harm: Harm,
    /// The action that triggers the harm, or [`START`].
    pub action: String,
    /// The harm happens only in states whose number is a multiple of this.
    pub every: u32,
    /// A further condition.
    pub only: Only,
}

/// What a plant does.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Harm {
    /// The action's result is broken, which only a check can find.
    Breaks,
    /// As [`Harm::Breaks`], but two more actions later the result is whole again.
    Heals,
    /// The process aborts.
    Aborts,
    /// Our own code panics.
    Panics,
    /// The process is killed as if from outside.
    Killed,
    /// The process computes forever.
    Hangs,
    /// The process sleeps forever.
    Sleeps,
    /// The action uses much of the stack and succeeds.
    Recurses,
    /// The process prints forever.
    Prints,
    /// The action takes address space and does not give it back.
    Leaks,
    /// The action takes [a while](PLOD), and so does each check.
    Plods,
}

/// When a plant takes effect.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Only {
    /// Always.
    Ever,
    /// While this file is writable. The plant then makes it read-only, which needs no open file:
    /// workers cannot open any.
    Once(PathBuf),
    /// While this file exists.
    While(PathBuf),
}

impl Plant {
    /// Does the harm if `action` triggers it in the state `number`. Returns what the environment
    /// still has to do: treat the results of the action and of this many more actions as broken.
    pub(super) fn strike(&self, action: &str, number: u32) -> Option<u32> {
        let is_meant = action == self.action || (action == CHECK && self.harm == Harm::Plods);
        if !is_meant || !number.is_multiple_of(self.every) || !self.only.is_now() {
            return None;
        }
        match self.harm {
            Harm::Breaks => return Some(u32::MAX),
            Harm::Heals => return Some(1),
            Harm::Aborts => std::process::abort(),
            Harm::Panics => panic!("as planted"),
            Harm::Killed => raise(Signal::SIGKILL).expect("a process may end itself"),
            Harm::Hangs => loop {
                std::hint::spin_loop();
            },
            Harm::Sleeps => loop {
                std::thread::park();
            },
            Harm::Recurses => recurse(RECURSION_BYTES),
            Harm::Leaks => {
                std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(LEAK_BYTES)));
            }
            Harm::Plods => {
                let begin = cpu_time();
                while cpu_time() < begin + PLOD {
                    std::hint::spin_loop();
                }
            }
            Harm::Prints => loop {
                let line = [b'x'; 4096];
                std::io::stderr().write_all(&line).expect("the signal of the limit ends it first");
            },
        }
        None
    }
}

impl Only {
    fn is_now(&self) -> bool {
        match self {
            Self::Ever => true,
            Self::Once(path) => std::fs::metadata(path).is_ok_and(|file| {
                let mut permissions = file.permissions();
                let is_now = !permissions.readonly();
                permissions.set_readonly(true);
                is_now && std::fs::set_permissions(path, permissions).is_ok()
            }),
            Self::While(path) => Path::exists(path),
        }
    }
}

/// Uses at least `bytes` of the stack.
fn recurse(bytes: usize) {
    let frame = std::hint::black_box([0_u8; 4096]);
    if bytes > frame.len() {
        recurse(bytes - frame.len());
    }
    std::hint::black_box(&frame);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_action_in_its_states_triggers_a_plant() {
        let plant = |harm| Plant { harm, action: "a".into(), every: 3, only: Only::Ever };
        assert_eq!(plant(Harm::Breaks).strike("a", 4), None);
        assert_eq!(plant(Harm::Breaks).strike("b", 3), None);
        assert_eq!(plant(Harm::Breaks).strike("a", 3), Some(u32::MAX));
    }
}
