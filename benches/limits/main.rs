//! The costs of steplake, as ratios measured in one run: `make bench`, or `cargo bench --bench
//! limits -- [--quick] [floor] [many] [peer] [recorder] [cached] [graphs] [jobs] [keyframes]
//! [memory] [start] [--passes=LIST]`.
//! `--quick` shortens `floor` and `many`. `--passes` plays the episodes of a list and nothing else.
//!
//! CPU time is user and system time of this process and its workers. The bench asserts nothing:
//! machines differ, and shared ones are noisy. `docs/PERFORMANCE.md` records the figures.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]
#![expect(clippy::disallowed_methods, reason = "it starts the binary as its users do")]

mod cached;
mod campaign;
mod floor;
mod graphs;
mod keyframes;
mod listed;
mod many;
mod memory;
mod passes;
mod recorder;
mod start;

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

/// Returns user and system time of this process and of the children it has waited for.
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

/// Runs `work`; returns its result and its CPU time.
fn cpu_of<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = cpu_time();
    let result = work();
    (result, cpu_time().saturating_sub(before))
}

fn heading(text: &str) {
    println!("\n{text}\n{}", "-".repeat(text.len()));
}

/// Prints one line of a table: the name, the figure, the target if there is one.
fn line(what: &str, figure: &str, target: &str) {
    println!("  {what:<58} {figure:>16}   {target}");
}

/// Returns a figure over all rounds: the median, the least and the greatest.
fn spread<T>(rounds: &[T], figure: impl Fn(&T) -> f64) -> [f64; 3] {
    let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    let last = figures.len() - 1;
    let median = f64::midpoint(figures[last / 2], figures[last.div_ceil(2)]);
    [median, figures[0], figures[last]]
}

/// Describes what the figures depend on most.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(": "));
        value.map_or("unknown", |(_, value)| value)
    };
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let [family, model] = ["cpu family", "model\t"].map(field);
    format!("{} (family {family}, model {model}), {cores} cores", field("model name"))
}

fn main() {
    let (options, wanted): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let quick = options.iter().any(|option| option == "--quick");
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| word == name);
    println!("CPU: {}", machine());
    if let Some(list) = options.iter().find_map(|option| option.strip_prefix("--passes=")) {
        return passes::run(list.as_ref());
    }
    let benches: [(&str, &dyn Fn()); 10] = [
        ("recorder", &recorder::run),
        ("cached", &cached::run),
        ("floor", &|| floor::run(quick)),
        ("many", &|| many::run(quick)),
        ("peer", &floor::run_peer),
        ("graphs", &graphs::run),
        ("jobs", &campaign::run_jobs),
        ("keyframes", &keyframes::run),
        ("memory", &memory::run),
        ("start", &start::run),
    ];
    for (name, bench) in benches {
        if is_wanted(name) {
            bench();
        }
    }
}
