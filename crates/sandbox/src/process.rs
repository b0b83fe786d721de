//! Foreign programs as child processes: confined, with limits and a known environment, and ended
//! together with everything that they started.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::time::{ClockId, clock_getcpuclockid};
use nix::unistd::Pid;

use super::awake::{group_awake, stay_before_the_walls};
use super::confinement::keep_in_group;
use super::{OpenPaths, confine_thread};

/// What the limits are set with, beside coreutils: every Debian has both.
const UTIL_LINUX: &str = "util-linux";

/// How often a waiting [gate](Process::gate) is tried.
const GATE_PERIOD: Duration = Duration::from_micros(100);

/// The limits of a program. Those of memory, CPU time and files are per process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most wall time from start to end.
    pub wall: Duration,
    /// The most CPU time, rounded up to whole seconds.
    pub cpu: Duration,
    /// The most address space; none for programs that reserve more than there is.
    pub memory_bytes: Option<u64>,
    /// The largest file.
    pub file_bytes: u64,
    /// The most output. More of it ends the program.
    pub stdout_bytes: usize,
    /// The most error output that is kept. More of it is lost.
    pub stderr_bytes: usize,
}

/// A program to run.
#[derive(Debug)]
pub struct Process<'a> {
    /// Its file.
    pub program: PathBuf,
    /// What the program is called with.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The folder in which it runs; that of the caller if there is none.
    pub folder: Option<&'a Path>,
    /// What it may open besides the system's files and those of its own installation. A program
    /// without walls may open everything, and use the network.
    pub walls: Option<OpenPaths>,
    /// What it may use.
    pub limits: Limits,
    /// Its standard input; empty if there is none.
    pub input: Option<File>,
    /// The number of the CPU that it runs on; any if there is none.
    pub cpu: Option<usize>,
    /// A FIFO that the program opens and reads when it has been set up. Times count from then on.
    pub gate: Option<PathBuf>,
}

/// The end of a program.
#[derive(Debug)]
pub struct ProcessEnd {
    /// How it ended.
    pub status: ExitStatus,
    /// At most one byte more than the limit.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
    /// Whether it came to its gate, if it has one.
    pub is_set_up: bool,
    /// Whether it was ended because its time was up.
    pub timed_out: bool,
    /// How long it and the processes that it started had computed or waited for a core when its
    /// time was up. `None` if it was not, or if the kernel does not say.
    pub awake: Option<Duration>,
    /// Whether it was ended because of its output.
    pub wrote_too_much: bool,
    /// From the start, or the gate, to the end of the program itself.
    pub wall_time: Duration,
    /// The CPU time of the program itself, all its threads together, since then.
    pub cpu_time: Duration,
}

impl ProcessEnd {
    /// Returns whether its time was up, and for most of it neither the program nor what it started
    /// computed, or waited for a core of a busy machine.
    pub fn stood_still(&self) -> bool {
        self.timed_out && self.awake.is_some_and(|awake| awake < self.wall_time / 2)
    }
}

/// What a process took.
struct ProcessTimes {
    wall_time: Duration,
    cpu_time: Duration,
    is_set_up: bool,
    timed_out: bool,
    awake: Option<Duration>,
}

/// A program that is not on the search path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is not installed: apt-get install {package}")]
pub struct Missing {
    /// Its name.
    pub name: &'static str,
    /// The Debian packages that provide it.
    pub package: &'static str,
}

/// Why a program did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// A program of the system is not here.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What sets the limits, or the program before its gate, failed. The field is what it said.
    #[error("a program could not be set up: {0}")]
    NotSetUp(String),
}

/// Finds a program on the search path.
///
/// # Errors
///
/// [`Missing`] if it is in no folder of the system.
pub fn find(name: &'static str, package: &'static str) -> Result<PathBuf, Missing> {
    search(name).ok_or(Missing { name, package })
}

/// Returns the file of a program on the search path, if there is one.
pub fn search(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

impl Process<'_> {
    /// Starts the program and waits for its end, then ends everything that it left behind.
    ///
    /// The confinement applies to the thread that starts the program, so it gets a thread of its
    /// own. The thread stays until the end, since its children die with it.
    ///
    /// # Errors
    ///
    /// If the program cannot be started or waited for, or does not come to its gate. However it
    /// ends after that is no error.
    pub fn run(&mut self) -> Result<ProcessEnd, ProcessError> {
        let mut command = self.command()?;
        stay_before_the_walls();
        let ended = thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, || self.confined(&mut command));
            thread?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let ended = ended?;
        if !ended.is_set_up {
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            return Err(ProcessError::NotSetUp(said));
        }
        Ok(ended)
    }

    /// Runs the program from the calling thread, which is confined from then on.
    fn confined(&self, command: &mut Command) -> io::Result<ProcessEnd> {
        let Some(walls) = &self.walls else {
            let mut child = command.process_group(0).spawn()?;
            let group = pid_of(&child)?;
            return supervise(&self.limits, self.gate.as_deref(), &mut child, group);
        };
        let mut open = walls.clone();
        open.read.extend(installation(&self.program));
        open.write.extend(self.gate.clone());
        // A process group whose leader has ended and is not reaped: the program joins it, and then
        // no process of it can leave it for another one.
        let mut leader = leader()?;
        let group = pid_of(&leader)?;
        let mut run = || {
            confine_thread(&open)?;
            keep_in_group(group)?;
            let mut child = command.process_group(group.as_raw()).spawn()?;
            supervise(&self.limits, self.gate.as_deref(), &mut child, group)
        };
        let ended = run();
        leader.wait()?;
        ended
    }

    /// Builds the command. Programs of util-linux set the limits. The alternative, code between
    /// fork and exec, allows little, and all of it is unsafe.
    #[expect(clippy::disallowed_methods, reason = "this is the place that sets the limits")]
    fn command(&mut self) -> Result<Command, ProcessError> {
        let mut command = Command::new(find("setpriv", UTIL_LINUX)?);
        // A program that outlived this process would keep its locks and its folder.
        command.args(["--pdeathsig", "KILL", "--"]);
        if let Some(cpu) = self.cpu {
            command.arg(find("taskset", UTIL_LINUX)?).args(["--cpu-list", &cpu.to_string()]);
        }
        // Python ignores SIGXFSZ, and shells ignore more: whoever started this process.
        command.arg(find("env", "coreutils")?).arg("--default-signal");
        command.arg(find("prlimit", UTIL_LINUX)?);
        self.limit(&mut command);
        Ok(command)
    }

    /// Builds a command of the limits and the program alone.
    #[expect(clippy::disallowed_methods, reason = "it sets the limits")]
    pub(super) fn limited_command(&mut self) -> Result<Command, ProcessError> {
        let mut command = Command::new(find("prlimit", UTIL_LINUX)?);
        self.limit(&mut command);
        Ok(command)
    }

    /// Completes the command of `prlimit`.
    fn limit(&mut self, command: &mut Command) {
        let limits = &self.limits;
        command.arg("--core=0");
        if let Some(bytes) = limits.memory_bytes {
            command.arg(format!("--as={bytes}"));
        }
        command.arg(format!("--fsize={}", limits.file_bytes));
        // At the first number there is a signal of its own; at the second, SIGKILL.
        let seconds = limits.cpu.as_secs() + u64::from(limits.cpu.subsec_nanos() > 0);
        command.arg(format!("--cpu={}:{}", seconds.max(1), seconds.max(1) + 1)).arg("--");
        command.arg(&self.program).args(&self.arguments).env_clear();
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = self.folder {
            command.current_dir(folder);
        }
        command.stdin(self.input.take().map_or_else(Stdio::null, Stdio::from));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
}

/// Waits for the child's end, for as long as it may take, and kills the rest of its group.
pub(super) fn supervise(
    limits: &Limits,
    gate: Option<&Path>,
    child: &mut Child,
    group: Pid,
) -> io::Result<ProcessEnd> {
    let begin = Instant::now();
    let pid = pid_of(child)?;
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let wrote_too_much = AtomicBool::new(false);
    let &Limits { wall, stdout_bytes, stderr_bytes, .. } = limits;
    let (stdout, stderr, times) = thread::scope(|scope| {
        let stdout = scope.spawn(|| {
            read(out.as_mut(), stdout_bytes + 1, |kept| {
                if kept > stdout_bytes {
                    wrote_too_much.store(true, Ordering::Relaxed);
                    killpg(group, Signal::SIGKILL).ok();
                }
            })
        });
        let stderr = scope.spawn(move || read(err.as_mut(), stderr_bytes, |_| ()));
        let (ended, end) = mpsc::channel();
        scope.spawn(move || {
            // Does not reap the child: its process id must stay ours until its CPU time is read
            // and the group is killed.
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
            while waitid(Id::Pid(pid), flags) == Err(Errno::EINTR) {}
            // The receiver is gone only after a timeout.
            ended.send(Instant::now()).ok();
        });
        let times = times(gate, (pid, group), begin, wall, &end);
        // It is fine if the group is gone already.
        killpg(group, Signal::SIGKILL).ok();
        (stdout.join(), stderr.join(), times)
    });
    let lost = |_| io::Error::other("its output could not be read");
    let ProcessTimes { wall_time, cpu_time, is_set_up, timed_out, awake } = times;
    Ok(ProcessEnd {
        status: child.wait()?,
        stdout: stdout.map_err(lost)??,
        stderr: stderr.map_err(lost)??,
        is_set_up,
        timed_out,
        awake,
        wrote_too_much: wrote_too_much.into_inner(),
        wall_time,
        cpu_time,
    })
}

/// Waits for the end of the process `pid` of a group, for `wall` at most.
fn times(
    gate: Option<&Path>,
    (pid, group): (Pid, Pid),
    begin: Instant,
    wall: Duration,
    end: &Receiver<Instant>,
) -> ProcessTimes {
    let clock = clock_getcpuclockid(pid).ok();
    let cpu_time =
        || clock.and_then(|clock: ClockId| clock.now().ok()).map_or(Duration::ZERO, Duration::from);
    let (mut counted_from, mut is_set_up) = ((begin, Duration::ZERO), true);
    if let Some(gate) = gate {
        let open = opened(gate, pid, begin + wall);
        is_set_up = open.is_some();
        counted_from = (Instant::now(), cpu_time());
        drop(open);
    }
    let (begin, before) = counted_from;
    let wall = if is_set_up { wall } else { Duration::ZERO };
    let ended = end.recv_timeout(wall.saturating_sub(begin.elapsed()));
    let wall_time = ended.map_or_else(|_| begin.elapsed(), |end| end - begin);
    // The clock of a process goes on to be read until it is reaped.
    let cpu_time = cpu_time().saturating_sub(before);
    let timed_out = ended.is_err();
    let awake = if timed_out { group_awake(group) } else { None };
    ProcessTimes { wall_time, cpu_time, is_set_up, timed_out, awake }
}

/// Opens a FIFO for writing when a reader has opened it. Gives up at the end of the process, or at
/// `deadline`.
fn opened(gate: &Path, pid: Pid, deadline: Instant) -> Option<File> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    loop {
        let open = OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(gate);
        if let Ok(open) = open {
            return Some(open);
        }
        let is_running = matches!(waitid(Id::Pid(pid), flags), Ok(WaitStatus::StillAlive));
        if !is_running || Instant::now() >= deadline {
            return None;
        }
        thread::sleep(GATE_PERIOD);
    }
}

/// Starts a process that ends at once, as the leader of a new process group.
#[expect(clippy::disallowed_methods, reason = "it does nothing")]
pub(super) fn leader() -> io::Result<Child> {
    let mut command = Command::new("/bin/true");
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.process_group(0).spawn()
}

pub(super) fn pid_of(child: &Child) -> io::Result<Pid> {
    Ok(Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?))
}

/// Returns the folders of a program's installation: its own, and those beside it.
pub fn installation(program: &Path) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let bin = real.parent().unwrap_or(Path::new("/"));
    let beside = ["include", "lib", "lib64", "libexec", "share"];
    let beside = beside.map(|name| bin.parent().unwrap_or(bin).join(name));
    beside.into_iter().chain([bin.to_owned()]).collect()
}

/// Reads everything, and keeps the first `most` bytes. Calls `kept` with their number as soon as
/// they are there.
fn read(
    from: Option<&mut impl Read>,
    most: usize,
    kept: impl FnOnce(usize),
) -> io::Result<Vec<u8>> {
    let Some(from) = from else { return Ok(Vec::new()) };
    let mut bytes = Vec::new();
    from.by_ref().take(u64::try_from(most).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    kept(bytes.len());
    io::copy(from, &mut io::sink())?;
    Ok(bytes)
}

/// The variables that every program gets: no locale, no date, the search path.
pub fn plain_environment() -> Vec<(OsString, OsString)> {
    let fixed = [("LC_ALL", "C.UTF-8"), ("SOURCE_DATE_EPOCH", "0")];
    let fixed = fixed.map(|(name, value)| (name.into(), value.into()));
    fixed.into_iter().chain(inherited(["PATH"])).collect()
}

/// The variables of this process that have these names.
pub fn inherited<'a>(
    names: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = (OsString, OsString)> {
    let value = |name: &'a str| Some((name.into(), std::env::var_os(OsStr::new(name))?));
    names.into_iter().filter_map(value)
}
