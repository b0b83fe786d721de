//! Episodes that are played again in another process: what differs is counted, flagged and
//! recorded.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use steplake::dedup::{DedupOptions, dedup};
use steplake::env::llvm::{LlvmEnvironment, assemble};
use steplake::env::toy::{self, Harm, Only, ToyEnvironment};
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::env::{Environment, Session as _, Start, Watch};
use steplake::generate::{
    CampaignEnd, ProgramProvider, ResumeState, RunPlan, RunProgress, Stop, generate,
};
use steplake::lake::{Lake, RunRow, Table, to_the_end};
use steplake::model::{ActionIndex, Benchmark, BenchmarkUri, EnvironmentSpec, Provenance, RunId};
use steplake::record::{EpisodePlan, Recording, RecordingOptions, Settle, SpaceChoice, identity};
use steplake::sandbox::Interrupt;

use crate::env::worker_limits::script;
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::{ToyPrograms, assert_same, rows, run, steplake, toy_plan};
use crate::record::windows::plant;

/// The variable by which the worker of an audit is known here.
const DISTURBED: &str = "MALLOC_PERTURB_";

/// The toy environment whose `scatter` depends on the process, though its flags do not say so.
fn unknowing() -> EnvironmentSpec {
    let mut spec = ToyEnvironment::unsure().spec().clone();
    let mut actions = spec.action_spaces[0].actions.iter_mut();
    let scatter = actions.find(|action| action.name == "scatter").unwrap();
    scatter.flags.replayable = true;
    spec
}

fn workers(spec: EnvironmentSpec) -> WorkerEnvironment {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_steplake"));
    WorkerEnvironment::new(spec, WorkerConfig::new(program))
}

fn lake_of(spec: &EnvironmentSpec) -> (tempfile::TempDir, Lake) {
    let folder = tempfile::tempdir().unwrap();
    let identity = identity(spec, &spec.action_spaces[0], &SpaceChoice::default()).unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity).unwrap();
    (folder, lake)
}

/// Records a plan as [`record_by`] does.
fn record(
    lake: &Lake,
    environment: &dyn Environment,
    programs: &dyn ProgramProvider,
    plan: &RunPlan,
    every: u32,
) -> RunId {
    record_by(lake, environment, every, |recording| {
        let (past, progress, never) =
            (ResumeState::default(), RunProgress::default(), AtomicBool::new(false));
        let ending = generate(environment, recording, plan, programs, past, &progress, &never);
        assert_eq!(ending.unwrap(), CampaignEnd::Complete);
    })
}

/// Records twelve walks that need not lead to the same states again. They have no `invert`: where
/// that fails, nobody could reach the state a second time.
fn record_walks(lake: &Lake, environment: &dyn Environment, every: u32) -> RunId {
    record_by(lake, environment, every, |recording| walk(recording, environment, Settle::AtItsEnd))
}

fn walk(recording: &Recording, environment: &dyn Environment, settle: Settle) {
    let mut recorder = recording.recorder(environment.session().unwrap());
    recorder.plan(EpisodePlan { settle, ..EpisodePlan::default() });
    for episode in 0..12 {
        let start = Start {
            benchmark: &toy::benchmark(episode % 3),
            action_space: toy::NAME,
            baselines: None,
            watch: &Watch::default(),
        };
        recorder.start(&start).unwrap();
        for step in 0..20 {
            recorder.apply(ActionIndex((episode * 5 + step * 3) % 7)).unwrap();
        }
    }
    recorder.finish().unwrap();
}

/// Records a run with few keyframes, one episode of `every` of which is played again, and dedups.
fn record_by(
    lake: &Lake,
    environment: &dyn Environment,
    every: u32,
    play: impl FnOnce(&Recording),
) -> RunId {
    record_until(lake, environment, every, Interrupt::default(), play)
}

/// The same, with an interrupt of the audit.
fn record_until(
    lake: &Lake,
    environment: &dyn Environment,
    every: u32,
    interrupt: Interrupt,
    play: impl FnOnce(&Recording),
) -> RunId {
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let keyframes = NonZeroU32::new(1000);
    let options = RecordingOptions { keyframes, ..RecordingOptions::default() };
    let recording = Recording::begin(writer, environment.spec(), run, &options).unwrap();
    let other = environment.audit_session().unwrap().unwrap();
    let recording = recording.audited(other, NonZeroU32::new(every).unwrap(), interrupt).unwrap();
    play(&recording);
    let mut writer = recording.close().unwrap();
    writer.finish_run(run).unwrap();
    writer.seal().unwrap();
    drop(writer);
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
    run
}

fn runs(lake: &Path) -> Vec<RunRow> {
    Lake::open(lake).unwrap().snapshot().unwrap().runs().to_vec()
}

fn of_scatter(row: &str) -> bool {
    row.split(' ').any(|cell| cell == "action=6")
}

#[test]
fn an_audit_finds_what_goes_by_the_order_of_constants_in_the_heap() {
    let spec = LlvmEnvironment::new().spec().clone();
    // Its default has no such action.
    let space = spec.action_space("llvm22-v0").unwrap().clone();
    let newgvn = space.index_of("newgvn").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let identity = identity(&spec, &space, &SpaceChoice::default()).unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity).unwrap();
    let program = assemble(include_bytes!("../../data/determinism/constants_compared.ll")).unwrap();
    let benchmark = Benchmark {
        uri: "file:///constants_compared.ll".parse().unwrap(),
        program: program.into(),
        provenance: Provenance::default(),
        execution: None,
    };
    let environment = workers(spec);
    record_by(&lake, &environment, 1, |recording| {
        let mut recorder = recording.recorder(environment.session().unwrap());
        for _ in 0..20 {
            let start = Start {
                benchmark: &benchmark,
                action_space: &space.name,
                baselines: None,
                watch: &Watch::default(),
            };
            recorder.start(&start).unwrap();
            recorder.apply(newgvn).unwrap();
        }
        recorder.finish().unwrap();
    });
    let audited = &runs(lake.path())[0];
    assert_eq!(audited.audited_steps, 20);
    assert!((1..20).contains(&audited.differing_steps), "{audited:?}");
}

#[test]
fn an_action_that_leads_elsewhere_in_another_process_is_flagged_and_a_conflict() {
    let spec = unknowing();
    let (_folder, lake) = lake_of(&spec);
    let first = record_walks(&lake, &workers(spec.clone()), 1);

    let [audited, noting] = &runs(lake.path())[..] else { panic!("{:?}", runs(lake.path())) };
    assert_eq!(audited.id, first);
    assert!(audited.differing_steps > 0 && audited.differing_steps <= 12, "{audited:?}");
    assert!(audited.audited_steps > audited.differing_steps, "{audited:?}");
    assert!(noting.finished && noting.arguments.contains(r#""recorder":"audit""#), "{noting:?}");
    assert!(noting.arguments.contains(&audited.uid), "{noting:?}");

    let episodes = rows(lake.path(), Table::Episodes);
    let noted = episodes.iter().filter(|row| row.contains("policy=audit")).count();
    assert_eq!(noted as u64, audited.differing_steps);
    let conflicts = rows(lake.path(), Table::Conflicts);
    // Each result that differed, and that from which it did.
    assert!(conflicts.len() as u64 > audited.differing_steps, "{conflicts:#?}");
    assert!(conflicts.iter().all(|row| of_scatter(row)), "{conflicts:#?}");

    let identity = Lake::open(lake.path()).unwrap().identity().clone();
    let flags = identity.action_space.actions.iter();
    let flagged: Vec<_> = flags.filter(|action| !action.flags.replayable).collect();
    assert!(matches!(&flagged[..], [action] if action.name == "scatter"), "{flagged:?}");
    // Other tools read the files.
    let actions = rows(lake.path(), Table::Actions);
    let flagged: Vec<_> = actions.iter().filter(|row| row.contains("replayable=false")).collect();
    assert!(matches!(&flagged[..], [row] if row.contains("name=scatter")), "{actions:#?}");

    let differed = format!(
        "{} steps played again in another process, {} of them with another result",
        audited.audited_steps, audited.differing_steps
    );
    assert!(run(lake.path(), &["info"]).contains(&differed));
    let results = format!("\nconflicts: {} results of actions that lead to", conflicts.len());
    let verify = steplake(lake.path()).args(["verify", "--quiet"]).output_in_time();
    let said = String::from_utf8_lossy(&verify.stdout);
    assert!(said.contains(&results), "{said}");

    // From now on, whatever the flags of the compiler say, its states are stored.
    let later = record_walks(&lake, &workers(spec), 1000);
    let steps = rows(lake.path(), Table::Steps);
    let cell = |row: &str, column: &str| {
        let mut cells = row.split(' ').filter_map(|cell| cell.split_once('='));
        cells.find(|&(name, _)| name == column).unwrap().1.to_owned()
    };
    let state_at = |episode: i64, step: i64| {
        let (episode, step) = (episode.to_string(), step.to_string());
        let is_there =
            |row: &&String| cell(row, "episode_id") == episode && cell(row, "step_index") == step;
        cell(steps.iter().find(is_there).unwrap(), "state_id")
    };
    let mut scattered = 0;
    for row in steps.iter().filter(|row| of_scatter(row)) {
        let episode: i64 = cell(row, "episode_id").parse().unwrap();
        let before = cell(row, "step_index").parse::<i64>().unwrap() - 1;
        // What has changed nothing leaves nothing to store, and that goes by chance here.
        if episode >> 32 == i64::from(later.0) && state_at(episode, before) != cell(row, "state_id")
        {
            assert_eq!(cell(row, "keyframe"), "true", "{row}");
            scattered += 1;
        }
    }
    assert!(scattered > 10, "{scattered}");
}

#[test]
fn what_an_audit_found_is_recorded_after_an_interrupt_too() {
    let spec = unknowing();
    let (_folder, lake) = lake_of(&spec);
    let raised = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&raised);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_steplake"));
    let interrupt = Interrupt::new(move || asked.load(Ordering::Relaxed));
    let config = WorkerConfig { interrupt, ..WorkerConfig::new(program) };
    let environment = WorkerEnvironment::new(spec, config);
    record_by(&lake, &environment, 1, |recording| {
        walk(recording, &environment, Settle::AtItsEnd);
        raised.store(true, Ordering::Relaxed);
    });
    let [audited, _] = &runs(lake.path())[..] else { panic!("{:?}", runs(lake.path())) };
    assert!(audited.differing_steps > 0, "{audited:?}");
    let noted = rows(lake.path(), Table::Episodes);
    let noted = noted.iter().filter(|row| row.contains("policy=audit")).count();
    assert_eq!(noted as u64, audited.differing_steps);
    assert!(rows(lake.path(), Table::Conflicts).len() as u64 > audited.differing_steps);
}

#[test]
fn an_interrupt_ends_an_audit() {
    let spec = ToyEnvironment::default().spec().clone();
    let (_folder, lake) = lake_of(&spec);
    let environment = workers(spec);
    record_until(&lake, &environment, 1, Interrupt::new(|| true), |recording| {
        walk(recording, &environment, Settle::AtItsEnd);
    });
    let [audited] = &runs(lake.path())[..] else { panic!("{:?}", runs(lake.path())) };
    assert_eq!(audited.audited_steps, 0);
    assert_eq!(rows(lake.path(), Table::Episodes).len(), 12);
}

#[test]
fn an_episode_that_is_taken_back_is_not_audited() {
    let spec = unknowing();
    let (_folder, lake) = lake_of(&spec);
    let environment = workers(spec);
    let run = record_by(&lake, &environment, 1, |recording| {
        walk(recording, &environment, Settle::ByCaller);
    });
    let mut writer = lake.writer().unwrap();
    writer.discard_open(run).unwrap();
    let [audited] = &runs(lake.path())[..] else { panic!("{:?}", runs(lake.path())) };
    assert_eq!((audited.audited_steps, audited.differing_steps), (0, 0));
}

#[test]
fn where_nothing_differs_all_steps_are_compared_and_the_lake_is_as_without() {
    let spec = ToyEnvironment::default().spec().clone();
    let (_folder, lake) = lake_of(&spec);
    let plan = toy_plan("random", Stop::Episodes(12), 2);
    record(&lake, &workers(spec.clone()), &ToyPrograms, &plan, 1);
    let [audited] = &runs(lake.path())[..] else { panic!("{:?}", runs(lake.path())) };
    let steps = rows(lake.path(), Table::Steps);
    let taken = steps.iter().filter(|row| !row.contains("step_index=0 ")).count();
    assert_eq!((audited.audited_steps, audited.differing_steps), (taken as u64, 0));
    let line = format!(
        "{} steps played again in another process, none differed: fewer than 1 in {} do (at 95%)",
        audited.audited_steps,
        audited.audited_steps / 3
    );
    assert!(run(lake.path(), &["info"]).contains(&line));
    let verified = run(lake.path(), &["verify"]);
    assert!(verified.contains(&format!("audit: {line}\n")), "{verified}");

    let (_folder, without) = lake_of(&spec);
    record(&without, &workers(spec), &ToyPrograms, &plan, 1_000_000);
    assert_eq!(runs(without.path())[0].audited_steps, 0);
    assert_same(lake.path(), without.path());
}

/// Programs into which a failure is planted.
struct Planted(Only);

impl ProgramProvider for Planted {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, steplake::Error> {
        let plant = plant(Harm::Aborts, "triple", 1, self.0.clone());
        Ok(toy::planted(uri.as_str(), 5000, 77, plant))
    }
}

#[test]
fn a_compiler_that_fails_in_another_process_alone_has_failed_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("here"), "").unwrap();
    // The path is relative: only the audit's worker is in the folder.
    let there = folder.path().display();
    let program =
        script(folder.path(), &format!("if [ -n \"${DISTURBED}\" ]; then cd {there}; fi"));
    let spec = ToyEnvironment::default().spec().clone();
    let environment = WorkerEnvironment::new(spec.clone(), WorkerConfig::new(program));
    let (_folder, lake) = lake_of(&spec);
    let plan = toy_plan("random", Stop::Episodes(6), 1);
    record(&lake, &environment, &Planted(Only::While("here".into())), &plan, 1);
    let [audited, _] = &runs(lake.path())[..] else { panic!("{:?}", runs(lake.path())) };
    assert!(audited.differing_steps > 0, "{audited:?}");
    let failures = rows(lake.path(), Table::Failures);
    assert!(!failures.is_empty());
    assert!(failures.iter().all(|row| row.contains("kind=crash")), "{failures:#?}");
    let episodes = rows(lake.path(), Table::Episodes);
    let failed = |row: &&String| row.contains("outcome=crash");
    assert!(episodes.iter().filter(failed).all(|row| row.contains("policy=audit")));
}
