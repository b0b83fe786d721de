//! A place behind walls that stays, for many short programs: the walls are built once, and a
//! program costs little more than itself.

use std::io;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::awake::stay_before_the_walls;
use super::confinement::keep_in_group;
use super::process::{Limits, Process, ProcessEnd, ProcessError, leader, pid_of, supervise};
use super::{OpenPaths, confine_thread};

/// How often it is asked whether a running program shall end.
const ASK_PERIOD: Duration = Duration::from_millis(50);

/// A thread behind walls, which runs one program after another, each within its limits.
///
/// Unlike [`Process::run`], it does not end a program when this process is killed, and leaves
/// ignored signals ignored: the limit of CPU time ends what is left behind.
#[derive(Debug)]
pub struct Enclosure {
    orders: Sender<Order>,
    /// The group of its programs, whose number is theirs for as long as there may be orders.
    group: Pid,
}

/// A program to run, and where its end is told.
struct Order {
    command: Command,
    limits: Limits,
    ended: Sender<io::Result<ProcessEnd>>,
}

impl Enclosure {
    /// Builds walls around what may be opened, besides the system's files.
    ///
    /// # Errors
    ///
    /// If there can be no thread, or the kernel supports a wall and fails to build it.
    pub fn new(open: OpenPaths) -> io::Result<Self> {
        stay_before_the_walls();
        let (orders, wanted) = mpsc::channel();
        let (built, is_built) = mpsc::channel();
        let work = move || serve(&open, &built, &wanted);
        thread::Builder::new().name("enclosure".into()).spawn(work)?;
        let group = is_built.recv().map_err(io::Error::other)??;
        Ok(Self { orders, group })
    }

    /// Runs a program, whose own walls and gate do not count, and ends everything that it left
    /// behind. It kills the program once `is_unwanted`.
    ///
    /// # Errors
    ///
    /// If the program cannot be started or waited for. However it ends after that is no error.
    pub fn run(
        &self,
        process: &mut Process<'_>,
        is_unwanted: impl Fn() -> bool,
    ) -> Result<ProcessEnd, ProcessError> {
        let (command, limits) = (process.limited_command()?, process.limits);
        let (ended, end) = mpsc::channel();
        let order = Order { command, limits, ended };
        let lost = || io::Error::other("the thread behind the walls is gone");
        if self.orders.send(order).is_err() {
            return Err(lost().into());
        }
        loop {
            match end.recv_timeout(ASK_PERIOD) {
                Ok(ended) => return Ok(ended?),
                Err(RecvTimeoutError::Disconnected) => return Err(lost().into()),
                // It may not have started yet, so this is done again until it has ended.
                Err(RecvTimeoutError::Timeout) if is_unwanted() => {
                    killpg(self.group, Signal::SIGKILL).ok();
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// Carries out orders until nobody can give any.
fn serve(open: &OpenPaths, built: &Sender<io::Result<Pid>>, orders: &Receiver<Order>) {
    // The leader of the programs' process group is not reaped before the end, so that the number of
    // the group stays theirs.
    let mut leader = match leader() {
        Ok(leader) => leader,
        Err(error) => return drop(built.send(Err(error))),
    };
    let group = pid_of(&leader).and_then(|group| {
        confine_thread(open)?;
        keep_in_group(group)?;
        Ok(group)
    });
    let is_built = match &group {
        Ok(group) => Ok(*group),
        Err(error) => Err(io::Error::other(error.to_string())),
    };
    // Nobody waits if the process ends.
    built.send(is_built).ok();
    if let Ok(group) = group {
        for Order { mut command, limits, ended } in orders {
            use std::os::unix::process::CommandExt as _;
            let child = command.process_group(group.as_raw()).spawn();
            let end = child.and_then(|mut child| supervise(&limits, None, &mut child, group));
            ended.send(end).ok();
        }
    }
    leader.wait().ok();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::plain_environment;

    fn shell<'a>(script: &str, folder: &'a Path) -> Process<'a> {
        Process {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: plain_environment(),
            folder: Some(folder),
            walls: None,
            limits: Limits {
                wall: Duration::from_secs(5),
                cpu: Duration::from_secs(5),
                memory_bytes: Some(1 << 30),
                file_bytes: 1 << 20,
                stdout_bytes: 100,
                stderr_bytes: 100,
            },
            input: None,
            cpu: None,
            gate: None,
        }
    }

    #[test]
    fn one_program_runs_after_another_behind_the_same_walls() {
        let [mine, theirs] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let secret = theirs.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let enclosure =
            Enclosure::new(OpenPaths { read: Vec::new(), write: vec![mine.path().to_owned()] })
                .unwrap();
        for number in 0..3 {
            let script = format!("echo {number} >> file; ulimit -v; cat file | wc -l; exit 7");
            let ended = enclosure.run(&mut shell(&script, mine.path()), || false).unwrap();
            let lines = format!("{}\n{}\n", 1 << 20, number + 1);
            assert_eq!(String::from_utf8(ended.stdout).unwrap(), lines);
            assert_eq!(ended.status.code(), Some(7));
        }
        let script = format!("cat {}", secret.display());
        let open = enclosure.run(&mut shell(&script, mine.path()), || false).unwrap();
        let confined = Process {
            walls: Some(OpenPaths { read: Vec::new(), write: vec![mine.path().to_owned()] }),
            ..shell(&script, mine.path())
        }
        .run()
        .unwrap();
        assert_eq!(open.status.success(), confined.status.success());
    }

    #[test]
    fn a_program_that_is_no_longer_wanted_is_killed_and_the_walls_stay() {
        let mine = tempfile::tempdir().unwrap();
        let enclosure = Enclosure::new(OpenPaths::default()).unwrap();
        let asked = AtomicUsize::new(0);
        let is_unwanted = || asked.fetch_add(1, Ordering::Relaxed) > 0;
        let mut hanging = shell("sleep 1000", mine.path());
        hanging.limits.wall = Duration::from_hours(1);
        let ended = enclosure.run(&mut hanging, is_unwanted).unwrap();
        assert!(!ended.status.success() && !ended.timed_out);
        let mut brief = shell("exit 0", mine.path());
        assert!(enclosure.run(&mut brief, || true).unwrap().status.success());
    }

    #[test]
    fn what_a_program_leaves_behind_is_ended_and_time_is_bounded() {
        let mine = tempfile::tempdir().unwrap();
        let enclosure = Enclosure::new(OpenPaths::default()).unwrap();
        let run = |mut process: Process<'_>| enclosure.run(&mut process, || false).unwrap();
        let ended = run(shell("sleep 1000 & echo done", mine.path()));
        assert_eq!(ended.stdout, b"done\n");
        let mut hanging = shell("sleep 1000", mine.path());
        hanging.limits.wall = Duration::from_millis(20);
        assert!(run(hanging).timed_out);
        assert!(run(shell("exit 0", mine.path())).status.success());
    }

    #[test]
    fn who_sleeps_is_told_from_who_computes() {
        let mine = tempfile::tempdir().unwrap();
        let enclosure = Enclosure::new(OpenPaths::default()).unwrap();
        let limits = Limits { wall: Duration::from_secs(1), ..shell("", mine.path()).limits };
        for (script, is_asleep) in
            [("sleep 1000 & sleep 1000", true), ("while :; do :; done", false)]
        {
            let process = || Process { limits, ..shell(script, mine.path()) };
            let walls = Some(OpenPaths::default());
            for ended in [
                enclosure.run(&mut process(), || false).unwrap(),
                Process { walls, ..process() }.run().unwrap(),
                process().run().unwrap(),
            ] {
                assert!(ended.timed_out && ended.awake.is_some(), "{script}");
                assert_eq!(ended.stood_still(), is_asleep, "{script}: {:?}", ended.awake);
            }
        }
    }
}
