//! Lakes that recorded different spaces: the merged lake has the values of all of them.

use std::path::{Path, PathBuf};

use steplake::lake::{Identity, Lake, RecordedObservation, RecordedReward, Rows, Table};
use steplake::model::{Baselines, Value};
use steplake::transfer::merge::MergeError;

use super::{Contents, Recorded, merged, one, try_merge};
use crate::fixtures::support::{cells, scratch};
use crate::fixtures::toy_lake::{Author, identity, read};

impl Recorded {
    /// A lake of spaces that [`grow`](Self::grow) makes.
    pub(super) fn of_spaces(path: PathBuf, spaces: &[&'static str]) -> Self {
        let none = Identity {
            observations: Vec::new(),
            rewards: Vec::new(),
            baselines: Vec::new(),
            ..identity()
        };
        let lake = Lake::create(path, &none).unwrap();
        let mut new = Self { lake, author: Author::default(), next: 0, spaces: Vec::new() };
        new.grow(spaces);
        new
    }

    /// From now on, records these spaces and no others, each as an observation, a reward and a
    /// baseline.
    pub(super) fn grow(&mut self, spaces: &[&'static str]) {
        let mut more = self.lake.identity().clone();
        more.observations = spaces.iter().map(|space| RecordedObservation::int(space)).collect();
        more.rewards = spaces.iter().map(|space| RecordedReward::new(space, space)).collect();
        more.baselines = spaces.iter().map(|space| format!("{space}O0")).collect();
        self.lake = Lake::open_or_create(self.lake.path(), &more).unwrap();
        self.spaces = spaces.to_vec();
    }

    /// What the author wrote, in the spaces of the lake.
    pub(super) fn take(&mut self) -> Rows {
        let mut rows = self.author.take();
        if self.spaces.is_empty() {
            return rows;
        }
        // The name tells the spaces apart.
        let number = |space: &str| space.bytes().map(i32::from).sum::<i32>();
        let identity = self.lake.identity();
        let recorded = |space: &str| self.spaces.contains(&space);
        for row in &mut rows.benchmarks {
            let baseline = |space: &&str| {
                (format!("{space}O0"), row.baselines.0[0].1 + i64::from(number(space)))
            };
            row.baselines = Baselines(self.spaces.iter().map(baseline).collect());
        }
        for row in &mut rows.observations {
            let Some(Value::Int(state)) = row.values[0] else { panic!("{row:?}") };
            let value = |space: &RecordedObservation| {
                recorded(&space.name).then(|| Value::Int(state + i64::from(number(&space.name))))
            };
            row.values = identity.observations.iter().map(value).collect();
        }
        for rewards in rows.steps.iter_mut().filter_map(|row| row.rewards.as_mut()) {
            let first = rewards[1];
            let reward = |space: &RecordedReward| {
                let reward = first + f64::from(number(&space.name));
                if recorded(&space.name) { reward } else { f64::NAN }
            };
            *rewards = identity.rewards.iter().map(reward).collect();
        }
        rows
    }
}

/// Three lakes of the same states and benchmarks, of which each recorded other spaces.
fn three(folder: &Path) -> [Lake; 3] {
    let spaces: [&[&str]; 3] = [&["Stores", "Calls"], &["Blocks", "Calls"], &["Loads"]];
    [0, 1, 2].map(|place: usize| {
        let mut lake = Recorded::of_spaces(folder.join(format!("lake-{place}")), spaces[place]);
        let run = lake.begin_run(i64::try_from(place).unwrap());
        lake.record(run, 0, &[(1, Some(1)), (2, Some(2))], true);
        if place == 1 {
            lake.seal();
        }
        lake.lake
    })
}

#[test]
fn every_lake_gives_its_values_whatever_the_order_and_the_grouping() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let [a, b, c] = three(folder.path());
    let all = merged(&[&a, &b, &c], &path("abc"));
    let rows = read(&all);
    assert_eq!((rows.observations.len(), rows.benchmarks.len()), (3, 1));
    for row in &rows.observations {
        assert!(row.values.iter().all(Option::is_some), "{row:?}");
    }
    assert_eq!(rows.benchmarks[0].baselines.0.len(), 4);
    let wanted = Contents::of(&all);
    let observations = |lake: &Lake| {
        let snapshot = lake.snapshot().unwrap();
        let files = snapshot.segments(Table::Observations).iter();
        files.map(|file| file.path.file_name().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (ab, bc) = (merged(&[&a, &b], &path("ab")), merged(&[&c, &b], &path("cb")));
    for (lakes, name) in [([&ab, &c], "ab c"), ([&bc, &a], "cb a"), ([&all, &b], "abc b")] {
        let lake = merged(&lakes, &path(name));
        assert_eq!(Contents::of(&lake), wanted, "{name}");
        assert_eq!(observations(&lake), observations(&all), "{name}");
    }
    assert_eq!(Contents::of(&merged(&[&c, &b, &a], &path("cba"))), wanted);
}

#[test]
fn spaces_that_one_lake_has_behind_those_of_another_keep_their_places() {
    let folder = scratch();
    let older = Recorded::of_spaces(folder.path().join("older"), &["Stores", "Calls"]);
    let mut newer = older.copy(folder.path().join("newer"), 1);
    newer.grow(&["Blocks", "Allocas"]);
    for (lakes, name) in [([&older, &newer], "on"), ([&newer, &older], "no")] {
        let lake = merged(&lakes.map(|lake| &lake.lake), &folder.path().join(name));
        assert_eq!(lake.identity(), newer.lake.identity());
    }
}

/// Merges in all orders, and returns what the last one is refused with.
fn refused_in_any_order(lakes: [&Lake; 3], into: &Path) -> MergeError {
    let [a, b, c] = lakes;
    let orders = [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]];
    orders.map(|order| try_merge(&order, into).unwrap_err()).into_iter().last().unwrap()
}

#[test]
fn a_contradiction_between_any_two_lakes_is_refused() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let into = path("into");
    let sizes = [("none", None), ("one", Some(98)), ("other", Some(99))];
    let lakes = sizes.map(|(name, size)| {
        let change = |rows: &mut Rows| rows.observations[1].values[0] = size.map(Value::Int);
        one(path(name), &identity(), change)
    });
    let error = refused_in_any_order(lakes.each_ref(), &into);
    let MergeError::Differs { what, .. } = &error else { panic!("{error}") };
    assert!(what.starts_with("the observations of state "), "{error}");

    let lakes = sizes.map(|(name, cost)| {
        let costs = cost.map(|cost| ("SizeO0".to_owned(), cost));
        let change = |rows: &mut Rows| {
            rows.benchmarks[0].baselines = Baselines(costs.into_iter().collect());
        };
        one(path(&format!("baseline-{name}")), &identity(), change)
    });
    let error = refused_in_any_order(lakes.each_ref(), &into);
    let MergeError::Differs { what, first, second, .. } = &error else { panic!("{error}") };
    assert!(what.starts_with("the program of "), "{error}");
    assert_eq!([first, second], [lakes[2].path(), lakes[1].path()]);
}

#[test]
fn a_lake_that_grew_since_it_was_opened_is_merged_whole() {
    let folder = scratch();
    let mut lake = Recorded::of_spaces(folder.path().join("lake"), &["Calls"]);
    let opened = Lake::open(lake.lake.path()).unwrap();
    lake.grow(&["Blocks"]);
    let run = lake.begin_run(0);
    lake.record(run, 0, &[(1, Some(1))], true);
    lake.seal();
    let both = merged(&[&opened], &folder.path().join("into"));
    assert_eq!(both.identity(), lake.lake.identity());
    for table in [Table::Benchmarks, Table::Steps, Table::Observations] {
        let [wanted, found] = [&lake.lake, &both].map(|lake| cells(lake.path(), table, |_| true));
        assert_eq!(found, wanted);
    }
}
