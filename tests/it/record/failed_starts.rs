//! Programs over which the compiler dies before the first step: episodes without steps, and no end
//! of the run. Programs that start first and then do not any more: an end of the run, which goes on
//! later.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use steplake::dedup::{DedupOptions, dedup};
use steplake::env::toy::{self, Harm, Only, Plant, ToyEnvironment};
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::env::{Environment, Session, SessionError, Start, Started, Watch, forward};
use steplake::generate::{CampaignEnd, GenerateError, ProgramProvider, ResumeState, RunPlan, Stop};
use steplake::lake::{EpisodeRow, Lake, Rows, Table, Writer, to_the_end};
use steplake::model::{
    ActionIndex, Benchmark, BenchmarkUri, EpisodeId, EpisodeOutcome, Failure, FailureKind, RunId,
};
use steplake::record::{Recording, RecordingOptions};

use crate::fixtures::support::{
    Performed, ToyPrograms, assert_same, contents, perform, play as play_calmly, rows, run,
    toy_lake, toy_plan,
};

const RUN: RunId = RunId(1);
const ABORTS: &str = "benchmark://deadly-v0/aborts";
const HANGS: &str = "benchmark://deadly-v0/hangs";

/// The toy environment in worker processes, which may compute for a second at the start of a
/// program.
fn workers() -> WorkerEnvironment {
    let config = WorkerConfig {
        step_cpu_max: Duration::from_millis(200),
        ..WorkerConfig::new(PathBuf::from(env!("CARGO_BIN_EXE_steplake")))
    };
    WorkerEnvironment::new(ToyEnvironment::default().spec().clone(), config)
}

/// A benchmark on which the environment dies before the first step, as compilers do on some
/// programs.
fn deadly(uri: &str, harm: Harm) -> Benchmark {
    toy::planted(uri, 1, 0, Plant { harm, action: "start".into(), every: 1, only: Only::Ever })
}

/// Toy programs, deadly ones among them, or an error in the place of those.
struct WithDeadly {
    deadly: bool,
}

impl ProgramProvider for WithDeadly {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, steplake::Error> {
        match uri.as_str() {
            ABORTS | HANGS if !self.deadly => {
                Err(steplake::Error::usage(format!("{uri} was asked for")))
            }
            ABORTS => Ok(deadly(ABORTS, Harm::Aborts)),
            HANGS => Ok(deadly(HANGS, Harm::Hangs)),
            _ => ToyPrograms.load(uri),
        }
    }
}

/// A plan about a program that starts, one that aborts, another that starts, and one that hangs.
fn plan(policy: &str, stop: Stop, jobs: usize) -> RunPlan {
    let uris = ["generator://toy-v0/0", ABORTS, "generator://toy-v0/1", HANGS];
    let benchmarks = uris.iter().map(|uri| uri.parse().unwrap()).collect();
    RunPlan { benchmarks, ..toy_plan(policy, stop, jobs) }
}

fn begin(lake: &Lake) -> Writer {
    let mut writer = lake.writer().unwrap();
    assert_eq!(writer.begin_run("{}", 0).unwrap(), RUN);
    writer
}

fn play(writer: Writer, plan: &RunPlan, resumed: ResumeState, deadly: bool) -> Performed {
    perform(&workers(), &WithDeadly { deadly }, writer, RUN, plan, resumed)
}

/// The rows that speak of a program.
fn about(lake: &Lake, table: Table, uri: &str) -> Vec<String> {
    let mut rows = rows(lake.path(), table);
    rows.retain(|row| row.contains(uri));
    rows
}

#[test]
fn a_run_goes_on_after_programs_that_kill_the_compiler() {
    for policy in ["random", "explore", "frontier"] {
        let (_alone, alone) = toy_lake();
        let stop = Stop::Episodes(16);
        let performed = play(begin(&alone), &plan(policy, stop, 1), ResumeState::default(), true);
        assert_eq!(performed.ending.unwrap(), CampaignEnd::Complete);
        assert_eq!(performed.progress.failures.lock().values().sum::<u64>(), 8);
        let reasons = [
            (ABORTS, "outcome=crash detail=SIGABRT while it read the program, step 0 on"),
            (HANGS, "outcome=time-out detail=more than 1 s of CPU time while it read the program"),
        ];
        for (uri, reason) in reasons {
            let episodes = about(&alone, Table::Episodes, uri);
            assert_eq!(episodes.len(), 4);
            for row in episodes {
                assert!(row.contains("steps=0") && row.contains(reason), "{row}");
            }
            for table in [Table::Benchmarks, Table::Steps] {
                assert_eq!(about(&alone, table, uri), [""; 0]);
            }
        }
        assert_eq!(rows(alone.path(), Table::Steps).len(), 8 * 21);

        let (_together, together) = toy_lake();
        let first = Stop::Episodes(7);
        let performed =
            play(begin(&together), &plan(policy, first, 2), ResumeState::default(), true);
        let mut writer = performed.writer;
        writer.seal().unwrap();
        // Taken up, the run does not even ask for the programs that failed.
        let resumed = ResumeState::resume(&mut writer, RUN, &plan(policy, stop, 2)).unwrap();
        let performed = play(writer, &plan(policy, stop, 2), resumed, false);
        assert_eq!(performed.ending.unwrap(), CampaignEnd::Complete);
        assert_same(alone.path(), together.path());

        let before = contents(together.path());
        let mut writer = performed.writer;
        writer.seal().unwrap();
        let mut maintenance = together.maintenance().unwrap();
        let report = dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end).unwrap();
        assert_eq!((report.steps, report.failures), (8 * 20, 0));
        assert_eq!(contents(together.path())[..5], before[..5]);
        assert!(together.verify(&mut to_the_end).unwrap().is_sound());
        drop(writer);
        let found = run(together.path(), &["query", "failed_starts", "--format", "csv"]);
        let lines: Vec<&str> = found.lines().collect();
        assert_eq!(lines.len(), 3, "{found}");
        assert!(lines[1].starts_with(&format!("{ABORTS},crash,4,\"SIGABRT")), "{found}");
        assert!(lines[2].starts_with(&format!("{HANGS},time-out,4,")), "{found}");
        run(together.path(), &["verify"]);
        run(together.path(), &["info"]);
    }
}

#[test]
fn a_run_over_deadly_programs_alone_ends_with_an_error() {
    let uris = [ABORTS, ABORTS].map(|uri| uri.parse().unwrap());
    for (jobs, stop) in [(1, Stop::Steps(100)), (2, Stop::States(100))] {
        let plan = RunPlan { benchmarks: uris.to_vec(), ..toy_plan("random", stop, jobs) };
        let (_folder, lake) = toy_lake();
        let mut performed = play(begin(&lake), &plan, ResumeState::default(), true);
        for _ in 0..2 {
            let error = performed.ending.unwrap_err();
            assert!(matches!(error, GenerateError::NothingStarts), "{error}");
            assert_eq!(rows(lake.path(), Table::Episodes).len(), 2);
            let resumed = ResumeState::resume(&mut performed.writer, RUN, &plan).unwrap();
            performed = play(performed.writer, &plan, resumed, false);
        }
    }
}

/// Workers on a machine that is short of something for a while: some starts of [`TIRED`] kill them.
#[derive(Debug)]
struct Tired {
    workers: WorkerEnvironment,
    starts: Arc<AtomicU32>,
    deadly: Range<u32>,
}

const TIRED: &str = "generator://toy-v0/0";

impl Tired {
    fn new(deadly: Range<u32>) -> Self {
        Self { workers: workers(), starts: Arc::default(), deadly }
    }
}

impl Environment for Tired {
    forward!(self => self.workers; spec);

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let (starts, deadly) = (Arc::clone(&self.starts), self.deadly.clone());
        Ok(Box::new(TiredSession { session: self.workers.session()?, starts, deadly }))
    }
}

struct TiredSession {
    session: Box<dyn Session>,
    starts: Arc<AtomicU32>,
    deadly: Range<u32>,
}

impl Session for TiredSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        let is_tired = start.benchmark.uri.as_str() == TIRED
            && self.deadly.contains(&self.starts.fetch_add(1, Ordering::Relaxed));
        let deadly = deadly(TIRED, Harm::Aborts);
        let benchmark = if is_tired { &deadly } else { start.benchmark };
        self.session.start(&Start { benchmark, ..*start })
    }

    forward!(self => self.session; apply, multistep, observe, identify, fork);
}

#[test]
fn a_start_that_fails_once_after_others_leaves_no_trace() {
    let (_calm, calm) = toy_lake();
    drop(play_calmly(&calm, &toy_plan("random", Stop::Episodes(20), 1)));
    for jobs in [1, 3] {
        let plan = toy_plan("random", Stop::Episodes(20), jobs);
        let (_tired, tired) = toy_lake();
        let environment = Tired::new(3..4);
        let resumed = ResumeState::default();
        let performed = perform(&environment, &ToyPrograms, begin(&tired), RUN, &plan, resumed);
        assert_eq!(performed.ending.unwrap(), CampaignEnd::Complete);
        assert_same(calm.path(), tired.path());
    }
}

#[test]
fn a_program_that_started_before_is_never_given_up() {
    let all = toy_plan("explore", Stop::Steps(400), 1);
    let alone = RunPlan { benchmarks: vec![TIRED.parse().unwrap()], ..all.clone() };
    for plan in [all, alone] {
        let (_calm, calm) = toy_lake();
        drop(play_calmly(&calm, &plan));
        let (_tired, tired) = toy_lake();
        let (mut writer, mut resumed) = (begin(&tired), ResumeState::default());
        // First in the process that started it before, then in two that have this from the lake.
        for deadly in [3..5, 0..2, 0..2] {
            let environment = Tired::new(deadly);
            let performed = perform(&environment, &ToyPrograms, writer, RUN, &plan, resumed);
            let error = performed.ending.unwrap_err();
            let GenerateError::StartFailed { uri, failure } = &error else { panic!("{error}") };
            assert_eq!((uri.as_str(), failure.kind), (TIRED, FailureKind::Crash));
            writer = performed.writer;
            let episodes = rows(tired.path(), Table::Episodes);
            assert_eq!(episodes.len(), 3 * plan.benchmarks.len(), "{episodes:?}");
            assert!(episodes.iter().all(|row| row.contains("steps=20")), "{episodes:?}");
            resumed = ResumeState::resume(&mut writer, RUN, &plan).unwrap();
        }
        let performed = perform(&workers(), &ToyPrograms, writer, RUN, &plan, resumed);
        assert_eq!(performed.ending.unwrap(), CampaignEnd::Complete);
        assert_same(calm.path(), tired.path());
    }
}

#[test]
fn a_failed_start_in_the_lake_says_nothing_beside_a_start() {
    let benchmark: BenchmarkUri = TIRED.parse().unwrap();
    let until = |steps| RunPlan {
        benchmarks: vec![benchmark.clone()],
        ..toy_plan("random", Stop::Steps(steps), 1)
    };
    let (_folder, lake) = toy_lake();
    let performed = play(begin(&lake), &until(60), ResumeState::default(), false);
    assert_eq!(performed.ending.unwrap(), CampaignEnd::Complete);
    let mut writer = performed.writer;
    let failed = EpisodeRow {
        seed: 7,
        policy: "random".into(),
        outcome: EpisodeOutcome::Failed(FailureKind::TimeOut),
        detail: Some("more than 1 s of CPU time".into()),
        ..EpisodeRow::new(EpisodeId::new(RUN, 3), benchmark.clone())
    };
    writer.append(&Rows { episodes: vec![failed], ..Rows::default() }).unwrap();
    let resumed = ResumeState::resume(&mut writer, RUN, &until(100)).unwrap();
    let performed = play(writer, &until(100), resumed, false);
    assert_eq!(performed.ending.unwrap(), CampaignEnd::Complete);
    assert_eq!(rows(lake.path(), Table::Episodes).len(), 6);
}

#[test]
fn a_recorder_takes_a_failed_start_down_and_goes_on() {
    let (_folder, lake) = toy_lake();
    let environment = workers();
    let options = RecordingOptions::default();
    let recording = Recording::begin(begin(&lake), environment.spec(), RUN, &options).unwrap();
    let mut session = recording.recorder(environment.session().unwrap());
    let watch = Watch::default();
    let mut start = |benchmark: &Benchmark| {
        let start = Start { benchmark, action_space: toy::NAME, baselines: None, watch: &watch };
        let started = session.start(&start);
        if started.is_ok() {
            session.apply(ActionIndex(0)).unwrap();
        }
        started
    };
    start(&toy::benchmark(1)).unwrap();
    // The worker has a past now, and a fresh one has to say the same.
    let error = start(&deadly(ABORTS, Harm::Aborts)).unwrap_err();
    let SessionError::StartFailed { uri, failure } = error else { panic!("{error}") };
    let detail = format!("SIGABRT while it read the program, step 0 on {ABORTS}");
    assert_eq!((uri.as_str(), &failure), (ABORTS, &Failure { kind: FailureKind::Crash, detail }));
    start(&toy::benchmark(2)).unwrap();
    drop(session);
    recording.close().unwrap();
    let episodes = rows(lake.path(), Table::Episodes);
    assert_eq!(episodes.len(), 3);
    assert!(episodes[1].contains("ordinal=1") && episodes[1].contains("steps=0 outcome=crash"));
    assert_eq!(rows(lake.path(), Table::Steps).len(), 4);
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}

/// A program in LLVM's assembly that takes its pipelines a minute, and everything else a moment:
/// each of its many loads has to be held against all stores before it.
fn slow_program(steps: usize) -> String {
    let mut text = String::from("define i32 @slow(ptr %p, i32 %v) {\n");
    let mut value = "%v".to_owned();
    for step in 0..steps {
        let line = format!(
            "  %a{step} = getelementptr i32, ptr %p, i32 {value}\n  %l{step} = load i32, ptr %a{step}\n  \
             %s{step} = add i32 %l{step}, {value}\n  store i32 %s{step}, ptr %a{step}\n"
        );
        text.push_str(&line);
        value = format!("%s{step}");
    }
    text + &format!("  ret i32 {value}\n}}\n")
}

#[test]
fn a_run_of_llvm_goes_on_after_a_program_that_takes_too_long() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::canonicalize(folder.path()).unwrap().join("slow.ll");
    std::fs::write(&file, slow_program(20_000)).unwrap();
    let slow = format!("file://{}", file.display());
    let lakes = ["1", "2"].map(|jobs| {
        let lake = folder.path().join(jobs);
        let arguments = ["generate", "--episodes", "6", "--episode-length", "5", "--jobs", jobs];
        let benchmarks = ["--benchmark", &slow, "-b", "benchmark://steplake-v0/keyed_hash"];
        let limits = ["--step-cpu-seconds", "1", "--resume"];
        let said = run(&lake, &[&arguments[..], &benchmarks, &limits].concat());
        assert!(said.contains("6 episodes, 3 failures of the compiler"), "{said}");
        lake
    });
    assert_same(&lakes[0], &lakes[1]);
    let episodes = rows(&lakes[0], Table::Episodes);
    let failed = episodes.iter().filter(|row| row.contains("steps=0 outcome=time-out"));
    assert_eq!(failed.count(), 3, "{episodes:?}");
    for command in ["seal", "dedup", "verify", "info"] {
        run(&lakes[0], &[command]);
    }
}
