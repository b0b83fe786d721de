//! Observations that are filled in later, on a disk that fails.

use std::ops::ControlFlow;
use std::path::Path;

use steplake::lake::{
    Disk, Lake, LakeError, ObservationRow, RecordedObservation, SnapshotKind, Table, to_the_end,
};
use steplake::model::{EpisodeId, RunId, StateId, Value};
use steplake::upkeep::{Backfill, Backfilled};

use crate::fixtures::power::Power;
use crate::fixtures::support::{copy_folder, scratch};
use crate::fixtures::toy_lake::{Author, identity, read};

const PARTS: usize = 3;

fn spaces() -> Vec<RecordedObservation> {
    vec![RecordedObservation::int("Depth"), RecordedObservation::int_vector("Pair", &["a", "b"])]
}

fn values(state: StateId) -> Vec<Option<Value>> {
    let number = i32::from(state.0[3]);
    vec![Some(Value::Int(number.into())), Some(Value::IntVector([number, -number].into()))]
}

/// A lake with closed episodes that are hot, and others that are sealed in two files.
fn recorded(path: &Path) {
    let lake = Lake::create(path, &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let mut author = Author::default();
    for ordinal in 0..3 {
        let path = (0..4).map(|step| (1, Some(10 * ordinal + step))).collect::<Vec<_>>();
        author.episode(EpisodeId::new(RunId(1), ordinal), 10 * ordinal, &path);
        writer.append(&author.take()).unwrap();
        if ordinal < 2 {
            writer.seal().unwrap();
        }
    }
    writer.begin_run("{}", 0).unwrap();
}

/// Fills in all states that lack observations.
fn backfill(lake: &Lake) -> Result<Backfilled, LakeError> {
    backfill_in(lake, PARTS)
}

fn backfill_in(lake: &Lake, parts: usize) -> Result<Backfilled, LakeError> {
    let backfill = Backfill::begin(lake, &spaces())?;
    let filling = backfill.filling();
    let mut missing = filling.missing().iter().copied().collect::<Vec<_>>();
    missing.sort_unstable();
    let row = |&state: &StateId| ObservationRow { state, values: values(state) };
    for states in missing.chunks(missing.len().div_ceil(parts).max(1)) {
        filling.add(states.iter().map(row).collect())?;
    }
    backfill.complete(&mut || ControlFlow::Continue(()))
}

fn assert_filled(lake: &Lake, states: usize) {
    let rows = read(lake).observations;
    assert_eq!(rows.len(), states);
    for row in rows {
        assert_eq!(row.values[2..], values(row.state), "{}", row.state);
        assert!(row.values[..2].iter().all(Option::is_some));
    }
}

#[test]
fn a_power_cut_at_any_operation_leaves_all_observations_or_none() {
    let origin = scratch();
    let origin = origin.path().join("lake");
    recorded(&origin);
    let states = read(&Lake::open(&origin).unwrap()).observations.len();
    let (mut none, mut all, mut kept) = (0, 0, 0);
    for operations in 0.. {
        let folder = scratch();
        let path = folder.path().join("lake");
        copy_folder(&origin, &path);
        let (disk, power) = Power::disk(operations, operations % 2 == 1);
        let played = Lake::open_on(disk, &path).and_then(|lake| backfill(&lake));
        let is_cut = power.lock().unwrap().off;
        assert!(is_cut || played.is_ok(), "{played:?}");
        power.lock().unwrap().cut();

        let lake = Lake::open_on(Disk::default(), &path).unwrap();
        let rows = read(&lake).observations;
        let filled = rows.iter().filter(|row| row.values.len() == 4 && row.values[2].is_some());
        match filled.count() {
            0 => none += 1,
            count if count == states => all += 1,
            count => panic!("after {operations} operations, {count} of {states} are filled"),
        }
        assert!(lake.verify(&mut to_the_end).unwrap().is_sound(), "after {operations} operations");
        lake.maintenance().unwrap().collect().unwrap();
        kept += Backfill::begin(&lake, &spaces()).unwrap().filling().resumed();
        let done = backfill(&lake).unwrap();
        assert!(done.filled == states as u64 || done.filled == 0, "{done:?}");
        assert_filled(&lake, states);
        let history = lake.snapshot().unwrap().history().to_vec();
        let made = history.iter().filter(|row| row.kind == SnapshotKind::Backfill).count();
        assert_eq!(made, 1, "after {operations} operations");
        assert!(lake.verify(&mut to_the_end).unwrap().is_sound(), "after {operations} operations");
        assert!(!path.join("backfill").exists());
        if !is_cut {
            break;
        }
    }
    assert!(none > 10 && all > 1 && kept > states as u64, "{none} {all} {kept}");
}

#[test]
fn a_state_that_has_a_value_keeps_it_and_another_space_of_that_name_is_refused() {
    let folder = scratch();
    let path = folder.path().join("lake");
    recorded(&path);
    let lake = Lake::open(&path).unwrap();
    let done = backfill(&lake).unwrap();
    let mut other = spaces();
    other[0] = RecordedObservation::int("Size");
    let backfill = Backfill::begin(&lake, &other).unwrap();
    assert!(backfill.filling().missing().is_empty() && done.filled == backfill.filling().states());
    drop(backfill);
    other[0] = RecordedObservation::int_vector("Size", &["a"]);
    let error = Backfill::begin(&lake, &other).unwrap_err();
    assert!(matches!(error, LakeError::OtherIdentity { .. }), "{error}");
    let writer = lake.writer().unwrap();
    let error = Backfill::begin(&lake, &spaces()).unwrap_err();
    assert!(matches!(error, LakeError::Busy { .. }), "{error}");
    drop(writer);
    let _maintenance = lake.maintenance().unwrap();
    let error = Backfill::begin(&lake, &spaces()).unwrap_err();
    assert!(matches!(error, LakeError::BeingMaintained { .. }), "{error}");
}

#[test]
fn many_parts_and_segments_are_merged_some_at_a_time() {
    let folder = scratch();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let (mut writer, mut author) = (lake.writer().unwrap(), Author::default());
    // While somebody maintains the lake, seals merge nothing.
    let maintenance = lake.maintenance().unwrap();
    for ordinal in 0..70 {
        let path = [(1, Some(2 * ordinal)), (1, Some(2 * ordinal + 1))];
        author.episode(EpisodeId::new(RunId(1), ordinal), 0, &path);
        writer.append(&author.take()).unwrap();
        writer.seal().unwrap();
    }
    drop((writer, maintenance));
    let before = lake.snapshot().unwrap();
    assert!(before.segments(Table::Observations).len() > 64);
    let done = backfill_in(&lake, 1000).unwrap();
    assert_eq!(done.filled, 140);
    assert_filled(&lake, 140);
    let after = lake.snapshot().unwrap();
    assert!(after.segments(Table::Observations).len() < 4, "they are merged");
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
    assert!(!lake.path().join("backfill").exists());
}

#[test]
fn a_segment_whose_states_stay_without_values_is_not_written_again() {
    let folder = scratch();
    let path = folder.path().join("lake");
    recorded(&path);
    let lake = Lake::open(&path).unwrap();
    let backfill = Backfill::begin(&lake, &spaces()).unwrap();
    let paths = |lake: &Lake| {
        let snapshot = lake.snapshot().unwrap();
        let segments = snapshot.segments(Table::Observations).iter();
        segments.map(|segment| segment.path.clone()).collect::<Vec<_>>()
    };
    let before = paths(&lake);
    assert_eq!(before.len(), 3);
    let filling = backfill.filling();
    let some = *filling.missing().iter().min().unwrap();
    filling.add(vec![ObservationRow { state: some, values: values(some) }]).unwrap();
    let done = backfill.complete(&mut || ControlFlow::Continue(())).unwrap();
    assert_eq!(done.filled, 1);
    let lake = Lake::open(&path).unwrap();
    let after = paths(&lake);
    assert_eq!(before.iter().filter(|path| after.contains(path)).count(), 2);
    assert_eq!(after.len(), 3);
    let rows = read(&lake).observations;
    let filled = rows.iter().filter(|row| row.values.get(2).is_some_and(Option::is_some));
    assert_eq!(filled.map(|row| row.state).collect::<Vec<_>>(), [some]);
}
