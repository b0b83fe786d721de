//! Steps that are checked by windows: the same tables as in careful mode, failures included, and
//! nothing that only one worker said.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use steplake::dedup::{DedupOptions, dedup};
use steplake::env::toy::{self, Harm, Only, Plant, ToyEnvironment};
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::env::{Environment, Session, Start, Watch};
use steplake::generate::{
    CampaignEnd, GenerateError, ProgramProvider, ResumeState, RunPlan, RunProgress, Stop, generate,
};
use steplake::lake::{Lake, Table, Writer, to_the_end};
use steplake::model::{
    ActionIndex, Benchmark, BenchmarkUri, FailureKind, ObservationIndex, Outcome, RunId, Value,
};
use steplake::record::{Recording, RecordingOptions};
use steplake::replay::{draw, replay};
use steplake::sandbox::Interrupt;

use crate::fixtures::support::{assert_same, rows, run, toy_lake, toy_plan};

const RUN: RunId = RunId(1);

/// The toy environment in workers whose windows end after so many changes; none is careful mode.
pub(crate) fn workers(window: Option<u32>) -> WorkerEnvironment {
    interrupted_workers(window, Interrupt::default())
}

fn interrupted_workers(window: Option<u32>, interrupt: Interrupt) -> WorkerEnvironment {
    let window_changes_max = window.and_then(NonZeroU32::new);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_steplake"));
    let config = WorkerConfig { window_changes_max, interrupt, ..WorkerConfig::new(program) };
    WorkerEnvironment::new(ToyEnvironment::default().spec().clone(), config)
}

pub(crate) fn plant(harm: Harm, action: &str, every: u32, only: Only) -> Plant {
    Plant { harm, action: action.into(), every, only }
}

/// Programs into all of which the same failure is planted.
struct Planted(Plant);

impl ProgramProvider for Planted {
    fn load(&self, uri: &BenchmarkUri) -> Result<Benchmark, steplake::Error> {
        let seed: u32 = uri.path().parse().expect("toys have numbers");
        Ok(toy::planted(uri.as_str(), 5000, seed * 1234 + 77, self.0.clone()))
    }
}

/// How a run is recorded.
struct How {
    environment: WorkerEnvironment,
    plant: Plant,
    keyframes: u32,
    interrupt: Arc<AtomicBool>,
}

impl How {
    fn new(window: Option<u32>, plant: Plant) -> Self {
        Self { environment: workers(window), plant, keyframes: 5, interrupt: Arc::default() }
    }

    /// Recording that is interrupted once, when something that happens once has begun.
    fn interrupted_by(file: &Path, plant: Plant) -> Self {
        let how = Self::new(None, plant);
        let (file, interrupt) = (file.to_owned(), Arc::clone(&how.interrupt));
        let was_raised = AtomicBool::new(false);
        let asked = Interrupt::new(move || {
            if is_spent(&file) && !was_raised.swap(true, Ordering::Relaxed) {
                interrupt.store(true, Ordering::Relaxed);
            }
            interrupt.load(Ordering::Relaxed)
        });
        Self { environment: interrupted_workers(Some(16), asked), ..how }
    }

    /// Plays what a plan still lacks.
    fn play(
        &self,
        writer: Writer,
        plan: &RunPlan,
        resumed: ResumeState,
    ) -> (Writer, Result<CampaignEnd, GenerateError>) {
        let keyframes = NonZeroU32::new(self.keyframes);
        let options = RecordingOptions { keyframes, ..RecordingOptions::default() };
        let recording = Recording::begin(writer, self.environment.spec(), RUN, &options).unwrap();
        let (progress, interrupt) = (RunProgress::default(), &self.interrupt);
        let (environment, programs) = (&self.environment, Planted(self.plant.clone()));
        let ending =
            generate(environment, &recording, plan, &programs, resumed, &progress, interrupt);
        (recording.close().unwrap(), ending)
    }

    /// Records a whole run.
    fn record(&self, plan: &RunPlan) -> (tempfile::TempDir, Lake) {
        let (folder, lake) = toy_lake();
        let (_, ending) = self.play(begin(&lake), plan, ResumeState::default());
        assert_eq!(ending.unwrap(), CampaignEnd::Complete);
        (folder, lake)
    }
}

fn begin(lake: &Lake) -> Writer {
    let mut writer = lake.writer().unwrap();
    assert_eq!(writer.begin_run("{}", 0).unwrap(), RUN);
    writer
}

fn plan(policy: &str, jobs: usize) -> RunPlan {
    RunPlan { episode_length: 60, ..toy_plan(policy, Stop::Episodes(12), jobs) }
}

fn failures(lake: &Lake) -> usize {
    let episodes = rows(lake.path(), Table::Episodes);
    episodes
        .iter()
        .filter(|row| row.contains("outcome=crash") || row.contains("outcome=verifier"))
        .count()
}

fn index(name: &str) -> ActionIndex {
    ToyEnvironment::default().spec().action_spaces[0].index_of(name).unwrap()
}

#[test]
fn windows_and_careful_mode_record_the_same_failures_included() {
    let ever = |harm, action, every| plant(harm, action, every, Only::Ever);
    // `invert` is known to fail, the others are not.
    let plants = [
        ever(Harm::Breaks, "triple", 20),
        ever(Harm::Heals, "invert", 12),
        ever(Harm::Aborts, "scatter", 20),
    ];
    for plant in plants {
        for keyframes in [1, 5] {
            let how = |window| How { keyframes, ..How::new(window, plant.clone()) };
            let careful = how(None);
            let (_careful, wanted) = careful.record(&plan("random", 1));
            assert!(failures(&wanted) >= 2, "{plant:?}: {}", failures(&wanted));
            assert_eq!(careful.environment.repeated_windows(), 0);
            for (window, jobs) in [(1, 1), (4, 2), (16, 1), (1000, 2)] {
                let how = how(Some(window));
                let (_folder, lake) = how.record(&plan("random", jobs));
                assert_same(wanted.path(), lake.path());
                assert_eq!(how.environment.repeated_windows(), 0, "{plant:?}: window {window}");
            }
        }
    }
}

#[test]
fn failures_do_not_depend_on_where_a_run_was_taken_up() {
    let plant = plant(Harm::Heals, "invert", 5, Only::Ever);
    let (_whole, whole) = How::new(None, plant.clone()).record(&plan("explore", 1));
    let how = How::new(Some(16), plant);
    let (_folder, lake) = toy_lake();
    let first = RunPlan { stop: Stop::Episodes(5), ..plan("explore", 2) };
    let (mut writer, ending) = how.play(begin(&lake), &first, ResumeState::default());
    assert_eq!(ending.unwrap(), CampaignEnd::Complete);
    let all = plan("explore", 2);
    let resumed = ResumeState::resume(&mut writer, RUN, &all).unwrap();
    let (_, ending) = how.play(writer, &all, resumed);
    assert_eq!(ending.unwrap(), CampaignEnd::Complete);
    assert_same(whole.path(), lake.path());
    assert!(failures(&lake) > 0);
}

#[test]
fn an_interrupt_in_the_middle_of_a_step_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (plant, file) = by_file(folder.path(), Harm::Hangs, Only::Once);
    for (policy, jobs) in [("random", 1), ("explore", 2)] {
        let how = How::interrupted_by(&file, plant.clone());
        arm(&file);
        let (_folder, lake) = toy_lake();
        let (mut writer, ending) =
            how.play(begin(&lake), &plan(policy, jobs), ResumeState::default());
        assert_eq!(ending.unwrap(), CampaignEnd::Interrupted);
        how.interrupt.store(false, Ordering::Relaxed);
        let resumed = ResumeState::resume(&mut writer, RUN, &plan(policy, jobs)).unwrap();
        let (_, ending) = how.play(writer, &plan(policy, jobs), resumed);
        assert_eq!(ending.unwrap(), CampaignEnd::Complete);
        // The plant is spent, so nothing hangs this time.
        let (_calm, calm) = How::new(Some(16), plant.clone()).record(&plan(policy, 1));
        assert_same(calm.path(), lake.path());
        assert_eq!(how.environment.repeated_windows(), 0);
    }
}

/// The outcomes of a batch.
fn play(session: &mut dyn Session, actions: &[ActionIndex]) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    session
        .multistep(actions, &mut |step, _| {
            outcomes.push(step.outcome);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    outcomes
}

fn start(session: &mut dyn Session, benchmark: &Benchmark) {
    let watch = Watch::default();
    let start = Start { benchmark, action_space: toy::NAME, baselines: None, watch: &watch };
    session.start(&start).unwrap();
}

#[test]
fn an_action_that_is_known_to_break_fails_alike_wherever_its_window_would_end() {
    // `invert` breaks the 40 that two increments lead to, and two steps later all would be well.
    let plant = plant(Harm::Heals, "invert", 40, Only::Ever);
    let benchmark = toy::planted("generator://toy-v0/1", 5000, 38, plant);
    let [increment, invert] = ["increment", "invert"].map(index);
    let actions = [increment, increment, invert, increment, increment, increment];
    let mut wanted = None;
    for window in [None, Some(1), Some(2), Some(16)] {
        let mut session = workers(window).session().unwrap();
        let mut ways: Vec<Vec<Outcome>> = Vec::new();
        start(session.as_mut(), &benchmark);
        ways.push(play(session.as_mut(), &actions));
        start(session.as_mut(), &benchmark);
        ways.push(actions[..3].iter().map(|&a| session.apply(a).unwrap().outcome).collect());
        for before in 0..3 {
            start(session.as_mut(), &benchmark);
            let mut way = play(session.as_mut(), &actions[..before]);
            let mut fork = session.fork().unwrap();
            way.extend(play(fork.as_mut(), &actions[before..]));
            ways.push(way);
            assert_eq!(play(session.as_mut(), &actions[before..]).len(), 3 - before);
        }
        for way in ways {
            let Some(Outcome::Crashed(failure)) = way.last() else { panic!("{way:?}") };
            assert_eq!((way.len(), failure.kind), (3, FailureKind::Verifier), "{failure:?}");
            assert_eq!(*wanted.get_or_insert_with(|| way.clone()), way);
        }
    }
}

/// Makes a file with which something happens once.
pub(crate) fn arm(file: &Path) {
    // It may be there, and not to be written any more.
    let _ = std::fs::remove_file(file);
    std::fs::write(file, "").unwrap();
}

/// Whether what was to happen once has happened.
pub(crate) fn is_spent(file: &Path) -> bool {
    std::fs::metadata(file).unwrap().permissions().readonly()
}

/// What the present state of the toy environment costs.
#[expect(clippy::cast_precision_loss, reason = "costs are small")]
fn cost(session: &mut dyn Session) -> f64 {
    match session.observe(ObservationIndex(0)).unwrap() {
        Value::Int(cost) => cost as f64,
        other => panic!("{other:?}"),
    }
}

/// A plant that does its harm as long as there is a file, or once; and the file.
fn by_file(folder: &Path, harm: Harm, only: fn(PathBuf) -> Only) -> (Plant, PathBuf) {
    let file = folder.join("now");
    (plant(harm, "triple", 10, only(file.clone())), file)
}

#[test]
fn what_fails_in_one_worker_alone_is_counted_and_recorded_as_it_came_out_the_second_time() {
    for harm in [Harm::Breaks, Harm::Aborts] {
        for policy in ["random", "explore"] {
            let folder = tempfile::tempdir().unwrap();
            let (plant, file) = by_file(folder.path(), harm, Only::Once);
            let calm = How::new(Some(16), plant.clone());
            // Some walks lead to states on which the toy compiler fails by itself.
            let plans = (0..).map(|seed| RunPlan { seed, ..plan(policy, 1) });
            let is_calm = |plan: &RunPlan| failures(&calm.record(plan).1) == 0;
            let plan = plans.take(20).find(is_calm).unwrap();
            let (_calm, wanted) = calm.record(&plan);
            assert_eq!(calm.environment.repeated_windows(), 0);
            for window in [None, Some(16)] {
                arm(&file);
                let how = How::new(window, plant.clone());
                let (_folder, lake) = how.record(&plan);
                assert!(is_spent(&file));
                assert_eq!(how.environment.repeated_windows(), 1, "{harm:?} {policy:?} {window:?}");
                assert_same(wanted.path(), lake.path());
            }
        }
    }
}

#[test]
fn a_failure_to_which_nothing_leads_back_is_tried_again_in_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("now");
    let uri = "generator://toy-v0/1";
    let [increment, align, triple, scatter] =
        ["increment", "align", "triple", "scatter"].map(index);
    let program = PathBuf::from(env!("CARGO_BIN_EXE_steplake"));
    for (harm, words) in [
        (Harm::Aborts, format!("SIGABRT in the action, step 5 on {uri}")),
        (Harm::Breaks, " is broken".into()),
    ] {
        for only in [Only::Ever, Only::Once(file.clone())] {
            arm(&file);
            let spec = ToyEnvironment::unsure().spec().clone();
            let config = WorkerConfig::new(program.clone());
            let environment = WorkerEnvironment::new(spec, config);
            let mut session = environment.session().unwrap();
            let plant = plant(harm, "triple", 1, only.clone());
            start(session.as_mut(), &toy::planted(uri, 1 << 30, 8, plant));
            // Where `scatter` leads to depends on the worker; the second `align` changes nothing.
            play(session.as_mut(), &[increment, scatter, align, align]);
            let before = cost(session.as_mut());
            let step = session.apply(triple);
            if only == Only::Ever {
                let Outcome::Crashed(failure) = step.unwrap().outcome else { panic!("{harm:?}") };
                assert!(failure.detail.ends_with(&words), "{failure:?}");
                assert_eq!(environment.repeated_windows(), 0);
            } else {
                let step = step.unwrap();
                let Outcome::State { id, changed: true, .. } = step.outcome else {
                    panic!("{step:?}")
                };
                // It goes on from there, as if nothing had happened.
                let rewards = [step.rewards[0], before - cost(session.as_mut())].map(f64::to_bits);
                assert_eq!(rewards[0], rewards[1]);
                assert_ne!(play(session.as_mut(), &[increment])[0].state(), Some(id));
                assert!(is_spent(&file));
                assert_eq!(environment.repeated_windows(), 1);
            }
        }
    }
}

#[test]
fn a_worker_that_is_killed_again_and_again_stops_the_run_which_goes_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let (plant, file) = by_file(folder.path(), Harm::Killed, Only::While);
    for policy in ["random", "explore"] {
        let how = How::new(Some(16), plant.clone());
        let (_calm, wanted) = how.record(&plan(policy, 1));
        std::fs::write(&file, "").unwrap();
        let (_folder, lake) = toy_lake();
        let plan = plan(policy, 1);
        let (mut writer, ending) = how.play(begin(&lake), &plan, ResumeState::default());
        let error = ending.unwrap_err();
        assert!(matches!(error, GenerateError::Machine(_)), "{error:?}");
        let said = error.to_string();
        for part in [
            "a worker was ended from outside 4 times in a row, at last by SIGKILL in the action, step ",
            "this machine may be short of memory; free some, or use fewer jobs",
            "when that is over, a resumed run goes on",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(failures(&lake), 0);
        std::fs::remove_file(&file).unwrap();
        let resumed = ResumeState::resume(&mut writer, RUN, &plan).unwrap();
        let (_, ending) = how.play(writer, &plan, resumed);
        assert_eq!(ending.unwrap(), CampaignEnd::Complete);
        assert_same(wanted.path(), lake.path());
    }
}

#[test]
fn a_start_that_fails_in_one_worker_alone_does_not_condemn_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("now");
    let plant = plant(Harm::Aborts, "start", 1, Only::Once(file.clone()));
    let how = How::new(Some(16), plant);
    let (_calm, wanted) = how.record(&plan("random", 1));
    arm(&file);
    let (_folder, lake) = how.record(&plan("random", 1));
    assert!(is_spent(&file));
    assert_same(wanted.path(), lake.path());
}

#[test]
fn a_break_that_healed_within_its_window_is_found_by_replaying() {
    // The one thing that windows do not see: a break by an action that was never seen to break.
    let plant = plant(Harm::Heals, "triple", 3, Only::Ever);
    let how = How { keyframes: 16, ..How::new(Some(16), plant) };
    let (_folder, lake) = how.record(&plan("random", 1));
    let mut writer = lake.writer().unwrap();
    writer.seal().unwrap();
    drop(writer);
    let mut maintenance = lake.maintenance().unwrap();
    dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end).unwrap();
    let snapshot = lake.snapshot().unwrap();
    let transitions = draw(&snapshot, usize::MAX / 4, 1).unwrap();
    let report = replay(&how.environment, &snapshot, &transitions, 1, &mut to_the_end).unwrap();
    assert!(!report.disagreements.is_empty());
    for disagreement in &report.disagreements {
        let Outcome::Crashed(failure) = &disagreement.found else { panic!("{disagreement:?}") };
        assert_eq!(failure.kind, FailureKind::Verifier);
        assert_eq!(disagreement.transition.action, index("triple"));
    }
}

#[test]
fn info_says_how_many_windows_were_repeated() {
    let (_folder, lake) = toy_lake();
    let mut writer = begin(&lake);
    let says = |what: &str| assert!(run(lake.path(), &["info"]).contains(what), "{what}");
    assert!(!run(lake.path(), &["info"]).contains("windows"));
    for (more, count) in [(2, 2), (0, 2), (3, 5)] {
        writer.add_repeated_windows(RUN, more).unwrap();
        says(&format!("{count} windows of steps failed in one worker and not in a fresh one"));
        let json = run(lake.path(), &["info", "--format", "json"]);
        assert!(json.contains(&format!("\"repeated_windows\": {count}")), "{json}");
    }
    let sql = ["sql", "SELECT run_id, repeated_windows FROM runs", "--format", "csv"];
    assert_eq!(run(lake.path(), &sql), "run_id,repeated_windows\n1,5\n");
}
