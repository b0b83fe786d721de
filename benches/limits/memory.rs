//! Memory in long runs of the binary, including workers.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{heading, line};

const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the resident kilobytes of a process.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    field.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Returns the children of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()
        })
        .collect()
}

/// Samples resident kilobytes until the process ends: its own, and those of its largest worker.
fn watch(child: &mut Child) -> Vec<(u64, u64)> {
    let mut samples = Vec::new();
    while child.try_wait().expect("it is our child").is_none() {
        let workers = children(child.id()).into_iter().map(resident).max().unwrap_or(0);
        samples.push((resident(child.id()), workers));
        std::thread::park_timeout(SAMPLE_INTERVAL);
    }
    samples
}

fn report(what: &str, lake: &Path, arguments: &[&str]) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_steplake"))
        .args(["--quiet", "--lake"])
        .arg(lake)
        .args(["generate", "--jobs", "2"])
        .args(arguments)
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary was built with this benchmark");
    let samples = watch(&mut child);
    let ended = child.wait().expect("it is our child");
    let mib = |kilobytes: u64| format!("{} MiB", kilobytes >> 10);
    let peak = |from: usize, to: usize, part: fn(&(u64, u64)) -> u64| {
        mib(samples[from.min(samples.len())..to.min(samples.len())]
            .iter()
            .map(part)
            .max()
            .unwrap_or(0))
    };
    let quarter = samples.len().div_ceil(4);
    let quarters = |part: fn(&(u64, u64)) -> u64| {
        (0..4).map(|q| peak(q * quarter, (q + 1) * quarter, part)).collect::<Vec<_>>().join(", ")
    };
    println!("  {what}{}", if ended.success() { "" } else { " FAILED" });
    line("  peak of the supervisor", &peak(0, samples.len(), |s| s.0), "flat");
    line("  peak of the largest worker", &peak(0, samples.len(), |s| s.1), "flat");
    println!(
        "    by quarter of the run: supervisor {}; worker {}",
        quarters(|s| s.0),
        quarters(|s| s.1)
    );
}

pub(crate) fn run() {
    heading("Memory, resident, over long runs");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let toy = ["--env", "toy-v0", "-b", "generator://toy-v0/0..63", "--steps", "1000000"];
    report("1,000,000 steps of the toy environment", &folder.path().join("toy"), &toy);
    let llvm =
        ["-b", "benchmark://steplake-v0/*", "-b", "generator://csmith-v0/0..9", "--steps", "50000"];
    report("50,000 steps of LLVM", &folder.path().join("llvm"), &llvm);
}
