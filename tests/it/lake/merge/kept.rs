//! Merges that keep files of the first lake: what they hold is what any merge holds.

use std::collections::BTreeSet;
use std::path::Path;

use steplake::dedup::{DedupOptions, dedup};
use steplake::lake::{Disk, Lake, RecordedReward, Rows, Table, to_the_end};
use steplake::model::{Baselines, EpisodeId, RunId};
use steplake::transfer::{merge::MergeOptions, merge::MergeReport, merge::merge};
use steplake::upkeep::RetractionTarget;

use super::{Contents, Recorded, derive, merged, try_merge};
use crate::fixtures::support::{copy_folder, scratch};
use crate::fixtures::toy_lake::{APART, Author, bitcode, ir_row, state, uri};

/// Merges with the files of the first lake.
fn keeping(lakes: &[&Lake], into: &Path) -> (Lake, MergeReport) {
    let lakes = lakes.iter().map(|&lake| lake.clone()).collect::<Vec<_>>();
    let options = MergeOptions { keep_files: true, ..MergeOptions::default() };
    merge(Disk::default(), &lakes, into, &options, &mut |_, _| ()).unwrap()
}

/// Merges with the files of the first lake, counts the other steps as a layer, and verifies. The
/// derived tables must be those that all steps give.
pub(super) fn kept(lakes: &[&Lake], into: &Path) -> Lake {
    let (lake, _) = keeping(lakes, into);
    derive_apart(&lake);
    let report = lake.verify(&mut to_the_end).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    let whole = into.with_extension("counted");
    copy_folder(into, &whole);
    let whole = Lake::open(whole).unwrap();
    let full = DedupOptions { full: true, ..APART };
    dedup(&mut whole.maintenance().unwrap(), full, &mut to_the_end).unwrap();
    assert_eq!(Contents::of(&lake), Contents::of(&whole));
    lake
}

/// Counts new steps as a layer of their own.
fn derive_apart(lake: &Lake) {
    dedup(&mut lake.maintenance().unwrap(), APART, &mut to_the_end).unwrap();
}

/// The digests of the files of a table.
fn files(lake: &Lake, table: Table) -> BTreeSet<String> {
    let snapshot = lake.sealed().unwrap();
    snapshot.segments(table).iter().map(|file| file.row.digest.clone()).collect()
}

/// The tables of which the second lake has all files of the first.
fn tables_kept(first: &Lake, second: &Lake) -> Vec<&'static str> {
    let is_kept = |table: &Table| {
        let of_first = files(first, *table);
        !of_first.is_empty() && of_first.is_subset(&files(second, *table))
    };
    Table::ALL.into_iter().filter(is_kept).map(Table::name).collect()
}

/// A lake of two runs and layers, with a measurement, and a lake with a later run of its own that
/// comes to some of the same states.
fn large_and_small(folder: &Path) -> [Recorded; 2] {
    let mut large = Recorded::new(folder.join("large"));
    for (started, number) in [(5, 0), (7, 20)] {
        let run = large.begin_run(started);
        for first in 0..3 {
            let path = (0..6).map(|to| (to % 3, Some(number + 3 * first + to))).chain([(4, None)]);
            large.record(run, first, &path.collect::<Vec<_>>(), true);
        }
        large.author.measure(number, 1, number);
        let rows = large.author.take();
        large.lake.writer().unwrap().append(&rows).unwrap();
        large.seal();
        derive_apart(&large.lake);
    }
    let mut small = Recorded::new(folder.join("small"));
    small.next = 50;
    let run = small.begin_run(9);
    small.record(run, 1, &[(0, Some(3)), (1, Some(4)), (2, Some(70)), (4, None)], true);
    small.record(run, 5, &[(0, Some(3)), (1, Some(21))], true);
    small.seal();
    [large, small]
}

const RECORDED: [&str; 6] = ["benchmarks", "actions", "episodes", "steps", "observations", "ir"];
/// The tables that name episodes.
const NUMBERED: [&str; 5] = ["episodes", "steps", "state_transitions", "conflicts", "failures"];
const DERIVED: [&str; 3] = ["state_transitions", "conflicts", "failures"];

#[test]
fn files_whose_rows_stay_the_same_are_kept_with_their_layers() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let [large, small] = large_and_small(folder.path());
    let [large, small] = [&large.lake, &small.lake];
    let (lake, report) = keeping(&[large, small], &path("kept"));
    let (plain, of_plain) = try_merge(&[small, large], &path("plain")).unwrap();
    assert_eq!((report.rows, report.runs), (of_plain.rows, of_plain.runs));
    let all = RECORDED.iter().chain(&DERIVED).chain(&["measurements"]).copied();
    assert_eq!(tables_kept(large, &lake), all.collect::<Vec<_>>());
    let [before, after] = [large, &lake].map(|lake| lake.sealed().unwrap());
    assert_eq!(after.layers().len(), before.layers().len());
    let uncounted = after.uncounted().map(|file| file.rows).collect::<Vec<_>>();
    assert_eq!(uncounted, [8], "the steps of the small lake");
    // The states that both have are there once, in the files of the first.
    let new_states = after.rows(Table::Observations) - before.rows(Table::Observations);
    assert_eq!(new_states, 1);
    derive_apart(&lake);
    derive(&plain);
    assert_eq!(Contents::of(&lake), Contents::of(&plain));
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
    // Only what moved into the new layer is new.
    assert_eq!(lake.sealed().unwrap().layers().len(), before.layers().len() + 1);
    assert!(
        files(large, Table::StateTransitions).is_subset(&files(&lake, Table::StateTransitions))
    );
    // The other lakes are only read, and what is kept outlives them.
    std::fs::remove_dir_all(large.path()).unwrap();
    assert_eq!(Contents::of(&lake), Contents::of(&plain));
}

/// Asserts that a merge which keeps files holds what any merge does, and returns the tables of
/// which it keeps all files.
fn tables_of(folder: &Path, first: &Lake, second: &Lake) -> Vec<&'static str> {
    let (lake, report) = keeping(&[first, second], &folder.join("kept"));
    let tables = tables_kept(first, &lake);
    derive_apart(&lake);
    let plain = merged(&[first, second], &folder.join("plain"));
    assert_eq!(Contents::of(&lake), Contents::of(&plain));
    let (_, of_plain) = try_merge(&[second, first], &folder.join("again")).unwrap();
    assert_eq!(report.rows, of_plain.rows);
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
    tables
}

/// All tables that the large lake has, but for some.
fn all_but(without: &[&str]) -> Vec<&'static str> {
    let all = RECORDED.iter().chain(&DERIVED).chain(&["measurements"]).copied();
    all.filter(|table| !without.contains(table)).collect()
}

#[test]
fn a_run_that_began_earlier_gets_a_later_number() {
    let folder = scratch();
    let [large, _] = large_and_small(folder.path());
    for started in [6, 2] {
        let folder = folder.path().join(started.to_string());
        let path = |name: &str| folder.join(name);
        let mut earlier = Recorded::new(path("earlier"));
        let run = earlier.begin_run(started);
        earlier.record(run, 0, &[(3, Some(80))], true);
        let lake = kept(&[&large.lake, &earlier.lake], &path("kept"));
        assert_eq!(tables_kept(&large.lake, &lake), all_but(&[]));
        let snapshot = lake.sealed().unwrap();
        let starts = snapshot.runs().iter().map(|run| run.started_at_ms);
        assert_eq!(starts.collect::<Vec<_>>(), [5, 7, started]);
        let plain = merged(&[&large.lake, &earlier.lake], &path("plain"));
        assert_eq!(Contents::of(&merged(&[&lake], &path("renumbered"))), Contents::of(&plain));
    }
}

#[test]
fn the_spaces_of_the_first_lake_stay_the_first_ones() {
    let folder = scratch();
    let [large, small] = large_and_small(folder.path());
    let with = |lake: &Recorded, name: &str, reward: &str| {
        let mut grown = lake.lake.identity().clone();
        grown.rewards.push(RecordedReward::new(reward, "Size"));
        copy_folder(lake.lake.path(), &folder.path().join(name));
        Lake::open_or_create(folder.path().join(name), &grown).unwrap()
    };
    let [first, second] = [with(&large, "first", "Zest"), with(&small, "second", "Apt")];
    let lake = kept(&[&first, &second], &folder.path().join("kept"));
    let rewards = |lake: &Lake| {
        let rewards = lake.identity().rewards.clone();
        rewards.into_iter().map(|reward| reward.name).collect::<Vec<_>>()
    };
    assert_eq!(rewards(&lake), [&rewards(&first)[..], &["Apt".to_owned()]].concat());
    let plain = rewards(&merged(&[&second, &first], &folder.path().join("plain")));
    let place = |name: &str| plain.iter().position(|reward| reward == name).unwrap();
    assert!(place("Apt") < place("Zest"), "by name: {plain:?}");
}

#[test]
fn what_another_lake_retracted_goes_from_the_files_that_have_it() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let [large, _] = large_and_small(folder.path());
    let retracted = |name: &str, subject: &RetractionTarget| {
        std::fs::create_dir(path(name)).unwrap();
        let mut other = large.copy(path(name).join("other"), 100);
        other.retract(subject);
        tables_of(&path(name), &large.lake, &other.lake)
    };
    assert_eq!(retracted("run", &RetractionTarget::Run(RunId(2))), all_but(&NUMBERED));
    let of_benchmark = [&NUMBERED[..], &["benchmarks", "measurements"]].concat();
    let subject = RetractionTarget::benchmark(uri(1));
    assert_eq!(retracted("benchmark", &subject), all_but(&of_benchmark));
    // The steps of an action stay. Their transitions do not.
    let other = large.copy(path("action"), 100);
    other.lake.maintenance().unwrap().retract_action("a1", "a test").unwrap();
    std::fs::create_dir(path("of-action")).unwrap();
    assert_eq!(tables_of(&path("of-action"), &large.lake, &other.lake), all_but(&DERIVED));
}

#[test]
fn a_row_that_another_lake_completes_is_written_anew() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let [large, mut small] = large_and_small(folder.path());
    // The first lake lacks a value of a state, a baseline, and the smaller form of a bitcode.
    let run = small.begin_run(10);
    small.record(run, 1, &[(0, Some(90)), (0, Some(91))], true);
    let lacking = |name: &str, change: &dyn Fn(&mut Rows)| {
        std::fs::create_dir(path(name)).unwrap();
        let first = large.copy(path(name).join("first"), 200);
        let mut author = Author::default();
        author.episode(EpisodeId::new(RunId(2), 300), 60, &[(0, Some(91))]);
        let mut rows = author.take();
        change(&mut rows);
        first.lake.writer().unwrap().append(&rows).unwrap();
        first.seal();
        derive_apart(&first.lake);
        let mut second = small.copy(path(name).join("second"), 400);
        let run = second.begin_run(20);
        second.record(run, 60, &[(0, Some(91))], true);
        tables_of(&path(name), &first.lake, &second.lake)
    };
    assert_eq!(lacking("nothing", &|_| ()), all_but(&[]));
    let value = |rows: &mut Rows| {
        let row = rows.observations.iter_mut().find(|row| row.state == state(91)).unwrap();
        row.values[1] = None;
    };
    assert_eq!(lacking("value", &value), all_but(&["observations"]));
    let baseline = |rows: &mut Rows| rows.benchmarks[0].baselines = Baselines(Vec::new());
    assert_eq!(lacking("baseline", &baseline), all_but(&["benchmarks"]));
    let larger = |rows: &mut Rows| {
        let row = rows.ir.iter_mut().find(|row| row.state == state(91)).unwrap();
        row.compressed = with_checksum(&bitcode(91));
        assert!(row.compressed > ir_row(state(91), &bitcode(91)).compressed);
    };
    assert_eq!(lacking("bitcode", &larger), all_but(&["ir"]));
}

/// Another compressed form of the same bytes, which is larger in byte order.
fn with_checksum(bytes: &[u8]) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    compressor.include_checksum(true).unwrap();
    compressor.compress(bytes).unwrap()
}

#[test]
fn more_files_than_are_read_at_once_become_fewer() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let mut lakes = [1, 2].map(|number| Recorded::new(path(&number.to_string())));
    for (lake, started) in lakes.iter_mut().zip(1..) {
        let run = lake.begin_run(started);
        // Nothing is merged while somebody maintains the lake.
        let _maintenance = lake.lake.maintenance().unwrap();
        for number in 0..9 {
            let path = (1..40).map(|to| (1, Some(number * 30 + to))).collect::<Vec<_>>();
            lake.record(run, 0, &path, true);
            lake.seal();
        }
    }
    let lakes = lakes.map(|lake| lake.lake);
    let few = MergeOptions { files_at_once: 3, keep_files: true, ..MergeOptions::default() };
    let (lake, _) = merge(Disk::default(), &lakes, &path("few"), &few, &mut |_, _| ()).unwrap();
    derive(&lake);
    let all = merged(&[&lakes[0], &lakes[1]], &path("all"));
    assert_eq!(Contents::of(&lake), Contents::of(&all));
    for table in [Table::Ir, Table::Observations] {
        let known = files(&lakes[0], table);
        assert_eq!(known.intersection(&files(&lake, table)).count(), 3);
        assert_eq!(files(&lake, table).len(), 4);
        let there = std::fs::read_dir(path("few").join("data").join(table.name())).unwrap();
        let there = there.filter(|file| file.as_ref().is_ok_and(|file| file.path().is_file()));
        assert_eq!(there.count(), 4, "{table}: no file is left over");
    }
}
