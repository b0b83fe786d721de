//! Questions to a lake of ten million steps, beside `DuckDB` over the same Parquet: `cargo bench
//! --bench queries -- [NAME...]`. `STEPLAKE_BENCH_MILLIONS` sets the size of the lake, and
//! `STEPLAKE_BENCH_LAYERS` the number of layers of its derived tables, all but the first of 1% of
//! the steps. With several, the last column has our CPU time as a multiple of that with one layer,
//! and `DuckDB` reads the files of one layer, since globs know nothing of deleted rows.
//!
//! Half of the questions scan and join, half look up and follow the graph. Both engines have two
//! threads and 1 GiB, stay open from question to question, and take turns. A time covers everything
//! from the SQL text to the last row as Arrow; it is the median of five, after one run that warms
//! both up. Answers are compared by their rows and the sum of their numbers. The bench asserts
//! nothing about times; `docs/PERFORMANCE.md` records the figures.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]
#![expect(clippy::disallowed_methods, reason = "it starts the other engine")]

mod duckdb;
mod questions;
#[path = "../dedup/synthetic.rs"]
mod synthetic;

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt as _;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Lake, SnapshotId, to_the_end};
use steplake::query::{Engine, EngineOptions};

use duckdb::DuckDb;
use questions::{QUESTIONS, Question};
use synthetic::Synthetic;

/// Limits of both engines.
const MEMORY: usize = 1 << 30;
const THREADS: usize = 2;
/// Runs of each question that count.
const RUNS: usize = 5;

/// The result of one run of a question.
#[derive(Debug, Clone, Copy)]
struct Run {
    seconds: f64,
    cpu_seconds: f64,
    rows: usize,
    total: f64,
}

impl Run {
    /// Returns whether both are the same answer, apart from the order in which fractions were
    /// added.
    fn agrees(self, other: Self) -> bool {
        let scale = self.total.abs().max(other.total.abs()).max(1.0);
        self.rows == other.rows && (self.total - other.total).abs() <= 1e-9 * scale
    }
}

fn threads() -> NonZeroUsize {
    THREADS.try_into().expect("some threads")
}

/// Makes a lake of `steps` steps in so many layers, and then a snapshot with one layer.
fn make(path: &Path, steps: u64, layers: u64) {
    let mut synthetic = Synthetic::create(path, steps).expect("an empty folder takes a lake");
    let apart = DedupOptions {
        threads: threads(),
        one_layer_rows_max: 0,
        tier: 0,
        lag: 0,
        ..DedupOptions::default()
    };
    let lake = Lake::open(path).expect("it was just made");
    let count = |settings: DedupOptions| {
        let mut maintenance = lake.maintenance().expect("nobody else maintains it");
        dedup(&mut maintenance, settings, &mut to_the_end).expect("the lake is sound")
    };
    for layer in 0..layers {
        let part = if layer == 0 { steps - (layers - 1) * (steps / 100) } else { steps / 100 };
        synthetic.grow(part).expect("the disk takes the steps");
        if layers > 1 {
            let began = (Instant::now(), cpu_seconds());
            let report = count(apart);
            println!(
                "  dedup of {} steps: {:.2} s, {:.2} s of CPU time, {} layers",
                report.steps,
                began.0.elapsed().as_secs_f64(),
                cpu_seconds() - began.1,
                report.layers
            );
        }
    }
    drop(synthetic);
    count(DedupOptions { full: true, ..apart });
}

/// An engine over the newest snapshot, or over the one before it, which has the layers.
async fn engine(path: &Path, has_layers: bool) -> Engine {
    let options = EngineOptions {
        memory_bytes_max: NonZeroUsize::new(MEMORY),
        threads: Some(threads()),
        ..EngineOptions::default()
    };
    let lake = Lake::open(path).expect("it was just made");
    let mut snapshot = lake.snapshot().expect("it can be read");
    if has_layers {
        let before = SnapshotId(snapshot.id().0 - 1);
        snapshot = lake.snapshot_at(before).expect("it has not expired");
    }
    let renderer = Arc::new(|_: &[u8]| Err("this lake has no IR".to_owned()));
    Engine::new(snapshot, renderer, &options).await.expect("there is a temporary folder")
}

async fn rows(engine: &Engine, sql: &str) -> Vec<RecordBatch> {
    let answer = engine.sql(sql).await.unwrap_or_else(|error| panic!("{error}\n{sql}"));
    answer.try_collect().await.unwrap_or_else(|error| panic!("{error}\n{sql}"))
}

/// Returns user and system time of this process.
fn cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the caller's own usage can be had");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e6
}

async fn ask(engine: &Engine, sql: &str) -> Run {
    let (began, cpu_before) = (Instant::now(), cpu_seconds());
    let batches = rows(engine, sql).await;
    let (seconds, cpu_seconds) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu_before);
    let columns = batches.iter().flat_map(RecordBatch::columns);
    let numbers = columns.filter(|column| {
        let kind = column.data_type();
        kind.is_integer() || kind.is_floating()
    });
    let total = numbers.map(|column| {
        let column = cast(column, &DataType::Float64).expect("a number is a number");
        column.as_primitive::<Float64Type>().iter().flatten().sum::<f64>()
    });
    Run {
        seconds,
        cpu_seconds,
        rows: batches.iter().map(RecordBatch::num_rows).sum(),
        total: total.sum(),
    }
}

/// Returns the first column of an answer.
async fn texts(engine: &Engine, sql: &str) -> Vec<String> {
    let options = FormatOptions::default();
    let mut texts = Vec::new();
    for batch in rows(engine, sql).await {
        let column = ArrayFormatter::try_new(batch.column(0), &options).expect("it can be shown");
        texts.extend((0..batch.num_rows()).map(|row| column.value(row).to_string()));
    }
    texts
}

fn median(seconds: impl Iterator<Item = f64>) -> f64 {
    let mut seconds = seconds.collect::<Vec<_>>();
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}

/// Our times as multiples of `DuckDB`'s.
#[derive(Debug, Clone, Copy)]
struct Ratio {
    seconds: f64,
    cpu_seconds: f64,
}

/// Runs both engines in turns; `None` if their answers differ or one is missing. `whole` is our
/// engine over one layer, if the other has several.
async fn measure(
    engine: &Engine,
    whole: Option<&Engine>,
    duckdb: &mut DuckDb,
    question: &Question,
) -> Option<Ratio> {
    let name = question.name;
    let first = ask(engine, &question.ours).await;
    let Some(their_first) = duckdb.ask(&question.theirs) else {
        println!("  {name:<16} DuckDB did not answer; see above");
        return None;
    };
    if !first.agrees(their_first) {
        println!("  {name:<16} OTHER ANSWERS: {first:?} {their_first:?}");
        return None;
    }
    let (mut ours, mut theirs, mut of_whole) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(whole) = whole {
        ask(whole, &question.ours).await;
    }
    for _ in 0..RUNS {
        ours.push(ask(engine, &question.ours).await);
        theirs.push(duckdb.ask(&question.theirs)?);
        if let Some(whole) = whole {
            of_whole.push(ask(whole, &question.ours).await);
        }
    }
    let seconds = |runs: &[Run]| median(runs.iter().map(|run| run.seconds));
    let cpu_seconds = |runs: &[Run]| median(runs.iter().map(|run| run.cpu_seconds));
    let of_layers = match of_whole.as_slice() {
        [] => String::new(),
        of_whole => format!("   {:>5.2}", cpu_seconds(&ours) / cpu_seconds(of_whole)),
    };
    let ratio = Ratio {
        seconds: seconds(&ours) / seconds(&theirs),
        cpu_seconds: cpu_seconds(&ours) / cpu_seconds(&theirs),
    };
    println!(
        "  {name:<16} {:>9.1} ms {:>9.1} ms {:>6.2} {:>6.2}   {:>9.1} ms {:>9.1} ms {:>8} rows{of_layers}",
        seconds(&ours) * 1e3,
        seconds(&theirs) * 1e3,
        ratio.seconds,
        ratio.cpu_seconds,
        first.seconds * 1e3,
        their_first.seconds * 1e3,
        first.rows
    );
    Some(ratio)
}

fn geometric_mean(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = ratios.len() as f64;
    (ratios.map(f64::ln).sum::<f64>() / count).exp()
}

async fn run(path: &Path, wanted: &[String]) {
    let has_layers = layers() > 1;
    let whole = if has_layers { Some(engine(path, false).await) } else { None };
    let engine = engine(path, has_layers).await;
    let mut duckdb = DuckDb::start(path, MEMORY >> 20, THREADS);
    let places = questions::places(&engine).await;
    println!(
        "  {:<16} {:>12} {:>12} {:>6} {:>6}   {:>12} {:>12}",
        "", "steplake", "DuckDB", "ratio", "of CPU", "first", "first"
    );
    let mut ratios = Vec::new();
    for question in QUESTIONS {
        if wanted.is_empty() || wanted.iter().any(|name| name == question.0) {
            let filled = places.fill(question);
            ratios.extend(measure(&engine, whole.as_ref(), &mut duckdb, &filled).await);
        }
    }
    let mean = geometric_mean(ratios.iter().map(|ratio| ratio.seconds));
    let cpu_mean = geometric_mean(ratios.iter().map(|ratio| ratio.cpu_seconds));
    let worst = ratios.iter().map(|ratio| ratio.seconds).fold(0.0, f64::max);
    println!(
        "\n  of {} questions: geometric mean {mean:.2} (target: at most 1), worst {worst:.2} (at most 2); \
         of CPU time {cpu_mean:.2}",
        ratios.len()
    );
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .build()
        .expect("threads can be had");
    // Use an existing lake, for repeated measurements.
    if let Some(lake) = std::env::var_os("STEPLAKE_BENCH_LAKE") {
        let lake = Path::new(&lake);
        if !lake.exists() {
            make(lake, steps(), layers());
        }
        return runtime.block_on(run(lake, &wanted));
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lake = folder.path().join("lake");
    make(&lake, steps(), layers());
    runtime.block_on(run(&lake, &wanted));
}

fn steps() -> u64 {
    setting("STEPLAKE_BENCH_MILLIONS").unwrap_or(10) * 1_000_000
}

fn layers() -> u64 {
    setting("STEPLAKE_BENCH_LAYERS").unwrap_or(1).max(1)
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
