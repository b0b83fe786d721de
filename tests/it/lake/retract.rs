//! Taking a benchmark, a run or an action back.

use std::collections::HashSet;
use std::ops::ControlFlow::Continue;
use std::path::Path;

use steplake::dedup::{DedupOptions, dedup};
use steplake::generate::{ResumeState, Stop};
use steplake::lake::{
    Disk, Lake, LakeError, Rows, SnapshotId, SnapshotKind, Table, Writer, to_the_end,
};
use steplake::model::{EpisodeId, RunId};
use steplake::upkeep::{Keep, RetractionTarget};

use crate::fixtures::power::Power;
use crate::fixtures::support::copy_folder;
use crate::fixtures::support::scratch;
use crate::fixtures::support::{contents, fail, play, rows, run, toy_lake, toy_plan};
use crate::fixtures::toy_lake::{Author, identity, read, rows_of, state, uri};

pub(crate) const RUNS: [RunId; 2] = [RunId(1), RunId(2)];

/// Two runs about two programs each, sealed in two pieces; and the second run left an episode open.
pub(crate) fn record(path: &Path, disk: Disk) -> Result<(Lake, Writer), LakeError> {
    let lake = Lake::open_or_create_on(disk, path, &identity())?;
    let mut writer = lake.writer()?;
    let mut author = Author::default();
    for run in RUNS {
        let episode = |ordinal| EpisodeId::new(run, ordinal);
        let to = u32::try_from(run.0).unwrap();
        assert_eq!(writer.begin_run("{}", i64::from(run.0))?, run);
        author.episode(episode(0), 0, &[(1, Some(2 + to)), (2, Some(3 + to))]);
        author.episode(episode(1), 1, &[(1, Some(2 + to)), (3, None)]);
        writer.append(&author.take())?;
        writer.seal()?;
    }
    author.episode(EpisodeId::new(RUNS[1], 2), 0, &[(1, Some(9))]);
    author.reset(EpisodeId::new(RUNS[1], 3), 1);
    author.steps(EpisodeId::new(RUNS[1], 3), 1, 1, &[(2, Some(11))]);
    writer.append(&author.take())?;
    Ok((lake, writer))
}

pub(crate) fn derive(lake: &Lake) -> Result<(), LakeError> {
    dedup(&mut lake.maintenance()?, DedupOptions::default(), &mut to_the_end).map(drop)
}

fn assert_sound(lake: &Lake) {
    let report = lake.verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// What stays of the rows.
fn without(rows: &Rows, subject: &RetractionTarget) -> Rows {
    let mut rows = rows.clone();
    match subject {
        RetractionTarget::Benchmarks(uris) => {
            rows.benchmarks.retain(|row| !uris.contains(&row.uri));
            rows.episodes.retain(|row| !uris.contains(&row.benchmark));
            rows.steps.retain(|row| !uris.contains(&row.benchmark));
        }
        RetractionTarget::Run(run) => {
            rows.episodes.retain(|row| row.id.run() != *run);
            rows.steps.retain(|row| row.episode.run() != *run);
        }
    }
    rows
}

/// Without what the open episodes alone have, as it is when their run is gone on with.
fn closed(rows: &Rows) -> Rows {
    let mut rows = rows.clone();
    let closed = rows.episodes.iter().map(|row| row.id).collect::<HashSet<_>>();
    rows.steps.retain(|row| closed.contains(&row.episode));
    rows.observations.retain(|row| row.state != state(11));
    rows.ir.retain(|row| row.state != state(11));
    rows
}

#[test]
fn the_rows_are_gone_and_older_snapshots_have_them() {
    for subject in [RetractionTarget::benchmark(uri(1)), RetractionTarget::Run(RUNS[1])] {
        let folder = scratch();
        let (lake, mut writer) = record(&folder.path().join("lake"), Disk::default()).unwrap();
        writer.seal().unwrap();
        derive(&lake).unwrap();
        let (before, newest) = (read(&lake), lake.snapshot().unwrap().id());
        let wanted = without(&closed(&before), &subject);
        let count = |rows: &Rows| (rows.episodes.len() as u64, rows.steps.len() as u64);
        let derived = contents(lake.path()).split_off(5);

        let done = lake.maintenance().unwrap().retract(&mut writer, &subject, "not ours").unwrap();
        let (all, left) = (count(&closed(&before)), count(&wanted));
        assert_eq!((done.episodes, done.steps), (all.0 - left.0, all.1 - left.1));
        assert_eq!(read(&lake), wanted);
        let snapshot = lake.snapshot().unwrap();
        assert_eq!(snapshot.id(), done.snapshot);
        assert_eq!(snapshot.history().last().unwrap().kind, SnapshotKind::Retract);
        assert!(snapshot.layers().is_empty(), "nothing of it is derived any more");
        let row = &snapshot.retractions()[0];
        assert_eq!((row.reason.as_str(), &row.runs), ("not ours", &done.runs));
        assert_sound(&lake);
        derive(&lake).unwrap();
        assert_sound(&lake);

        // The same as if it had never been there.
        let other = Lake::create(folder.path().join("other"), &identity()).unwrap();
        other.writer().unwrap().append(&wanted).unwrap();
        other.writer().unwrap().seal().unwrap();
        derive(&other).unwrap();
        for table in Table::ALL.into_iter().filter(|table| table.is_derived()) {
            assert_eq!(rows(lake.path(), table), rows(other.path(), table), "{table}");
        }

        let then = lake.snapshot_at(newest).unwrap();
        assert_eq!((then.rows(Table::Steps), then.retractions().len()), (all.1, 0));
        assert!(
            lake.verify_states(Some(newest), &mut to_the_end, &mut |_| Continue(()))
                .unwrap()
                .is_sound()
        );
        assert_ne!(contents(lake.path()).split_off(5), derived);
        // No number is given again.
        assert_eq!(writer.begin_run("{}", 9).unwrap(), RunId(3));
    }
}

#[test]
fn a_second_retraction_and_one_of_nothing_say_so() {
    let folder = scratch();
    let (lake, mut writer) = record(&folder.path().join("lake"), Disk::default()).unwrap();
    let mut maintenance = lake.maintenance().unwrap();
    let mut error = |subject: &RetractionTarget| {
        maintenance.retract(&mut writer, subject, "why").err().map(|error| error.to_string())
    };
    let (benchmark, run) = (RetractionTarget::benchmark(uri(1)), RetractionTarget::Run(RUNS[0]));
    let unknown = error(&RetractionTarget::benchmark(uri(5))).unwrap();
    assert!(unknown.contains("it has no benchmark generator://toy-v0/5"), "{unknown}");
    assert!(error(&RetractionTarget::Run(RunId(7))).unwrap().contains("there is no run 7"));
    assert_eq!((error(&benchmark), error(&run)), (None, None));
    let again = error(&benchmark).unwrap();
    assert!(
        again.contains("was retracted before, in snapshot") && again.contains("(why)"),
        "{again}"
    );
    assert!(error(&run).unwrap().contains("run 1 was retracted before"));
    assert_eq!(maintenance.retract_action("a1", "why").unwrap(), SnapshotId(7));
    let again = maintenance.retract_action("a1", "why").unwrap_err().to_string();
    assert!(again.contains("action a1 was retracted before, in snapshot 7"), "{again}");
    let unknown = maintenance.retract_action("a99", "why").unwrap_err().to_string();
    assert!(unknown.contains("has no action `a99`"), "{unknown}");
    assert_eq!(lake.snapshot().unwrap().retractions().len(), 3);
    // A program that is recorded again can be retracted again.
    let run = writer.begin_run("{}", 0).unwrap();
    let known = read(&lake).observations.iter().map(|row| row.state).collect();
    let mut author = Author { known, ..Author::default() };
    author.episode(EpisodeId::new(run, 0), 1, &[]);
    writer.append(&author.take()).unwrap();
    assert_eq!(maintenance.retract(&mut writer, &benchmark, "why").unwrap().runs, [run]);
}

#[test]
fn the_transitions_of_a_retracted_action_are_left_out_and_its_steps_stay() {
    let folder = scratch();
    let (lake, mut writer) = record(&folder.path().join("lake"), Disk::default()).unwrap();
    writer.seal().unwrap();
    derive(&lake).unwrap();
    let before = read(&lake);
    let of_action = |table| {
        let is_of = |row: &String| row.contains(" action=1 ");
        let all = rows(lake.path(), table);
        let of = all.iter().filter(|row| is_of(row)).count();
        (of, all.len() - of)
    };
    let (of, others) = of_action(Table::StateTransitions);
    assert!(of > 0 && others > 0);
    lake.maintenance().unwrap().retract_action("a1", "depends on the heap").unwrap();
    derive(&lake).unwrap();
    assert_eq!(of_action(Table::StateTransitions), (0, others));
    assert_eq!(read(&lake), before);
    // What is recorded later is left out as well.
    let known = before.observations.iter().map(|row| row.state).collect();
    let mut author = Author { known, benchmarks: [0, 1].into(), ..Author::default() };
    author.episode(EpisodeId::new(RUNS[1], 9), 0, &[(1, Some(2)), (5, Some(7))]);
    writer.append(&author.take()).unwrap();
    writer.seal().unwrap();
    derive(&lake).unwrap();
    assert_eq!(of_action(Table::StateTransitions), (0, others + 1));
    assert_sound(&lake);
}

#[test]
fn a_run_that_lost_episodes_has_the_others() {
    let (_folder, lake) = toy_lake();
    let plan = toy_plan("random", Stop::Episodes(7), 1);
    let mut writer = play(&lake, &plan);
    let whole = ResumeState::resume(&mut writer, RUNS[0], &plan).unwrap();
    assert_eq!(whole.episodes(), 7);
    assert!(whole.unless_over(&plan).is_none(), "nothing is left to play");
    let subject = RetractionTarget::benchmark(plan.benchmarks[2].clone());
    lake.maintenance().unwrap().retract(&mut writer, &subject, "a test").unwrap();
    let left = ResumeState::resume(&mut writer, RUNS[0], &plan).unwrap();
    assert_eq!(left.episodes(), 5);
    assert!(left.unless_over(&plan).is_some());
    let run = writer.begin_run("{}", 1).unwrap();
    assert_eq!(ResumeState::resume(&mut writer, run, &plan).unwrap().episodes(), 0);
}

#[test]
fn a_power_cut_at_any_operation_retracts_all_of_it_or_nothing() {
    let folder = scratch();
    let subject = RetractionTarget::benchmark(uri(1));
    let retract = |lake: &Lake| {
        let mut maintenance = lake.maintenance()?;
        let mut writer = lake.writer()?;
        maintenance.retract(&mut writer, &subject, "why").map(drop)
    };
    let whole = record(&folder.path().join("whole"), Disk::default()).unwrap().0;
    let before = read(&whole);
    retract(&whole).unwrap();
    let wanted = read(&whole);
    derive(&whole).unwrap();
    let derived = contents(whole.path());
    let origin = folder.path().join("origin");
    drop(record(&origin, Disk::default()).unwrap());
    derive(&Lake::open(&origin).unwrap()).unwrap();
    let mut cuts = 0;
    for operations in 0.. {
        let path = folder.path().join(format!("cut-{operations}"));
        copy_folder(&origin, &path);
        let (disk, power) = Power::disk(operations, false);
        let result = Lake::open_on(disk, &path).and_then(|lake| retract(&lake));
        power.lock().unwrap().cut();
        let lake = Lake::open(&path).unwrap();
        drop((lake.maintenance().unwrap(), lake.writer().unwrap()));
        assert_sound(&lake);
        let found = read(&lake);
        let done = !lake.snapshot().unwrap().retractions().is_empty();
        if done {
            assert_eq!(found, wanted, "after {operations} operations");
        } else {
            assert!(result.is_err());
            let same = found == before || found == closed(&before);
            assert!(same, "after {operations} operations: {found:#?}");
            retract(&lake).unwrap();
            assert_eq!(read(&lake), wanted);
            cuts += 1;
        }
        derive(&lake).unwrap();
        assert_eq!(contents(&path), derived);
        for row in lake.snapshot().unwrap().history() {
            assert!(
                lake.verify_states(Some(row.id), &mut to_the_end, &mut |_| Continue(()))
                    .unwrap()
                    .is_sound(),
                "{}",
                row.id
            );
        }
        if !power.lock().unwrap().off {
            assert!(cuts > 10, "{cuts}");
            return;
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn after_a_killed_retraction_expire_and_gc_leave_what_older_snapshots_that_are_read_have() {
    let folder = scratch();
    let subject = RetractionTarget::Run(RUNS[0]);
    let retract = |lake: &Lake| {
        let (mut maintenance, mut writer) = (lake.maintenance()?, lake.writer()?);
        maintenance.retract(&mut writer, &subject, "why").map(drop)
    };
    let origin = folder.path().join("origin");
    drop(record(&origin, Disk::default()).unwrap());
    derive(&Lake::open(&origin).unwrap()).unwrap();
    for operations in 0.. {
        let case = format!("killed before operation {operations}");
        let path = folder.path().join(format!("killed-{operations}"));
        copy_folder(&origin, &path);
        let lake = Lake::open(&path).unwrap();
        let older = lake.sealed().unwrap();
        let (id, rows) = (older.id(), rows_of(&older));
        let (disk, power) = Power::disk(operations, true);
        let result = Lake::open_on(disk, &path).and_then(|lake| retract(&lake));
        let is_killed = power.lock().unwrap().off;
        assert!(is_killed || result.is_ok(), "{case}");

        // While it is read, a snapshot may expire, and its files stay.
        let mut maintenance = lake.maintenance().unwrap();
        let newest = lake.sealed().unwrap().id();
        let keeps = operations % 2 == 1;
        maintenance.expire(Keep::From(if keeps { id } else { newest })).unwrap();
        let refused = maintenance.collect();
        assert!(matches!(refused, Err(LakeError::BeingRead { .. })), "{case}: {refused:?}");
        assert_eq!(rows_of(&older), rows, "{case}");
        drop(older);

        // Then those go that no snapshot has.
        maintenance.collect().unwrap();
        drop(maintenance);
        assert_sound(&lake);
        if keeps {
            assert_eq!(rows_of(&lake.snapshot_at(id).unwrap()), rows, "{case}");
        }
        for row in lake.snapshot().unwrap().history() {
            assert!(
                lake.verify_states(Some(row.id), &mut to_the_end, &mut |_| Continue(()))
                    .unwrap()
                    .is_sound(),
                "{case}"
            );
        }
        std::fs::remove_dir_all(&path).unwrap();
        if !is_killed {
            assert!(operations > 20, "{operations}");
            return;
        }
    }
}

#[test]
fn patterns_name_several_benchmarks_that_go_at_once() {
    let folder = scratch();
    let path = folder.path().join("lake");
    let (lake, writer) = record(&path, Disk::default()).unwrap();
    drop(writer);
    let retract = |pattern| ["retract", "--benchmark", pattern, "--reason", "why"];
    let (code, error) = fail(&path, &retract("generator://toy-v0/7..9"));
    assert!(
        code == 2 && error.contains("`generator://toy-v0/7..9` matches no benchmark"),
        "{error}"
    );
    let (code, error) = fail(&path, &retract("generator://toy-v0/7"));
    assert!(code == 2 && error.contains("it has no benchmark generator://toy-v0/7"), "{error}");
    let said = run(&path, &retract("generator://toy-v0/*"));
    let both =
        "2 runs about 2 benchmarks (generator://toy-v0/0, generator://toy-v0/1), in snapshot";
    assert!(said.contains(both), "{said}");
    let snapshot = lake.snapshot().unwrap();
    assert_eq!((snapshot.rows(Table::Steps), snapshot.rows(Table::Benchmarks)), (0, 0));
    let rows = snapshot.retractions().iter().map(|row| (row.value.clone(), row.runs.clone()));
    let wanted = [0, 1].map(|number| (uri(number).to_string(), RUNS.to_vec()));
    assert_eq!(rows.collect::<Vec<_>>(), wanted);
    let ids = snapshot.retractions().iter().map(|row| row.snapshot).collect::<HashSet<_>>();
    assert_eq!(ids.len(), 1);
    let (_, error) = fail(&path, &retract("generator://toy-v0/1"));
    assert!(error.contains("was retracted before"), "{error}");
    assert_sound(&lake);
}

#[test]
fn the_command_retracts_and_info_and_sql_say_what() {
    let folder = scratch();
    let path = folder.path().join("lake");
    let (lake, writer) = record(&path, Disk::default()).unwrap();
    let (code, error) = fail(&path, &["retract", "--run", "1", "--reason", "why"]);
    assert!(code == 3 && error.contains("is writing to the lake"), "{error}");
    drop(writer);
    let said = run(&path, &["retract", "--run", "1", "--reason", "wrong machine"]);
    assert!(said.starts_with("retracted 2 episodes and 6 steps of 1 run, in snapshot"), "{said}");
    run(&path, &["retract", "--action", "a2", "--reason", "depends on the heap"]);
    let (code, error) = fail(&path, &["retract", "--action", "a2", "--reason", "again"]);
    assert!(code == 2 && error.contains("was retracted before"), "{error}");
    assert_eq!(fail(&path, &["retract", "--run", "2", "--reason", " "]).0, 2);
    assert_eq!(fail(&path, &["retract", "--reason", "why"]).0, 2);
    let info = run(&path, &["info"]);
    assert!(info.contains("run 1 (wrong machine)"), "{info}");
    assert!(info.contains("action a2 (depends on the heap)"), "{info}");
    let rows =
        run(&path, &["sql", "SELECT kind, value, reason FROM retractions", "--format", "csv"]);
    assert_eq!(rows, "kind,value,reason\nrun,1,wrong machine\naction,a2,depends on the heap\n");
    assert_eq!(
        run(&path, &["sql", "SELECT count(*) FROM losses", "--format", "csv"]),
        "count(*)\n0\n"
    );
    run(&path, &["verify"]);
    assert!(lake.snapshot().unwrap().rows(Table::StateTransitions) > 0, "dedup was run");
}
