//! What a worker may take of the machine: CPU time, time on the clock, stack, disk, the length of a
//! message.
//!
//! CPU time is counted by the worker itself, with a timer on its own CPU clock that is set anew
//! before each action: so all of a step counts, whoever waits for it or does not. The timer's
//! signal ends the worker.

#![expect(unsafe_code, reason = "sets what signals do")]

use std::io;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigEvent, SigHandler, SigevNotify, Signal, signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

use super::flight::Flight;

/// How many times the CPU time of a step the start of a program may take: to read it, and to run
/// the compiler's own pipelines for the baselines.
const START_STEPS: u32 = 5;

/// How many times its CPU time something may take on the clock. What comes so far sleeps, or waits
/// for a machine that does not get on.
const WALL_PER_CPU: u32 = 6;

/// The time on the clock that anything may take.
const WALL_MIN: Duration = Duration::from_secs(10);

/// The stack of the thread that a worker's sessions live on. Fixed, so that what the user's limits
/// say (`ulimit -s`) does not decide how deep a compiler may recurse.
pub(super) const STACK_BYTES: usize = 64 << 20;

/// What a worker may print between two starts: its output is kept in a file for the reason of its
/// death.
pub(super) const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// The longest message between a worker and its supervisor: far above any program in a worker's
/// memory.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// The signal of the timer. Nothing else sends it: SIGXCPU may come of the user's own limits.
pub(super) const CPU_SIGNAL: Signal = Signal::SIGVTALRM;

/// The CPU time that the start of a program may take where a step may take `step`.
pub(super) fn start_cpu(step: Duration) -> Duration {
    step * START_STEPS
}

/// The time on the clock for what may take so much CPU time.
pub(super) fn wall(cpu: Duration) -> Duration {
    (cpu * WALL_PER_CPU).max(WALL_MIN)
}

/// Limits this process for good. What a compiler could run into and is the user's alone is an
/// error: failures would be taken for the compiler's.
pub(super) fn confine(memory_bytes_max: u64) -> io::Result<()> {
    // Whoever started the supervisor may have ignored them, as Python does with SIGXFSZ; then no
    // limit would end this process.
    for limit in [CPU_SIGNAL, Signal::SIGXFSZ] {
        // SAFETY: no handler is installed, so none can do what a handler must not.
        unsafe { signal(limit, SigHandler::SigDfl) }?;
    }
    let memory = ": raise it, or give workers less by --worker-memory-mib";
    limit(Resource::RLIMIT_AS, memory_bytes_max, "address space (`ulimit -v`)", memory)?;
    // Part of the address space, so that ours on that comes first.
    limit(Resource::RLIMIT_DATA, memory_bytes_max, "data (`ulimit -d`)", memory)?;
    limit(
        Resource::RLIMIT_FSIZE,
        OUTPUT_BYTES_MAX,
        "the size of files (`ulimit -f`)",
        ": raise it",
    )?;
    Ok(setrlimit(Resource::RLIMIT_CORE, 0, 0)?)
}

fn limit(resource: Resource, bytes: u64, on: &str, advice: &str) -> io::Result<()> {
    setrlimit(resource, bytes, bytes).map_err(|error| {
        let hard = getrlimit(resource).map_or(0, |(_, hard)| hard);
        let (hard_mib, mib) = (hard >> 20, bytes >> 20);
        io::Error::other(format!(
            "the limit on {on} is {hard_mib} MiB here, and a worker has to be given {mib} MiB \
             ({error}){advice}"
        ))
    })
}

/// Ends this process when what it is at takes more CPU time than it may.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: Timer,
    step_cpu_max: Duration,
}

impl Alarm {
    pub(super) fn new(step_cpu_max: Duration) -> io::Result<Self> {
        let notify = SigevNotify::SigevSignal { signal: CPU_SIGNAL, si_value: 0 };
        let timer = Timer::new(ClockId::CLOCK_PROCESS_CPUTIME_ID, SigEvent::new(notify))?;
        Ok(Self { timer, step_cpu_max })
    }

    /// From now on a step may take its time.
    pub(super) fn begin_step(&mut self, flight: &Flight) {
        self.begin(self.step_cpu_max, flight);
    }

    /// From now on a step may take its time, and its verification as much. So what gets through in
    /// a window, where each has its own, gets through here as well; what does not was over the one
    /// or the other.
    pub(super) fn begin_verified_step(&mut self, flight: &Flight) {
        flight.allow(self.step_cpu_max);
        self.set(self.step_cpu_max * 2);
    }

    /// From now on a start may take its time, or a step that was confirmed before and is played
    /// again.
    pub(super) fn begin_start(&mut self, flight: &Flight) {
        self.begin(start_cpu(self.step_cpu_max), flight);
    }

    /// Nothing is going on.
    pub(super) fn rest(&mut self) {
        self.set(Duration::ZERO);
    }

    /// The limit is noted, since whoever learns of the signal is to say which one it was.
    fn begin(&mut self, limit: Duration, flight: &Flight) {
        flight.allow(limit);
        self.set(limit);
    }

    fn set(&mut self, limit: Duration) {
        let expiration = Expiration::OneShot(limit.into());
        let set = self.timer.set(expiration, TimerSetTimeFlags::empty());
        set.expect("a timer that was made takes a positive time");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_the_cpu_time() {
        let seconds = Duration::from_secs;
        assert_eq!(wall(seconds(20)), seconds(120));
        assert_eq!(wall(seconds(300)), seconds(1800));
        assert_eq!(wall(seconds(1)), WALL_MIN);
        assert_eq!(start_cpu(seconds(20)), seconds(100));
    }
}
