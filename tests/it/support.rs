//! What several tests need.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use steplake::env::Environment;
use steplake::env::toy::{self, ToyEnvironment};
use steplake::generate::{
    Ending, GenerateError, Past, Plan, Policy, ProgramError, Programs, Progress, Shard, Stop,
    generate,
};
use steplake::lake::{Identity, Lake, ScanColumns, Table, Writer};
use steplake::model::{Benchmark, BenchmarkUri, RunId};
use steplake::record::{Choice, Recording, RecordingOptions, identity};

/// The binary, with a lake of its own and without what the caller's environment says.
pub(crate) fn steplake(lake: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steplake"));
    command.env("STEPLAKE_LAKE", lake).env_remove("STEPLAKE_LOG").arg("--quiet");
    command
}

/// Runs the binary, which must succeed; its standard output.
pub(crate) fn run(lake: &Path, arguments: &[&str]) -> String {
    let output = steplake(lake).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the binary, which must fail: its exit code and what it says.
pub(crate) fn fail(lake: &Path, arguments: &[&str]) -> (i32, String) {
    let output = steplake(lake).args(arguments).output().unwrap();
    assert!(!output.status.success(), "{arguments:?} was to fail");
    (output.status.code().unwrap_or(-1), err(&output))
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).trim_end().to_owned()
}

/// The columns that say how long something took, or when it was.
fn is_measured(column: &str) -> bool {
    column.contains("wall_time")
}

/// The rows of a table as text, sorted, without what was measured.
pub(crate) fn rows(lake: &Path, table: Table) -> Vec<String> {
    let snapshot = Lake::open(lake).unwrap().snapshot().unwrap();
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in snapshot.scan(table, ScanColumns::All) {
        let batch = batch.unwrap();
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns());
        let columns: Vec<_> = columns
            .filter(|(field, _)| !is_measured(field.name()))
            .map(|(field, array)| (field, ArrayFormatter::try_new(array, &options).unwrap()))
            .collect();
        for row in 0..batch.num_rows() {
            let cells = columns
                .iter()
                .map(|(field, cells)| format!("{}={}", field.name(), cells.value(row)));
            rows.push(cells.collect::<Vec<_>>().join(" "));
        }
    }
    rows.sort();
    rows
}

/// Every table's rows.
pub(crate) fn contents(lake: &Path) -> Vec<(Table, Vec<String>)> {
    Table::ALL.into_iter().map(|table| (table, rows(lake, table))).collect()
}

/// Asserts that two lakes hold the same, and says where they first differ.
pub(crate) fn assert_same(left: &Path, right: &Path) {
    for ((table, left), (_, right)) in contents(left).into_iter().zip(contents(right)) {
        let differ = left.iter().zip(&right).find(|(left, right)| left != right);
        assert_eq!(differ, None, "{table:?}");
        assert_eq!(left.len(), right.len(), "{table:?} has more rows in one of them");
    }
}

/// The identity of a lake that records all of the toy environment.
pub(crate) fn toy_identity() -> Identity {
    let environment = ToyEnvironment::default();
    let spec = environment.spec();
    identity(spec, &spec.action_spaces[0], &Choice::default()).unwrap()
}

/// A new lake of the toy environment in a folder that goes with it.
pub(crate) fn toy_lake() -> (tempfile::TempDir, Lake) {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::create(folder.path().join("lake"), &toy_identity()).unwrap();
    (folder, lake)
}

/// The programs of the toy environment.
pub(crate) struct ToyPrograms;

impl Programs for ToyPrograms {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, ProgramError> {
        Ok(toy::benchmark(uri.path().parse()?))
    }
}

/// A plan about three toy programs.
pub(crate) fn toy_plan(policy: Policy, stop: Stop, jobs: usize) -> Plan {
    let uri = |seed: u32| toy::benchmark(seed).uri;
    Plan {
        benchmarks: (0..3).map(uri).collect(),
        action_space: toy::NAME.into(),
        policy,
        stop,
        episode_length: 20,
        seed: 7,
        jobs,
        shard: Shard::WHOLE,
    }
}

/// Plays a plan into a lake from its beginning to its end, in this process.
pub(crate) fn play(lake: &Lake, plan: &Plan) -> Writer {
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    play_on(writer, run, plan, Past::default())
}

/// Plays what a plan still lacks after its `past`.
pub(crate) fn play_on(writer: Writer, run: RunId, plan: &Plan, past: Past) -> Writer {
    let environment = ToyEnvironment::default();
    let performed = perform(&environment, &ToyPrograms, writer, run, plan, past);
    assert_eq!(performed.ending.unwrap(), Ending::Complete);
    let mut writer = performed.writer;
    writer.discard_open(run).unwrap();
    writer.finish_run(run).unwrap();
    writer
}

/// What came of playing a plan.
pub(crate) struct Performed {
    pub(crate) writer: Writer,
    pub(crate) ending: Result<Ending, GenerateError>,
    pub(crate) progress: Progress,
}

/// Plays what a plan still lacks after its `past`, whatever comes of it.
pub(crate) fn perform(
    environment: &dyn Environment,
    programs: &dyn Programs,
    writer: Writer,
    run: RunId,
    plan: &Plan,
    past: Past,
) -> Performed {
    let options = RecordingOptions::default();
    let recording = Recording::begin(writer, environment.spec(), run, &options).unwrap();
    let (progress, never) = (Progress::default(), AtomicBool::new(false));
    let ending = generate(environment, &recording, plan, programs, past, &progress, &never);
    Performed { writer: recording.close().unwrap(), ending, progress }
}
