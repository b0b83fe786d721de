//! The store on a disk that fails: power cuts at every operation, full disks, short writes.

use std::collections::{BTreeMap, HashSet};
use std::io::ErrorKind;
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::ControlFlow::Continue;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{
    Disk, DiskOperation, FaultEffect, Lake, LakeError, Rows, Table, Writer, to_the_end,
};
use steplake::model::{EpisodeId, RunId, StateId};
use steplake::upkeep::Keep;

use crate::fixtures::power::Power;
use crate::fixtures::support::scratch;
use crate::fixtures::toy_lake::{Author, identity, read, sorted, state};

pub(crate) const RUN: RunId = RunId(1);

/// Something that a writer does.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Append(Rows),
    Seal,
    /// Prepares a seal, appends, publishes the seal.
    SealBehind(Rows),
    DiscardOpen,
    Dedup,
    /// Counts into a layer of its own.
    DedupApart,
    /// Merges segments of the recorded tables.
    Compact,
    /// Forgets all snapshots but two.
    Expire,
    Collect,
    Reopen,
}

/// What a lake holds, as it should be.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model(pub(crate) Rows);

impl Model {
    pub(crate) fn after(&self, act: &Act) -> Self {
        let mut rows = self.0.clone();
        match act {
            Act::Append(new) | Act::SealBehind(new) => {
                rows.benchmarks.extend_from_slice(&new.benchmarks);
                rows.episodes.extend_from_slice(&new.episodes);
                rows.steps.extend_from_slice(&new.steps);
                rows.observations.extend_from_slice(&new.observations);
                rows.ir.extend_from_slice(&new.ir);
                rows.measurements.extend_from_slice(&new.measurements);
                rows.miscompilations.extend_from_slice(&new.miscompilations);
            }
            Act::DiscardOpen => {
                let closed = rows.episodes.iter().map(|row| row.id).collect::<HashSet<_>>();
                rows.steps.retain(|row| closed.contains(&row.episode));
                let held = rows.steps.iter().filter_map(|row| row.state).collect::<HashSet<_>>();
                rows.observations.retain(|row| held.contains(&row.state));
                rows.ir.retain(|row| held.contains(&row.state));
                let named = rows.steps.iter().map(|row| &row.benchmark).collect::<HashSet<_>>();
                rows.benchmarks.retain(|row| named.contains(&row.uri));
            }
            Act::Seal
            | Act::Dedup
            | Act::DedupApart
            | Act::Compact
            | Act::Expire
            | Act::Collect
            | Act::Reopen => {}
        }
        Self(sorted(rows))
    }
}

/// A lake with its writer, on a disk that may fail.
pub(crate) struct Machine {
    pub(crate) lake: Lake,
    writer: Option<Writer>,
}

impl Machine {
    pub(crate) fn start(disk: Disk, path: &Path) -> Result<Self, LakeError> {
        let lake = Lake::open_or_create_on(disk, path, &identity())?;
        let writer = Some(lake.writer()?);
        Ok(Self { lake, writer })
    }

    pub(crate) fn act(&mut self, act: &Act) -> Result<(), LakeError> {
        let writer = self.writer.as_mut().unwrap();
        match act {
            Act::Append(rows) => writer.append(rows),
            Act::Seal => writer.seal().map(drop),
            Act::SealBehind(rows) => {
                let prepared = writer.sealer().prepare()?;
                writer.append(rows)?;
                writer.publish(prepared).map(drop)
            }
            Act::DiscardOpen => writer.discard_open(RUN).map(drop),
            Act::Dedup => {
                let settings = DedupOptions::default();
                dedup(&mut self.lake.maintenance()?, settings, &mut to_the_end).map(drop)
            }
            Act::DedupApart => {
                // So little memory that most of it goes to temporary files, in one thread all the
                // same.
                let settings = DedupOptions {
                    one_layer_rows_max: 0,
                    tier: 0,
                    lag: 0,
                    memory_bytes_max: 100,
                    threads: NonZeroUsize::MIN,
                    ..DedupOptions::default()
                };
                dedup(&mut self.lake.maintenance()?, settings, &mut to_the_end).map(drop)
            }
            Act::Compact => writer.compact(&mut to_the_end).map(drop),
            Act::Expire => {
                let keep = Keep::Newest(NonZeroU64::new(2).unwrap());
                self.lake.maintenance()?.expire(keep).map(drop)
            }
            Act::Collect => self.lake.maintenance()?.collect().map(drop),
            Act::Reopen => {
                self.writer = None;
                self.lake.maintenance()?;
                self.writer = Some(self.lake.writer()?);
                Ok(())
            }
        }
    }
}

pub(crate) fn script() -> Vec<Act> {
    let mut author = Author::default();
    let episode = |ordinal| EpisodeId::new(RUN, ordinal);
    let mut acts = Vec::new();
    author.episode(episode(0), 0, &[(1, Some(1)), (2, Some(2))]);
    author.reset(episode(1), 1);
    acts.extend([Act::Append(author.take()), Act::Seal, Act::Dedup]);
    author.steps(episode(1), 1, 1, &[(1, Some(3)), (2, None)]);
    author.measure(3, 0, 2);
    author.measure(2, 0, 0);
    author.miscompile(9, 0, &[1, 2], [1, 2]);
    acts.push(Act::Append(author.take()));
    author.close(episode(1), 1, 2, false);
    author.reset(episode(2), 0);
    acts.extend([Act::SealBehind(author.take()), Act::Seal, Act::DedupApart, Act::Reopen]);
    author.steps(episode(2), 0, 1, &[(1, Some(4)), (1, Some(9))]);
    author.episode(episode(3), 0, &[(1, Some(4)), (5, Some(5))]);
    author.measure(1, 0, 2);
    acts.extend([Act::Append(author.take()), Act::DiscardOpen, Act::Seal, Act::Compact]);
    acts.extend([Act::Dedup, Act::Compact, Act::Reopen]);
    acts.extend([Act::Expire, Act::Collect, Act::Reopen]);
    acts
}

fn derived(lake: &Lake) -> Vec<(Table, String)> {
    let snapshot = lake.snapshot().unwrap();
    let derived = Table::ALL.into_iter().filter(|table| table.is_derived());
    let segments = derived.flat_map(|table| snapshot.segments(table));
    segments.map(|segment| (segment.table, segment.digest.clone())).collect()
}

/// Files in the folders of the tables that no snapshot has.
fn unlisted(lake: &Lake) -> Vec<PathBuf> {
    let mut listed = HashSet::new();
    for row in lake.snapshot().unwrap().history() {
        let snapshot = lake.snapshot_at(row.id).unwrap();
        let segments = Table::ALL.iter().flat_map(|&table| snapshot.segments(table));
        listed.extend(segments.map(|segment| segment.path.clone()));
    }
    let folders = Table::ALL
        .iter()
        .filter_map(|table| std::fs::read_dir(lake.path().join("data").join(table.name())).ok());
    folders
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("_delta_log") && !listed.contains(path))
        .collect()
}

/// All that can be checked of the lake and of each of its snapshots.
fn assert_sound(lake: &Lake) {
    let report = lake.verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    for row in lake.snapshot().unwrap().history() {
        let report =
            lake.verify_states(Some(row.id), &mut to_the_end, &mut |_| Continue(())).unwrap();
        assert!(report.is_sound(), "snapshot {}: {:?}", row.id, report.findings);
    }
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing_and_doubles_nothing() {
    let acts = script();
    let mut models = vec![Model::default()];
    for act in &acts {
        models.push(models.last().unwrap().after(act));
    }
    let undisturbed = scratch();
    let mut machine = Machine::start(Disk::default(), &undisturbed.path().join("lake")).unwrap();
    for act in &acts {
        machine.act(act).unwrap();
    }
    assert_eq!(read(&machine.lake), models.last().unwrap().0);
    let wanted = derived(&machine.lake);
    assert!(!wanted.is_empty());

    for operations in 0.. {
        let folder = scratch();
        let path = folder.path().join("lake");
        let (disk, power) = Power::disk(operations, false);
        let mut done = 0;
        let played = Machine::start(disk, &path).and_then(|mut machine| {
            for act in &acts {
                machine.act(act)?;
                done += 1;
            }
            Ok(())
        });
        assert_eq!(played.is_err(), power.lock().unwrap().off, "at {operations}: {played:?}");
        power.lock().unwrap().cut();

        if let Ok(lake) = Lake::open(&path) {
            lake.maintenance().unwrap().collect().unwrap();
        }
        let mut machine = Machine::start(Disk::default(), &path).unwrap();
        let left = unlisted(&machine.lake);
        assert!(left.is_empty(), "after {operations} operations, act {done}: {left:?}");
        let found = read(&machine.lake);
        assert_sound(&machine.lake);
        let appended =
            matches!(acts.get(done), Some(Act::SealBehind(_))) && found == models[done + 1].0;
        assert!(
            appended || found == models[done].0,
            "after {operations} operations, act {done}: {found:#?}"
        );
        let rest = if appended { done + 1 } else { done };
        for act in appended.then_some(&Act::Seal).into_iter().chain(&acts[rest..]) {
            machine.act(act).unwrap();
        }
        assert_eq!(read(&machine.lake), models.last().unwrap().0, "after {operations} operations");
        assert_eq!(derived(&machine.lake), wanted, "after {operations} operations");
        assert_sound(&machine.lake);
        // Beside a writer, a collection leaves recorded files that have expired.
        machine.writer = None;
        machine.lake.maintenance().unwrap().collect().unwrap();
        let left = unlisted(&machine.lake);
        assert!(left.is_empty(), "after {operations} operations: {left:?}");
        if played.is_ok() {
            return;
        }
    }
}

#[test]
fn orphans_go_and_what_is_not_ours_stays() {
    let folder = scratch();
    let path = folder.path().join("lake");
    let mut machine = Machine::start(Disk::default(), &path).unwrap();
    for act in &script()[..2] {
        machine.act(act).unwrap();
    }
    let steps = path.join("data/steps");
    for name in ["steps-0123456789abcdef.parquet", ".steps-7.tmp", "notes.parquet"] {
        std::fs::write(steps.join(name), "x").unwrap();
    }
    machine.act(&Act::Reopen).unwrap();
    let mut left = unlisted(&machine.lake);
    left.sort();
    assert_eq!(
        left,
        ["notes.parquet", "steps-0123456789abcdef.parquet"].map(|name| steps.join(name))
    );
    machine.writer = None;
    machine.lake.maintenance().unwrap().collect().unwrap();
    assert_eq!(unlisted(&machine.lake), [steps.join("notes.parquet")]);
    assert_sound(&machine.lake);
}

#[test]
fn a_full_disk_loses_nothing_and_work_goes_on_once_there_is_room() {
    let folder = scratch();
    let full = Arc::new(AtomicBool::new(false));
    let shared = Arc::clone(&full);
    let disk = Disk::with_faults(move |operation| {
        let takes_room = matches!(operation, DiskOperation::Write(..) | DiskOperation::Commit(_));
        if takes_room && shared.load(Ordering::Relaxed) {
            return FaultEffect::Fail(ErrorKind::StorageFull.into());
        }
        FaultEffect::Proceed
    });
    let mut machine = Machine::start(disk, &folder.path().join("lake")).unwrap();
    let mut model = Model::default();
    for act in script() {
        let changes = !matches!(act, Act::Collect | Act::Reopen);
        if changes {
            full.store(true, Ordering::Relaxed);
            let error = machine.act(&act).unwrap_err();
            assert!(matches!(&error, LakeError::DiskFull { .. }), "{error}");
            if let (Act::Append(_), LakeError::DiskFull { wanted, .. }) = (&act, &error) {
                assert!(wanted.is_some_and(|bytes| bytes > 0));
            }
            assert!(error.to_string().contains("free some space"), "{error}");
            assert_eq!(read(&machine.lake), model.0);
            full.store(false, Ordering::Relaxed);
        }
        machine.act(&act).unwrap();
        model = model.after(&act);
        assert_eq!(read(&machine.lake), model.0);
    }
    assert_sound(&machine.lake);
}

/// One move of a random script: an episode goes on, and maybe ends.
#[derive(Debug, Clone)]
enum Move {
    Play { ordinal: u32, path: Vec<(u32, u32)>, end: bool, behind: bool },
    Other(Act),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let path = vec((0_u32..4, 0_u32..9), 0..4);
    let play = (0_u32..8, path, any::<bool>(), proptest::bool::weighted(0.2))
        .prop_map(|(ordinal, path, end, behind)| Move::Play { ordinal, path, end, behind });
    let other = prop_oneof![
        Just(Act::Seal),
        Just(Act::DiscardOpen),
        Just(Act::Reopen),
        Just(Act::Dedup),
        Just(Act::DedupApart),
        Just(Act::Compact),
        Just(Act::Expire),
        Just(Act::Collect),
    ];
    vec(prop_oneof![3 => play, 1 => other.prop_map(Move::Other)], 1..16)
}

/// Turns moves into acts that keep the contract of [`Rows`].
fn acts(moves: &[Move]) -> Vec<Act> {
    let mut author = Author::default();
    // Next index of each open episode; none once it is closed.
    let mut episodes: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    let mut sealed_or_closed: HashSet<StateId> = HashSet::new();
    let mut held: BTreeMap<u32, Vec<StateId>> = BTreeMap::new();
    let mut acts = Vec::new();
    for step in moves {
        match step {
            Move::Play { ordinal, path, end, behind } => {
                let id = EpisodeId::new(RUN, *ordinal);
                let Some(next) = *episodes.entry(*ordinal).or_insert(Some(0)) else { continue };
                let states = held.entry(*ordinal).or_default();
                let mut index = next;
                if index == 0 {
                    author.reset(id, 0);
                    states.push(state(0));
                    index = 1;
                }
                let taken = path.iter().map(|&(action, to)| (action, Some(to))).collect::<Vec<_>>();
                author.steps(id, 0, index, &taken);
                states.extend(path.iter().map(|&(_, to)| state(to)));
                index += u32::try_from(path.len()).unwrap();
                episodes.insert(*ordinal, (!end).then_some(index));
                if *end {
                    author.close(id, 0, index - 1, true);
                    sealed_or_closed.extend(states.iter());
                }
                let rows = author.take();
                acts.push(if *behind { Act::SealBehind(rows) } else { Act::Append(rows) });
            }
            Move::Other(act) => {
                if matches!(act, Act::DiscardOpen) {
                    // Open episodes begin again, and their states are new again.
                    episodes.retain(|_, next| next.is_none());
                    held.retain(|ordinal, _| episodes.contains_key(ordinal));
                    author.known.clone_from(&sealed_or_closed);
                    if sealed_or_closed.is_empty() {
                        author.benchmarks.clear();
                    }
                }
                acts.push(act.clone());
            }
        }
    }
    acts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_list_of_acts_does_what_the_model_does(moves in moves()) {
        let folder = scratch();
        let mut machine = Machine::start(Disk::default(), &folder.path().join("lake")).unwrap();
        let mut model = Model::default();
        for act in acts(&moves) {
            machine.act(&act).unwrap();
            model = model.after(&act);
            prop_assert_eq!(&read(&machine.lake), &model.0);
        }
        let report = machine.lake.verify(&mut to_the_end).unwrap();
        prop_assert!(report.is_sound(), "{:?}", report.findings);
    }
}
