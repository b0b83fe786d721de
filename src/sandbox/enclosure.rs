//! A place behind walls that stays, for many short programs: the walls are built once, and a
//! program costs little more than itself.

use std::io;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use super::process::{Ended, Limits, Process, ProcessError, leader, pid_of, supervise};
use super::{Open, confine_thread, keep_in_group};

/// A thread behind walls, which runs one program after another, each within its limits.
///
/// Unlike [`Process::run`], it does not end a program when this process is killed, and leaves
/// ignored signals ignored: the limit of CPU time ends what is left behind.
#[derive(Debug)]
pub(crate) struct Enclosure(Sender<Order>);

/// A program to run, and where its end is told.
struct Order {
    command: Command,
    limits: Limits,
    ended: Sender<io::Result<Ended>>,
}

impl Enclosure {
    /// Builds walls around what may be opened, besides the system's files.
    ///
    /// # Errors
    ///
    /// If there can be no thread, or the kernel supports a wall and fails to build it.
    pub(crate) fn new(open: Open) -> io::Result<Self> {
        let (orders, wanted) = mpsc::channel();
        let (built, is_built) = mpsc::channel();
        let work = move || serve(&open, &built, &wanted);
        thread::Builder::new().name("enclosure".into()).spawn(work)?;
        is_built.recv().map_err(io::Error::other)??;
        Ok(Self(orders))
    }

    /// Runs a program, whose own walls and gate do not count, and ends everything that it left
    /// behind.
    ///
    /// # Errors
    ///
    /// If the program cannot be started or waited for. However it ends after that is no error.
    pub(crate) fn run(&self, process: &mut Process<'_>) -> Result<Ended, ProcessError> {
        let (command, limits) = (process.limited_command()?, process.limits);
        let (ended, end) = mpsc::channel();
        let order = Order { command, limits, ended };
        let end = self.0.send(order).ok().and_then(|()| end.recv().ok());
        let lost = || io::Error::other("the thread behind the walls is gone");
        Ok(end.ok_or_else(lost)??)
    }
}

/// Carries out orders until nobody can give any.
fn serve(open: &Open, built: &Sender<io::Result<()>>, orders: &Receiver<Order>) {
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
    let is_built = group.as_ref().map(drop).map_err(|error| io::Error::other(error.to_string()));
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
    use std::time::Duration;

    use crate::sandbox::plain_environment;

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
            Enclosure::new(Open { read: Vec::new(), write: vec![mine.path().to_owned()] }).unwrap();
        for number in 0..3 {
            let script = format!("echo {number} >> file; ulimit -v; cat file | wc -l; exit 7");
            let ended = enclosure.run(&mut shell(&script, mine.path())).unwrap();
            let lines = format!("{}\n{}\n", 1 << 20, number + 1);
            assert_eq!(String::from_utf8(ended.stdout).unwrap(), lines);
            assert_eq!(ended.status.code(), Some(7));
        }
        let script = format!("cat {}", secret.display());
        let open = enclosure.run(&mut shell(&script, mine.path())).unwrap();
        let confined = Process {
            walls: Some(Open { read: Vec::new(), write: vec![mine.path().to_owned()] }),
            ..shell(&script, mine.path())
        }
        .run()
        .unwrap();
        assert_eq!(open.status.success(), confined.status.success());
    }

    #[test]
    fn what_a_program_leaves_behind_is_ended_and_time_is_bounded() {
        let mine = tempfile::tempdir().unwrap();
        let enclosure = Enclosure::new(Open::default()).unwrap();
        let ended = enclosure.run(&mut shell("sleep 1000 & echo done", mine.path())).unwrap();
        assert_eq!(ended.stdout, b"done\n");
        let mut hanging = shell("sleep 1000", mine.path());
        hanging.limits.wall = Duration::from_millis(20);
        assert!(enclosure.run(&mut hanging).unwrap().timed_out);
        assert!(enclosure.run(&mut shell("exit 0", mine.path())).unwrap().status.success());
    }
}
