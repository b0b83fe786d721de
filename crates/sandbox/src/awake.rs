//! How long processes have computed or waited for a core, as Linux's `schedstat` says.

use std::fs;
use std::sync::LazyLock;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use nix::unistd::Pid;

/// Returns how long the threads of a process have computed or waited for a core; zero if the kernel
/// does not say, or there is no such process.
pub fn awake(process: u32) -> Duration {
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    let nanoseconds = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let mut times = times.split(' ').map(str::parse::<u64>);
        Some(times.next()?.ok()? + times.next()?.ok()?)
    });
    Duration::from_nanos(nanoseconds.sum())
}

/// A group, and where to tell how long it was awake.
type Question = (Pid, Sender<Option<Duration>>);

/// Asks a thread before the walls: behind them nobody can read `/proc`.
static BEFORE_THE_WALLS: LazyLock<Option<Sender<Question>>> = LazyLock::new(|| {
    let (ask, asked) = mpsc::channel::<Question>();
    let answer = move || {
        for (group, tell) in asked {
            tell.send(sum(group)).ok();
        }
    };
    let thread = thread::Builder::new().name("awake".into()).spawn(answer);
    thread.is_ok().then_some(ask)
});

/// Makes [`group_awake`] work for threads that begin later, whatever walls they build. The calling
/// thread has none.
pub(super) fn stay_before_the_walls() {
    LazyLock::force(&BEFORE_THE_WALLS);
}

/// Returns the same for all processes of a group together; `None` if the kernel does not say.
pub(super) fn group_awake(group: Pid) -> Option<Duration> {
    let (tell, told) = mpsc::channel();
    BEFORE_THE_WALLS.as_ref()?.send((group, tell)).ok()?;
    told.recv().ok()?
}

fn sum(group: Pid) -> Option<Duration> {
    let names = fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.file_name());
    let processes = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
    let is_of_it = |process: &u32| group_of(*process) == Some(group.as_raw());
    let all: Duration = processes.filter(is_of_it).map(awake).sum();
    // Whatever was started has computed a little.
    (!all.is_zero()).then_some(all)
}

/// The group of a process: the third field behind its name, which is in brackets.
fn group_of(process: u32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(2)?.parse().ok()
}
