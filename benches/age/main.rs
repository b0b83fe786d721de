//! What a lake costs as it gets older: `cargo bench --bench age -- [SEALS...]`, by default 10, 100
//! and 1000 seals of a thousand states each.
//!
//! For each number of seals, as the lake is and after `compact`, the bench prints the files of the
//! lake and their links, how many bytes were written for each byte that was sealed, and the CPU
//! time in which an open engine finds one state, once with all columns of `observations` and once
//! in `ir`. It asserts nothing; `docs/PERFORMANCE.md` records the figures.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt as _;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use sha1::{Digest as _, Sha1};
use steplake::lake::{
    EpisodeRow, FORMAT_VERSION, Identity, IrRow, Lake, ObservationRow, RecordedObservation,
    RecordedReward, Rows, SnapshotKind, StepRow, Table, to_the_end,
};
use steplake::model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, BenchmarkUri, EpisodeId, RunId, StateId,
    Value,
};
use steplake::query::{Engine, EngineOptions};

/// States of a seal, each in a step of its own.
const STATES: u64 = 1000;
/// Look-ups that are measured, after some that warm the engine up.
const LOOK_UPS: u64 = 200;
const WARM_UPS: u64 = 20;
const SPACES: [&str; 8] = ["A", "B", "C", "D", "E", "F", "G", "H"];
const VECTOR: [&str; 4] = ["w", "x", "y", "z"];

fn identity() -> Identity {
    let mut observations: Vec<_> = SPACES.map(RecordedObservation::int).into();
    observations.push(RecordedObservation::int_vector("Vector", &VECTOR));
    Identity {
        format_version: FORMAT_VERSION,
        environment: "aging-v0".into(),
        compiler: "none".into(),
        target: "none".into(),
        action_space: ActionSpace {
            name: "aging-v0".into(),
            actions: vec![ActionSpec::new("a", "pass", ActionFlags::UNREMARKABLE)],
        },
        observations,
        rewards: vec![RecordedReward::new("A", "A")],
        baselines: Vec::new(),
        state_scheme: 1,
    }
}

fn state(number: u64) -> StateId {
    StateId(Sha1::digest(number.to_le_bytes()).into())
}

/// The rows of one episode of new states.
fn episode(ordinal: u32) -> Rows {
    let episode = EpisodeId::new(RunId(1), ordinal);
    let benchmark: BenchmarkUri = "generator://aging-v0/0".parse().expect("a name");
    let mut rows = Rows::default();
    let first = u64::from(ordinal) * STATES;
    for (index, number) in (0..).zip(first..first + STATES) {
        let id = state(number);
        rows.steps.push(StepRow {
            action: (index > 0).then_some(ActionIndex(0)),
            state: Some(id),
            keyframe: true,
            rewards: (index > 0).then(|| vec![1.0].into()),
            ..StepRow::new(episode, index, benchmark.clone())
        });
        // Numbers that repeat, as costs and counts do.
        let mut values = SPACES.map(|_| Some(Value::Int((number % 977).cast_signed()))).to_vec();
        values.push(Some(Value::IntVector([1, 2, 3, 4].into())));
        rows.observations.push(ObservationRow { state: id, values });
        let bitcode = id.0.repeat(50);
        rows.ir.push(IrRow {
            state: id,
            compressed: zstd::bulk::compress(&bitcode, 3).expect("memory is compressed"),
            bytes: 1000,
            bitcode_sha1: Sha1::digest(&bitcode).into(),
        });
    }
    let steps = u32::try_from(STATES).expect("few") - 1;
    rows.episodes.push(EpisodeRow { steps, ..EpisodeRow::new(episode, benchmark) });
    rows
}

fn make(path: &Path, seals: u32) -> Lake {
    let lake = Lake::create(path, &identity()).expect("an empty folder takes a lake");
    let mut writer = lake.writer().expect("nobody else writes");
    for ordinal in 0..seals {
        writer.append(&episode(ordinal)).expect("the disk takes the rows");
        writer.seal().expect("the disk takes the segments");
    }
    lake
}

/// Returns user and system time of this process, in milliseconds.
fn cpu_ms() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the caller's own usage can be had");
    (usage.user_time() + usage.system_time()).num_microseconds() as f64 / 1e3
}

/// Returns the CPU time of one look-up in a table, in milliseconds.
async fn look_up(engine: &Engine, table: Table, states: u64) -> f64 {
    let mut began = 0.0;
    for number in 0..WARM_UPS + LOOK_UPS {
        if number == WARM_UPS {
            began = cpu_ms();
        }
        // Steps through all states, oldest and newest alike.
        let id = state(number * 7919 % states);
        let sql = format!("SELECT * FROM {table} WHERE state_id = '{id}'");
        let answer = engine.sql(&sql).await.expect("the statement is right");
        let rows: Vec<_> = answer.try_collect().await.expect("the lake is sound");
        let rows = rows.iter().map(arrow::array::RecordBatch::num_rows).sum::<usize>();
        assert_eq!(rows, 1, "each state is there once");
    }
    (cpu_ms() - began) / LOOK_UPS as f64
}

/// Prints what a lake is like, and what a look-up in it costs.
async fn measure(lake: &Lake, what: &str, states: u64) {
    let snapshot = lake.snapshot().expect("it can be read");
    let files = Table::ALL.iter().flat_map(|&table| snapshot.segments(table)).collect::<Vec<_>>();
    let links = files.iter().map(|file| std::fs::metadata(&file.path).expect("it is there"));
    let links = links.map(|file| file.nlink() - 1).sum::<u64>();
    let bytes = |kinds: &[SnapshotKind]| {
        let rows = snapshot.history().iter().filter(|row| kinds.contains(&row.kind));
        rows.map(|row| row.bytes_added).sum::<u64>() as f64
    };
    let sealed = bytes(&[SnapshotKind::Seal]);
    let written = bytes(&[SnapshotKind::Seal, SnapshotKind::Compact]) / sealed;
    let count = files.len();
    let options = EngineOptions { threads: NonZeroUsize::new(1), ..EngineOptions::default() };
    let renderer = Arc::new(|_: &[u8]| Err("this lake has no IR to show".to_owned()));
    let engine = Engine::new(snapshot, renderer, &options).await.expect("a temporary folder");
    let observations = look_up(&engine, Table::Observations, states).await;
    let ir = look_up(&engine, Table::Ir, states).await;
    println!(
        "  {what:<28} {count:>4} files, {links:>6} links; {written:.2} bytes written for each sealed; \
         look-up {observations:.2} ms of CPU, in ir {ir:.2} ms"
    );
}

async fn age(path: &Path, seals: u32) {
    let lake = make(path, seals);
    let states = u64::from(seals) * STATES;
    measure(&lake, &format!("{seals} seals"), states).await;
    let mut writer = lake.writer().expect("nobody else writes");
    writer.compact(&mut to_the_end).expect("the disk takes the segments");
    drop(writer);
    measure(&lake, &format!("{seals} seals, compacted"), states).await;
}

fn main() {
    let wanted: Vec<u32> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let wanted = if wanted.is_empty() { vec![10, 100, 1000] } else { wanted };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .expect("threads can be had");
    for seals in wanted {
        let folder = tempfile::tempdir().expect("a temporary folder");
        runtime.block_on(age(&folder.path().join("lake"), seals));
    }
}
