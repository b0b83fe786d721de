//! kill -9 at random instants, of the supervisor and of its workers: what was durable stays, and a
//! resumed run ends as if nothing had happened.
//!
//! `STEPLAKE_KILLS` sets how many kills there are (a few by default); `STEPLAKE_SEED` their seed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steplake::lake::Table;

use crate::fixtures::programs::{end_of, output_of};
use crate::fixtures::support::{assert_same, rows, run, signal, steplake};

/// A small generator for the instants of a test; its seed is printed.
struct Chance(u64);

impl Chance {
    fn new(name: &str) -> Self {
        let seed = std::env::var("STEPLAKE_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) << 16 | 0x5eed);
        say(&format!("{name}: STEPLAKE_SEED={seed}"));
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        let mixed = blake3::hash(&self.0.to_le_bytes());
        self.0 = u64::from_le_bytes(*mixed.as_bytes().first_chunk().unwrap());
        self.0 % bound
    }
}

/// A failed test shows what it said.
#[expect(clippy::print_stdout, reason = "what it takes to repeat a random test")]
fn say(text: &str) {
    println!("{text}");
}

fn kills(default: u32) -> u32 {
    std::env::var("STEPLAKE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(default)
}

/// The workers of a process.
fn children(pid: u32) -> Vec<Pid> {
    let path = format!("/proc/{pid}/task");
    let tasks = std::fs::read_dir(path).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let pids: Vec<i32> = lists
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|pid| pid.parse().ok())
        .collect();
    // Compilers that make the benchmarks are children too, and an error when they are killed.
    let is_worker = |pid: &i32| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        command.is_ok_and(|line| line.split('\0').any(|word| word == "worker"))
    };
    pids.into_iter().filter(is_worker).map(Pid::from_raw).collect()
}

/// Waits for the child, for so long at most; whether it ended.
fn wait(child: &mut Child, time: Duration) -> bool {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let until = std::time::Instant::now() + time;
    loop {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            drop(sender);
            return false;
        }
        let _ = receiver.recv_timeout(left.min(Duration::from_millis(2)));
    }
}

/// Waits for a child that must succeed.
fn succeed(child: Child) {
    let output = output_of(child, "a run that was not killed");
    assert!(output.status.success(), "{}", crate::fixtures::support::err(&output));
}

/// Runs `arguments` with `--resume` until they are done, killing whatever chance chooses, `kills`
/// times.
fn run_disturbed(
    lake: &Path,
    arguments: &[&str],
    kills: u32,
    instant_ms: u64,
    chance: &mut Chance,
) {
    let (mut supervisors, mut workers) = (0, 0);
    loop {
        let mut child = steplake(lake)
            .args(arguments)
            .arg("--resume")
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let ended = loop {
            if supervisors + workers >= kills {
                succeed(child);
                break true;
            }
            if wait(&mut child, Duration::from_millis(5 + chance.below(instant_ms))) {
                succeed(child);
                break true;
            }
            let victims = children(child.id());
            if !victims.is_empty() && chance.below(2) == 0 {
                let victim = victims[usize::try_from(chance.below(victims.len() as u64)).unwrap()];
                // It may have ended by itself just now.
                workers += u32::from(kill(victim, Signal::SIGKILL).is_ok());
            } else {
                signal(&child, Signal::SIGKILL);
                end_of(&mut child, "a run that was killed");
                supervisors += 1;
                break false;
            }
        };
        if ended {
            break;
        }
    }
    say(&format!("killed {supervisors} supervisors and {workers} workers"));
}

fn compare(name: &str, arguments: &[&str], kills: u32, instant_ms: u64) {
    let mut chance = Chance::new(name);
    let folder = tempfile::tempdir().unwrap();
    let (calm, disturbed) = (folder.path().join("calm"), folder.path().join("disturbed"));
    run(&calm, arguments);
    run_disturbed(&disturbed, arguments, kills, instant_ms, &mut chance);
    assert_same(&calm, &disturbed);
    for lake in [&calm, &disturbed] {
        run(lake, &["seal"]);
        run(lake, &["dedup"]);
        run(lake, &["verify"]);
    }
    assert_same(&calm, &disturbed);
}

#[test]
fn a_killed_run_of_llvm_ends_as_an_undisturbed_one() {
    let kills = kills(8);
    // Long enough for all of them.
    let states = (500 + 50 * kills).to_string();
    let arguments = [
        "generate",
        "--benchmark",
        "benchmark://steplake-v0/*",
        "--states",
        &states,
        "--episode-length",
        "25",
        "--seed",
        "11",
        "--jobs",
        "2",
    ];
    compare("llvm", &arguments, kills, 900);
}

#[test]
fn a_killed_run_that_keeps_keyframes_ends_as_an_undisturbed_one() {
    let llvm = ["--benchmark", "benchmark://steplake-v0/*", "--states", "400", "--seed", "14"];
    let toy = ["--env", "toy-v0", "--benchmark", "generator://toy-v0/0..6", "--steps", "60000"];
    for (name, plan, kills, instant_ms) in
        [("llvm by keyframes", &llvm[..], kills(4), 900), ("toy by keyframes", &toy, kills(8), 120)]
    {
        let how = ["--episode-length", "25", "--jobs", "2", "--ir", "keyframes=4"];
        compare(name, &[&["generate"][..], plan, &how].concat(), kills, instant_ms);
    }
}

#[test]
fn a_killed_run_that_explores_ends_as_an_undisturbed_one() {
    let arguments = [
        "generate",
        "--env",
        "toy-v0",
        "--benchmark",
        "generator://toy-v0/0..6",
        "--policy",
        "explore",
        "--steps",
        "60000",
        "--seed",
        "12",
        "--jobs",
        "3",
    ];
    compare("toy", &arguments, kills(12), 120);
}

#[test]
fn what_was_committed_before_a_kill_is_there_after_it() {
    let mut chance = Chance::new("committed");
    for _ in 0..kills(5) {
        let folder = tempfile::tempdir().unwrap();
        let lake = folder.path().join("lake");
        let mut child = steplake(&lake)
            .args(["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/1"])
            .args(["--steps", "1000000000", "-vv"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Each line was printed after its commit had returned; what is printed after the last line
        // that was read can only add to it.
        let mut committed = 0;
        let lines_wanted = 2 + chance.below(40);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        for _ in 0..lines_wanted {
            let line =
                lines.by_ref().map(Result::unwrap).find(|line| line.contains("committed")).unwrap();
            let steps = line.split("steps=").nth(1).unwrap();
            committed = steps.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
        }
        signal(&child, Signal::SIGKILL);
        end_of(&mut child, "a run that was killed");
        let there = rows(&lake, Table::Steps).len();
        assert!(committed > 0 && there >= committed, "{there} of {committed} steps");
        run(&lake, &["verify"]);
    }
}
