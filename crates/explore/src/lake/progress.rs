//! The progress of recordings, for a page that asks every second.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exact;
use super::reader::LakeReader;
use super::recent_progress::{RunCounts, TimedCounts, Total};
use crate::answers::{JsonBody, JsonResult, Problem};

/// The most totals that are kept, one for each second in which somebody asked.
const RECENT_MAX: usize = 900;

/// Two totals are at least this far apart.
const RECENT_INTERVAL: Duration = Duration::from_millis(900);

/// The counts of runs are made again after this many times what making them took, so that a page
/// that keeps asking takes a tenth of a core at most, however large the lake is.
const REST: u32 = 10;

#[derive(Debug, Clone, Copy, Deserialize)]
struct Totals {
    steps: u64,
    states: u64,
    uncounted_steps: u64,
}

#[derive(Debug, Deserialize)]
struct RunProgressRow {
    run_id: i64,
    arguments: String,
    started_at_ms: i64,
    finished: bool,
}

#[derive(Serialize)]
struct ShownRun {
    run_id: i64,
    policy: Option<String>,
    /// In seconds since 1970.
    started_at: f64,
    is_complete: bool,
    is_writing: bool,
    episodes: u64,
    steps: u64,
    states: u64,
    /// A text if it is too large for a number of JavaScript.
    seed: Option<Value>,
    benchmarks: Value,
    benchmark_count: Option<u64>,
    /// Where the run stops: a number of steps, states or episodes.
    stop: Value,
    episode_length: Option<u64>,
}

#[derive(Serialize)]
struct ProgressBody {
    runs: Vec<ShownRun>,
    recent: Vec<Total>,
    uncounted_steps: u64,
}

pub(super) async fn progress(State(lake): State<LakeReader>) -> JsonResult {
    let counts = lake.run_counts().await?;
    let counts: HashMap<i64, RunCounts> = counts.into_iter().map(|run| (run.run_id, run)).collect();
    let runs = "SELECT run_id, arguments, CAST(started_at AS BIGINT) AS started_at_ms, finished \
                FROM runs ORDER BY run_id";
    let runs: Vec<RunProgressRow> = lake.ask(runs.to_owned(), Vec::new(), usize::MAX).await?;
    let (uncounted_steps, recent) = lake.note_totals().await?;
    // One process records at a time: the run that began last and is not complete is the one under
    // way. Runs that a merge brought may have greater numbers.
    let is_recorded = is_recorded(lake.path());
    let open = runs.iter().filter(|run| !run.finished);
    let newest = open.max_by_key(|run| run.started_at_ms).map(|run| run.run_id);
    let writing = newest.filter(|_| is_recorded);
    let runs = runs.into_iter().map(|run| {
        let is_writing = writing == Some(run.run_id);
        shown(&run, counts.get(&run.run_id).copied(), is_writing)
    });
    let runs = runs.collect();
    Ok(JsonBody::of(&ProgressBody { runs, recent, uncounted_steps }))
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 stay far below 2^53")]
fn seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

/// The time of day, in seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a page shows it, and nothing keeps it")]
fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn shown(run: &RunProgressRow, counts: Option<RunCounts>, is_writing: bool) -> ShownRun {
    let arguments: Value = serde_json::from_str(&run.arguments).unwrap_or_default();
    let word = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |name: &str| arguments.get(name).and_then(Value::as_u64);
    ShownRun {
        run_id: run.run_id,
        policy: word("policy").or_else(|| word("recorder")),
        started_at: seconds(run.started_at_ms),
        is_complete: run.finished,
        is_writing,
        episodes: counts.map_or(0, |counts| counts.episodes),
        steps: counts.map_or(0, |counts| counts.steps),
        states: counts.map_or(0, |counts| counts.states),
        seed: arguments.get("seed").and_then(exact::whole),
        benchmarks: arguments.get("benchmarks").cloned().unwrap_or_default(),
        benchmark_count: number("benchmark_count"),
        stop: arguments.get("stop").cloned().unwrap_or_default(),
        episode_length: number("episode_length"),
    }
}

impl LakeReader {
    /// Returns the counts of each run: newer ones than the last, unless making them takes long.
    async fn run_counts(&self) -> Result<Vec<RunCounts>, Problem> {
        let counted = || self.watched().counted.lock();
        if let Some(last) = &*counted()
            && last.at.elapsed() < last.took * REST
        {
            return Ok(last.runs.clone());
        }
        let began = Instant::now();
        // The run is the upper half of the id of an episode.
        let sql = "SELECT c.run_id, c.steps, c.states, coalesce(e.episodes, 0) AS episodes \
                   FROM (SELECT CAST(episode_id / 4294967296 AS BIGINT) AS run_id, \
                         count(action) AS steps, count(DISTINCT state_key) AS states \
                         FROM steps GROUP BY 1) AS c \
                   LEFT JOIN (SELECT CAST(run_id AS BIGINT) AS run_id, count(*) AS episodes \
                              FROM episodes GROUP BY 1) AS e ON e.run_id = c.run_id";
        let runs: Vec<RunCounts> = self.ask(sql.to_owned(), Vec::new(), usize::MAX).await?;
        let (at, took) = (Instant::now(), began.elapsed());
        *counted() = Some(TimedCounts { at, took, runs: runs.clone() });
        Ok(runs)
    }

    /// Notes what the lake holds now, and returns that with what it held when somebody asked
    /// before, after the steps that no dedup has counted.
    async fn note_totals(&self) -> Result<(u64, Vec<Total>), Problem> {
        let sql = "SELECT uncounted_steps, (SELECT count(action) FROM steps) AS steps, \
                   (SELECT count(*) FROM observations) AS states FROM lake";
        let now = self.ask_one::<Totals>(sql.to_owned()).await?;
        let recent = &self.watched().recent;
        let mut recent = recent.lock();
        if let Some(Totals { steps, states, .. }) = now
            && recent.back().is_none_or(|(at, _)| at.elapsed() >= RECENT_INTERVAL)
        {
            recent.push_back((Instant::now(), Total { at: now_s(), steps, states }));
            if recent.len() > RECENT_MAX {
                recent.pop_front();
            }
        }
        let uncounted_steps = now.map_or(0, |now| now.uncounted_steps);
        Ok((uncounted_steps, recent.iter().map(|(_, total)| *total).collect()))
    }
}

/// Whether a process records into a lake: then it holds the lock of the writer. To try the lock
/// would keep a writer from it that begins just then, so the kernel's list of locks has to tell.
fn is_recorded(lake: &Path) -> bool {
    let Ok(file) = fs::metadata(lake.join("writer.lock")) else { return false };
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    locks.lines().any(|line| is_lock_of(line, file.ino()))
}

/// Whether a line of `/proc/locks` is a lock of a whole file that is held:
/// `1: FLOCK  ADVISORY  WRITE 123 fe:00:456 0 EOF`.
fn is_lock_of(line: &str, inode: u64) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, "FLOCK", _, "WRITE", _, file, ..] = words.as_slice() else { return false };
    file.rsplit_once(':').and_then(|(_, number)| number.parse().ok()) == Some(inode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_held_is_found() {
        assert!(is_lock_of("3: FLOCK  ADVISORY  WRITE 1494 fe:00:10127064 0 EOF", 10_127_064));
        for other in [
            "3: FLOCK  ADVISORY  READ 1494 fe:00:7 0 EOF",
            "6: -> FLOCK  ADVISORY  WRITE 27404 fe:00:7 0 EOF",
            "1: POSIX  ADVISORY  WRITE 1494 fe:00:7 128 128",
            "3: FLOCK  ADVISORY  WRITE 1494 fe:00:77 0 EOF",
            "",
        ] {
            assert!(!is_lock_of(other, 7), "{other}");
        }
    }
}
