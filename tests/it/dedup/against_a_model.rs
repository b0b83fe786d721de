//! Dedup against a naive model of it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use arrow::array::Array as _;
use proptest::collection::vec;
use proptest::prelude::*;
use steplake::dedup::{DedupOptions, DedupReport, compare, dedup};
use steplake::lake::{Lake, LakeError, StepRow, Table, Writer, to_the_end};
use steplake::layers::KeyRange;
use steplake::model::{EpisodeId, RunId, StateId};

use crate::fixtures::toy_lake::{Author, Taken, float64, id, identity, int32, int64, read, text};

const ALL: KeyRange = i64::MIN..=i64::MAX;

/// A row of a derived table, column by column but for the keys.
#[derive(Debug, Clone, PartialEq)]
struct Derived {
    table: Table,
    from: StateId,
    action: u32,
    /// Where it led, with the rewards of the first step and the time of all.
    led: Option<(StateId, Vec<f64>, u64)>,
    failed: Option<(String, Option<String>)>,
    count: u64,
    first: (EpisodeId, u32),
}

/// The derived tables as they should be once everything is sealed.
fn expected(lake: &Lake) -> Vec<Derived> {
    let rows = read(lake);
    let closed = rows.episodes.iter().map(|row| (row.id, row)).collect::<BTreeMap<_, _>>();
    let mut edges: BTreeMap<(i64, StateId, u32, Option<StateId>), Vec<&StepRow>> = BTreeMap::new();
    for pair in rows.steps.windows(2) {
        if pair[0].episode == pair[1].episode && closed.contains_key(&pair[0].episode) {
            let (from, action) = (pair[0].state.unwrap(), pair[1].action.unwrap().0);
            edges.entry((from.key(), from, action, pair[1].state)).or_default().push(&pair[1]);
        }
    }
    let row =
        |table, (_, from, action, to): (i64, StateId, u32, Option<StateId>), steps: &[&StepRow]| {
            let first = steps[0];
            let time = steps.iter().map(|step| step.wall_time).sum::<Duration>();
            let time = u64::try_from(time.as_micros()).unwrap();
            let episode = closed[&first.episode];
            Derived {
                table,
                from,
                action,
                led: to.map(|to| (to, first.rewards.as_ref().unwrap().to_vec(), time)),
                failed: to.is_none().then(|| (episode.outcome.to_string(), episode.detail.clone())),
                count: steps.len() as u64,
                first: (first.episode, first.index),
            }
        };
    let (mut transitions, mut conflicts, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    let edges = edges.into_iter().collect::<Vec<_>>();
    for group in edges.chunk_by(|(one, _), (other, _)| (one.1, one.2) == (other.1, other.2)) {
        let led = group.iter().filter(|(key, _)| key.3.is_some()).collect::<Vec<_>>();
        let most = led.iter().map(|(_, steps)| steps.len()).max();
        if let Some((key, steps)) = led.iter().find(|(_, steps)| Some(steps.len()) == most) {
            transitions.push(row(Table::StateTransitions, *key, steps));
        }
        if led.len() > 1 {
            conflicts.extend(led.iter().map(|(key, steps)| row(Table::Conflicts, *key, steps)));
        }
        let failed = group.iter().filter(|(key, _)| key.3.is_none());
        failures.extend(failed.map(|(key, steps)| row(Table::Failures, *key, steps)));
    }
    transitions.into_iter().chain(conflicts).chain(failures).collect()
}

/// The derived tables as they are, over all layers.
fn derived(lake: &Lake, range: &KeyRange) -> Vec<Derived> {
    let snapshot = lake.snapshot().unwrap();
    let mut rows = Vec::new();
    for table in [Table::StateTransitions, Table::Conflicts, Table::Failures] {
        for batch in snapshot.scan_layers(table, range).unwrap() {
            let batch = batch.unwrap();
            assert_eq!(batch.schema(), snapshot.schema(table));
            for row in 0..batch.num_rows() {
                let from = id(&batch, "state_id", row);
                assert_eq!(int64(&batch, "state_key", row), from.key());
                let led = (table != Table::Failures).then(|| {
                    let to = id(&batch, "next_state_id", row);
                    assert_eq!(int64(&batch, "next_state_key", row), to.key());
                    let reward = |name| float64(&batch, name, row);
                    let rewards = vec![reward("reward_Size"), reward("reward_SizeNorm")];
                    (to, rewards, int64(&batch, "wall_time_us", row).try_into().unwrap())
                });
                let detail = || batch["detail"].is_valid(row).then(|| text(&batch, "detail", row));
                let failed =
                    (table == Table::Failures).then(|| (text(&batch, "kind", row), detail()));
                let episode = EpisodeId(int64(&batch, "first_episode_id", row));
                rows.push(Derived {
                    table,
                    from,
                    action: int32(&batch, "action", row),
                    led,
                    failed,
                    count: int64(&batch, "count", row).try_into().unwrap(),
                    first: (episode, int32(&batch, "first_step_index", row)),
                });
            }
        }
    }
    rows
}

fn assert_same(found: &[Derived], wanted: &[Derived]) {
    for (found, wanted) in found.iter().zip(wanted) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), wanted.len());
}

fn settings(memory_bytes_max: u64) -> DedupOptions {
    DedupOptions {
        memory_bytes_max,
        threads: NonZeroUsize::new(2).unwrap(),
        ..DedupOptions::default()
    }
}

/// Counts what is sealed.
fn count(lake: &Lake, settings: DedupOptions) -> DedupReport {
    dedup(&mut lake.maintenance().unwrap(), settings, &mut to_the_end).unwrap()
}

/// Seals and counts.
fn run(writer: &mut Writer, memory_bytes_max: u64) -> DedupReport {
    writer.seal().unwrap();
    count(writer.lake(), settings(memory_bytes_max))
}

fn lake_with(folder: &tempfile::TempDir, episodes: &[Vec<Taken>]) -> (Lake, Writer, Author) {
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let mut author = Author::default();
    for (ordinal, path) in (0..).zip(episodes) {
        author.episode(EpisodeId::new(RunId(1), ordinal), 0, path);
    }
    writer.append(&author.take()).unwrap();
    (lake, writer, author)
}

#[test]
fn equal_steps_are_counted_and_different_results_are_conflicts() {
    let folder = tempfile::tempdir().unwrap();
    let episodes = [
        vec![(1, Some(1)), (2, Some(2)), (3, None)],
        vec![(1, Some(1)), (2, Some(2))],
        vec![(1, Some(3)), (3, Some(3))],
        vec![],
        vec![(1, Some(1)), (2, Some(2)), (3, None)],
    ];
    let (lake, mut writer, _) = lake_with(&folder, &episodes);
    let report = run(&mut writer, 1 << 20);
    assert_eq!((report.steps, report.layers, report.unchanged), (10, 1, false));
    assert_eq!((report.transitions, report.conflicts, report.failures), (3, 2, 1));
    assert_same(&derived(&lake, &ALL), &expected(&lake));
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}

#[test]
fn a_pass_with_nothing_new_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer, mut author) =
        lake_with(&folder, &[vec![(1, Some(1)), (2, None)], vec![(1, Some(2))]]);
    let first = run(&mut writer, 1 << 20);
    let files = |lake: &Lake| lake.snapshot().unwrap().segments(Table::StateTransitions).to_vec();
    let before = (files(&lake), lake.snapshot().unwrap().id());
    let second = run(&mut writer, 1 << 20);
    assert!(second.unchanged);
    let counts = |report: DedupReport| (report.transitions, report.conflicts, report.failures);
    assert_eq!(counts(second), counts(first));
    assert_eq!((files(&lake), lake.snapshot().unwrap().id()), before);

    // An open episode changes nothing either; once it is closed it does, once it is sealed.
    let open = EpisodeId::new(RunId(1), 2);
    author.reset(open, 0);
    author.steps(open, 0, 1, &[(1, Some(1))]);
    writer.append(&author.take()).unwrap();
    assert!(run(&mut writer, 1 << 20).unchanged);
    author.close(open, 0, 1, true);
    writer.append(&author.take()).unwrap();
    assert!(count(&lake, settings(1 << 20)).unchanged);
    let third = run(&mut writer, 1 << 20);
    assert_eq!((third.unchanged, third.steps, third.layers), (false, 1, 1));
    assert_same(&derived(&lake, &ALL), &expected(&lake));
    // A tool that reads all files of the newest snapshot counts each row once.
    let old = before.0[0].path.file_name().unwrap();
    assert!(!lake.path().join("current/state_transitions").join(old).exists());
    assert!(!files(&lake).contains(&before.0[0]));
    let full = count(&lake, DedupOptions { full: true, ..settings(1 << 20) });
    assert_eq!((full.unchanged, full.steps, full.layers), (false, 4, 1));
    assert_same(&derived(&lake, &ALL), &expected(&lake));
}

#[test]
fn a_damaged_derived_file_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer, _) = lake_with(&folder, &[vec![(1, Some(1)), (2, Some(2))]]);
    run(&mut writer, 1 << 20);
    let path = lake.snapshot().unwrap().segments(Table::StateTransitions)[0].path.clone();
    std::fs::write(&path, b"PAR1").unwrap();
    assert!(!lake.verify(&mut to_the_end).unwrap().is_sound());
    assert!(!run(&mut writer, 1 << 20).unchanged);
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}

#[test]
fn damaged_steps_are_refused_with_the_name_of_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer, _) = lake_with(&folder, &[vec![(1, Some(1)), (2, Some(2))]]);
    writer.seal().unwrap();
    let path = lake.snapshot().unwrap().segments(Table::Steps)[0].path.clone();
    let mut content = std::fs::read(&path).unwrap();
    content[100] ^= 1;
    std::fs::write(&path, content).unwrap();
    let mut maintenance = lake.maintenance().unwrap();
    let error = dedup(&mut maintenance, DedupOptions::default(), &mut to_the_end).unwrap_err();
    assert!(matches!(&error, LakeError::Corrupt { path: named, .. } if *named == path), "{error}");
}

/// Episodes of few states and actions: many steps are equal, many conflict, some fail.
fn episodes() -> impl Strategy<Value = Vec<Vec<Taken>>> {
    let path = (vec((0_u32..3, 0_u32..6), 0..8), proptest::bool::weighted(0.3), 0_u32..3);
    let path = path.prop_map(|(path, fails, action)| {
        let mut path = path.into_iter().map(|(action, to)| (action, Some(to))).collect::<Vec<_>>();
        path.extend(fails.then_some((action, None)));
        path
    });
    vec(path, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn dedup_is_what_the_model_says(
        episodes in episodes(),
        seals in vec(any::<bool>(), 12),
        dedups in vec(proptest::bool::weighted(0.4), 12),
        memories in vec(prop_oneof![Just(0_u64), 1_u64..8000, Just(1 << 30)], 12),
        one_layer_rows_max in prop_oneof![Just(0_u64), 0_u64..20, Just(4_000_000)],
        tier in 0_u64..4,
        order in Just((0_u32..12).collect::<Vec<_>>()).prop_shuffle(),
        cut in any::<i64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
        let mut writer = lake.writer().unwrap();
        let mut author = Author::default();
        let with = |memory| DedupOptions { one_layer_rows_max, tier, ..settings(memory) };
        // The last one stays open.
        let closed = episodes.len().saturating_sub(1);
        for (at, path) in episodes.iter().enumerate() {
            let episode = EpisodeId::new(RunId(1), order[at]);
            if at < closed {
                author.episode(episode, order[at] % 3, path);
            } else {
                author.reset(episode, 0);
                author.steps(episode, 0, 1, path);
            }
            writer.append(&author.take()).unwrap();
            if seals[at] {
                writer.seal().unwrap();
            }
            if dedups[at] {
                count(&lake, with(memories[at]));
            }
        }
        writer.seal().unwrap();
        count(&lake, with(memories[0]));
        let wanted = expected(&lake);
        assert_same(&derived(&lake, &ALL), &wanted);
        let compared = compare(&lake, &lake.sealed().unwrap(), with(memories[2]), &mut to_the_end);
        prop_assert_eq!(compared.unwrap().findings, []);
        // The ranges of a table are the table.
        for table in [Table::StateTransitions, Table::Conflicts, Table::Failures] {
            let of = |rows: Vec<Derived>| {
                rows.into_iter().filter(|row| row.table == table).collect::<Vec<_>>()
            };
            let mut parts = of(derived(&lake, &(i64::MIN..=cut)));
            if let Some(next) = cut.checked_add(1) {
                parts.extend(of(derived(&lake, &(next..=i64::MAX))));
            }
            assert_same(&parts, &of(wanted.clone()));
        }
        let report = lake.verify(&mut to_the_end).unwrap();
        prop_assert!(report.is_sound(), "{:?}", report.findings);
        let full = count(&lake, DedupOptions { full: true, ..settings(memories[1]) });
        prop_assert!(full.layers <= 1);
        assert_same(&derived(&lake, &ALL), &wanted);
    }
}

/// A state that many steps leave from, and steps of so many kinds that nothing fits at once.
#[test]
fn a_partition_that_is_too_large_is_sorted_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let mut author = Author::default();
    for ordinal in 0..300 {
        let path = (0..20).map(|at| {
            let to = (ordinal * 7 + at * at) % 97;
            (at % 8, Some(if at % 2 == 0 { 0 } else { to }))
        });
        author.episode(EpisodeId::new(RunId(1), ordinal), 0, &path.collect::<Vec<_>>());
    }
    writer.append(&author.take()).unwrap();
    writer.seal().unwrap();
    let wanted = expected(&lake);
    for memory in [0, 10_000, 100_000, 1 << 30] {
        let report = count(&lake, DedupOptions { full: true, ..settings(memory) });
        assert_eq!(report.steps, 6000);
        assert_same(&derived(&lake, &ALL), &wanted);
    }
}

/// What a pass does not see, the next one counts.
#[test]
fn a_pass_goes_on_beside_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let mut writer = lake.writer().unwrap();
    let mut author = Author::default();
    let (say, heard) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let lake = &lake;
        let counting = scope.spawn(move || {
            let mut passes = 0;
            while heard.try_recv() != Err(std::sync::mpsc::TryRecvError::Disconnected) {
                passes += u32::from(!count(lake, settings(1 << 20)).unchanged);
                lake.snapshot().unwrap();
            }
            passes
        });
        for ordinal in 0..60 {
            let path = [(1, Some(ordinal % 7)), (2, Some(ordinal % 5)), (3, None)];
            author.episode(EpisodeId::new(RunId(1), ordinal), 0, &path);
            writer.append(&author.take()).unwrap();
            writer.seal().unwrap();
        }
        drop(say);
        assert!(counting.join().unwrap() <= 60);
    });
    count(&lake, settings(1 << 20));
    assert_same(&derived(&lake, &ALL), &expected(&lake));
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}
