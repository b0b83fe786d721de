//! What dedup costs at several sizes: `cargo bench --bench dedup -- [STEPS]...`, 1,000,000 by default.
//!
//! For each size a lake of made-up steps is recorded and counted whole; then 1% more is recorded and
//! counted. Nothing is asserted here: machines differ.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

mod synthetic;

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use steplake::dedup::{Report, Settings, dedup};
use steplake::store::StoreError;

use synthetic::Synthetic;

/// User and system time of this process.
fn cpu_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the caller's own usage can always be had");
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

fn line(what: &str, steps: u64, elapsed: Duration) {
    let per_second = steps as f64 / elapsed.as_secs_f64();
    println!(
        "  {what:<30} {steps:>12} steps {:>9.2} s {per_second:>12.0} /s",
        elapsed.as_secs_f64()
    );
}

fn count(lake: &Synthetic, full: bool) -> Result<Report, StoreError> {
    let mut maintenance = lake.writer.lake().maintenance()?;
    let before = cpu_time();
    let report = dedup(&mut maintenance, Settings { full, ..Settings::default() }, &mut |_, _| ())?;
    println!("    {:.2} s of CPU: {report:?}", (cpu_time() - before).as_secs_f64());
    Ok(report)
}

fn measure(steps: u64) -> Result<(), StoreError> {
    println!("\n{steps} steps");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut lake = Synthetic::create(&folder.path().join("lake"), steps)?;
    let begun = Instant::now();
    lake.grow(steps)?;
    line("recorded and sealed", steps, begun.elapsed());
    let whole = count(&lake, true)?;
    line("counted whole", whole.steps, whole.elapsed);
    lake.grow(steps / 100)?;
    let more = count(&lake, false)?;
    line("1% more counted", more.steps, more.elapsed);
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let peak = status.lines().filter(|line| line.starts_with("VmHWM"));
        peak.for_each(|line| println!("    {line}"));
    }
    Ok(())
}

fn main() {
    let sizes: Vec<u64> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    for steps in if sizes.is_empty() { vec![1_000_000] } else { sizes } {
        if let Err(error) = measure(steps) {
            println!("{error}");
        }
    }
}
