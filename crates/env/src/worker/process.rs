//! The supervisor's side of one worker process: start it, talk to it, limit it, learn how it died.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use memmap2::MmapOptions;
use nix::sys::signal::Signal;

use super::flight_recorder::{FlightRecorder, Note};
use super::limits::{CPU_SIGNAL, WorkerConfig};
use super::wire::{self, Reply, Setup, WorkerRequest};
use crate::SessionError;
use steplake_model::{Failure, FailureKind};
use steplake_sandbox::{Interrupt, awake};

/// How often a waiting supervisor checks its worker's time.
const TICK: Duration = Duration::from_millis(50);

/// How often a supervisor asks for an interrupt while answers come.
const ASK: Duration = Duration::from_millis(200);

/// How long a worker may take to start up.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// How many bytes are read from a worker at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// A worker whose leftovers of earlier programs exceed this fraction of its limit on address space
/// is replaced before the next program. The limit counts leftovers too; a fresh worker would judge
/// a failure caused by them, and early replacement saves that detour.
const CLUTTER_DIVISOR: u64 = 4;

/// The exit code of a Rust program that panics.
const PANIC_CODE: i32 = 101;

/// How much of the end of a worker's output is searched for a reason.
const LAST_WORDS_BYTES_MAX: u64 = 64 * 1024;

/// A running worker.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    child: Child,
    stream: BufReader<PatientStream>,
    flight: FlightRecorder,
    output: File,
    config: WorkerConfig,
    /// The actions of a request that was sent before anybody waits for its answers.
    pub(super) announced: Option<Vec<u32>>,
    /// The address space of the worker when it was ready.
    address_space_at_first_kib: u64,
}

/// Why a worker does not answer a request as it should.
#[derive(Debug)]
pub(super) enum WorkerTrouble {
    /// The worker answers with an error, or our own code panicked in it. A retry is of no use.
    Error(SessionError),
    Death(WorkerDeath),
}

impl From<SessionError> for WorkerTrouble {
    fn from(error: SessionError) -> Self {
        Self::Error(error)
    }
}

/// The end of a worker.
#[derive(Debug)]
pub(super) struct WorkerDeath {
    pub(super) failure: Failure,
    /// How many actions of the present request the worker had begun.
    pub(super) begun: u64,
    /// Whether somebody else ended the worker: a person, or a machine out of memory. This says
    /// nothing about the compiler. Otherwise the cause is the compiler, or what the worker did
    /// before.
    pub(super) is_from_outside: bool,
}

impl WorkerProcess {
    /// Starts a worker for the environment of this name, of the build that it has to be. After an
    /// interrupt, fails with [`io::ErrorKind::ConnectionAborted`].
    pub(super) fn spawn(environment: &str, build: &str, config: &WorkerConfig) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        stream.set_read_timeout(Some(TICK))?;
        // `page` stays open until the worker is up, because the worker opens it through this
        // process.
        let (flight, page) = FlightRecorder::create()?;
        let output = tempfile::tempfile()?;
        #[expect(clippy::disallowed_methods, reason = "the worker is this program, with limits")]
        let child = std::process::Command::new(&config.program)
            .arg(super::COMMAND)
            // The sessions' thread takes its memory from the same arena as the first thread would.
            .env("MALLOC_ARENA_MAX", "1")
            .envs(config.heap_variables().iter().copied())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(output.try_clone()?))
            .stderr(Stdio::from(output.try_clone()?))
            // Ctrl-C in a terminal goes to the supervisor alone, which knows what to end.
            .process_group(0)
            .spawn()?;
        let setup = Setup {
            environment: environment.to_owned(),
            flight: FlightRecorder::path(&page),
            step_cpu_max: config.step_cpu_max,
            memory_bytes_max: config.memory_bytes_max,
            disturbs_heap: config.disturbs_heap,
        };
        if let Err(error) = wire::send(&mut &stream, &setup) {
            tracing::debug!(%error, "a worker does not hear what it has to be");
        }
        let stream = PatientStream {
            stream,
            worker: child.id(),
            wall_max: READY_TIMEOUT,
            began: None,
            interrupt: config.interrupt.clone(),
            asked: Instant::now(),
        };
        let mut process = Self {
            child,
            stream: BufReader::with_capacity(BUFFER_BYTES, stream),
            flight,
            output,
            config: config.clone(),
            announced: None,
            address_space_at_first_kib: 0,
        };
        match process.receive(READY_TIMEOUT) {
            Ok(Reply::Ready(theirs)) if theirs == build => {
                process.address_space_at_first_kib = process.address_space_kib();
                Ok(process)
            }
            Ok(Reply::Ready(theirs)) => Err(io::Error::other(format!(
                "{} is {theirs}, and this is {build}: install both from one build",
                config.program.display()
            ))),
            Ok(other) => Err(io::Error::other(format!("a worker began with {other:?}"))),
            // A death from outside does not show whether the worker would have come up.
            Err(WorkerTrouble::Death(death)) if death.is_from_outside => {
                Err(io::Error::new(io::ErrorKind::Interrupted, death.failure.detail))
            }
            Err(WorkerTrouble::Error(SessionError::Interrupted)) => {
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Err(trouble) => {
                let said = own_words(&process.last_output());
                Err(io::Error::other(said.unwrap_or_else(|| match trouble {
                    WorkerTrouble::Death(death) => death.failure.detail,
                    WorkerTrouble::Error(error) => error.to_string(),
                })))
            }
        }
    }

    /// Sends a request. [`WorkerProcess::receive`] notices if the worker is dead.
    pub(super) fn send(&mut self, request: &WorkerRequest) {
        if let Err(error) = wire::send(&mut self.stream.get_mut().stream, request) {
            tracing::debug!(%error, "a worker does not take requests any more");
        }
    }

    /// Returns the next reply, or how the worker died. Kills a worker that does not answer within
    /// `wall_max`, not counting time in which it computed or waited for a core. A worker that uses
    /// too much CPU time ends itself.
    pub(super) fn receive(&mut self, wall_max: Duration) -> Result<Reply, WorkerTrouble> {
        (self.stream.get_mut().wall_max, self.stream.get_mut().began) = (wall_max, None);
        let error = match wire::receive(&mut self.stream) {
            Ok(Reply::Error(error)) => return Err(WorkerTrouble::Error(error)),
            Ok(reply) => return Ok(reply),
            Err(error) => error,
        };
        Err(match error.kind() {
            io::ErrorKind::TimedOut => {
                let limit = format!("no answer in {} s", wall_max.as_secs_f64());
                self.die(FailureKind::TimeOut, &limit)
            }
            io::ErrorKind::ConnectionAborted => {
                self.kill();
                WorkerTrouble::Error(SessionError::Interrupted)
            }
            io::ErrorKind::FileTooLarge => self.die(FailureKind::OutOfMemory, &error.to_string()),
            io::ErrorKind::InvalidData => self.die(FailureKind::Crash, &error.to_string()),
            _ => self.bury(),
        })
    }

    /// As [`receive`](Self::receive), whatever the interrupt says.
    pub(super) fn receive_anyway(&mut self, wall_max: Duration) -> Result<Reply, WorkerTrouble> {
        let interrupt = std::mem::take(&mut self.stream.get_mut().interrupt);
        let reply = self.receive(wall_max);
        self.stream.get_mut().interrupt = interrupt;
        reply
    }

    /// Returns the worker's address space, which its memory limit bounds; 0 if unknown.
    fn address_space_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let size = |status: String| {
            let size = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
            size.trim().strip_suffix(" kB")?.parse().ok()
        };
        status.ok().and_then(size).unwrap_or(0)
    }

    /// Returns whether leftovers of earlier programs fill much of the worker's address space.
    pub(super) fn is_cluttered(&self) -> bool {
        let left_behind = self.address_space_kib().saturating_sub(self.address_space_at_first_kib);
        left_behind > (self.config.memory_bytes_max >> 10) / CLUTTER_DIVISOR
    }

    /// Kills the worker for `reason`.
    fn die(&mut self, kind: FailureKind, reason: &str) -> WorkerTrouble {
        let note = self.flight.read();
        self.kill();
        death(kind, reason, &note, false)
    }

    /// Finds out why the worker closed its end.
    fn bury(&mut self) -> WorkerTrouble {
        let note = self.flight.read();
        let output = self.last_output();
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(error) => {
                return death(FailureKind::Crash, &format!("lost: {error}"), &note, true);
            }
        };
        if let Some(reason) = over_time(status, &note) {
            return death(FailureKind::TimeOut, &reason, &note, false);
        }
        if let Some(reason) = panic(status, &output) {
            return WorkerTrouble::Error(SessionError::Defect(format!(
                "{reason} {}",
                note.place()
            )));
        }
        let (kind, reason) = reason(status, &last_words(&output));
        if kind == FailureKind::OutOfMemory && !has_address_space(self.config.memory_bytes_max) {
            let mib = self.config.memory_bytes_max >> 20;
            let reason = format!("{reason}, where this machine has no {mib} MiB to give,");
            return death(kind, &reason, &note, true);
        }
        death(kind, &reason, &note, is_from_outside(status))
    }

    /// Returns the end of the worker's output.
    fn last_output(&self) -> String {
        let read = || -> io::Result<String> {
            let mut output = self.output.try_clone()?;
            let end = output.seek(SeekFrom::End(0))?;
            output.seek(SeekFrom::Start(end.saturating_sub(LAST_WORDS_BYTES_MAX)))?;
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }

    /// Returns how many actions of the present request the worker has begun.
    pub(super) fn begun(&self) -> u64 {
        self.flight.read().begun
    }

    /// Returns whether the worker still runs.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the worker.
    pub(super) fn kill(&mut self) {
        let ended = self.child.kill().and_then(|()| self.child.wait().map(drop));
        if let Err(error) = ended {
            tracing::debug!(%error, "a worker was gone before it could be ended");
        }
    }

    /// Drops the worker's output, so that a long-lived worker does not fill the disk.
    pub(super) fn forget_output(&mut self) {
        let forget = self.output.set_len(0).and_then(|()| self.output.rewind());
        if let Err(error) = forget.and_then(|()| self.output.flush()) {
            tracing::debug!(%error, "the output of a worker could not be dropped");
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn death(kind: FailureKind, reason: &str, note: &Note, is_from_outside: bool) -> WorkerTrouble {
    let detail = format!("{reason} {}", note.place());
    let failure = Failure { kind, detail };
    WorkerTrouble::Death(WorkerDeath { failure, begun: note.begun, is_from_outside })
}

/// The supervisor's end of a worker's stream.
#[derive(Debug)]
struct PatientStream {
    stream: UnixStream,
    /// The worker's process id.
    worker: u32,
    /// The limit of the present reply.
    wall_max: Duration,
    /// When the wait for the present reply began, and how long the worker had been awake then.
    began: Option<(Instant, Duration)>,
    interrupt: Interrupt,
    /// When the interrupt was last asked.
    asked: Instant,
}

impl PatientStream {
    /// Asks whether there is an interrupt, and returns how long the question took: that is not the
    /// worker's time.
    fn ask(&mut self) -> io::Result<Duration> {
        let began = Instant::now();
        let is_raised = self.interrupt.is_raised();
        self.asked = Instant::now();
        if is_raised {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let took = self.asked - began;
        if let Some((since, _)) = &mut self.began {
            *since += took;
        }
        Ok(took)
    }
}

impl Read for PatientStream {
    /// Fails with [`io::ErrorKind::TimedOut`] if a reply takes longer than `wall_max`, not counting
    /// time in which the worker computed or waited for a core; with
    /// [`io::ErrorKind::ConnectionAborted`] after an interrupt.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.stream.read(buffer);
            // A signal ends a wait as well.
            let is_quiet = matches!(&read, Err(error)
                if is_timeout(error) || error.kind() == io::ErrorKind::Interrupted);
            let mut took = Duration::ZERO;
            if is_quiet || self.asked.elapsed() >= ASK {
                took = self.ask()?;
            }
            if !is_quiet {
                return read;
            }
            if took >= TICK {
                // The answer may have come meanwhile.
                continue;
            }
            let (since, before) =
                *self.began.get_or_insert_with(|| (Instant::now(), awake(self.worker)));
            if since.elapsed() >= self.wall_max
                && since.elapsed() >= self.wall_max + awake(self.worker).saturating_sub(before)
            {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Returns where our own code panicked in a worker, with its message; none if it did not panic, or
/// for lack of memory.
fn panic(status: ExitStatus, output: &str) -> Option<String> {
    // A panic that cannot unwind aborts the process.
    let may_be = [Some(PANIC_CODE), None].contains(&status.code())
        && [Some(Signal::SIGABRT as i32), None].contains(&status.signal());
    let mut lines = output.lines();
    let is_it = |line: &str| line.starts_with("thread '") && line.contains("panicked at ");
    let first = lines.by_ref().find(|line| may_be && is_it(line));
    let Some((_, place)) = first.and_then(|line| line.split_once("panicked at ")) else {
        let is_certain = status.code() == Some(PANIC_CODE);
        return is_certain.then(|| "a worker panicked".to_owned());
    };
    let words = lines.next().unwrap_or_default();
    // Rust's own library panics where it gets no stack for a thread.
    (!names_memory(words)).then(|| format!("a worker panicked at {place} {words}"))
}

/// Returns the line of a worker's output that says most about its death.
fn last_words(output: &str) -> String {
    let tells = |line: &&str| {
        ["LLVM ERROR", "Assertion", "error:", "panicked", "memory", "bad_alloc", "UNREACHABLE"]
            .iter()
            .any(|word| line.contains(word))
    };
    output.lines().rfind(tells).map_or_else(String::new, without_addresses)
}

/// Returns this program's own error message from a worker that did not come up.
fn own_words(output: &str) -> Option<String> {
    output.lines().rev().find_map(|line| line.strip_prefix("steplake: ")).map(str::to_owned)
}

/// Returns whether the kernel grants a process that much address space. If not, a worker may run
/// out of memory below its limit.
fn has_address_space(bytes: u64) -> bool {
    let length = usize::try_from(bytes).ok();
    length.is_some_and(|length| MmapOptions::new().len(length).map_anon().is_ok())
}

/// Returns the CPU limit by which the worker ended itself, in words; none if it did not.
fn over_time(status: ExitStatus, note: &Note) -> Option<String> {
    let is_over = status.signal() == Some(CPU_SIGNAL as i32);
    let limit = Duration::from_millis(note.cpu_max_ms);
    is_over.then(|| format!("more than {} s of CPU time", limit.as_secs_f64()))
}

/// Returns whether the status shows a signal that no compiler sends itself.
fn is_from_outside(status: ExitStatus) -> bool {
    let outside = [
        Signal::SIGKILL,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        // The user's own limit on CPU time.
        Signal::SIGXCPU,
        // A page of a mapped file, such as the program itself, could not be read.
        Signal::SIGBUS,
    ];
    status
        .signal()
        .and_then(|signal| Signal::try_from(signal).ok())
        .is_some_and(|signal| outside.contains(&signal))
}

/// Returns whether a process's last words say that it got no more memory.
fn names_memory(words: &str) -> bool {
    ["out of memory", "bad_alloc", "memory allocation", "Cannot allocate"]
        .iter()
        .any(|word| words.contains(word))
}

fn reason(status: ExitStatus, last_words: &str) -> (FailureKind, String) {
    let kind = if names_memory(last_words) { FailureKind::OutOfMemory } else { FailureKind::Crash };
    let end = match status.signal().map(Signal::try_from) {
        Some(Ok(signal)) => signal.as_str().to_owned(),
        Some(Err(_)) => "an unknown signal".to_owned(),
        None => format!("exit {}", status.code().unwrap_or(-1)),
    };
    let words = if last_words.is_empty() { String::new() } else { format!(" ({last_words})") };
    (kind, format!("{end}{words}"))
}

/// Hides addresses: they differ from run to run, and a reason must not.
fn without_addresses(line: &str) -> String {
    let word = |word: &str| {
        if word.contains("0x") { "0x…".to_owned() } else { word.to_owned() }
    };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_is_put_into_words() {
        let killed = ExitStatus::from_raw(11);
        assert_eq!(reason(killed, ""), (FailureKind::Crash, "SIGSEGV".into()));
        let aborted = ExitStatus::from_raw(6);
        let (kind, words) = reason(aborted, "LLVM ERROR: out of memory");
        assert_eq!(kind, FailureKind::OutOfMemory);
        assert_eq!(words, "SIGABRT (LLVM ERROR: out of memory)");
        assert_eq!(reason(ExitStatus::from_raw(256), "").1, "exit 1");
    }

    #[test]
    fn a_panic_is_told_from_what_a_compiler_does() {
        let output =
            "thread 'sessions' (17) panicked at src/a.rs:1:2:\nno such thing\nnote: more\n";
        let said = "a worker panicked at src/a.rs:1:2: no such thing";
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        let abort = ExitStatus::from_raw(6);
        for status in [exit(101), abort] {
            assert_eq!(panic(status, output).as_deref(), Some(said));
        }
        assert_eq!(panic(exit(101), "").as_deref(), Some("a worker panicked"));
        let segfault = ExitStatus::from_raw(11);
        for (status, output) in [(exit(1), output), (segfault, output), (abort, "LLVM ERROR: x")] {
            assert_eq!(panic(status, output), None);
        }
        let output = "thread 'sessions' (17) panicked at /rustc/5/stack_overflow.rs:236:13:\n\
                      failed to allocate an alternative stack: Cannot allocate memory (os error \
                      12)\nnote: run with `RUST_BACKTRACE=1` to display a backtrace\n";
        assert_eq!(panic(exit(101), output), None);
        let (kind, words) = reason(exit(101), &last_words(output));
        assert_eq!(kind, FailureKind::OutOfMemory, "{words}");
    }

    #[test]
    fn words_carry_no_addresses() {
        assert_eq!(without_addresses("at 0xdeadbeef  in f"), "at 0x… in f");
    }
}
