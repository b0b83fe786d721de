//! Failures that tests plant into programs of the [toy environment](super::toy).
//!
//! A plant is written into the program after its numbers, so every state of the program has it.
//! Most plants end the whole process: play such programs in a [worker](super::worker).

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use nix::time::{ClockId, clock_gettime};

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
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Only {
    /// Always.
    Ever,
    /// While this file is writable. The plant then makes it read-only, which needs no open file:
    /// workers cannot open any.
    Once(PathBuf),
    /// While this file exists.
    While(PathBuf),
}

impl Harm {
    const ALL: [(Self, &'static str); 11] = [
        (Self::Breaks, "breaks"),
        (Self::Heals, "heals"),
        (Self::Aborts, "aborts"),
        (Self::Panics, "panics"),
        (Self::Killed, "killed"),
        (Self::Hangs, "hangs"),
        (Self::Sleeps, "sleeps"),
        (Self::Recurses, "recurses"),
        (Self::Prints, "prints"),
        (Self::Leaks, "leaks"),
        (Self::Plods, "plods"),
    ];

    fn as_str(self) -> &'static str {
        let word = Self::ALL.iter().find(|(harm, _)| *harm == self);
        word.map_or("", |(_, word)| word)
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { harm, action, every, only } = self;
        write!(f, "{} {action} {every}", harm.as_str())?;
        match only {
            Only::Ever => Ok(()),
            Only::Once(path) => write!(f, " once {}", path.display()),
            Only::While(path) => write!(f, " while {}", path.display()),
        }
    }
}

impl Plant {
    /// Parses the output of [`fmt::Display`].
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(5, ' ');
        let word = words.next()?;
        let &(harm, _) = Harm::ALL.iter().find(|(_, known)| *known == word)?;
        let action = words.next()?.to_owned();
        let every = words.next()?.parse().ok().filter(|every| *every > 0)?;
        let only = match (words.next(), words.next()) {
            (None, None) => Only::Ever,
            (Some("once"), Some(path)) => Only::Once(path.into()),
            (Some("while"), Some(path)) => Only::While(path.into()),
            _ => return None,
        };
        Some(Self { harm, action, every, only })
    }

    /// Does the harm if `action` triggers it in the state `number`. Returns what the environment
    /// still has to do: treat the result of the action as broken.
    pub(super) fn strike(&self, action: &str, number: u32) -> Option<Broken> {
        let is_meant = action == self.action || (action == CHECK && self.harm == Harm::Plods);
        if !is_meant || !number.is_multiple_of(self.every) || !self.only.is_now() {
            return None;
        }
        match self.harm {
            Harm::Breaks => return Some(Broken { heals_after: None }),
            Harm::Heals => return Some(Broken { heals_after: Some(2) }),
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

/// A state that a check finds broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken {
    /// The number of further actions after which the state is whole again.
    heals_after: Option<u32>,
}

impl Broken {
    /// Returns what is left of the breakage after one more action.
    pub(super) fn after(self) -> Option<Self> {
        match self.heals_after {
            None => Some(self),
            Some(0 | 1) => None,
            Some(actions) => Some(Self { heals_after: Some(actions - 1) }),
        }
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the kernel has this clock");
    Duration::from(time)
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
    fn a_plant_is_read_as_it_was_written() {
        let once = Only::Once("/a b".into());
        for (harm, _) in Harm::ALL {
            for only in [Only::Ever, once.clone(), Only::While("/c".into())] {
                let plant = Plant { harm, action: "double".into(), every: 7, only };
                assert_eq!(Plant::parse(&plant.to_string()), Some(plant));
            }
        }
        for text in ["", "breaks", "breaks double", "breaks double 0", "breaks double 1 once"] {
            assert_eq!(Plant::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_heals_is_whole_two_actions_later() {
        let plant = |harm| Plant { harm, action: "a".into(), every: 3, only: Only::Ever };
        assert_eq!(plant(Harm::Breaks).strike("a", 4), None);
        assert_eq!(plant(Harm::Breaks).strike("b", 3), None);
        let broken = plant(Harm::Breaks).strike("a", 3).unwrap();
        assert_eq!(broken.after(), Some(broken));
        let heals = plant(Harm::Heals).strike("a", 3).unwrap();
        assert_eq!(heals.after().and_then(Broken::after), None);
        assert!(heals.after().is_some());
    }
}
