//! IR by keyframes: what is stored, what is rebuilt, and that it is the same.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use arrow::array::{Array as _, AsArray as _};
use arrow::datatypes::{Int32Type, Int64Type};
use nix::sys::signal::{Signal, kill};
use steplake::env::llvm::LlvmEnvironment;
use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::worker::{WorkerConfig, WorkerEnvironment};
use steplake::env::{Environment, KeyframeCount, Start, Watch};
use steplake::lake::{Lake, Rows, ScanColumns, Snapshot, StepRow, Table, to_the_end};
use steplake::model::{ActionFlags, ActionIndex, EpisodeId, ObservationIndex, RunId, StateId};
use steplake::replay::rebuild::{RebuildError, RebuildObstacle, Rebuilder};

use crate::env::worker::workers_with;
use crate::fixtures::support::{assert_same, fail, rows, run, toy_identity, toy_lake};
use crate::fixtures::toy_lake::{Author, bitcode, id, identity, ir_row, read, state};

const TOY: [&str; 7] =
    ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..4", "--seed", "3"];

/// Records a toy lake by the binary.
fn record(path: &Path, arguments: &[&str]) {
    run(path, &[&TOY[..], arguments].concat());
}

fn snapshot(path: &Path) -> Snapshot {
    Lake::open(path).unwrap().snapshot().unwrap()
}

/// The states of a table.
fn states(snapshot: &Snapshot, table: Table) -> BTreeSet<StateId> {
    let mut states = BTreeSet::new();
    for batch in snapshot.scan(table, ScanColumns::Named(&["state_id"])) {
        let batch = batch.unwrap();
        let column = &batch["state_id"];
        let rows = (0..batch.num_rows()).filter(|&row| column.is_valid(row));
        states.extend(rows.map(|row| id(&batch, "state_id", row)));
    }
    states
}

fn toy_rebuilder() -> Rebuilder {
    Rebuilder::new(Box::new(ToyEnvironment::default()))
}

/// A step of a lake: episode, index, action, state, keyframe.
type Taken = (i64, i32, Option<ActionIndex>, Option<StateId>, bool);

/// The steps of a lake, in order.
fn steps(snapshot: &Snapshot) -> Vec<Taken> {
    let columns = ["episode_id", "step_index", "action", "state_id", "keyframe"];
    let mut steps = Vec::new();
    for batch in snapshot.scan(Table::Steps, ScanColumns::Named(&columns)) {
        let batch = batch.unwrap();
        let actions = batch["action"].as_primitive::<Int32Type>();
        steps.extend((0..batch.num_rows()).map(|row| {
            (
                batch["episode_id"].as_primitive::<Int64Type>().value(row),
                batch["step_index"].as_primitive::<Int32Type>().value(row),
                actions.is_valid(row).then(|| ActionIndex(actions.value(row).cast_unsigned())),
                batch["state_id"].is_valid(row).then(|| id(&batch, "state_id", row)),
                batch["keyframe"].as_boolean().value(row),
            )
        }));
    }
    steps.sort_unstable();
    steps
}

#[test]
fn a_keyframe_after_every_change_is_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let (all, ones) = (folder.path().join("all"), folder.path().join("ones"));
    record(&all, &["--steps", "3000", "--ir", "all"]);
    record(&ones, &["--steps", "3000", "--ir", "keyframes=1"]);
    assert_same(&all, &ones);
    let (ir, observed) = (rows(&all, Table::Ir).len(), rows(&all, Table::Observations).len());
    assert_eq!(ir, observed);
}

#[test]
fn what_is_no_choice_of_keyframes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for choice in ["keyframes=0", "keyframes=1001", "keyframes", "keyframes=-1", "some"] {
        let arguments = [&TOY[..], &["--steps", "1", "--ir", choice]].concat();
        let (code, said) = fail(&folder.path().join("lake"), &arguments);
        assert_eq!(code, 2);
        assert!(
            said.contains("write `all`, `none`, or `keyframes=K` with K from 1 to 1000"),
            "{said}"
        );
    }
}

#[test]
fn which_states_are_kept_does_not_depend_on_jobs_or_seals() {
    let folder = tempfile::tempdir().unwrap();
    let plans: [&[&str]; 3] =
        [&["--steps", "4010"], &["--states", "900"], &["--episodes", "97", "--policy", "explore"]];
    for (number, plan) in plans.into_iter().enumerate() {
        let [one, many] = ["one", "many"].map(|name| folder.path().join(format!("{name}{number}")));
        for (path, jobs) in [(&one, "1"), (&many, "5")] {
            let more = ["--episode-length", "30", "--ir", "keyframes=4", "--jobs", jobs];
            record(path, &[plan, &more].concat());
        }
        run(&many, &["seal"]);
        assert_same(&one, &many);
        assert!(Lake::open(&many).unwrap().verify(&mut to_the_end).unwrap().is_sound());
    }
}

#[test]
fn every_state_of_a_lake_can_be_had_and_is_proved() {
    let folder = tempfile::tempdir().unwrap();
    let (all, some) = (folder.path().join("all"), folder.path().join("some"));
    record(&all, &["--steps", "6000"]);
    record(&some, &["--steps", "6000", "--ir", "keyframes=5"]);
    let (all, some_hot) = (snapshot(&all), snapshot(&some));
    run(&some, &["seal"]);
    let wanted: Vec<StateId> = states(&all, Table::Steps).into_iter().collect();
    let stored = states(&some_hot, Table::Ir).len();
    assert!(stored * 2 < wanted.len(), "{stored} of {} are stored", wanted.len());
    for lake in [&some_hot, &snapshot(&some)] {
        let rebuilder = toy_rebuilder();
        for some in wanted.chunks(50) {
            assert_eq!(rebuilder.ir(lake, some).unwrap(), all.ir(some).unwrap());
        }
    }
    // One that was never seen has none.
    assert_eq!(toy_rebuilder().ir(&some_hot, &[state(77)]).unwrap(), [None]);
    let report = Lake::open(&some).unwrap().verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    let rebuilt = (wanted.len() - stored) as u64;
    assert_eq!((report.ir, report.rebuilt, report.without_ir), (stored as u64, rebuilt, 0));
}

#[test]
fn what_a_flagged_action_led_to_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    record(&lake, &["--steps", "5000", "--ir", "keyframes=1000"]);
    let snapshot = snapshot(&lake);
    let actions = &snapshot.identity().action_space.actions;
    let (mut flagged, mut before) = (0, None);
    let stored = states(&snapshot, Table::Ir);
    for (_, index, action, state, keyframe) in steps(&snapshot) {
        let Some(state) = state else { continue };
        let unsure = action.is_some_and(|action| !actions[action.place()].flags.is_dependable());
        let wanted = index == 0 || (unsure && before != Some(state));
        assert_eq!(keyframe, wanted, "step {index}");
        if keyframe {
            assert!(stored.contains(&state));
            flagged += usize::from(index > 0);
        }
        before = Some(state);
    }
    assert!(flagged > 100, "{flagged}");
}

#[test]
fn runs_of_different_choices_share_a_lake() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let mut stored = Vec::new();
    for choice in ["none", "keyframes=7", "keyframes=2", "all"] {
        record(&lake, &["--steps", "2000", "--ir", choice]);
        let snapshot = snapshot(&lake);
        stored.push(states(&snapshot, Table::Ir).len());
        let wanted: Vec<StateId> = states(&snapshot, Table::Steps).into_iter().collect();
        let found = toy_rebuilder().ir(&snapshot, &wanted).unwrap();
        assert!(found.iter().all(|ir| ir.is_some() == (choice != "none")), "{choice}");
        run(&lake, &["seal"]);
        run(&lake, &["verify"]);
        if choice == "all" {
            assert_eq!(stored.last(), Some(&wanted.len()));
        }
    }
    assert_eq!(stored[0], 0);
    assert!(stored.is_sorted_by(|one, next| one < next), "{stored:?}");
}

#[test]
fn a_lake_that_has_lost_keyframes_says_which() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    record(&path, &["--steps", "500", "--ir", "keyframes=6"]);
    let before = snapshot(&path);
    let kept = states(&before, Table::Ir);
    let rebuilt = states(&before, Table::Steps);
    let state = *rebuilt.difference(&kept).next().unwrap();
    run(&path, &["seal"]);
    for segment in snapshot(&path).segments(Table::Ir) {
        std::fs::remove_file(&segment.path).unwrap();
    }
    Lake::open(&path).unwrap().repair().unwrap();
    let error = toy_rebuilder().ir(&snapshot(&path), &[state]).unwrap_err();
    let RebuildError::State(RebuildObstacle::MissingKeyframe { state: named, keyframe }) = error
    else {
        panic!("{error}");
    };
    assert!(named == state && kept.contains(&keyframe));
    let (code, said) = fail(&path, &["sql", &format!("SELECT ir(state('{state}')) AS ir")]);
    assert_eq!(code, 3);
    assert!(
        said.contains(&format!("the IR of state {state} is rebuilt from that of keyframe")),
        "{said}"
    );
    let report = Lake::open(&path).unwrap().verify(&mut to_the_end).unwrap();
    // The repair has said it once.
    assert_eq!(report.findings, []);
    assert_eq!(report.lost_keyframes, kept.len() as u64);
    assert_eq!((report.rebuilt, report.without_ir), (0, rebuilt.len() as u64));
}

#[test]
fn a_keyframe_without_its_ir_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut author = Author::default();
    author.episode(EpisodeId::new(RunId(1), 0), 0, &[(1, Some(1)), (0, Some(2))]);
    let mut rows = author.take();
    rows.ir.retain(|row| row.state != state(1));
    let mut writer = lake.writer().unwrap();
    writer.begin_run("{}", 0).unwrap();
    writer.append(&rows).unwrap();
    let report = lake.verify(&mut to_the_end).unwrap();
    let what = &report.findings[0].what;
    assert!(what.contains("is a keyframe and its IR is missing"), "{what}");
    assert!(what.contains(&state(1).to_string()), "{what}");
}

#[test]
fn a_damaged_keyframe_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    record(&path, &["--steps", "500", "--ir", "keyframes=6"]);
    run(&path, &["seal"]);
    let before = snapshot(&path);
    let kept = states(&before, Table::Ir);
    let lost = states(&before, Table::Steps).difference(&kept).copied().collect::<Vec<_>>();
    let file = before.segments(Table::Ir)[0].path.clone();
    let mut content = std::fs::read(&file).unwrap();
    for batch in before.scan(Table::Ir, ScanColumns::Named(&["bitcode"])) {
        let batch = batch.unwrap();
        for bitcode in batch["bitcode"].as_binary::<i32>().iter().flatten() {
            let at = content.windows(bitcode.len()).position(|window| window == bitcode).unwrap();
            content[at + bitcode.len() / 2] ^= 0x10;
        }
    }
    std::fs::write(&file, content).unwrap();
    let rebuilder = toy_rebuilder();
    let after = snapshot(&path);
    assert!(lost.len() > 100);
    for state in lost {
        let error = rebuilder.ir(&after, &[state]).unwrap_err();
        assert!(error.to_string().contains(file.to_str().unwrap()), "{error}");
    }
    let (code, _) = fail(&path, &["verify"]);
    assert_eq!(code, 4);
}

/// A lake of the toy environment's programs of 1,000 states, written by hand: each path begins in a
/// stored state, and says by which action it came to which number.
fn told(paths: &[(u32, &[(&str, u32)])]) -> (tempfile::TempDir, Snapshot) {
    let (folder, lake) = toy_lake();
    let content = |number: u32| format!("toy 1000 {number}").into_bytes();
    let environment = ToyEnvironment::default();
    let space = &environment.spec().action_spaces[0];
    let mut rows = Rows::default();
    let mut stored = HashSet::new();
    for (ordinal, &(first, path)) in (0..).zip(paths) {
        let mut step = |index: usize, action: Option<&str>, number: u32| {
            rows.steps.push(StepRow {
                action: action.map(|action| space.index_of(action).unwrap()),
                state: Some(toy_state(number)),
                keyframe: index == 0,
                ..StepRow::new(
                    EpisodeId::new(RunId(1), ordinal),
                    u32::try_from(index).unwrap(),
                    "generator://toy-v0/0".parse().unwrap(),
                )
            });
        };
        step(0, None, first);
        for (index, &(action, number)) in path.iter().enumerate() {
            step(index + 1, Some(action), number);
        }
        if stored.insert(first) {
            rows.ir.push(ir_row(toy_state(first), &content(first)));
        }
    }
    lake.writer().unwrap().append(&rows).unwrap();
    let snapshot = lake.snapshot().unwrap();
    (folder, snapshot)
}

fn toy_state(number: u32) -> StateId {
    let mut session = ToyEnvironment::default().session().unwrap();
    session.identify(format!("toy 1000 {number}").as_bytes()).unwrap()
}

#[test]
fn a_way_that_leads_elsewhere_gives_way_to_another_or_to_an_error() {
    // 5 doubled is 10 and not 11: the recorded path is one that LLVM would not take again.
    let false_way: (u32, &[(&str, u32)]) = (5, &[("double", 11), ("increment", 12)]);
    let (_folder, lake) = told(&[false_way]);
    let error = toy_rebuilder().ir(&lake, &[toy_state(12)]).unwrap_err().to_string();
    let (state, start, found) = (toy_state(12), toy_state(5), toy_state(10));
    assert_eq!(
        error,
        format!(
            "the IR of state {state} cannot be rebuilt: on the recorded path from stored state {start}, \
             `double` led to state {found} this time, and no other recorded path leads there either"
        )
    );
    // A longer way that holds is taken after it, and a state beside the way is not touched by it.
    let true_way: (u32, &[(&str, u32)]) = (3, &[("double", 6), ("double", 12), ("halve", 6)]);
    let (_folder, lake) = told(&[false_way, (8, &[("increment", 9)]), true_way]);
    let found = toy_rebuilder().ir(&lake, &[toy_state(12), toy_state(9), toy_state(12)]).unwrap();
    let text = |number: u32| Some(format!("toy 1000 {number}").into_bytes());
    assert_eq!(found, [text(12), text(9), text(12)]);
}

#[test]
fn a_crash_on_the_way_is_an_error_that_names_it() {
    // Whoever wrote this lake did not see `invert` fail over 250.
    let (_folder, lake) = told(&[(250, &[("invert", 749), ("increment", 750)])]);
    let error = toy_rebuilder().ir(&lake, &[toy_state(750)]).unwrap_err().to_string();
    assert!(
        error.contains("`invert` led to a failure (crash: `invert` cannot take 250)"),
        "{error}"
    );
}

#[test]
fn another_compiler_rebuilds_nothing_and_says_so() {
    let (_folder, lake) = told(&[(5, &[("double", 10)])]);
    let stranger = Rebuilder::new(Box::new(LlvmEnvironment::new()));
    assert!(stranger.ir(&lake, &[toy_state(5)]).unwrap()[0].is_some(), "what is stored is there");
    let error = stranger.ir(&lake, &[toy_state(10)]).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.to_string().contains("is not stored, and it cannot be rebuilt here"), "{error}");
    assert!(
        source.starts_with("the lake was recorded with toy-v0 (toy 1), and what is here"),
        "{source}"
    );
}

#[test]
fn a_compiler_that_is_not_there_says_so() {
    let (_folder, lake) = told(&[(5, &[("double", 10)])]);
    let config = WorkerConfig::new(PathBuf::from("/nonexistent/steplake"));
    let spec = ToyEnvironment::default().spec().clone();
    let absent = Rebuilder::new(Box::new(WorkerEnvironment::new(spec, config)));
    let error = absent.ir(&lake, &[toy_state(10)]).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("its worker did not come up"), "{source}");
}

#[test]
fn ir_that_only_an_open_episode_brought_goes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let mut author = Author::default();
    // The closed episode passes by state 2 where it is no keyframe; the open one brings its IR.
    author.episode(EpisodeId::new(run, 0), 0, &[(1, Some(2)), (2, Some(3))]);
    let mut closed = author.take();
    for step in closed.steps.iter_mut().filter(|step| step.state == Some(state(2))) {
        step.keyframe = false;
    }
    let brought = closed.ir.iter().position(|row| row.state == state(2)).unwrap();
    let brought = closed.ir.remove(brought);
    writer.append(&closed).unwrap();
    author.reset(EpisodeId::new(run, 1), 0);
    author.steps(EpisodeId::new(run, 1), 0, 1, &[(1, Some(2))]);
    let mut open = author.take();
    open.ir.push(brought);
    writer.append(&open).unwrap();
    let has = || lake.snapshot().unwrap().ir(&[state(2)]).unwrap()[0].clone();
    writer.seal().unwrap();
    assert_eq!(has(), Some(bitcode(2)));
    assert_eq!(lake.snapshot().unwrap().hot(Table::Ir).len(), 1, "it is not sealed");
    writer.discard_open(run).unwrap();
    assert_eq!(has(), None);
    assert!(!writer.known_states().unwrap().ir.contains(&state(2)));
    assert_eq!(read(&lake).ir.len(), 2);
    let report = lake.verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!((report.rebuilt, report.without_ir), (1, 0));
}

#[test]
fn a_worker_sends_keyframes_and_no_other_state_also_after_it_was_killed() {
    let memory_bytes_max = (4 << 30) + 8192;
    let program = PathBuf::from(env!("CARGO_BIN_EXE_steplake"));
    let config = WorkerConfig { memory_bytes_max, ..WorkerConfig::new(program) };
    let environment = WorkerEnvironment::new(ToyEnvironment::default().spec().clone(), config);
    let (cost, whole) = (ObservationIndex(0), environment.spec().state_index());
    let every = NonZeroU32::new(3);
    let watch = Watch { spaces: vec![cost], keyframes: every, recording: 5, ..Watch::default() };
    let benchmark = toy::benchmark(11);
    let begin =
        Start { benchmark: &benchmark, action_space: toy::NAME, baselines: None, watch: &watch };
    let mut session = environment.session().unwrap();
    let first = session.start(&begin).unwrap().state;
    session.observe(whole).unwrap();
    let mut fork = session.fork().unwrap();
    let actions: Vec<ActionIndex> =
        (0..300).map(|step| ActionIndex((step / 3 + step * 5) % 7)).collect();
    let (mut sent, mut seen) = (HashSet::from([first]), HashSet::from([first]));
    for session in [&mut session, &mut fork] {
        let (mut count, mut number) = (KeyframeCount::default(), 0);
        session
            .multistep(&actions, &mut |step, observe| {
                number += 1;
                if number == 100 {
                    let pids = workers_with(memory_bytes_max);
                    kill(pids[0], Signal::SIGKILL).unwrap();
                }
                let steplake::model::Outcome::State { id, changed, .. } = step.outcome else {
                    panic!("no toy action but the last fails")
                };
                if seen.insert(id) {
                    observe(cost)?;
                }
                let keyframe = count.step(every.unwrap(), changed, ActionFlags::UNREMARKABLE);
                if keyframe && sent.insert(id) {
                    observe(whole)?;
                } else if !sent.contains(&id) {
                    assert!(observe(whole).is_err(), "step {number} is no keyframe");
                }
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        assert_eq!(number, 300);
    }
    assert!(sent.len() > 20 && sent.len() < seen.len() / 2, "{} of {}", sent.len(), seen.len());
}

#[test]
fn the_ir_of_every_state_of_llvm_is_that_of_a_lake_that_stores_it() {
    let folder = tempfile::tempdir().unwrap();
    let (all, some) = (folder.path().join("all"), folder.path().join("some"));
    for (path, ir) in [(&all, "all"), (&some, "keyframes=4")] {
        let programs =
            ["benchmark://steplake-v0/keyed_hash", "benchmark://steplake-v0/shortest_paths"];
        let which = ["--benchmark", programs[0], "--benchmark", programs[1], "--ir", ir];
        let how = ["--states", "250", "--episode-length", "40", "--jobs", "2", "--seed", "5"];
        run(path, &[&["generate"][..], &which, &how].concat());
        run(path, &["seal"]);
        run(path, &["dedup"]);
    }
    let (stored, partly) = (snapshot(&all), snapshot(&some));
    let wanted: Vec<StateId> = states(&stored, Table::Steps).into_iter().collect();
    assert!(states(&partly, Table::Ir).len() * 2 < wanted.len());
    let config = WorkerConfig::new(PathBuf::from(env!("CARGO_BIN_EXE_steplake")));
    let spec = LlvmEnvironment::new().spec().clone();
    let rebuilder = Rebuilder::new(Box::new(WorkerEnvironment::new(spec, config)));
    for some in wanted.chunks(64) {
        assert_eq!(rebuilder.ir(&partly, some).unwrap(), stored.ir(some).unwrap());
    }
    let sql = "SELECT hex(state_id) AS state, ir(state_id) AS text FROM observations \
               ORDER BY state LIMIT 20";
    let texts = |lake| run(lake, &["sql", sql, "--format", "json"]);
    let text = texts(&some);
    assert_eq!(text, texts(&all));
    assert_eq!(text.matches("target triple").count(), 20, "{text:.200}");
    let verified = run(&some, &["verify", "--replay", "60"]);
    assert!(verified.contains("other states can be rebuilt, and 0 have no IR"), "{verified}");
    assert!(verified.contains("by SHA-1 and id;"), "{verified}");
    assert!(verified.contains("baselines: 2 of 2 programs agree, drawn from 2"), "{verified}");
    assert!(verified.contains("60 of 60 transitions agree"), "{verified}");
    assert!(verified.contains("were rebuilt first"), "{verified}");
}

#[test]
fn a_lake_of_another_probe_is_recorded_into_by_its_flags_and_those_of_today() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let mut of_another = toy_identity();
    let [triple, scatter] = ["triple", "scatter"].map(|name| {
        let action = of_another.action_space.index_of(name).unwrap();
        of_another.action_space.actions[action.place()].flags.replayable = false;
        format!("action={action}", action = action.0)
    });
    drop(Lake::create(&path, &of_another).unwrap());
    record(&path, &["--steps", "300", "--ir", "keyframes=4"]);
    let report = Lake::open(&path).unwrap().verify(&mut to_the_end).unwrap();
    assert!(report.is_sound() && report.ir > 0 && report.rebuilt > 0, "{report:?}");
    let steps = rows(&path, Table::Steps);
    let flagged = |row: &&String| row.split(' ').any(|cell| cell == triple || cell == scatter);
    let led_on = |row: &&String| !row.contains("state_id=null");
    let (stored, passed): (Vec<_>, Vec<_>) =
        steps.iter().filter(flagged).filter(led_on).partition(|row| row.contains("keyframe=true"));
    // A step that changed nothing is none.
    assert!(stored.len() > 20 && passed.len() < stored.len(), "{} {}", stored.len(), passed.len());
}
