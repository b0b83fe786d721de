//! Limits on what a worker uses: CPU time, wall time, stack, disk, message length.
//!
//! The worker measures its CPU time itself, by a timer on its own CPU clock that it sets anew
//! before each action. So all of a step counts, no matter who waits for it. The timer's signal ends
//! the worker.

#![expect(unsafe_code, reason = "sets what signals do")]

use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigEvent, SigHandler, SigevNotify, Signal, signal};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

use super::flight_recorder::FlightRecorder;
use steplake_sandbox::Interrupt;

/// The CPU time that the start of a program may take, as a multiple of a step's: to read the
/// program and to run the compiler's own pipelines for the baselines.
const START_STEPS: u32 = 5;

/// The wall time that work may take, as a multiple of its CPU time. Work that exceeds it sleeps, or
/// waits for a machine that makes no progress.
const WALL_PER_CPU: u32 = 6;

/// The least limit on wall time.
const WALL_MIN: Duration = Duration::from_secs(10);

/// The stack of the thread that runs a worker's sessions. It is fixed, so that the user's limit
/// (`ulimit -s`) does not decide how deep a compiler may recurse.
pub(super) const STACK_BYTES: usize = 64 << 20;

/// How many bytes a worker may print between two starts. Its output is kept in a file, to find the
/// reason of its death.
pub(super) const OUTPUT_BYTES_MAX: u64 = 64 << 20;

/// The longest message between a worker and its supervisor: far larger than any program that fits
/// into a worker's memory.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// The default number of changes of state after which a window ends.
const WINDOW_CHANGES_MAX: NonZeroU32 = NonZeroU32::new(16).expect("16 is not 0");

/// The timer's signal. Nothing else sends it, whereas SIGXCPU may come from the user's own limits.
pub(super) const CPU_SIGNAL: Signal = Signal::SIGVTALRM;

/// Returns the CPU time that the start of a program may take if a step may take `step`.
fn start_cpu(step: Duration) -> Duration {
    step * START_STEPS
}

/// Returns the wall time allowed for work that may take `cpu` of CPU time.
fn wall(cpu: Duration) -> Duration {
    (cpu * WALL_PER_CPU).max(WALL_MIN)
}

/// Limits this process for good. Fails if a limit of the user's own is lower: failures caused by it
/// would be blamed on the compiler.
pub(super) fn confine(memory_bytes_max: u64) -> io::Result<()> {
    // Ignored signals are inherited, and Python ignores SIGXFSZ: the limit would not end the
    // process.
    for limit in [CPU_SIGNAL, Signal::SIGXFSZ] {
        // SAFETY: no handler is installed, so none can do what a handler must not.
        unsafe { signal(limit, SigHandler::SigDfl) }?;
    }
    let memory = ": raise it, or give workers less memory";
    limit(Resource::RLIMIT_AS, memory_bytes_max, "address space (`ulimit -v`)", memory)?;
    // Data is part of the address space, so our limit on the latter is reached first.
    limit(Resource::RLIMIT_DATA, memory_bytes_max, "data (`ulimit -d`)", memory)?;
    let files = "the size of files (`ulimit -f`)";
    limit(Resource::RLIMIT_FSIZE, OUTPUT_BYTES_MAX, files, ": raise it")?;
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

/// How workers are run.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The path of the steplake binary.
    pub program: PathBuf,
    /// The CPU time that one step may take. The check of a step or a window may take as much, and
    /// so may the observation of a state. The other limits on time follow from it.
    pub step_cpu_max: Duration,
    /// The address space of a worker, in bytes.
    pub memory_bytes_max: u64,
    /// The number of changes of state after which a window ends. If none, everything is played in
    /// careful mode.
    pub window_changes_max: Option<NonZeroU32>,
    /// Ends a worker in the middle of its work. The call that waits for it fails with
    /// [`SessionError::Interrupted`](crate::SessionError::Interrupted), and the next one goes
    /// on in a fresh worker, in the state of the last step that was reported.
    pub interrupt: Interrupt,
    /// Whether the allocator of a worker or a compiler lays out its heap otherwise than it does by
    /// itself, and fills what is allocated and freed. Then each program that a worker starts also
    /// finds [holes](super::heap_holes) in it.
    pub disturbs_heap: bool,
}

/// Other sizes of the allocator's caches, so that blocks are reused in another order, and other
/// contents of what is allocated and freed.
const DISTURBED_HEAP: [(&str, &str); 2] = [
    ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=1:glibc.malloc.mxfast=0"),
    ("MALLOC_PERTURB_", "165"),
];

impl WorkerConfig {
    /// Returns the usual limits for workers that run `program`: 20 s of CPU time, 4 GiB.
    pub fn new(program: PathBuf) -> Self {
        Self {
            program,
            step_cpu_max: Duration::from_secs(20),
            memory_bytes_max: 4 << 30,
            window_changes_max: Some(WINDOW_CHANGES_MAX),
            interrupt: Interrupt::default(),
            disturbs_heap: false,
        }
    }

    /// Returns how the workers of an audit run: with another heap, and whatever the interrupt says.
    /// What an audit has found is recorded after an interrupt too.
    #[must_use]
    pub fn of_an_audit(self) -> Self {
        Self { interrupt: Interrupt::default(), disturbs_heap: true, ..self }
    }

    /// Returns the variables that lay out the heap of a process as these workers have it.
    pub fn heap_variables(&self) -> &'static [(&'static str, &'static str)] {
        if self.disturbs_heap { &DISTURBED_HEAP } else { &[] }
    }

    /// Returns the limits that decide whether a program can be started, as text.
    pub fn limits(&self) -> String {
        format!("{} ms of CPU time, {} bytes", self.step_cpu_max.as_millis(), self.memory_bytes_max)
    }

    /// The CPU time that the start of a program may take, with the compiler's own pipelines over
    /// it.
    pub fn start_cpu_max(&self) -> Duration {
        start_cpu(self.step_cpu_max)
    }

    /// Returns the wall time that one step may take, a limit for workers that sleep.
    pub fn step_wall_max(&self) -> Duration {
        wall(self.step_cpu_max)
    }

    /// Returns the wall time that the start of a program may take.
    pub fn start_wall_max(&self) -> Duration {
        wall(self.start_cpu_max())
    }
}

/// Ends this process when its present work exceeds its CPU time.
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

    /// Allows the CPU time of a step from now on.
    pub(super) fn begin_step(&mut self, flight: &FlightRecorder) {
        self.begin(self.step_cpu_max, flight);
    }

    /// Allows the CPU time of a step, and as much again for its verification. What passes in a
    /// window, where each has a limit of its own, passes here too; what fails here exceeds one of
    /// the two.
    pub(super) fn begin_verified_step(&mut self, flight: &FlightRecorder) {
        flight.allow(self.step_cpu_max);
        self.set(self.step_cpu_max * 2);
    }

    /// Allows the CPU time of a start, also for a confirmed step that is played again.
    pub(super) fn begin_start(&mut self, flight: &FlightRecorder) {
        self.begin(start_cpu(self.step_cpu_max), flight);
    }

    /// Stops the timer while nothing is under way.
    pub(super) fn rest(&mut self) {
        self.set(Duration::ZERO);
    }

    /// Sets the limit, and notes it for whoever has to explain the signal.
    fn begin(&mut self, limit: Duration, flight: &FlightRecorder) {
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
