//! Tables that are those of the lake become its only layer.

use std::ops::ControlFlow::{Break, Continue};
use std::path::Path;

use steplake::dedup::{DedupOptions, dedup, take_counted};
use steplake::lake::{Identity, Lake, LakeError, RecordedReward, Table, Writer, to_the_end};
use steplake::model::{EpisodeId, RunId};

use super::{Output, found, take};
use crate::fixtures::support::{assert_same, copy_folder, fail, run};
use crate::fixtures::toy_lake::{APART, Author, Taken, identity, in_layers};

/// A lake like another one, counted here from all steps.
fn counted_here(lake: &Lake, path: &Path) -> Lake {
    copy_folder(lake.path(), path);
    let here = Lake::open(path).unwrap();
    let full = DedupOptions { full: true, ..DedupOptions::default() };
    dedup(&mut here.maintenance().unwrap(), full, &mut to_the_end).unwrap();
    here
}

/// Appends an episode, and seals it.
fn seal_episode(writer: &mut Writer, author: &mut Author, ordinal: u32, path: &[Taken]) {
    author.episode(EpisodeId::new(RunId(1), ordinal), 0, path);
    writer.append(&author.take()).unwrap();
    writer.seal().unwrap();
}

#[test]
fn they_are_the_rows_of_a_full_dedup() {
    for layers in 1..4 {
        let folder = tempfile::tempdir().unwrap();
        let (lake, _) = in_layers(&folder.path().join("lake"), layers);
        let here = counted_here(&lake, &folder.path().join("here"));
        let report = take(&lake, &Output::of(&lake)).unwrap();
        assert_eq!((report.layers, report.unchanged), (1, false));
        assert_same(lake.path(), here.path());
        let [taken, wanted] = [&lake, &here].map(|lake| lake.sealed().unwrap());
        assert_eq!(taken.uncounted_steps(), 0);
        assert_eq!(report.transitions, wanted.rows(Table::StateTransitions));
        let detail = &taken.history().last().unwrap().detail;
        assert_eq!(*detail, format!("{} steps counted elsewhere", report.steps));
        assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
        assert_eq!(found(&lake), []);
        // The same again makes a snapshot, and changes no row.
        take(&lake, &Output::of(&lake)).unwrap();
        assert_same(lake.path(), here.path());
    }
}

#[test]
fn steps_that_were_sealed_since_are_counted_by_the_next_dedup() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut author) = in_layers(&folder.path().join("lake"), 2);
    let output = Output::of(&lake);
    let mut writer = lake.writer().unwrap();
    seal_episode(&mut writer, &mut author, 900, &[(1, Some(3)), (4, Some(300)), (7, None)]);
    take(&lake, &output).unwrap();
    assert_eq!(lake.sealed().unwrap().uncounted_steps(), 4);
    assert_eq!(found(&lake), []);
    let report = dedup(&mut lake.maintenance().unwrap(), APART, &mut to_the_end).unwrap();
    assert_eq!((report.steps, report.layers), (3, 2));
    assert_eq!(found(&lake), []);
    assert_same(lake.path(), counted_here(&lake, &folder.path().join("here")).path());
}

#[test]
fn tables_that_lack_counted_steps_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut author) = in_layers(&folder.path().join("lake"), 2);
    let output = Output::of(&lake);
    seal_episode(&mut lake.writer().unwrap(), &mut author, 900, &[(1, Some(3))]);
    dedup(&mut lake.maintenance().unwrap(), APART, &mut to_the_end).unwrap();
    let error = take(&lake, &output).unwrap_err().to_string();
    assert!(error.contains("which the lake has counted"), "{error}");
}

#[test]
fn files_may_be_merged_meanwhile_if_no_step_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity()).unwrap();
    let (mut writer, mut author) = (lake.writer().unwrap(), Author::default());
    for ordinal in 0..3 {
        seal_episode(&mut writer, &mut author, ordinal, &[(1, Some(3)), (2, Some(ordinal))]);
    }
    let output = Output::of(&lake);
    writer.compact(&mut to_the_end).unwrap();
    assert_eq!(lake.sealed().unwrap().segments(Table::Steps).len(), 1);
    take(&lake, &output).unwrap();
    assert_eq!(found(&lake), []);
    // With newer steps in the same file, nothing says which ones were counted.
    let again = Output::of(&lake);
    seal_episode(&mut writer, &mut author, 3, &[(1, Some(3))]);
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
    writer.compact(&mut to_the_end).unwrap();
    let error = take(&lake, &again).unwrap_err().to_string();
    assert!(error.contains("has 0 of the 1 files of steps that were counted"), "{error}");
}

#[test]
fn a_merge_takes_what_was_counted_of_its_shards() {
    let folder = tempfile::tempdir().unwrap();
    let merged = Lake::create(folder.path().join("merged"), &identity()).unwrap();
    let mut author = Author::default();
    seal_episode(&mut merged.writer().unwrap(), &mut author, 0, &[(1, Some(3)), (2, Some(4))]);
    let mut output = Output::of(&merged);
    // Of the shards the lake has the runs and the steps, in other files.
    let mut shards = vec![output.note["lakes"][0].clone(); 2];
    shards[0]["steps"] = serde_json::json!(["0123456789abcdef"]);
    shards[1]["steps"] = serde_json::json!(["fedcba9876543210"]);
    output.note["lakes"] = shards.into();
    take(&merged, &output).unwrap();
    assert_eq!(found(&merged), []);
}

#[test]
fn a_lake_that_has_grown_by_a_reward_since_has_null_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lake");
    let lake = Lake::create(&path, &identity()).unwrap();
    let mut author = Author::default();
    seal_episode(&mut lake.writer().unwrap(), &mut author, 0, &[(1, Some(3)), (2, Some(4))]);
    let output = Output::of(&lake);
    let mut grown: Identity = identity();
    grown.rewards.push(RecordedReward::new("SizeOz", "Size"));
    let lake = Lake::open_or_create(&path, &grown).unwrap();
    take(&lake, &output).unwrap();
    assert_eq!(found(&lake), []);
    assert!(lake.verify(&mut to_the_end).unwrap().is_sound());
}

#[test]
fn a_break_at_any_time_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, _) = in_layers(&folder.path().join("lake"), 2);
    let output = folder.path().join("output");
    Output::of(&lake).write(&output);
    let newest = lake.newest().unwrap();
    let mut maintenance = lake.maintenance().unwrap();
    for calls_max in 1.. {
        let (mut calls, options) = (0, DedupOptions::default());
        let taken = take_counted(&mut maintenance, &output, options, &mut |done, all| {
            assert!(done <= all);
            calls += 1;
            if calls == calls_max { Break(()) } else { Continue(()) }
        });
        if calls < calls_max {
            taken.unwrap();
            assert!(calls > 3, "{calls}");
            break;
        }
        assert!(matches!(taken, Err(LakeError::Interrupted)), "{taken:?}");
        assert_eq!(lake.newest().unwrap(), newest);
    }
    drop(maintenance);
    assert_eq!(found(&lake), []);
}

#[test]
fn the_command_takes_them_and_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let (lake, mut author) = in_layers(&folder.path().join("lake"), 2);
    let place = folder.path().join("output");
    Output::of(&lake).write(&place);
    seal_episode(&mut lake.writer().unwrap(), &mut author, 900, &[(1, Some(3))]);
    let counted = ["dedup", "--counted", place.to_str().unwrap()];
    let said = run(lake.path(), &counted);
    assert!(said.contains(" steps counted: ") && said.lines().count() == 1, "{said}");
    let said = run(lake.path(), &["verify", "--derived"]);
    assert!(said.contains("\nderived tables: equal; "), "{said}");
    run(lake.path(), &["dedup"]);
    let (code, said) = fail(lake.path(), &counted);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("cannot become the derived tables of the lake: they lack"), "{said}");
    let little = [&counted[..], &["--memory", "64M"]].concat();
    let (code, said) = fail(lake.path(), &little);
    assert_eq!(code, 3, "{said}");
    let (code, said) = fail(lake.path(), &[&counted[..], &["--full"]].concat());
    assert_eq!(code, 2, "{said}");
}
