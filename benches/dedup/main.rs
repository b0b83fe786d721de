//! The cost of dedup as a lake grows, beside `DuckDB` doing the same over the same Parquet: `cargo
//! bench --bench dedup -- [alone] [MILLIONS...]`, by default 1 and 10, and with `DuckDB`. 100 takes
//! about 20 GB of disk in the folder for temporary files, and half an hour.
//!
//! Every measurement runs in a process of its own, to measure its peak memory alone, with two
//! threads and a limit of 1 GiB. The bench asserts nothing; `docs/PERFORMANCE.md` records the
//! figures.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]
#![expect(clippy::disallowed_methods, reason = "it starts processes to measure them")]

mod synthetic;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Lake, to_the_end};

use synthetic::Synthetic;

/// Limits of both engines.
const MEMORY: u64 = 1 << 30;
const THREADS: usize = 2;

/// The cost of one process.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    cpu_seconds: f64,
    peak_mib: f64,
    rows: f64,
}

impl Cost {
    fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<f64> = line.split_whitespace().flat_map(str::parse).collect();
        let &[seconds, cpu_seconds, peak_mib, rows] = numbers.as_slice() else { return None };
        Some(Self { seconds, cpu_seconds, peak_mib, rows })
    }

    fn print(self, what: &str, note: &str) {
        let Self { seconds, cpu_seconds, peak_mib, rows } = self;
        println!(
            "  {what:<44} {seconds:>8.2} s {cpu_seconds:>8.2} s CPU {peak_mib:>6.0} MiB \
             {rows:>12.0} rows   {note}"
        );
    }
}

/// Runs a command that prints its cost.
fn cost_of(command: &mut Command) -> Option<Cost> {
    let output = command.stderr(Stdio::inherit()).output().expect("the program is there");
    output.status.success().then(|| Cost::parse(&String::from_utf8_lossy(&output.stdout)))?
}

/// Runs one dedup in this process, and prints its cost.
fn child(lake: &str, full: bool) {
    let began = Instant::now();
    let lake = Lake::open(Path::new(lake)).expect("the bench made it");
    let mut maintenance = lake.maintenance().expect("nobody else maintains it");
    let settings = DedupOptions {
        memory_bytes_max: MEMORY,
        threads: THREADS.try_into().expect("two"),
        full,
        ..DedupOptions::default()
    };
    let report = dedup(&mut maintenance, settings, &mut to_the_end).expect("the lake is sound");
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the caller's own usage can be had");
    let cpu = (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6;
    let seconds = began.elapsed().as_secs_f64();
    println!("{seconds} {cpu} {} {}", peak_mib(), report.transitions);
}

/// Returns the peak memory of this process. Its resource usage would include that of the process
/// that started it.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

fn steplake(lake: &Path, mode: &str) -> Cost {
    let program = std::env::current_exe().expect("this program has a path");
    cost_of(Command::new(program).arg("--child").arg(mode).arg(lake)).expect("dedup succeeds")
}

/// Runs `DuckDB` over the lake's Parquet; it writes what dedup writes.
fn duckdb(lake: &Path, sql: &str, output: &Path) -> Option<Cost> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let memory = format!("{}MiB", MEMORY >> 20);
    let mut command = Command::new(root.join("scripts/python.sh"));
    command.arg(root.join("benches/dedup/in_duckdb.py")).arg(lake).arg(root.join(sql)).arg(output);
    let cost = cost_of(command.arg(memory).arg(THREADS.to_string()));
    // The file may not exist.
    let _ = std::fs::remove_file(output);
    cost
}

/// Waits until everything written is on disk; the writing would disturb the measurement.
fn settle() {
    let status = Command::new("sync").status().expect("it is part of every system");
    assert!(status.success(), "sync: {status}");
}

/// Measures both engines over a lake of `millions` million steps. Returns the seconds of the
/// rebuild.
fn measure(millions: u64, alone: bool) -> f64 {
    println!("\n{millions} million steps\n{}", "-".repeat(40));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lake = folder.path().join("lake");
    let began = Instant::now();
    let steps = millions * 1_000_000;
    let mut synthetic = Synthetic::create(&lake, steps).expect("an empty folder takes a lake");
    synthetic.grow(steps).expect("the disk takes the steps");
    settle();
    println!("  made in {:.0} s", began.elapsed().as_secs_f64());
    let full = steplake(&lake, "full");
    full.print("steplake dedup, all steps", "");
    let output = folder.path().join("duckdb.parquet");
    let peers = [
        ("DuckDB, the definition (queries/dedup.sql)", "queries/dedup.sql"),
        ("DuckDB, the GROUP BY of it alone", "benches/dedup/group_by.sql"),
    ];
    for (what, sql) in peers.into_iter().filter(|_| !alone) {
        match duckdb(&lake, sql, &output) {
            Some(cost) => cost.print(what, &format!("{:.2}x", cost.seconds / full.seconds)),
            None => println!("  {what:<44} did not end well; see above"),
        }
    }
    synthetic.grow(steps / 100).expect("the disk takes the steps");
    settle();
    let new = steplake(&lake, "new");
    new.print("steplake dedup, 1% new steps", "");
    let again = steplake(&lake, "full");
    again
        .print("steplake dedup --full, with them", &format!("{:.1}x", again.seconds / new.seconds));
    full.seconds
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, mode, lake] = words.as_slice()
        && flag == "--child"
    {
        return child(lake, mode == "full");
    }
    let alone = words.iter().any(|word| word == "alone");
    let mut sizes: Vec<u64> = words.iter().flat_map(|word| word.parse()).collect();
    if sizes.is_empty() {
        sizes = vec![1, 10];
    }
    let times: Vec<f64> = sizes.iter().map(|&size| measure(size, alone)).collect();
    let grown = |from: usize, to: usize| {
        let exponent =
            (times[to] / times[from]).ln() / (sizes[to] as f64 / sizes[from] as f64).ln();
        println!(
            "\n  growth from {} to {} million: exponent {exponent:.3}, target at most 1.05",
            sizes[from], sizes[to]
        );
    };
    for to in 1..sizes.len() {
        grown(to - 1, to);
    }
    if sizes.len() > 2 {
        grown(0, sizes.len() - 1);
    }
}
