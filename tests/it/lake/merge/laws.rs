//! Merging is a union: neither order nor grouping nor repetition shows.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use steplake::lake::LakeError;
use steplake::upkeep::Subject;

use super::{Contents, Recorded, merged};
use crate::fixtures::support::scratch;
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
            Act::RetractBenchmark(number) => lake.retract(&Subject::benchmark(uri(*number))),
            Act::RetractRun(number) => {
                if let Some(run) = pick(*number) {
                    lake.retract(&Subject::Run(run));
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
        let wanted = Contents::of(&all);
        let (ab, bc) = (merged(&[a, b], &path("ab")), merged(&[b, c], &path("bc")));
        prop_assert_eq!(&Contents::of(&merged(&[&ab, c], &path("ab c"))), &wanted);
        prop_assert_eq!(&Contents::of(&merged(&[a, &bc], &path("a bc"))), &wanted);
        prop_assert_eq!(&Contents::of(&merged(&[c, a, b], &path("cab"))), &wanted);
        prop_assert_eq!(&Contents::of(&merged(&[&all, b], &path("abc b"))), &wanted);
        let with_older = merged(&[&first.lake, &ab], &path("0 ab"));
        prop_assert_eq!(&Contents::of(&with_older), &Contents::of(&ab));
        let alone = Contents::of(&merged(&[a], &path("a")));
        prop_assert_eq!(&Contents::of(&merged(&[a, a], &path("aa"))), &alone);
    }
}
