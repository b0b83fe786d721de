//! `backfill`: observations that a run did not record, computed later by replay.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;

use steplake::env::toy::ToyEnvironment;
use steplake::env::{Environment, Session, SessionError, Start, Started, forward};
use steplake::lake::{Lake, LakeError, RecordedObservation, Table, to_the_end};
use steplake::model::{ActionIndex, Failure, FailureKind, ObservationIndex, StateId, Step, Value};
use steplake::replay::ReplayError;
use steplake::replay::backfill::{LeftOut, fill};
use steplake::upkeep::{Backfill, BackfillProgress};

use crate::fixtures::programs::{InTime as _, end_of, until};
use crate::fixtures::support::{assert_same, copy_folder, err, fail, rows, run, steplake};

const TOY: [&str; 7] =
    ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..3", "--episodes", "12"];

const BOTH: [&str; 4] = ["backfill", "--space", "Bits", "Number"];

/// A sealed lake of the toy environment that has `observe`, and its folder.
fn toy(name: &str, more: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join(name);
    run(&lake, &[&TOY, more].concat());
    run(&lake, &["seal"]);
    (folder, lake)
}

fn answer(lake: &Path, sql: &str) -> String {
    run(lake, &["sql", sql, "--format", "csv"]).lines().skip(1).collect::<Vec<_>>().join("; ")
}

/// The numbers of states, and of those with `Bits`.
fn counts(lake: &Path) -> (u64, u64) {
    let seen = answer(lake, "SELECT count(*), count(\"Bits\") FROM observations");
    let (all, bits) = seen.split_once(',').unwrap();
    (all.parse().unwrap(), bits.parse().unwrap())
}

#[test]
fn what_is_backfilled_equals_what_a_run_records() {
    for ir in ["all", "keyframes=4"] {
        let (_one, recorded) = toy("recorded", &["--ir", ir, "--observe", "Cost,Bits,Number"]);
        let (_other, lake) = toy("lake", &["--ir", ir, "--observe", "Cost"]);
        for lake in [&recorded, &lake] {
            run(lake, &["dedup"]);
        }
        let states = counts_of(&recorded);
        let said = run(&lake, &BOTH);
        assert_eq!(said, format!("Bits, Number: {states} states filled, 0 had it, 0 left out\n"));
        assert_same(&recorded, &lake);
        let all = "SELECT * FROM observations ORDER BY state_key";
        let all = |lake: &Path| run(lake, &["sql", all, "--format", "json"]);
        assert_eq!(all(&recorded), all(&lake));
        run(&lake, &["verify"]);
        assert!(run(&lake, &["dedup"]).starts_with("nothing new"), "the steps are the same");
        assert!(!lake.join("backfill").exists());
        let said = run(&lake, &BOTH);
        assert_eq!(said, format!("Bits, Number: nothing to do, all {states} states have it\n"));
        let kinds = "SELECT kind FROM snapshots ORDER BY snapshot_id";
        assert_eq!(answer(&lake, kinds), "create; seal; dedup; backfill");
    }
}

#[test]
fn earlier_snapshots_and_their_readers_go_on() {
    let (_folder, path) = toy("lake", &["--observe", "Cost"]);
    run(&path, &["dedup"]);
    let lake = Lake::open(&path).unwrap();
    let before = lake.snapshot().unwrap();
    let transitions = rows(&path, Table::StateTransitions);
    run(&path, &BOTH);
    let number = |snapshot: &str| {
        let sql = "SELECT count(*) - count(\"Bits\"), count(\"Cost\") FROM observations";
        run(&path, &["sql", sql, "--snapshot", snapshot, "--format", "csv"])
    };
    let states = before.rows(Table::Observations);
    assert!(number(&before.id().to_string()).contains(&format!("{states},{states}")));
    let newest = lake.snapshot().unwrap().id().to_string();
    assert!(number(&newest).contains(&format!("0,{states}")));
    let columns = steplake::lake::ScanColumns::All;
    let read = before.scan(Table::Observations, columns).map(|batch| batch.unwrap().num_rows());
    assert_eq!(read.sum::<usize>() as u64, states);
    // The steps are counted in both, also once neither is the newest.
    run(&path, &[&TOY[..], &["--seed", "9"]].concat());
    run(&path, &["seal"]);
    let count = "SELECT count(*) > 0 FROM state_transitions";
    for snapshot in [&before.id().to_string(), &newest] {
        assert!(run(&path, &["sql", count, "--snapshot", snapshot]).contains("true"));
    }
    drop(before);
    let of_both = rows(&path, Table::StateTransitions);
    assert_eq!(of_both, transitions);
    run(&path, &["expire", "--keep", "1"]);
    run(&path, &["gc"]);
    run(&path, &["verify"]);
    assert_eq!(counts(&path).0, counts(&path).1, "the later run has recorded it too");
}

#[test]
fn a_lost_database_is_restored_with_what_was_backfilled() {
    let (folder, lake) = toy("lake", &["--observe", "Cost"]);
    run(&lake, &BOTH);
    let copy = folder.path().join("copy");
    copy_folder(&lake, &copy);
    std::fs::remove_file(copy.join("hot.sqlite")).unwrap();
    let done = steplake(&copy).args(["verify", "--repair"]).output_in_time();
    assert_eq!(
        rows(&copy, Table::Observations),
        rows(&lake, Table::Observations),
        "{}",
        err(&done)
    );
}

#[test]
fn lakes_with_and_without_it_are_merged() {
    let (folder, lake) = toy("lake", &["--observe", "Cost"]);
    let (copy, merged) = (folder.path().join("copy"), folder.path().join("merged"));
    copy_folder(&lake, &copy);
    run(&lake, &BOTH);
    let [one, other, into] = [&copy, &lake, &merged].map(|path| path.to_str().unwrap());
    run(&merged, &["merge", one, other, "--into", into]);
    assert_eq!(rows(&merged, Table::Observations), rows(&lake, Table::Observations));
}

#[test]
fn a_later_run_records_it_too_unless_it_is_told_what_to_record() {
    let (_folder, lake) = toy("lake", &["--observe", "Cost"]);
    run(&lake, &BOTH);
    run(&lake, &[&TOY[..], &["--seed", "7"]].concat());
    let (states, bits) = counts(&lake);
    assert_eq!(states, bits);
    run(&lake, &[&TOY[..], &["--seed", "8", "--observe", "Cost"]].concat());
    let (all, bits) = counts(&lake);
    assert!(all > states && bits == states, "{all} {states} {bits}");
    let said = run(&lake, &BOTH);
    let new = all - states;
    assert_eq!(said, format!("Bits, Number: {new} states filled, {bits} had it, 0 left out\n"));
    assert_eq!(counts(&lake), (all, all));
}

#[test]
fn states_without_a_path_keep_null_and_are_counted() {
    let (_folder, lake) = toy("lake", &["--ir", "keyframes=8", "--observe", "Cost"]);
    let uri = "generator://toy-v0/0";
    run(&lake, &["retract", "--benchmark", uri, "--reason", "a test"]);
    let reachable = "SELECT count(*) FROM observations AS o WHERE state_id IN (SELECT state_id FROM \
                     steps) OR state_id IN (SELECT state_id FROM ir)";
    let reachable = answer(&lake, reachable).parse::<u64>().unwrap();
    let left = counts_of(&lake) - reachable;
    assert!(left > 0);
    let said = run(&lake, &BOTH);
    let wanted = format!(
        "Bits, Number: {reachable} states filled, 0 had it, {left} left out ({left}: no recorded \
         path from stored IR)\n"
    );
    assert_eq!(said, wanted);
    assert_eq!(counts(&lake), (reachable + left, reachable));
    let again = run(&lake, &BOTH);
    assert!(again.starts_with(&format!("Bits, Number: 0 states filled, {reachable} had it, ")));
    // Nothing is known of the states of a lake without IR, so nothing changes.
    let (_folder, lake) = toy("lake", &["--ir", "none", "--observe", "Cost"]);
    let said = run(&lake, &BOTH);
    assert!(said.starts_with("Bits, Number: 0 states filled, 0 had it, "), "{said}");
    assert!(Lake::open(&lake).unwrap().identity().observations.len() == 1);
}

fn counts_of(lake: &Path) -> u64 {
    answer(lake, "SELECT count(*) FROM observations").parse().unwrap()
}

/// The states behind a lost keyframe are met on the way from an earlier one.
#[test]
fn a_lost_keyframe_is_passed() {
    let (_folder, lake) = toy("lake", &["--ir", "keyframes=4", "--observe", "Cost"]);
    let more = ["--ir", "keyframes=4", "--observe", "Cost", "--seed", "7"];
    run(&lake, &[&TOY[..], &more].concat());
    run(&lake, &["seal"]);
    let snapshot = Lake::open(&lake).unwrap().snapshot().unwrap();
    let [_, later] = snapshot.segments(Table::Ir) else { panic!("two seals wrote IR") };
    std::fs::write(&later.path, "damaged").unwrap();
    drop(snapshot);
    let said = run(&lake, &["verify", "--repair"]);
    assert!(said.contains("repair"), "{said}");
    let (states, _) = (counts_of(&lake), run(&lake, &BOTH));
    assert_eq!(counts(&lake), (states, states));
}

#[test]
fn what_cannot_be_backfilled_is_refused() {
    let (_folder, lake) = toy("lake", &["--observe", "Cost"]);
    for name in ["Bit", "CostO0"] {
        let (code, said) = fail(&lake, &["backfill", "--space", name]);
        assert_eq!(code, 2, "{said}");
        assert!(
            said.contains(&format!("`{name}`")) && said.contains("Cost, Bits, Number"),
            "{said}"
        );
    }
    let writer = Lake::open(&lake).unwrap().writer().unwrap();
    let (code, said) = fail(&lake, &BOTH);
    assert!(code == 3 && said.contains("is writing to the lake"), "{code} {said}");
    drop(writer);
    assert_eq!(run(&lake, &["backfill", "--space", "Cost"]).split(':').next(), Some("Cost"));
}

/// A toy whose sessions note each state that they observe.
#[derive(Debug, Clone, Default)]
struct Watched {
    toy: Arc<ToyEnvironment>,
    observed: Arc<Mutex<Vec<StateId>>>,
    /// Leads to another state than the toy, on this action.
    astray: Option<ActionIndex>,
    /// What the observation of some states ends in.
    end: Option<fn(String) -> SessionError>,
    /// Is interrupted after so many starts.
    starts_max: Option<usize>,
    starts: Arc<Mutex<usize>>,
}

struct WatchedSession {
    environment: Watched,
    session: Box<dyn Session>,
    state: Option<StateId>,
}

impl Environment for Watched {
    forward!(self => self.toy; spec);

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        let session = self.toy.session()?;
        Ok(Box::new(WatchedSession { environment: self.clone(), session, state: None }))
    }
}

impl Session for WatchedSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        let mut starts = self.environment.starts.lock().unwrap();
        if Some(*starts) == self.environment.starts_max {
            *starts = 0;
            return Err(SessionError::Interrupted);
        }
        *starts += 1;
        let started = self.session.start(start)?;
        self.state = Some(started.state);
        Ok(started)
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        if self.environment.astray == Some(action) {
            let other = ActionIndex((action.0 + 1) % 4);
            self.session.apply(other)?;
        }
        let step = self.session.apply(action)?;
        self.state = step.outcome.state();
        Ok(step)
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        if let Some(end) = self.environment.end.filter(|_| self.state.is_some_and(is_deadly)) {
            return Err(end("it died".into()));
        }
        self.environment.observed.lock().unwrap().extend(self.state);
        self.session.observe(space)
    }

    forward!(self => self.session; identify, fork);
}

fn is_deadly(state: StateId) -> bool {
    state.0[7].is_multiple_of(4)
}

fn bits() -> Vec<RecordedObservation> {
    let toy = ToyEnvironment::default();
    let space = toy.spec().observation_spaces.iter().find(|space| space.name == "Bits").unwrap();
    let features = space.features.iter().map(ToString::to_string).collect();
    vec![RecordedObservation { name: "Bits".into(), value_type: space.value_type, features }]
}

fn fill_bits(environment: &Watched, filling: &BackfillProgress) -> Result<LeftOut, ReplayError> {
    let index = environment.spec().observation_index("Bits").unwrap();
    fill(environment, filling, &[index], 1, &mut to_the_end)
}

#[test]
fn an_interrupted_backfill_continues_and_repeats_nothing() {
    let (folder, path) = toy("lake", &["--ir", "keyframes=4", "--observe", "Cost"]);
    let lake = Lake::open(&path).unwrap();
    let before = rows(&path, Table::Observations);
    let environment = Watched { starts_max: Some(8), ..Watched::default() };
    let mut interruptions = 0;
    let (mut resumed, mut copied) = (0, None);
    let (left, backfill) = loop {
        let backfill = Backfill::begin(&lake, &bits()).unwrap();
        assert!(backfill.filling().resumed() >= resumed);
        resumed = backfill.filling().resumed();
        match fill_bits(&environment, backfill.filling()) {
            Ok(left) => break (left, backfill),
            Err(ReplayError::Session(SessionError::Interrupted)) => interruptions += 1,
            Err(error) => panic!("{error}"),
        }
        drop(backfill);
        assert_eq!(rows(&path, Table::Observations), before, "nothing of it can be seen");
        if copied.is_none() {
            // A collection leaves the parts, and a copy of the lake has them.
            run(&path, &["gc"]);
            copy_folder(&path, &folder.path().join("copy"));
            copied = Some(Backfill::begin(&lake, &bits()).unwrap().filling().resumed());
        }
    };
    assert!(interruptions > 2 && left == LeftOut::default(), "{interruptions} {left:?}");
    let observed = environment.observed.lock().unwrap().clone();
    let unique = observed.iter().collect::<HashSet<_>>();
    assert_eq!((observed.len(), unique.len()), (before.len(), before.len()), "each state once");

    // A kill between the last part and the edit: no session is needed any more.
    drop(backfill);
    let backfill = Backfill::begin(&lake, &bits()).unwrap();
    assert_eq!(backfill.filling().resumed(), before.len() as u64);
    let done = backfill.complete(&mut || ControlFlow::Continue(())).unwrap();
    assert_eq!(done.filled, before.len() as u64);
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());

    let (_other, recorded) = toy("recorded", &["--ir", "keyframes=4", "--observe", "Cost,Bits"]);
    assert_same(&recorded, &path);

    // A part that is damaged is computed again.
    let copy = folder.path().join("copy");
    let part = files(&copy.join("backfill")).into_iter();
    let part = part.filter(|path| path.extension().is_some_and(|end| end == "parquet"));
    for path in part {
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let opened = Lake::open(&copy).unwrap();
    assert!(copied > Some(0));
    assert_eq!(Backfill::begin(&opened, &bits()).unwrap().filling().resumed(), 0);
    run(&copy, &["backfill", "--space", "Bits"]);
    assert_same(&recorded, &copy);
}

/// The job files of a lake.
fn jobs(lake: &Path) -> impl Iterator<Item = PathBuf> {
    files(&lake.join("backfill")).into_iter().filter(|path| path.ends_with("job.json"))
}

/// All files below a folder, which may be changing.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_caller_stops_a_backfill_and_what_was_computed_is_kept() {
    let (_folder, path) = toy("lake", &["--ir", "keyframes=4", "--observe", "Cost"]);
    let lake = Lake::open(&path).unwrap();
    let before = rows(&path, Table::Observations);
    let backfill = Backfill::begin(&lake, &bits()).unwrap();
    let (index, mut heard) =
        (ToyEnvironment::default().spec().observation_index("Bits").unwrap(), 0);
    let stopped = fill(&Watched::default(), backfill.filling(), &[index], 2, &mut |done, _| {
        heard = done;
        if done == 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(matches!(stopped, Err(ReplayError::Store(LakeError::Interrupted))), "{stopped:?}");
    drop(backfill);
    let backfill = Backfill::begin(&lake, &bits()).unwrap();
    assert!(backfill.filling().resumed() >= heard && heard > 0);
    fill_bits(&Watched::default(), backfill.filling()).unwrap();
    let stopped = backfill.complete(&mut || ControlFlow::Break(()));
    assert!(matches!(stopped, Err(LakeError::Interrupted)), "{stopped:?}");
    assert_eq!(rows(&path, Table::Observations), before);
    let backfill = Backfill::begin(&lake, &bits()).unwrap();
    assert!(backfill.filling().missing().is_empty());
    backfill.complete(&mut || ControlFlow::Continue(())).unwrap();
    assert_eq!(counts(&path).0, counts(&path).1);
}

#[test]
fn no_state_gets_the_observation_of_another() {
    let (_folder, path) = toy("lake", &["--ir", "keyframes=8", "--observe", "Cost"]);
    let lake = Lake::open(&path).unwrap();
    let astray = Watched { astray: Some(ActionIndex(1)), ..Watched::default() };
    let backfill = Backfill::begin(&lake, &bits()).unwrap();
    let left = fill_bits(&astray, backfill.filling()).unwrap();
    assert!(left.elsewhere > 0 && left.states() == left.elsewhere, "{left:?}");
    let done = backfill.complete(&mut || ControlFlow::Continue(())).unwrap();
    assert!(done.filled > left.elsewhere / 4, "{done:?} {left:?}");
    let (states, filled) = counts(&path);
    assert_eq!((states - filled, filled), (left.elsewhere, done.filled));
    // The lake's own compiler does better, and the whole is what a run records.
    run(&path, &["backfill", "--space", "Bits"]);
    let (_other, recorded) = toy("recorded", &["--ir", "keyframes=8", "--observe", "Cost,Bits"]);
    assert_same(&recorded, &path);
}

#[test]
fn a_state_on_which_the_compiler_fails_keeps_null_and_is_counted() {
    let (_folder, path) = toy("lake", &["--ir", "keyframes=8", "--observe", "Cost"]);
    let lake = Lake::open(&path).unwrap();
    let end = |detail| SessionError::Unobservable(Failure { kind: FailureKind::Crash, detail });
    let fragile = Watched { end: Some(end), ..Watched::default() };
    let backfill = Backfill::begin(&lake, &bits()).unwrap();
    let missing = backfill.filling().missing().iter().copied();
    let deadly = missing.filter(|&state| is_deadly(state)).count() as u64;
    let left = fill_bits(&fragile, backfill.filling()).unwrap();
    assert_eq!(left, LeftOut { failed: deadly, ..LeftOut::default() });
    backfill.complete(&mut || ControlFlow::Continue(())).unwrap();
    let (states, filled) = counts(&path);
    assert!(deadly > 0 && states - filled == deadly, "{states} {filled} {deadly}");
}

#[test]
fn a_state_that_cannot_be_reached_again_ends_no_backfill() {
    let (_folder, path) = toy("lake", &["--ir", "keyframes=8", "--observe", "Cost"]);
    let lake = Lake::open(&path).unwrap();
    let end = |found| SessionError::Unrepeatable { found, is_failure: false };
    let changing = Watched { end: Some(end), ..Watched::default() };
    let backfill = Backfill::begin(&lake, &bits()).unwrap();
    let missing = backfill.filling().missing().clone();
    let left = fill_bits(&changing, backfill.filling()).unwrap();
    assert_eq!(left, LeftOut { elsewhere: left.states(), ..LeftOut::default() });
    let deadly = missing.iter().filter(|state| is_deadly(**state)).count() as u64;
    assert!(deadly > 0 && (deadly..missing.len() as u64).contains(&left.elsewhere), "{left:?}");
    backfill.complete(&mut || ControlFlow::Continue(())).unwrap();
    let (states, filled) = counts(&path);
    assert_eq!(states - filled, left.elsewhere);
}

fn llvm(lake: &Path, observe: &str) {
    let mut arguments = vec!["generate", "--episodes", "24", "--episode-length", "60"];
    let uris =
        ["huffman", "json_reader", "fourier"].map(|name| format!("benchmark://steplake-v0/{name}"));
    arguments.extend(uris.iter().flat_map(|uri| ["--benchmark", uri.as_str()]));
    arguments.extend(["--ir", "keyframes=8", "--observe", observe]);
    run(lake, &arguments);
    run(lake, &["seal"]);
}

#[test]
fn killed_at_any_moment_it_ends_as_an_undisturbed_one() {
    let folder = tempfile::tempdir().unwrap();
    let [recorded, lake] = ["recorded", "lake"].map(|name| folder.path().join(name));
    llvm(&recorded, "Autophase,InstCount,Programl");
    llvm(&lake, "Autophase");
    let command = ["backfill", "--space", "InstCount,Programl", "--jobs", "1"];
    let mut kills = 0;
    // Whenever another part is there.
    while kills < 2 {
        let mut child = steplake(&lake);
        let child = child.args(command).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        let parts = || jobs(&lake).map(|job| std::fs::metadata(job).map_or(0, |file| file.len()));
        let before = parts().next();
        until("there is another part", || {
            parts().next() > before || child.try_wait().unwrap().is_some()
        });
        if child.try_wait().unwrap().is_some() {
            break;
        }
        child.kill().unwrap();
        end_of(&mut child, "a backfill that was killed");
        kills += 1;
    }
    let said = run(&lake, &["backfill", "--space", "Programl", "--space", "InstCount"]);
    assert!(kills > 0 && said.contains(" computed before an interruption)"), "{kills}: {said}");
    assert!(said.contains(" 0 had it, 0 left out"), "{said}");
    assert_same(&recorded, &lake);
    run(&lake, &["verify"]);
}
