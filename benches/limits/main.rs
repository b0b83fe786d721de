//! What steplake costs, as ratios measured in one run: `make bench`, or
//! `cargo bench --bench limits -- [floor] [peer] [recorder] [jobs] [keyframes] [memory]`.
//!
//! CPU time is user and system time of this process and of its workers. Nothing is asserted here:
//! machines differ, and shared ones are noisy. `docs/PERFORMANCE.md` keeps the figures.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]
#![expect(clippy::disallowed_methods, reason = "it starts the binary as its users do")]

mod campaign;
mod floor;
mod keyframes;
mod memory;
mod recorder;

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// User and system time of this process and of the children that it has waited for.
fn cpu_time() -> Duration {
    [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN]
        .into_iter()
        .map(|who| {
            let usage = getrusage(who).expect("the caller's own usage can always be had");
            let micros =
                usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
            Duration::from_micros(u64::try_from(micros).unwrap_or(0))
        })
        .sum()
}

/// Runs `work`; what it returns and its CPU time.
fn cpu_of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = cpu_time();
    let result = work();
    (result, cpu_time().saturating_sub(before))
}

fn heading(text: &str) {
    println!("\n{text}\n{}", "-".repeat(text.len()));
}

/// One line of a table: what, the figure, the target where there is one.
fn line(what: &str, figure: &str, target: &str) {
    println!("  {what:<58} {figure:>16}   {target}");
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    for (name, bench) in [
        ("recorder", recorder::run as fn()),
        ("floor", floor::run),
        ("peer", floor::run_peer),
        ("jobs", campaign::run_jobs),
        ("keyframes", keyframes::run),
        ("memory", memory::run),
    ] {
        if is_wanted(name) {
            bench();
        }
    }
}
