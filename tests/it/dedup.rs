//! Dedup against a naive model of it.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use steplake::dedup::{Report, Settings, dedup};
use steplake::model::{EpisodeId, RunId, StateId};
use steplake::store::{Lake, ScanColumns, StepRow, StoreError, Table, Writer};

use crate::toy_lake::{Author, Taken, float64, id, identity, int16, int64, read, text};

/// A row of a derived table, column by column but for the keys.
#[derive(Debug, PartialEq)]
enum Derived {
    Transition {
        from: StateId,
        action: u16,
        to: StateId,
        rewards: Vec<f64>,
        count: i64,
        wall_time_us: f64,
    },
    Conflict {
        from: StateId,
        action: u16,
        to: StateId,
        count: i64,
    },
    Failure {
        from: StateId,
        action: u16,
        kind: String,
        detail: String,
        count: i64,
    },
}

/// The derived tables as they should be.
fn expected(lake: &Lake) -> Vec<Derived> {
    let rows = read(lake);
    let closed = rows.episodes.iter().map(|row| (row.id, row)).collect::<BTreeMap<_, _>>();
    let mut edges: BTreeMap<(i64, StateId, u16, Option<StateId>), Vec<&StepRow>> = BTreeMap::new();
    for pair in rows.steps.windows(2) {
        if pair[0].episode == pair[1].episode && closed.contains_key(&pair[0].episode) {
            let (from, action) = (pair[0].state.unwrap(), pair[1].action.unwrap().0);
            edges.entry((from.key(), from, action, pair[1].state)).or_default().push(&pair[1]);
        }
    }
    let (mut transitions, mut conflicts, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    let edges = edges.into_iter().collect::<Vec<_>>();
    for group in edges.chunk_by(|(one, _), (other, _)| (one.1, one.2) == (other.1, other.2)) {
        let &((_, from, action, _), _) = group.first().unwrap();
        let count = |steps: &[&StepRow]| i64::try_from(steps.len()).unwrap();
        let led = group
            .iter()
            .filter_map(|((.., to), steps)| to.map(|to| (to, steps)))
            .collect::<Vec<_>>();
        let most = led.iter().map(|(_, steps)| steps.len()).max();
        if let Some((to, steps)) = led.iter().find(|(_, steps)| Some(steps.len()) == most) {
            let wall_time = steps.iter().map(|step| step.wall_time).sum::<Duration>();
            let mean = wall_time / u32::try_from(steps.len()).unwrap();
            transitions.push(Derived::Transition {
                from,
                action,
                to: *to,
                rewards: steps[0].rewards.as_ref().unwrap().to_vec(),
                count: count(steps),
                wall_time_us: mean.as_secs_f64() * 1e6,
            });
        }
        if led.len() > 1 {
            let conflict = |(to, steps): &(StateId, &Vec<&StepRow>)| Derived::Conflict {
                from,
                action,
                to: *to,
                count: count(steps),
            };
            conflicts.extend(led.iter().map(conflict));
        }
        if let Some((_, steps)) = group.iter().find(|((.., to), _)| to.is_none()) {
            let first = closed[&steps[0].episode];
            let (kind, detail) = (first.outcome.to_string(), first.detail.clone().unwrap());
            failures.push(Derived::Failure { from, action, kind, detail, count: count(steps) });
        }
    }
    transitions.into_iter().chain(conflicts).chain(failures).collect()
}

/// The derived tables as they are, in the order of their files.
fn derived(lake: &Lake) -> Vec<Derived> {
    let snapshot = lake.snapshot().unwrap();
    let mut rows = Vec::new();
    for table in [Table::StateTransitions, Table::Conflicts, Table::Failures] {
        for batch in snapshot.scan(table, ScanColumns::All) {
            let batch = batch.unwrap();
            for row in 0..batch.num_rows() {
                let (from, action) = (id(&batch, "state_id", row), int16(&batch, "action", row));
                let (count, to) = (int64(&batch, "count", row), |name| id(&batch, name, row));
                assert_eq!(int64(&batch, "state_key", row), from.key());
                rows.push(match table {
                    Table::StateTransitions => Derived::Transition {
                        from,
                        action,
                        to: to("next_state_id"),
                        rewards: vec![
                            float64(&batch, "reward_Size", row),
                            float64(&batch, "reward_SizeNorm", row),
                        ],
                        count,
                        wall_time_us: float64(&batch, "mean_wall_time_us", row),
                    },
                    Table::Conflicts => {
                        Derived::Conflict { from, action, to: to("next_state_id"), count }
                    }
                    _ => {
                        let (kind, detail) =
                            (text(&batch, "kind", row), text(&batch, "detail", row));
                        Derived::Failure { from, action, kind, detail, count }
                    }
                });
            }
        }
    }
    rows
}

fn assert_same(found: &[Derived], wanted: &[Derived]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        match (found, wanted) {
            (
                Derived::Transition { wall_time_us: found_us, .. },
                Derived::Transition { wall_time_us: wanted_us, .. },
            ) => {
                assert!((found_us - wanted_us).abs() < 1e-2, "{found:?} is not {wanted:?}");
            }
            _ => assert_eq!(found, wanted),
        }
        let rounded =
            |row: &Derived| format!("{row:?}").split("wall_time_us").next().map(str::to_owned);
        assert_eq!(rounded(found), rounded(wanted));
    }
}

/// Seals, and counts what is sealed.
fn run(writer: &mut Writer, memory_bytes_max: u64) -> Report {
    writer.seal().unwrap();
    let mut maintenance = writer.lake().maintenance().unwrap();
    dedup(&mut maintenance, Settings { memory_bytes_max }, &mut |_, _| ()).unwrap()
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
    assert_eq!((report.steps, report.passes, report.unchanged), (10, 1, false));
    assert_eq!((report.transitions, report.conflicts, report.failures), (3, 2, 1));
    assert_same(&derived(&lake), &expected(&lake));
    assert!(lake.verify(&mut |_, _| ()).unwrap().is_sound());
}

#[test]
fn a_second_run_changes_nothing_even_after_a_seal() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer, mut author) =
        lake_with(&folder, &[vec![(1, Some(1)), (2, None)], vec![(1, Some(2))]]);
    let first = run(&mut writer, 1 << 20);
    let files = |lake: &Lake| lake.snapshot().unwrap().segments(Table::StateTransitions).to_vec();
    let before = files(&lake);
    writer.seal().unwrap();
    let second = run(&mut writer, 1 << 20);
    assert!(second.unchanged);
    let counts = |report: Report| (report.transitions, report.conflicts, report.failures);
    assert_eq!((counts(second), files(&lake)), (counts(first), before.clone()));

    // An open episode changes nothing either; once it is closed it does.
    let open = EpisodeId::new(RunId(1), 2);
    author.reset(open, 0);
    author.steps(open, 0, 1, &[(1, Some(1))]);
    writer.append(&author.take()).unwrap();
    assert!(run(&mut writer, 1 << 20).unchanged);
    author.close(open, 0, 1, true);
    writer.append(&author.take()).unwrap();
    assert!(!run(&mut writer, 1 << 20).unchanged);
    assert_same(&derived(&lake), &expected(&lake));
    // The old file is gone: whoever reads all files of the folder counts each row once.
    assert!(!before[0].path.exists() && !files(&lake).contains(&before[0]));
}

#[test]
fn a_damaged_derived_file_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut writer, _) = lake_with(&folder, &[vec![(1, Some(1)), (2, Some(2))]]);
    run(&mut writer, 1 << 20);
    let path = lake.snapshot().unwrap().segments(Table::StateTransitions)[0].path.clone();
    std::fs::write(&path, b"PAR1").unwrap();
    assert!(!lake.verify(&mut |_, _| ()).unwrap().is_sound());
    assert!(!run(&mut writer, 1 << 20).unchanged);
    assert!(lake.verify(&mut |_, _| ()).unwrap().is_sound());
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
    let error = dedup(&mut maintenance, Settings::default(), &mut |_, _| ()).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { path: named, .. } if *named == path), "{error}");
}

/// Episodes of few states and actions: many steps are equal, many conflict, some fail.
fn episodes() -> impl Strategy<Value = Vec<Vec<Taken>>> {
    let path = (vec((0_u16..3, 0_u32..6), 0..8), proptest::bool::weighted(0.3), 0_u16..3);
    let path = path.prop_map(|(path, fails, action)| {
        let mut path = path.into_iter().map(|(action, to)| (action, Some(to))).collect::<Vec<_>>();
        path.extend(fails.then_some((action, None)));
        path
    });
    vec(path, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn dedup_is_what_the_model_says(
        episodes in episodes(),
        seals in vec(any::<bool>(), 12),
        dedups in vec(proptest::bool::weighted(0.2), 12),
        memory_bytes_max in prop_oneof![Just(1_u64), 1_u64..4000, Just(1 << 30)],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
        let mut writer = lake.writer().unwrap();
        let mut author = Author::default();
        // The last one stays open.
        let closed = episodes.len().saturating_sub(1);
        let after = seals.iter().zip(&dedups);
        for ((ordinal, path), (seal, early)) in (0..).zip(&episodes).zip(after) {
            let episode = EpisodeId::new(RunId(1), ordinal);
            if (ordinal as usize) < closed {
                author.episode(episode, ordinal % 3, path);
            } else {
                author.reset(episode, 0);
                author.steps(episode, 0, 1, path);
            }
            writer.append(&author.take()).unwrap();
            if *seal {
                writer.seal().unwrap();
            }
            if *early {
                run(&mut writer, memory_bytes_max);
            }
        }
        run(&mut writer, memory_bytes_max);
        assert_same(&derived(&lake), &expected(&lake));
        let report = lake.verify(&mut |_, _| ()).unwrap();
        prop_assert!(report.is_sound(), "{:?}", report.findings);
    }
}
