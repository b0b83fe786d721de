//! Splits, and what they leak.

use std::collections::BTreeSet;

use proptest::prelude::*;
use steplake::lake::Lake;
use steplake::load::{
    Leaks, LoadError, MatrixCache, Source, Split, SplitBy, SplitRequest, TrainingDataset,
};
use steplake::model::{EpisodeId, RunId};

use super::{request, rows, sealed, wait};
use crate::fixtures::layered_lake::{pieces, record};
use crate::fixtures::toy_lake::{Author, state};

fn split(
    lake: &Lake,
    source: Source,
    columns: &[&str],
    split: SplitRequest,
) -> Result<(TrainingDataset, Split, Leaks), LoadError> {
    let cache = MatrixCache::new(lake.path().join("../cache"));
    let request = request(source, columns, None);
    wait(async {
        let lake = sealed(lake, &cache).await;
        let dataset = TrainingDataset::open(&lake, &request).await?;
        let parts = dataset.split(&lake, split).await?;
        let leaks = Leaks::of(&parts.train, &parts.test);
        Ok((dataset, parts, leaks))
    })
}

const BY_BENCHMARK: SplitRequest =
    SplitRequest { by: SplitBy::Benchmark, test_size: 0.4, validation_size: 0.0, seed: 3 };

/// The numbers in the given columns of all rows.
fn named(dataset: &TrainingDataset, columns: &[usize]) -> BTreeSet<i64> {
    let rows = rows(dataset);
    let number = |number: f64| format!("{number}").parse::<i64>().unwrap();
    rows.iter().flat_map(|row| columns.iter().map(move |&column| number(row[column]))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn no_test_row_names_a_state_of_a_training_row(pieces in pieces(), seed in 0_u64..9) {
        let folder = tempfile::tempdir().unwrap();
        let lake = record(folder.path(), &pieces);
        for source in [Source::StateTransitions, Source::Steps] {
            // `Size` is the number of the state.
            let columns = ["Size", "next_Size", "action"];
            let by = SplitRequest { seed, ..BY_BENCHMARK };
            let (all, parts, leaks) = match split(&lake, source, &columns, by) {
                Err(LoadError::NoSplit { .. }) => continue,
                parts => parts.unwrap(),
            };
            let (train, test) = (named(&parts.train, &[0, 1]), named(&parts.test, &[0, 1]));
            prop_assert!(train.is_disjoint(&test), "{train:?} {test:?}");
            prop_assert!(leaks.none());
            prop_assert_eq!(leaks.test_states, test.len());
            let report = parts.report;
            prop_assert_eq!(report.train_rows, parts.train.len());
            prop_assert_eq!(report.test_rows, parts.test.len());
            prop_assert_eq!(
                report.train_rows + report.test_rows + report.purged_rows,
                all.len()
            );
        }
    }
}

/// Two programs that reach a state of each other, and two that do not.
fn tied(folder: &std::path::Path) -> Lake {
    let path = |states: &[u32]| -> Vec<(u32, Option<u32>)> {
        states.iter().map(|&state| (0, Some(state))).collect()
    };
    let episodes = vec![
        (0, path(&[10, 11, 12])),
        (1, path(&[13, 14, 12])),
        (2, path(&[15, 16, 17])),
        (3, path(&[18, 19, 20])),
    ];
    record(folder, &[episodes])
}

#[test]
fn programs_that_share_a_state_stay_together() {
    let folder = tempfile::tempdir().unwrap();
    let lake = tied(folder.path());
    for seed in 0..8 {
        let by = SplitRequest { test_size: 0.5, seed, ..BY_BENCHMARK };
        let columns = ["Size", "next_Size"];
        let (_, parts, leaks) = split(&lake, Source::StateTransitions, &columns, by).unwrap();
        assert!(leaks.none());
        assert_eq!((parts.report.components, parts.report.purged_rows), (3, 0), "{parts:?}");
        let test = named(&parts.test, &[0]);
        assert_eq!(test.contains(&0), test.contains(&1), "{test:?}");
    }
}

#[test]
fn a_component_that_is_too_large_is_cut_and_the_loss_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    // All programs reach state 30 in their third step.
    let path = |own: u32| vec![(0, Some(own)), (0, Some(own + 1)), (0, Some(30)), (1, Some(31))];
    let episodes = (0..4).map(|program| (program, path(10 + 2 * program))).collect();
    let lake = record(folder.path(), &[episodes]);
    let by = SplitRequest { test_size: 0.25, ..BY_BENCHMARK };
    let columns = ["Size", "next_Size"];
    let (all, parts, leaks) = split(&lake, Source::StateTransitions, &columns, by).unwrap();
    assert!(leaks.none());
    let report = parts.report;
    assert_eq!((all.len(), report.components, report.shared_states), (13, 1, 2));
    // A test program keeps the two steps before the shared state, and loses the one that leads
    // there. What follows the shared state is for training.
    assert_eq!(report.purged_rows, report.test_groups);
    assert_eq!(report.test_rows, 2 * report.test_groups);
}

#[test]
fn a_split_by_rows_leaks_and_the_check_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let lake = tied(folder.path());
    let by = SplitRequest { by: SplitBy::Row, ..BY_BENCHMARK };
    let columns = ["Size", "next_Size"];
    let (all, parts, leaks) = split(&lake, Source::StateTransitions, &columns, by).unwrap();
    assert_eq!(parts.train.len() + parts.test.len(), all.len());
    let (train, test) = (named(&parts.train, &[0, 1]), named(&parts.test, &[0, 1]));
    assert_eq!(leaks.shared_states, train.intersection(&test).count());
    assert!(!leaks.none());
    let trained = |column: usize| {
        let states = rows(&parts.test).into_iter().map(|row| format!("{}", row[column]));
        states.filter(|state| train.contains(&state.parse().unwrap())).count()
    };
    let found = (leaks.rows_of_shared_states, leaks.rows_to_shared_states);
    assert_eq!(found, (trained(0), trained(1)));
}

#[test]
fn steps_that_no_dedup_has_counted_are_not_split() {
    let folder = tempfile::tempdir().unwrap();
    let lake = tied(folder.path());
    let mut author = Author::default();
    author.episode(EpisodeId::new(RunId(2), 0), 0, &[(0, Some(10)), (1, Some(99))]);
    let mut rows = author.take();
    rows.benchmarks.clear();
    rows.observations.retain(|row| row.state == state(99));
    let mut writer = lake.writer().unwrap();
    writer.append(&rows).unwrap();
    writer.seal().unwrap();
    let error = split(&lake, Source::Steps, &["Size"], BY_BENCHMARK).unwrap_err();
    assert!(matches!(error, LoadError::NotDeduplicated { steps: 3 }), "{error:?}");
    // The transitions are those that were counted.
    split(&lake, Source::StateTransitions, &["Size"], BY_BENCHMARK).unwrap();
}

#[test]
fn equal_requests_give_equal_parts() {
    let folder = tempfile::tempdir().unwrap();
    let lake = tied(folder.path());
    let parts = |seed| {
        let by = SplitRequest { seed, ..BY_BENCHMARK };
        let (_, parts, _) = split(&lake, Source::Steps, &["Size"], by).unwrap();
        (rows(&parts.train), rows(&parts.test), parts.test.fingerprint().to_owned())
    };
    assert_eq!(parts(1), parts(1));
    assert!((2..9).any(|seed| parts(seed) != parts(1)));
}

#[test]
fn a_lake_of_one_family_cannot_be_split_by_family() {
    let folder = tempfile::tempdir().unwrap();
    let lake = tied(folder.path());
    let by = SplitRequest { by: SplitBy::Family, ..BY_BENCHMARK };
    let error = split(&lake, Source::Steps, &["Size"], by).unwrap_err().to_string();
    assert!(
        error.ends_with("all 12 are of one family; splitting by program divides its programs"),
        "{error}"
    );
    let few = SplitRequest { test_size: 0.01, ..BY_BENCHMARK };
    let error = split(&lake, Source::Steps, &["Size"], few).unwrap_err().to_string();
    assert!(error.contains("12 are of 4 programs, the largest with 3, of which"), "{error}");
    let share = "a share of 0.01 for test is none or all; give a share such as 0.5";
    assert!(error.ends_with(share), "{error}");
}

#[test]
fn the_share_of_the_part_that_is_empty_is_at_fault() {
    let folder = tempfile::tempdir().unwrap();
    let lake = tied(folder.path());
    let refused = |by, test_size, validation_size| {
        let by = SplitRequest { by, test_size, validation_size, seed: 3 };
        split(&lake, Source::Steps, &["Size"], by).unwrap_err().to_string()
    };
    let error = refused(SplitBy::Benchmark, 0.25, 0.01);
    assert!(error.contains("of which a share of 0.01 for validation is none or all"), "{error}");
    // Of 12 rows, 8.4 are for test, and 8.52 for both: 9 rows, all of them for test.
    let error = refused(SplitBy::Row, 0.7, 0.01);
    assert!(error.ends_with("12 are too few for a share of 0.01 for validation"), "{error}");
    // The others are for test and validation.
    let error = refused(SplitBy::Row, 0.75, 0.24);
    assert!(error.ends_with("12 are too few for a share of 0.01 for train"), "{error}");
}

#[test]
fn a_validation_part_shares_no_state_with_the_others() {
    let folder = tempfile::tempdir().unwrap();
    // Programs 0 and 1 share a state, and all others go their own way.
    let path = |states: &[u32]| states.iter().map(|&state| (0, Some(state))).collect::<Vec<_>>();
    let own = (2..10).map(|program| (program, path(&[2 * program + 20, 2 * program + 21])));
    let episodes = [(0, path(&[10, 12])), (1, path(&[11, 12]))].into_iter().chain(own);
    let lake = record(folder.path(), &[episodes.collect()]);
    for seed in 0..8 {
        let (test_size, validation_size) = (0.2, 0.3);
        let by = SplitRequest { test_size, validation_size, seed, ..BY_BENCHMARK };
        let columns = ["Size", "next_Size"];
        let (all, parts, _) = split(&lake, Source::StateTransitions, &columns, by).unwrap();
        let validation = parts.validation.as_ref().unwrap();
        let states = [&parts.train, validation, &parts.test].map(|part| named(part, &[0, 1]));
        let [train, held_out, test] = &states;
        assert!(train.is_disjoint(held_out) && train.is_disjoint(test), "{states:?}");
        assert!(held_out.is_disjoint(test), "{states:?}");
        let report = parts.report;
        let rows = (report.train_rows, report.validation_rows, report.test_rows);
        assert_eq!(rows, (parts.train.len(), validation.len(), parts.test.len()));
        assert_eq!(rows.0 + rows.1 + rows.2 + report.purged_rows, all.len());
        let groups = (report.train_groups, report.validation_groups, report.test_groups);
        assert_eq!(groups, (5, 3, 2), "{report:?}");
        assert_eq!(report.warning(by), None);
        let without = SplitRequest { validation_size: 0.0, ..by };
        let (_, two, _) = split(&lake, Source::StateTransitions, &columns, without).unwrap();
        assert!(two.validation.is_none());
        assert_eq!(named(&two.test, &[0, 1]), *test, "the test part is the same");
    }
}

#[test]
fn validation_rows_that_lead_to_training_states_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = |own: u32| vec![(0, Some(own)), (0, Some(own + 1)), (0, Some(40)), (1, Some(41))];
    let episodes = (0..6).map(|program| (program, path(10 + 2 * program))).collect();
    let lake = record(folder.path(), &[episodes]);
    let by = SplitRequest { test_size: 0.2, validation_size: 0.2, ..BY_BENCHMARK };
    let columns = ["Size", "next_Size"];
    let (_, parts, leaks) = split(&lake, Source::StateTransitions, &columns, by).unwrap();
    let (report, validation) = (parts.report, parts.validation.unwrap());
    assert!(leaks.none() && Leaks::of(&parts.train, &validation).none());
    assert!(Leaks::of(&validation, &parts.test).none());
    let held_out = report.test_groups + report.validation_groups;
    assert_eq!((report.purged_rows, report.shared_states), (held_out, 2), "{report:?}");
    assert_eq!(report.test_rows + report.validation_rows, 2 * held_out);
}

#[test]
fn a_split_that_is_far_from_its_sizes_says_so() {
    let folder = tempfile::tempdir().unwrap();
    // The first program has nine of eleven transitions.
    let long = (10..19).map(|state| (0, Some(state))).collect();
    let episodes = vec![(0, long), (1, vec![(0, Some(30))]), (2, vec![(0, Some(31))])];
    let lake = record(folder.path(), &[episodes]);
    let columns = ["Size", "next_Size"];
    let by = SplitRequest { test_size: 0.4, ..BY_BENCHMARK };
    let (_, parts, _) = split(&lake, Source::StateTransitions, &columns, by).unwrap();
    let said = parts.report.warning(by).unwrap();
    assert_eq!(
        said,
        "train has 9 rows (81.8% and not 60%), test has 2 rows (18.2% and not 40%); there are 3 \
         programs, the largest with 9 rows; record more programs, or give another share"
    );
    // The advice is about what was divided.
    let by_family = SplitRequest { by: SplitBy::Family, ..by };
    let said = parts.report.warning(by_family).unwrap();
    assert!(said.contains("there are 3 families"), "{said}");
    assert!(said.ends_with("; splitting by program divides the programs of a family"), "{said}");
    let near = SplitRequest { test_size: 0.3, ..by };
    assert_eq!(parts.report.warning(near), None);
}

#[test]
fn rows_are_drawn_for_each_part() {
    let folder = tempfile::tempdir().unwrap();
    let lake = tied(folder.path());
    let by = SplitRequest { by: SplitBy::Row, test_size: 0.25, validation_size: 0.25, seed: 5 };
    let (all, parts, _) = split(&lake, Source::StateTransitions, &["Size"], by).unwrap();
    let sizes: Vec<_> = parts.parts().iter().map(|(name, part)| (*name, part.len())).collect();
    assert_eq!(all.len(), 12);
    assert_eq!(sizes, [("train", 6), ("validation", 3), ("test", 3)]);
}
