//! What is fuzzed. Each function takes any bytes and neither panics nor takes much memory;
//! `tests/it/lake/fuzz.rs` runs the same over the committed seeds and changes of them.
#![allow(dead_code, reason = "each fuzz target uses one of these")]
#![allow(clippy::unwrap_used, reason = "a fuzz target that cannot go on stops")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use futures::StreamExt as _;
use steplake::dedup::DedupOptions;
use steplake::lake::{
    BenchmarkRow, EpisodeRow, FORMAT_VERSION, Identity, IrRow, Lake, MeasurementRow,
    ObservationRow, RecordedObservation, RecordedReward, Rows, ScanColumns, StepRow, Table,
    to_the_end,
};
use steplake::model::{
    ActionFlags, ActionIndex, ActionSpace, ActionSpec, Baselines, EpisodeId, EpisodeOutcome,
    FailureKind, RunId, StateId, Value,
};
use steplake::query::{Engine, EngineOptions};

/// Rows that a query hands out, after which nobody waits for more.
const BATCHES_MAX: usize = 4;

/// `lake.json`, whose length stands in the first two bytes, and `hot.sqlite`.
pub(crate) fn manifest(content: &[u8]) {
    let Some((length, rest)) = content.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (json, database) = rest.split_at(length);
    let folder = scratch();
    std::fs::write(folder.path().join("lake.json"), json).unwrap();
    std::fs::write(folder.path().join("hot.sqlite"), database).unwrap();
    let Ok(lake) = Lake::open(folder.path()) else { return };
    read(&lake);
    let _ = lake.verify(&mut to_the_end);
    if let Ok(mut writer) = lake.writer() {
        let _ = writer.runs();
        let _ = writer.known_states();
        let _ = writer.discard_open(RunId(1));
        let _ = writer.seal();
    }
    if let Ok(mut maintenance) = lake.maintenance() {
        let _ = steplake::dedup::dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end);
        let _ = maintenance.collect();
    }
    read(&lake);
}

fn read(lake: &Lake) {
    let Ok(snapshot) = lake.snapshot() else { return };
    for table in Table::ALL {
        snapshot.scan(table, ScanColumns::All).for_each(drop);
    }
    let _ = snapshot.ir(&[state(0), state(1)]);
}

/// Frames of the hot log where the first byte is even, and what a worker and its supervisor say
/// else.
pub(crate) fn frames(content: &[u8]) {
    match content.split_first() {
        Some((kind, content)) if kind % 2 == 0 => steplake::lake::fuzz_frame(small(), content),
        Some((_, content)) => steplake::env::worker::fuzz_messages(content),
        None => {}
    }
}

/// The text of a query.
pub(crate) fn sql(content: &[u8]) {
    static ENGINE: OnceLock<(tokio::runtime::Runtime, Engine)> = OnceLock::new();
    let text = String::from_utf8_lossy(content);
    // A query may ask for as many rows as it likes.
    let digits = text.split(|c: char| !c.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    if digits > 4 || text.len() > 4096 || text.matches(',').count() > 60 {
        return;
    }
    let (runtime, engine) = ENGINE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let options = EngineOptions {
            memory_bytes_max: std::num::NonZeroUsize::new(64 << 20),
            threads: std::num::NonZeroUsize::new(1),
            ..EngineOptions::default()
        };
        let show = Arc::new(|_: &[u8]| Ok("ir".to_owned()));
        let engine = Engine::new(small().snapshot().unwrap(), show, &options);
        let engine = runtime.block_on(engine).unwrap();
        (runtime, engine)
    });
    runtime.block_on(async {
        match engine.sql(&text).await {
            Ok(answer) => {
                let mut answer = std::pin::pin!(answer.take(BATCHES_MAX));
                while let Some(batch) = answer.next().await {
                    if let Err(error) = batch {
                        assert!(!error.to_string().is_empty());
                    }
                }
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    });
}

/// A Parquet file in the place of a segment.
pub(crate) fn parquet(content: &[u8]) {
    steplake::upkeep::fuzz_segment(small(), content);
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn state(number: u8) -> StateId {
    use sha1::Digest as _;
    StateId(sha1::Sha1::digest([number; 30]).into())
}

/// What the small lake is a lake of.
fn identity() -> Identity {
    let action = |name| ActionSpec::new(name, name, ActionFlags::UNREMARKABLE);
    Identity {
        format_version: FORMAT_VERSION,
        environment: "toy-v0".into(),
        compiler: "toy 1".into(),
        target: "none".into(),
        action_space: ActionSpace {
            name: "toy-v0".into(),
            actions: vec![action("a"), action("b")],
        },
        observations: vec![
            RecordedObservation::int("Size"),
            RecordedObservation::int_vector("Counts", &["x", "y", "z"]),
        ],
        rewards: vec![RecordedReward::new("Size", "Size")],
        baselines: vec!["SizeO0".into()],
        state_scheme: 1,
    }
}

/// Two episodes of two steps.
fn rows() -> Rows {
    let uri = || "generator://toy-v0/0".parse().unwrap();
    let mut rows = Rows::default();
    for number in 0..4 {
        let content = [number; 30];
        let compressed = zstd::bulk::compress(&content, 1).unwrap();
        let bitcode_sha1 = steplake::lake::bitcode_sha1(&content);
        rows.ir.push(IrRow { state: state(number), compressed, bytes: 30, bitcode_sha1 });
        let values = [Value::Int(number.into()), Value::IntVector([1, 2, 3].into())];
        let values = values.map(Some).into();
        rows.observations.push(ObservationRow { state: state(number), values });
    }
    rows.benchmarks.push(BenchmarkRow {
        program_digest: "00".repeat(32),
        baselines: Baselines(vec![("SizeO0".into(), 9)]),
        ..BenchmarkRow::new(uri(), state(0))
    });
    rows.measurements.push(MeasurementRow {
        uid: "0".repeat(32),
        state: state(1),
        benchmark: uri(),
        space: "Runtime".into(),
        machine: "a machine".into(),
        compilation: "-O2".into(),
        warmups: 1,
        measured_at_ms: 1,
        samples: vec![0.5, 0.25],
    });
    for (ordinal, last) in [(0, Some(2)), (1, None), (2, Some(3))] {
        let id = EpisodeId::new(RunId(1), ordinal);
        for (index, to) in (0..3).zip([Some(0), Some(1), last]) {
            rows.steps.push(StepRow {
                action: (index > 0).then_some(ActionIndex(1)),
                state: to.map(state),
                keyframe: to.is_some(),
                rewards: (index > 0 && to.is_some()).then(|| vec![1.0].into()),
                wall_time: std::time::Duration::from_micros(5),
                ..StepRow::new(id, index, uri())
            });
        }
        rows.episodes.push(EpisodeRow {
            seed: 1,
            policy: "random".into(),
            steps: 2,
            outcome: last
                .map_or(EpisodeOutcome::Failed(FailureKind::Crash), |_| EpisodeOutcome::Complete),
            detail: last.is_none().then(|| "SIGSEGV".into()),
            ..EpisodeRow::new(id, uri())
        });
    }
    rows
}

/// Makes a small lake, in the hot log, or in segments too.
fn record(path: &Path, sealed: bool) -> Lake {
    let lake = Lake::create(path, &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    writer.begin_run("{}", 0).unwrap();
    writer.append(&rows()).unwrap();
    if sealed {
        writer.seal().unwrap();
        let mut maintenance = lake.maintenance().unwrap();
        steplake::dedup::dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end).unwrap();
    }
    drop(writer);
    lake
}

/// The lake that queries ask.
fn small() -> &'static Lake {
    static SMALL: OnceLock<(tempfile::TempDir, Lake)> = OnceLock::new();
    let made = || {
        let folder = scratch();
        let lake = record(&folder.path().join("lake"), true);
        (folder, lake)
    };
    &SMALL.get_or_init(made).1
}

const QUERIES: [&str; 8] = [
    "SELECT * FROM steps WHERE state_id = 'da39a3ee5e6b4b0d3255bfef95601890afd80709'",
    "SELECT action_name(action), count(*) AS n FROM state_transitions GROUP BY 1 ORDER BY n DESC LIMIT 3",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "SELECT s.Size, feature(s.Counts, 'x') FROM observations AS s JOIN failures AS f USING (state_id)",
    "SELECT ir(state_id), array_length(actions) FROM steps_with_actions WHERE step_index > 0",
    "EXPLAIN SELECT max(wall_time_us) OVER (PARTITION BY episode_id ORDER BY step_index) FROM steps",
    "SHOW TABLES",
    "SELECT CASE WHEN changed THEN 'yes' ELSE NULL END, lower(hex(state_id)) FROM transitions_taken",
];

/// What a target begins with, by name: real content, and the same cut short and flipped.
pub(crate) fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = scratch();
    let [hot, sealed] =
        [false, true].map(|sealed| record(&folder.path().join(sealed.to_string()), sealed));
    let whole: Vec<(String, Vec<u8>)> = match target {
        "manifest" => [("hot", &hot), ("sealed", &sealed)]
            .map(|(name, lake)| {
                let file = |name: &str| std::fs::read(lake.path().join(name)).unwrap();
                let json = file("lake.json");
                let length = u16::try_from(json.len()).unwrap().to_le_bytes();
                (name.to_owned(), [&length[..], &json, &file("hot.sqlite")].concat())
            })
            .into(),
        "frames" => {
            let frames = steplake::lake::fuzz_frames(&hot).unwrap();
            let frames = frames.into_iter().map(|frame| [&[0][..], &frame].concat());
            let messages = steplake::env::worker::fuzz_seeds();
            let messages = messages.into_iter().map(|message| [&[1][..], &message].concat());
            let named = |(number, content)| (format!("{number}"), content);
            frames.chain(messages).enumerate().map(named).collect()
        }
        "sql" => QUERIES
            .iter()
            .enumerate()
            .map(|(number, text)| (number.to_string(), text.as_bytes().to_vec()))
            .collect(),
        "parquet" => {
            let snapshot = sealed.snapshot().unwrap();
            let file = |table: Table| -> (String, PathBuf) {
                (table.to_string(), snapshot.segments(table)[0].path.clone())
            };
            let tables =
                [Table::Benchmarks, Table::Steps, Table::Observations, Table::Ir, Table::Failures];
            tables.map(file).map(|(name, path)| (name, std::fs::read(path).unwrap())).into()
        }
        _ => Vec::new(),
    };
    let mut seeds = Vec::new();
    for (number, (name, content)) in whole.into_iter().enumerate() {
        if number == 0 {
            seeds.push((format!("{name}-cut"), content[..content.len() * 2 / 3].to_vec()));
            let mut flipped = content.clone();
            flipped[content.len() / 2] ^= 4;
            seeds.push((format!("{name}-flipped"), flipped));
        }
        seeds.push((name, content));
    }
    seeds
}
