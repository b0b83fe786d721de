//! IR by keyframes: the saving, and the cost of getting a state's IR all the same.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use arrow::array::{Array, AsArray};
use steplake::generate::PolicyName;
use steplake::lake::{Lake, ScanColumns, Snapshot, Table};
use steplake::model::StateId;
use steplake::replay::rebuild::{RebuildError, Rebuilder};

use crate::campaign::{Episodes, Loaded, record_in, workers};
use crate::{heading, line};

/// Number of recorded programs of each dataset.
const PROGRAMS_EACH: usize = 3;
/// Number of states rebuilt at a time, as in a query.
const BATCH: usize = 64;

/// Returns a number from the environment variable `name`, to try this out at a small size.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn snapshot(path: &Path) -> Snapshot {
    Lake::open(path).and_then(|lake| lake.snapshot()).expect("it was just recorded")
}

fn states(snapshot: &Snapshot, table: Table) -> BTreeSet<StateId> {
    let mut states = BTreeSet::new();
    for batch in snapshot.scan(table, ScanColumns::Named(&["state_id"])) {
        let batch = batch.expect("it was just recorded");
        let ids = batch["state_id"].as_fixed_size_binary();
        states.extend((0..ids.len()).map(|row| StateId::from_slice(ids.value(row))));
    }
    states
}

/// Returns about `count` states at equal distances.
fn sample(states: &[StateId], count: usize) -> Vec<StateId> {
    states.iter().copied().step_by((states.len() / count.max(1)).max(1)).take(count).collect()
}

/// Returns bytes of Parquet per state: in `ir`, and in all tables.
fn bytes(snapshot: &Snapshot) -> (f64, f64) {
    let of = |table| snapshot.segments(table).iter().map(|segment| segment.bytes).sum::<u64>();
    let states = snapshot.rows(Table::Observations) as f64;
    (of(Table::Ir) as f64 / states, Table::ALL.into_iter().map(of).sum::<u64>() as f64 / states)
}

fn percentile(times: &mut [Duration], percent: usize) -> String {
    times.sort_unstable();
    let at = times.get(times.len() * percent / 100).or(times.last());
    at.map_or_else(|| "none".into(), |time| format!("{:.2} ms", time.as_secs_f64() * 1e3))
}

fn rebuilder() -> Rebuilder {
    Rebuilder::new(Box::new(workers()))
}

/// Rebuilds states one by one and in batches, and compares each with the lake that stores all.
fn rebuild(every: u32, lake: &Snapshot, all: &Snapshot) {
    let stored = states(lake, Table::Ir);
    let missing: Vec<StateId> =
        states(all, Table::Ir).into_iter().filter(|state| !stored.contains(state)).collect();
    let ways = Instant::now();
    let wanted = sample(&missing, BATCH).into_iter().collect();
    let paths = lake.replay_paths(&wanted).expect("it was just recorded");
    let (ways, found) = (ways.elapsed(), paths.len());
    let rebuilder = rebuilder();
    let (mut wrong, mut lost, mut right) = (0, 0, 0);
    let mut compare = |states: &[StateId], answer: Result<Vec<Option<Vec<u8>>>, RebuildError>| {
        let stored = all.ir(states).expect("it was just recorded");
        match answer {
            Ok(rebuilt) => {
                let same = stored.iter().zip(&rebuilt).filter(|(one, other)| one == other).count();
                right += same;
                wrong += states.len() - same;
            }
            Err(error) => {
                println!("    {error}");
                lost += states.len();
            }
        }
    };
    let single = sample(&missing, usize::try_from(setting("STEPLAKE_SINGLE", 1500)).unwrap_or(0));
    let mut times = Vec::with_capacity(single.len());
    for &state in &single {
        let began = Instant::now();
        let answer = rebuilder.ir(lake, &[state]);
        times.push(began.elapsed());
        compare(&[state], answer);
    }
    let count = usize::try_from(setting("STEPLAKE_REBUILT", 5000)).unwrap_or(0);
    let left: Vec<StateId> =
        missing.iter().filter(|state| single.binary_search(state).is_err()).copied().collect();
    let many = sample(&left, count.saturating_sub(single.len()));
    let began = Instant::now();
    for some in many.chunks(BATCH) {
        compare(some, rebuilder.ir(lake, some));
    }
    let each = began.elapsed().as_secs_f64() * 1e3 / many.len().max(1) as f64;
    let name = format!("K={every}");
    line(&format!("{name}: ways to {found} states found in"), &format!("{ways:.1?}"), "");
    line(&format!("{name}: one state by itself, p50"), &percentile(&mut times, 50), "");
    line(&format!("{name}: one state by itself, p99"), &percentile(&mut times, 99), "");
    line(
        &format!("{name}: {BATCH} states at a time, comparison included, each"),
        &format!("{each:.2} ms"),
        "",
    );
    line(&format!("{name}: rebuilt and right"), &right.to_string(), "");
    line(&format!("{name}: could not be rebuilt"), &lost.to_string(), "0");
    line(&format!("{name}: wrong answers"), &wrong.to_string(), "0");
}

pub(crate) fn run() {
    heading("IR by keyframes: the same random episodes of 50 steps, recorded by one job");
    let programs = Loaded::new(&["benchmark://debian-v0/zlib/*", "benchmark://debian-v0/bzip2/*"]);
    let programs = programs.some(PROGRAMS_EACH);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let episodes = setting("STEPLAKE_EPISODES", 700);
    println!("  {} programs, {episodes} episodes", programs.uris().len());
    let choices = [("none", None), ("all", Some(1)), ("K=4", Some(4)), ("K=16", Some(16))];
    let lakes = choices.map(|(name, every)| {
        let path = folder.path().join(name);
        let wanted = Episodes {
            count: episodes,
            jobs: 1,
            keyframes: every,
            observe: None,
            policy: PolicyName::RANDOM,
        };
        let recorded = record_in(&workers(), &path, &programs, &wanted);
        let snapshot = snapshot(&path);
        let (ir, whole) = bytes(&snapshot);
        let kept = snapshot.rows(Table::Ir) as f64 / snapshot.rows(Table::Observations) as f64;
        line(&format!("{name}: bytes of IR per unique state"), &format!("{ir:.0}"), "");
        line(&format!("{name}: bytes of Parquet per unique state"), &format!("{whole:.0}"), "");
        line(&format!("{name}: states stored"), &format!("{:.1}%", 100.0 * kept), "");
        line(&format!("{name}: CPU per step"), &format!("{:.0} µs", recorded.micros()), "");
        snapshot
    });
    let [_, all, four, sixteen] = &lakes;
    println!(
        "  {} unique states of {} steps",
        all.rows(Table::Observations),
        all.rows(Table::Steps)
    );
    rebuild(4, four, all);
    rebuild(16, sixteen, all);
}
