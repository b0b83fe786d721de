//! Merging is a union: neither order nor grouping nor repetition shows.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use steplake::lake::{Lake, LakeError, RetractionKind, Table};
use steplake::upkeep::RetractionTarget;

use super::kept::kept;
use super::{Contents, Recorded, merged};
use crate::fixtures::support::{cells, scratch};
use crate::fixtures::toy_lake::uri;

/// Something that happens to a lake.
#[derive(Debug, Clone)]
enum Act {
    Run(i64),
    Episode { run: u32, first: u32, path: Vec<(u32, u32)>, end: bool },
    Seal,
    RetractBenchmark(u32),
    RetractRun(u32),
    RetractAction(u32),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let episode =
        (0_u32..4, 0_u32..3, vec((0_u32..4, 0_u32..9), 0..5), proptest::bool::weighted(0.8));
    let episode =
        episode.prop_map(|(run, first, path, end)| Act::Episode { run, first, path, end });
    let act = prop_oneof![
        2 => (0_i64..3).prop_map(Act::Run),
        12 => episode,
        3 => Just(Act::Seal),
        1 => (0_u32..3).prop_map(Act::RetractBenchmark),
        1 => (0_u32..4).prop_map(Act::RetractRun),
        1 => (0_u32..4).prop_map(Act::RetractAction),
    ];
    vec(act, 0..10)
}

/// Some spaces, in any order. Two selections may be equal, begin alike, or have nothing in common.
fn spaces() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(vec!["Calls", "Blocks", "Loads", "Stores"], 1..=4).prop_shuffle()
}

fn play(lake: &mut Recorded, acts: &[Act]) {
    for act in acts {
        let snapshot = lake.lake.snapshot().unwrap();
        let pick = |number: u32| {
            let runs = snapshot.runs();
            (!runs.is_empty()).then(|| runs[number as usize % runs.len()].id)
        };
        match act {
            Act::Run(started) => drop(lake.begin_run(*started)),
            Act::Episode { run, first, path, end } => {
                // Nobody goes on with a run that was retracted.
                let gone = |run| snapshot.retractions().iter().any(|row| row.runs.contains(&run));
                if let Some(run) = pick(*run).filter(|&run| !gone(run)) {
                    let path = path.iter().map(|&(action, to)| (action, Some(to)));
                    lake.record(run, *first, &path.collect::<Vec<_>>(), *end);
                }
            }
            Act::Seal => lake.seal(),
            Act::RetractBenchmark(number) => {
                lake.retract(&RetractionTarget::benchmark(uri(*number)));
            }
            Act::RetractRun(number) => {
                if let Some(run) = pick(*number) {
                    lake.retract(&RetractionTarget::Run(run));
                }
            }
            Act::RetractAction(number) => {
                let mut maintenance = lake.lake.maintenance().unwrap();
                match maintenance.retract_action(&format!("a{number}"), "a test") {
                    Ok(_) | Err(LakeError::NothingToRetract { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

/// All that a lake says, except the baselines of benchmarks that were retracted: see the test
/// below.
fn contents(lake: &Lake) -> Contents {
    let mut contents = Contents::of(lake);
    let retracted = contents.retractions.iter().filter(|row| row.kind == RetractionKind::Benchmark);
    let retracted =
        retracted.map(|row| format!("benchmark_uri={} ", row.value)).collect::<Vec<_>>();
    let first = contents.identity.baselines.first().map(|name| format!(" {name}="));
    let place = Table::ALL.iter().position(|&table| table == Table::Benchmarks).unwrap();
    for row in &mut contents.tables[place] {
        if let Some(first) = &first
            && retracted.iter().any(|uri| row.starts_with(uri))
        {
            row.truncate(row.find(first).unwrap());
        }
    }
    contents
}

#[test]
fn a_baseline_that_only_retracted_episodes_brought_may_be_lost() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let base = Recorded::of_spaces(path("base"), &["Stores"]);
    let shared = base.begin_run(0);
    let [mut retracted, mut calls, mut stores] =
        ["retracted", "calls", "stores"].map(|name| base.copy(path(name), 1));
    retracted.record(shared, 0, &[], true);
    retracted.retract(&RetractionTarget::benchmark(uri(0)));
    calls.grow(&["Calls"]);
    calls.next = 10;
    calls.record(shared, 0, &[], true);
    let own = stores.begin_run(1);
    stores.record(own, 0, &[], true);
    let [a, b, c] = [&retracted.lake, &calls.lake, &stores.lake];
    let baselines = |lake: &Lake| {
        let is_baseline = |column: &str| column.ends_with("O0");
        cells(lake.path(), Table::Benchmarks, is_baseline)
    };
    let both = baselines(&merged(&[b, c], &path("bc")));
    assert_eq!(both, ["StoresO0=640 CallsO0=495"]);
    assert_eq!(baselines(&merged(&[a, b, c], &path("abc"))), both);
    let ab = merged(&[a, b], &path("ab"));
    assert!(baselines(&ab).is_empty());
    let ab_c = merged(&[&ab, c], &path("ab c"));
    assert_eq!(baselines(&ab_c), ["StoresO0=640 CallsO0=null"]);
}

/// The same with the spaces in the order of their names.
fn by_name(mut contents: Contents) -> Contents {
    let identity = &mut contents.identity;
    identity.observations.sort_by(|one, other| one.name.cmp(&other.name));
    identity.rewards.sort_by(|one, other| one.name.cmp(&other.name));
    identity.baselines.sort();
    for rows in &mut contents.tables {
        for row in rows.iter_mut() {
            let mut words = row.split(' ').collect::<Vec<_>>();
            words.sort_unstable();
            *row = words.join(" ");
        }
        rows.sort();
    }
    contents
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn merging_does_not_depend_on_order_or_grouping_and_is_idempotent(
        base in (spaces(), acts()),
        ours in [(spaces(), acts()), (spaces(), acts()), (spaces(), acts())],
    ) {
        let folder = scratch();
        let path = |name: &str| folder.path().join(name);
        let mut first = Recorded::of_spaces(path("base"), &base.0);
        first.begin_run(1);
        play(&mut first, &base.1);
        let lakes = [0, 1, 2].map(|place: usize| {
            let next = 1000 * u32::try_from(place + 1).unwrap();
            let mut lake = first.copy(path(&format!("lake-{place}")), next);
            lake.grow(&ours[place].0);
            play(&mut lake, &ours[place].1);
            lake.lake
        });
        let [a, b, c] = &lakes;
        let all = merged(&[a, b, c], &path("abc"));
        let wanted = contents(&all);
        let (ab, bc) = (merged(&[a, b], &path("ab")), merged(&[b, c], &path("bc")));
        prop_assert_eq!(&contents(&merged(&[&ab, c], &path("ab c"))), &wanted);
        prop_assert_eq!(&contents(&merged(&[a, &bc], &path("a bc"))), &wanted);
        prop_assert_eq!(&contents(&merged(&[c, a, b], &path("cab"))), &wanted);
        prop_assert_eq!(&contents(&merged(&[&all, b], &path("abc b"))), &wanted);
        // Whether files and layers are kept shows in the numbers of runs and the order of spaces.
        let keep = |lakes: &[&Lake], name: &str| {
            let lake = kept(lakes, &path(name));
            let renumbered = merged(&[&lake], &path(&format!("{name} by starts")));
            (by_name(contents(&renumbered)), lake)
        };
        let (ba_contents, ba) = keep(&[b, a], "keep b a");
        prop_assert_eq!(&ba_contents, &by_name(contents(&ab)));
        let by_name_wanted = by_name(wanted.clone());
        let (bac_contents, ba_c) = keep(&[&ba, c], "keep ba c");
        prop_assert_eq!(&bac_contents, &by_name_wanted);
        prop_assert_eq!(&keep(&[c, &ab], "keep c ab").0, &by_name_wanted);
        prop_assert_eq!(&keep(&[&ba_c, b], "keep bac b").0, &by_name_wanted);
        let with_older = merged(&[&first.lake, &ab], &path("0 ab"));
        prop_assert_eq!(&contents(&with_older), &contents(&ab));
        let alone = contents(&merged(&[a], &path("a")));
        prop_assert_eq!(&contents(&merged(&[a, a], &path("aa"))), &alone);
    }
}
