//! `convert`: lakes whose states have ids of an older scheme, made anew.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use steplake::env::toy::{self, ToyEnvironment};
use steplake::env::{Environment, KeyframeCount, Session, SessionError, Start, Started, Watch};
use steplake::generate::{CampaignEnd, ResumeState, RunProgress, Stop, generate};
use steplake::lake::{
    Disk, EpisodeRow, Identity, IrRow, Lake, LakeError, MeasurementRow, ObservationRow, Rows,
    RunRow, Snapshot, StepRow, Table, ValueRef, bitcode_sha1, to_the_end,
};
use steplake::model::{
    ActionIndex, EnvironmentSpec, EpisodeId, EpisodeOutcome, FailureKind, ObservationIndex,
    Outcome, RunId, StateId, Step, Value,
};
use steplake::record::{Recording, RecordingOptions};
use steplake::replay::ReplayError;
use steplake::replay::convert::{ConversionReport, ConvertError, LeftOut, convert};
use steplake::transfer::merge::{MergeOptions, merge};

use crate::fixtures::support::{
    ToyPrograms, assert_same, cells, copy_folder, fail, rows, run, toy_identity, toy_plan,
};

/// The toy environment with ids of a later scheme, which tells apart the states to which an action
/// leads.
#[derive(Debug)]
struct Newer(EnvironmentSpec, Option<ActionIndex>);

impl Newer {
    fn new() -> Self {
        let spec = ToyEnvironment::default().spec().clone();
        Self(EnvironmentSpec { state_scheme: spec.state_scheme + 1, ..spec }, None)
    }
}

impl Environment for Newer {
    fn spec(&self) -> &EnvironmentSpec {
        &self.0
    }

    fn session(&self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(NewerSession(ToyEnvironment::default().session()?, self.1)))
    }
}

struct NewerSession(Box<dyn Session>, Option<ActionIndex>);

/// The id of another scheme.
fn other(state: StateId) -> StateId {
    StateId(state.0.map(|byte| !byte))
}

impl Session for NewerSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        let started = self.0.start(start)?;
        Ok(Started { state: other(started.state), ..started })
    }

    fn apply(&mut self, action: ActionIndex) -> Result<Step, SessionError> {
        let mut step = self.0.apply(action)?;
        if let Outcome::State { id, changed, .. } = &mut step.outcome {
            *id = other(*id);
            id.0[0] ^= u8::from(*changed && Some(action) == self.1);
        }
        Ok(step)
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        self.0.identify(state).map(other)
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        Ok(Box::new(Self(self.0.fork()?, self.1)))
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        self.0.observe(space)
    }
}

/// Records twelve episodes of the toy environment, with IR as `keyframes` says.
fn record(path: &Path, keyframes: Option<NonZeroU32>) -> Lake {
    record_by(path, keyframes, |recording| {
        let (progress, never) = (RunProgress::default(), false.into());
        let plan = toy_plan("random", Stop::Episodes(12), 1);
        let (environment, past) = (ToyEnvironment::default(), ResumeState::default());
        let end = generate(&environment, recording, &plan, &ToyPrograms, past, &progress, &never);
        assert_eq!(end.unwrap(), CampaignEnd::Complete);
    })
}

/// Records episodes of a program that begin with one of two actions, which lead to the same state.
fn record_two_ways(path: &Path) -> Lake {
    record_by(path, every(4), |recording| {
        let session = ToyEnvironment::default().session().unwrap();
        let mut recorder = recording.recorder(session);
        for first in [4, 3] {
            let start = Start {
                benchmark: &toy::benchmark(2),
                action_space: toy::NAME,
                baselines: None,
                watch: &Watch::default(),
            };
            recorder.start(&start).unwrap();
            for action in [first, 0, 0, 0, 0, 1, 5, 0, 1] {
                recorder.apply(ActionIndex(action)).unwrap();
            }
        }
        recorder.finish().unwrap();
    })
}

fn record_by(path: &Path, keyframes: Option<NonZeroU32>, play: impl FnOnce(&Recording)) -> Lake {
    let lake = Lake::create(path, &toy_identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let ir = keyframes.map_or_else(|| "none".to_owned(), |every| format!("keyframes={every}"));
    let run = writer.begin_run(&format!(r#"{{"ir":"{ir}","seed":7}}"#), 5).unwrap();
    let options = RecordingOptions { keyframes, ..RecordingOptions::default() };
    let environment = ToyEnvironment::default();
    let recording = Recording::begin(writer, environment.spec(), run, &options).unwrap();
    play(&recording);
    let mut writer = recording.close().unwrap();
    writer.finish_run(run).unwrap();
    drop(writer);
    lake
}

fn converted(old: &Lake, into: &Path, jobs: usize) -> (Lake, ConversionReport) {
    convert(&Newer::new(), old, into, &ToyPrograms, jobs, &mut to_the_end).unwrap()
}

/// The rows of a table without ids of states.
fn without_states(lake: &Lake, table: Table, more: &[&str]) -> Vec<String> {
    let is_state = |name: &str| name.ends_with("state_id") || name.ends_with("state_key");
    cells(lake.path(), table, |name| !is_state(name) && !more.contains(&name))
}

/// The number of steps with an action.
fn taken(lake: &Lake) -> u64 {
    let steps = lake.snapshot().unwrap().step_rows().flat_map(Result::unwrap).collect::<Vec<_>>();
    steps.iter().filter(|step| step.action.is_some()).count() as u64
}

fn every(changes: u32) -> Option<NonZeroU32> {
    NonZeroU32::new(changes)
}

#[test]
fn every_row_is_there_with_its_new_id() {
    for keyframes in [every(1), every(4), None] {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let old = record(&place("old"), keyframes);
        let (new, report) = converted(&old, &place("new"), 2);
        let states = rows(old.path(), Table::Observations).len() as u64;
        let stored = rows(old.path(), Table::Ir).len() as u64;
        let steps = rows(old.path(), Table::Steps).len() as u64;
        let wanted = ConversionReport {
            episodes: 12,
            steps: steps - 12,
            proven_by_ir: stored,
            proven_by_values: states - stored,
            ..ConversionReport::default()
        };
        assert_eq!(report, wanted, "{keyframes:?}");
        for table in Table::ALL.into_iter().filter(|table| table.is_recorded()) {
            assert_eq!(
                without_states(&old, table, &[]),
                without_states(&new, table, &[]),
                "{table:?}"
            );
        }
        let (old, new) = (old.snapshot().unwrap(), new.snapshot().unwrap());
        let ids = |lake: &Snapshot, map: fn(StateId) -> StateId| {
            let rows = lake.step_rows().flat_map(Result::unwrap);
            let mut ids = rows.map(|row| (row.episode, row.index, row.state.map(map)));
            let mut ids = ids.by_ref().collect::<Vec<_>>();
            ids.sort_unstable();
            ids
        };
        assert_eq!(ids(&old, other), ids(&new, |id| id));
        assert_eq!(new.identity().state_scheme, old.identity().state_scheme + 1);
        let [was, is] = [&old, &new].map(|lake| lake.runs()[0].clone());
        assert_ne!(was.uid, is.uid);
        let arguments =
            was.arguments.replacen('{', &format!(r#"{{"converted_from":"{}","#, was.uid), 1);
        assert_eq!((is.id, is.started_at_ms, is.finished), (was.id, 5, true));
        assert_eq!(is.arguments, arguments);
        assert!(!new.has_hot_rows(), "it is sealed");
    }
}

#[test]
fn the_number_of_sessions_changes_nothing_and_conversions_are_one_lake() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let old = record(&place("old"), every(4));
    let (one, first) = converted(&old, &place("one"), 1);
    let (three, second) = converted(&old, &place("three"), 3);
    assert_eq!(first, second);
    assert_same(one.path(), three.path());
    let into = place("both");
    let merged = merge(
        Disk::default(),
        &[one.clone(), three],
        &into,
        &MergeOptions::default(),
        &mut |_, _| {},
    );
    let (both, report) = merged.unwrap();
    assert_eq!((report.episodes_shared, report.runs), (12, 1));
    assert_same(one.path(), both.path());
}

/// Copies a lake, whose rows `change` changes first, as one of scheme 1 whose ids are made by `id`.
fn older(
    from: &Path,
    to: &Path,
    id: fn(StateId) -> StateId,
    change: impl FnOnce(&mut Rows),
) -> Lake {
    let snapshot = Lake::open(from).unwrap().snapshot().unwrap();
    let identity = Identity { state_scheme: 1, ..snapshot.identity().clone() };
    let lake = Lake::create(to, &identity).unwrap();
    let mut writer = lake.writer().unwrap();
    for known in snapshot.runs() {
        let run = writer.begin_run(&known.arguments, known.started_at_ms).unwrap();
        assert_eq!(run, known.id);
        writer.finish_run(run).unwrap();
    }
    let mut observed: HashMap<StateId, Vec<Option<Value>>> = HashMap::new();
    let states = snapshot.states_in(Table::Observations).unwrap();
    observed
        .extend(states.into_iter().map(|state| (state, vec![None; identity.observations.len()])));
    for (column, space) in identity.observations.iter().enumerate() {
        for some in snapshot.observations(space) {
            let some = some.unwrap();
            for (place, state) in some.states() {
                observed.get_mut(&state).unwrap()[column] = Some(match some.value(place) {
                    ValueRef::Int(number) => Value::Int(number),
                    ValueRef::IntVector(numbers) => Value::IntVector(numbers.into()),
                    other => panic!("{other:?}"),
                });
            }
        }
    }
    let stored = snapshot.states_in(Table::Ir).unwrap().into_iter().collect::<Vec<_>>();
    let stored = stored.iter().copied().zip(snapshot.ir(&stored).unwrap());
    let ir = |(state, bitcode): (StateId, Option<Vec<u8>>)| {
        let bitcode = bitcode.unwrap();
        IrRow {
            state: id(state),
            compressed: zstd::bulk::compress(&bitcode, 3).unwrap(),
            bytes: bitcode.len().try_into().unwrap(),
            bitcode_sha1: bitcode_sha1(&bitcode),
        }
    };
    let mut rows = Rows {
        benchmarks: snapshot.benchmark_rows().unwrap(),
        episodes: snapshot.episode_rows().unwrap(),
        steps: snapshot.step_rows().flat_map(Result::unwrap).collect(),
        observations: observed
            .into_iter()
            .map(|(state, values)| ObservationRow { state: id(state), values })
            .collect(),
        ir: stored.map(ir).collect(),
        ..Rows::default()
    };
    rows.benchmarks.iter_mut().for_each(|row| row.initial_state = id(row.initial_state));
    rows.steps.iter_mut().for_each(|row| row.state = row.state.map(id));
    change(&mut rows);
    writer.append(&rows).unwrap();
    writer.seal().unwrap();
    drop(writer);
    lake
}

fn step_of(rows: &mut Rows, episode: EpisodeId, index: u32) -> &mut StepRow {
    let is_it = |row: &&mut StepRow| (row.episode, row.index) == (episode, index);
    rows.steps.iter_mut().find(is_it).unwrap()
}

#[test]
fn a_step_that_leads_elsewhere_is_recorded_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    for (name, keyframes) in [("all", every(1)), ("none", None)] {
        let whole = record(&place(name), keyframes);
        let mut action = None;
        let old = older(
            whole.path(),
            &place(&format!("{name}-old")),
            |id| id,
            |rows| {
                let id = rows.episodes.iter().find(|row| row.steps > 7).unwrap().id;
                let first = step_of(rows, id, 0).state;
                let length = rows.steps.iter().filter(|row| row.episode == id).count();
                let index = (1..5).find(|&at| step_of(rows, id, at).state != first);
                let step = step_of(rows, id, index.unwrap());
                (step.state, action) =
                    (first, step.action.map(|action| (action, step.index, length)));
            },
        );
        let (new, report) = converted(&old, &place(&format!("{name}-new")), 1);
        let (action, index, length) = action.unwrap();
        let name = &whole.identity().action_space.get(action).unwrap().name;
        assert_eq!(report.elsewhere.iter().collect::<Vec<_>>(), [(name, &1)]);
        assert_eq!(report.steps_not_compared, length as u64 - 1 - u64::from(index));
        let steps = |lake: &Lake| without_states(lake, Table::Steps, &["keyframe"]);
        assert_eq!(steps(&whole), steps(&new), "it is recorded as it is");
        assert_eq!(report.episodes, 12);
    }
}

/// Adds a copy of an episode.
fn copy_episode(rows: &mut Rows, from: EpisodeId, to: EpisodeId) {
    let row = rows.episodes.iter().find(|row| row.id == from).unwrap().clone();
    rows.episodes.push(EpisodeRow { id: to, ..row });
    let steps = rows.steps.iter().filter(|step| step.episode == from).cloned();
    let steps = steps.map(|step| StepRow { episode: to, ..step }).collect::<Vec<_>>();
    rows.steps.extend(steps);
}

/// Gives the states of an episode ids of their own, with the same IR and without `Bits`.
fn double(rows: &mut Rows, episode: EpisodeId) {
    let mut doubled = HashSet::new();
    for step in rows.steps.iter_mut().filter(|step| step.episode == episode) {
        doubled.extend(step.state);
        step.state = step.state.map(other);
    }
    let observations = rows.observations.iter().filter(|row| doubled.contains(&row.state));
    let observations = observations.map(|row| {
        let mut values = row.values.clone();
        values[1] = None;
        ObservationRow { state: other(row.state), values }
    });
    let observations = observations.collect::<Vec<_>>();
    rows.observations.extend(observations);
    let ir = rows.ir.iter().filter(|row| doubled.contains(&row.state)).cloned();
    let ir = ir.map(|row| IrRow { state: other(row.state), ..row }).collect::<Vec<_>>();
    rows.ir.extend(ir);
}

#[test]
fn a_new_state_has_what_was_observed_of_any_recorded_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut environment = Newer::new();
    assert_eq!(toy_identity().observations[1].name, "Bits");
    environment.0.observation_spaces[1].on_request = true;
    let [first, copy] = [0, 12].map(|ordinal| EpisodeId::new(RunId(1), ordinal));
    for name in ["strays", "is-double"] {
        let place = |what: &str| folder.path().join(format!("{what}-{name}"));
        let whole = record(&place("whole"), every(1));
        let old = older(
            whole.path(),
            &place("old"),
            |id| id,
            |rows| {
                copy_episode(rows, first, copy);
                if name == "is-double" {
                    return double(rows, first);
                }
                // Where it goes then, nothing on request is observed.
                let start = step_of(rows, first, 0).state;
                let at = (1..9).find(|&at| step_of(rows, first, at).state != start);
                step_of(rows, first, at.unwrap()).state = start;
            },
        );
        let converted = |to: &str, jobs| {
            convert(&environment, &old, &place(to), &ToyPrograms, jobs, &mut to_the_end).unwrap()
        };
        let (new, report) = converted("one", 1);
        let of_states = |lake: &Lake| without_states(lake, Table::Observations, &[]);
        assert_eq!(of_states(&whole), of_states(&new), "{name}: {report:?}");
        run(new.path(), &["verify"]);
        assert!(!new.path().join("backfill").exists());
        let (three, again) = converted("three", 3);
        assert_eq!(report, again);
        assert_same(new.path(), three.path());
    }
}

#[test]
fn a_recorded_state_without_ir_has_one_new_id_and_another_one_leads_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    demand_one_id(&record(&folder.path().join("random"), every(4)), ActionIndex(2));
    demand_one_id(&record_two_ways(&folder.path().join("two-ways")), ActionIndex(3));
}

/// Converts a lake, where that to which an action leads has another id, and the same values.
fn demand_one_id(old: &Lake, action: ActionIndex) {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let environment = Newer { 1: Some(action), ..Newer::new() };
    let converted = |to: &str, jobs| {
        convert(&environment, old, &place(to), &ToyPrograms, jobs, &mut to_the_end).unwrap()
    };
    let (new, report) = converted("one", 1);
    let (three, again) = converted("three", 3);
    assert_eq!(report, again);
    assert_same(new.path(), three.path());
    let stored = old.snapshot().unwrap().states_in(Table::Ir).unwrap();
    let mut ids = stored.iter().map(|&state| (state, other(state))).collect::<HashMap<_, _>>();
    let [was, is] = [old, &new].map(|lake| {
        let snapshot = lake.snapshot().unwrap();
        let mut steps = snapshot.step_rows().flat_map(Result::unwrap).collect::<Vec<_>>();
        steps.sort_unstable_by_key(|step| (step.episode, step.index));
        steps
    });
    assert_eq!(was.len(), is.len());
    let (mut strayed, mut before, mut by_values) = (Vec::new(), None, 0);
    let mut count = KeyframeCount::default();
    for (was, is) in was.iter().zip(&is) {
        let (changed, Some(state)) = (before != is.state, is.state) else { continue };
        before = is.state;
        let action = is.action.and_then(|action| new.identity().action_space.get(action));
        if strayed.last() == Some(&is.episode) {
            let flags = action.unwrap().flags;
            let wanted = count.step(every(4).unwrap(), changed, flags);
            assert_eq!(is.keyframe, wanted, "keyframes are counted from there: {is:?}");
        } else if *ids.entry(was.state.unwrap()).or_insert(state) != state {
            assert!(is.keyframe, "{is:?}");
            by_values += u64::from(!stored.contains(&was.state.unwrap()));
            strayed.push(is.episode);
            count = KeyframeCount::default();
        }
    }
    assert!(by_values > 0, "{report:?}");
    assert_eq!(report.elsewhere.values().sum::<u64>(), strayed.len() as u64);
    run(new.path(), &["verify"]);
}

#[test]
fn a_failure_that_does_not_come_again_and_a_new_one_lead_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let whole = record(&place("whole"), every(1));
    let failed = whole.snapshot().unwrap().episode_rows().unwrap().into_iter();
    let failed = failed.filter(|row| row.detail.is_some()).map(|row| row.id).collect::<Vec<_>>();
    let [first, ..] = failed[..] else { panic!("an episode fails") };
    let old = older(
        whole.path(),
        &place("old"),
        |id| id,
        |rows| {
            // This one did not fail, and went on.
            let last =
                rows.steps.iter().filter(|row| row.episode == first).map(|row| row.index).max();
            let start = step_of(rows, first, 0).state;
            let step = step_of(rows, first, last.unwrap());
            (step.state, step.end_of_episode, step.rewards) =
                (start, false, Some(vec![0.0; 3].into()));
            let more = StepRow { index: step.index + 1, ..step.clone() };
            rows.steps.push(more);
            let row = rows.episodes.iter_mut().find(|row| row.id == first).unwrap();
            *row = EpisodeRow { steps: row.steps + 1, ..row.clone() };
            (row.outcome, row.detail) = (EpisodeOutcome::Complete, None);
            // This one failed at once.
            let other = rows
                .episodes
                .iter_mut()
                .find(|row| row.detail.is_none() && row.id != first)
                .unwrap();
            (other.outcome, other.detail) =
                (EpisodeOutcome::Failed(FailureKind::Crash), Some("so it was".into()));
            other.steps = 1;
            let id = other.id;
            rows.steps.retain(|row| row.episode != id || row.index < 2);
            let step = step_of(rows, id, 1);
            (step.state, step.rewards, step.end_of_episode, step.keyframe) =
                (None, None, true, false);
        },
    );
    let (new, report) = converted(&old, &place("new"), 1);
    assert_eq!(report.elsewhere.values().sum::<u64>(), 2, "{report:?}");
    assert_eq!(report.steps_dropped, 1, "the one after the failure");
    assert_eq!(report.steps + report.steps_dropped, taken(&old));
    let rows = new.snapshot().unwrap().episode_rows().unwrap();
    let row = rows.iter().find(|row| row.id == first).unwrap();
    let was = whole.snapshot().unwrap().episode_rows().unwrap();
    assert_eq!(Some(row), was.iter().find(|row| row.id == first), "it ends where it fails");
    let other = rows.iter().find(|row| row.steps == 1 && row.detail.is_none());
    assert!(other.is_some(), "it did not fail: {rows:?}");
}

#[test]
fn forks_begin_where_they_were_forked() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    for (name, keyframes) in [("all", every(1)), ("none", None)] {
        let whole = record(&place(name), keyframes);
        let (parent, fork) = (EpisodeId::new(RunId(1), 1), EpisodeId::new(RunId(1), 12));
        let orphan = EpisodeId::new(RunId(1), 13);
        let old = older(
            whole.path(),
            &place(&format!("{name}-old")),
            |id| id,
            |rows| {
                let row = rows.episodes.iter().find(|row| row.id == parent).unwrap().clone();
                let steps = rows.steps.iter().filter(|row| row.episode == parent && row.index >= 2);
                let steps = steps.cloned().collect::<Vec<_>>();
                for (id, parent) in [(fork, parent), (orphan, EpisodeId::new(RunId(1), 99))] {
                    rows.episodes.push(EpisodeRow {
                        id,
                        parent: Some((parent, 2)),
                        steps: row.steps - 2,
                        ..row.clone()
                    });
                    rows.steps.extend(steps.iter().map(|step| {
                        let is_first = step.index == 2;
                        StepRow {
                            episode: id,
                            index: step.index - 2,
                            action: step.action.filter(|_| !is_first),
                            rewards: step.rewards.clone().filter(|_| !is_first),
                            ..step.clone()
                        }
                    }));
                }
            },
        );
        let (new, report) = converted(&old, &place(&format!("{name}-new")), 2);
        assert!(report.elsewhere.is_empty(), "{report:?}");
        // Without its own IR, the way to an orphan is unknown.
        let left_out = u64::from(keyframes.is_none());
        assert_eq!(report.left_out.get(&LeftOut::NoWay).copied().unwrap_or(0), left_out);
        assert_eq!(report.episodes, 14 - left_out);
        let steps = |lake: &Lake| {
            let rows = without_states(lake, Table::Steps, &[]).into_iter();
            let orphans = format!("episode_id={} ", orphan.0);
            rows.filter(|row| left_out == 0 || !row.starts_with(&orphans)).collect::<Vec<_>>()
        };
        assert_eq!(steps(&old), steps(&new));
    }
}

#[test]
fn programs_that_are_not_at_hand_and_states_that_are_not_proven_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let whole = record(&place("whole"), None);
    let gone = toy::benchmark(1).uri;
    let measured = |state, uid: &str| MeasurementRow {
        uid: uid.to_owned(),
        state,
        benchmark: toy::benchmark(0).uri,
        space: "Runtime".to_owned(),
        machine: "{}".to_owned(),
        compilation: "{}".to_owned(),
        warmups: 0,
        measured_at_ms: 1,
        samples: vec![1.0],
    };
    let old = older(
        whole.path(),
        &place("old"),
        |id| id,
        |rows| {
            for row in rows.benchmarks.iter_mut().filter(|row| row.uri == gone) {
                row.program_digest = "another program".to_owned();
            }
            let start =
                rows.benchmarks.iter().find(|row| row.uri == toy::benchmark(0).uri).unwrap();
            rows.measurements =
                vec![measured(start.initial_state, "a"), measured(StateId([9; 20]), "b")];
        },
    );
    let (new, report) = converted(&old, &place("new"), 2);
    assert_eq!(report.left_out.get(&LeftOut::OtherProgram), Some(&4), "{report:?}");
    assert_eq!((report.episodes, report.rows_left_out), (8, 1));
    assert!(report.steps_dropped > 0);
    assert_eq!(report.steps + report.steps_dropped, taken(&old));
    let snapshot = new.snapshot().unwrap();
    assert!(snapshot.benchmark_rows().unwrap().iter().all(|row| row.uri != gone));
    let rows = snapshot.measurements().map(Result::unwrap).collect::<Vec<_>>();
    let start = snapshot.benchmark_rows().unwrap();
    let start = start.iter().find(|row| row.uri == toy::benchmark(0).uri).unwrap();
    assert_eq!(rows, [measured(start.initial_state, "a")]);
}

#[test]
fn what_audits_found_is_left_out_and_no_converted_step_is_audited() {
    let folder = tempfile::tempdir().unwrap();
    let old = record(&folder.path().join("old"), every(4));
    let snapshot = old.snapshot().unwrap();
    let mut writer = old.writer().unwrap();
    writer.add_audited_steps(RunId(1), 9, 2).unwrap();
    writer.flag_unreplayable(&[ActionIndex(0)]).unwrap();
    let noting = writer.begin_run(r#"{"recorder":"audit"}"#, 6).unwrap();
    let [found, failed] = [0, 1].map(|ordinal| EpisodeId::new(noting, ordinal));
    let row = snapshot.episode_rows().unwrap().remove(0);
    let steps = snapshot.step_rows().flat_map(Result::unwrap);
    let steps = steps.filter(|step| step.episode == row.id);
    let rows = Rows {
        steps: steps.map(|step| StepRow { episode: found, ..step }).collect(),
        episodes: vec![
            EpisodeRow { id: failed, steps: 0, ..row.clone() },
            EpisodeRow { id: found, ..row },
        ],
        ..Rows::default()
    };
    writer.append(&rows).unwrap();
    writer.seal().unwrap();
    drop(writer);
    let (new, report) = converted(&Lake::open(old.path()).unwrap(), &folder.path().join("new"), 1);
    assert_eq!(report.left_out.into_iter().collect::<Vec<_>>(), [(LeftOut::Audit, 2)]);
    assert_eq!(report.episodes, 12);
    let snapshot = new.snapshot().unwrap();
    let audited = |run: &RunRow| (run.audited_steps, run.differing_steps);
    assert_eq!(snapshot.runs().iter().map(audited).collect::<Vec<_>>(), [(0, 0), (0, 0)]);
    assert!(!new.identity().action_space.get(ActionIndex(0)).unwrap().flags.replayable);
}

#[test]
fn a_conversion_that_was_stopped_or_killed_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let old = record(&place("old"), every(4));
    let into = place("new");
    let stop = &mut |_, _| ControlFlow::Break(());
    let stopped = convert(&Newer::new(), &old, &into, &ToyPrograms, 1, stop).unwrap_err();
    let is_interrupted = |error: &ConvertError| {
        matches!(error, ConvertError::Replay(ReplayError::Store(LakeError::Interrupted)))
    };
    assert!(is_interrupted(&stopped), "{stopped:?}");
    assert!(!into.exists(), "the folder is as it was");
    let (whole, report) = converted(&old, &place("whole"), 1);
    // A kill leaves all but `lake.json`.
    copy_folder(whole.path(), &into);
    std::fs::remove_file(into.join("lake.json")).unwrap();
    std::fs::write(into.join("convert.unfinished"), "").unwrap();
    std::fs::create_dir_all(into.join("backfill/0")).unwrap();
    let error = Lake::create(&into, &toy_identity()).unwrap_err().to_string();
    assert!(
        error.contains("convert.unfinished: a conversion into it was not completed"),
        "{error}"
    );
    let error = Lake::open(&into).unwrap_err().to_string();
    assert!(error.contains("a conversion into it was not completed"), "{error}");
    let (again, second) = converted(&old, &into, 1);
    assert_eq!(report, second);
    assert_same(whole.path(), again.path());
    assert!(!into.join("convert.unfinished").exists());
    assert!(!into.join("backfill").exists());
    let error = convert(&Newer::new(), &old, &into, &ToyPrograms, 1, &mut to_the_end).unwrap_err();
    let is_there =
        matches!(&error, ConvertError::Replay(ReplayError::Store(LakeError::HoldsALake { .. })));
    assert!(is_there, "{error:?}");
}

#[test]
fn a_guarantee_about_an_action_stays_only_if_both_versions_give_it() {
    let folder = tempfile::tempdir().unwrap();
    let old = record(&folder.path().join("old"), every(4));
    let mut environment = Newer::new();
    environment.0.action_spaces[0].actions[0].flags.never_changes = true;
    let into = folder.path().join("new");
    let converted = convert(&environment, &old, &into, &ToyPrograms, 1, &mut to_the_end);
    let (new, _) = converted.unwrap();
    assert!(!new.identity().action_space.get(ActionIndex(0)).unwrap().flags.never_changes);
}

#[test]
fn nothing_is_made_in_the_lake_that_is_converted() {
    let folder = tempfile::tempdir().unwrap();
    let old = record(&folder.path().join("old"), every(4));
    let into = old.path().join("new");
    let error = convert(&Newer::new(), &old, &into, &ToyPrograms, 1, &mut to_the_end).unwrap_err();
    assert!(error.to_string().contains("it would lie in the lake"), "{error}");
    assert!(!into.exists());
}

#[test]
fn a_lake_of_an_environment_whose_observations_run_the_compiler_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let old = record(&folder.path().join("old"), every(4));
    let mut environment = Newer::new();
    environment.0.observation_spaces[0].is_compiled = true;
    let into = folder.path().join("new");
    let refused = convert(&environment, &old, &into, &ToyPrograms, 1, &mut to_the_end);
    let said = refused.unwrap_err().to_string();
    assert!(said.starts_with("lakes of toy-v0 cannot be converted: its compiler runs"), "{said}");
    assert!(!into.exists());
}

#[test]
fn a_lake_of_this_scheme_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let lake = record(&folder.path().join("old"), every(1));
    let into = folder.path().join("new");
    let (code, said) = fail(lake.path(), &["convert", "--into", into.to_str().unwrap()]);
    let wanted = "steplake: there is nothing to convert: the states of the lake have ids of scheme 1, \
                  which is that of this version";
    assert_eq!((code, said.as_str()), (2, wanted));
    assert!(!into.exists());
}

/// Records programs in LLVM.
fn record_llvm(lake: &Path, seed: &str) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/determinism/loops.c");
    let programs = ["--benchmark", "benchmark://steplake-v0/huffman", "--benchmark", source];
    let size = ["--episodes", "6", "--episode-length", "15", "--ir", "keyframes=4", "--seed", seed];
    run(lake, &[&["generate"], &programs[..], &size].concat());
}

/// The number of rows of some tables.
fn counts(lake: &Path) -> Vec<usize> {
    let tables = [Table::Episodes, Table::Steps, Table::Observations, Table::Benchmarks];
    tables.map(|table| rows(lake, table).len()).into()
}

#[test]
fn a_lake_of_llvm_is_made_anew_and_is_one_like_others() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| -> PathBuf { folder.path().join(name) };
    let text = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let recorded = place("recorded");
    record_llvm(&recorded, "1");
    run(&recorded, &["dedup"]);
    let old = older(&recorded, &place("old"), other, |_| {});
    let old = old.path();
    let one_more =
        ["generate", "--benchmark", "benchmark://steplake-v0/huffman", "--episodes", "1"];
    let (code, said) = fail(old, &one_more);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("`steplake convert --lake OLD --into NEW`"), "{said}");
    let [one, two, fresh] = ["one", "two", "fresh"].map(place);
    let said = run(old, &["convert", "--into", &text(&one), "--jobs", "2"]);
    let states = rows(&recorded, Table::Observations).len();
    let stored = rows(&recorded, Table::Ir).len();
    let wanted = format!(
        "converted into {}: 6 episodes, 90 steps; {stored} states proven by their IR, {} by their \
         values\n",
        one.display(),
        states - stored
    );
    assert_eq!(said, wanted);
    // Its bytes and its derived tables are those of a lake that was never an older one.
    for table in Table::ALL {
        let all = |lake: &Path| cells(lake, table, |column| !column.is_empty());
        assert_eq!(all(&recorded), all(&one), "{table:?}");
    }
    let said = run(&one, &["verify", "--replay", "50"]);
    assert!(said.contains("sound"), "{said}");
    // It merges with another conversion, and with what is recorded today.
    let json = run(old, &["convert", "--into", &text(&two), "--format", "json"]);
    assert!(json.contains(r#""steps_elsewhere": {}"#), "{json}");
    record_llvm(&fresh, "2");
    let both = place("both");
    run(&one, &["merge", &text(&one), &text(&two), "--into", &text(&both)]);
    assert_eq!(counts(&one), counts(&both));
    let all = place("all");
    run(&one, &["merge", &text(&both), &text(&fresh), "--into", &text(&all)]);
    assert_eq!(counts(&all)[..2], [12, counts(&one)[1] + counts(&fresh)[1]]);
    // More is recorded into it.
    record_llvm(&one, "2");
    assert_eq!(counts(&one), counts(&all));
    run(&one, &["verify"]);
}
