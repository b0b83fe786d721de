//! Runs that several machines share: their lakes, merged, are the lake of one.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use steplake::dedup::{DedupOptions, dedup};
use steplake::generate::{ResumeState, RunPlan, Shard, Stop};
use steplake::lake::{Disk, Lake, Table, to_the_end};
use steplake::model::{EpisodeId, RunId};
use steplake::transfer::{merge::MergeOptions, merge::merge};

use crate::fixtures::support::{
    assert_same, fail, play, play_on, rows, run, toy_identity, toy_lake, toy_plan,
};

/// The rows of a table, where runs have other numbers. Which step was the first to take a
/// transition goes by these numbers, and so do the rewards that depend on the benchmark of that
/// step.
fn by_content(lake: &Path, table: Table) -> Vec<String> {
    let cell = |cell: &str| match cell.split_once('=') {
        Some(("episode_id", id)) => {
            format!("episode={}", EpisodeId(id.parse().unwrap()).ordinal())
        }
        Some(("run_id" | "first_episode_id" | "first_step_index", _)) => String::new(),
        Some((name, _)) if table.is_derived() && is_scaled(name) => String::new(),
        _ => cell.to_owned(),
    };
    let row = |row: &String| row.split(' ').map(cell).collect::<Vec<_>>().join(" ");
    let mut rows: Vec<_> = rows(lake, table).iter().map(row).collect();
    rows.sort();
    rows
}

/// Says whether a column is of a reward that is taken to a scale of the benchmark.
fn is_scaled(column: &str) -> bool {
    column.starts_with("reward_") && ["Norm", "O3", "Oz"].iter().any(|end| column.ends_with(end))
}

fn assert_same_contents(whole: &Path, merged: &Path) {
    for table in Table::ALL {
        let (whole, merged) = (by_content(whole, table), by_content(merged, table));
        assert_eq!(whole.iter().zip(&merged).find(|(a, b)| a != b), None, "{table}");
        assert_eq!(whole.len(), merged.len(), "{table}");
    }
}

fn finish(lake: &Lake) {
    drop(lake.writer().unwrap().seal().unwrap());
    dedup(&mut lake.maintenance().unwrap(), DedupOptions::default(), &mut to_the_end).unwrap();
}

/// Plays each shard of a plan into a lake of its own, and merges them.
fn in_shards(folder: &Path, plan: &RunPlan, count: u32) -> PathBuf {
    let play_shard = |index| {
        let lake = Lake::create(folder.join(format!("shard-{index}")), &toy_identity()).unwrap();
        let shard = Shard::new(index, count).unwrap();
        drop(play(&lake, &RunPlan { shard, ..plan.clone() }));
        lake
    };
    let lakes: Vec<_> = (0..count).map(play_shard).collect();
    let into = folder.join("merged");
    let (merged, report) =
        merge(Disk::default(), &lakes, &into, &MergeOptions::default(), &mut |_, _| {}).unwrap();
    assert_eq!(report.episodes_shared, 0);
    finish(&merged);
    into
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn shards_together_are_the_whole(
        count in 1_u32..4,
        jobs in 1_usize..3,
        episodes in 0_u64..40,
        explore in any::<bool>(),
    ) {
        let policy = if explore { "explore" } else { "random" };
        let plan = toy_plan(policy, Stop::Episodes(episodes), jobs);
        let (folder, lake) = toy_lake();
        drop(play(&lake, &plan));
        finish(&lake);
        let merged = in_shards(folder.path(), &plan, count);
        assert_same_contents(lake.path(), &merged);
    }
}

#[test]
fn a_shard_is_taken_up_where_it_stood() {
    for policy in ["random", "explore"] {
        let shard = Shard::new(1, 2).unwrap();
        let plan = RunPlan { shard, ..toy_plan(policy, Stop::Episodes(31), 2) };
        let (_calm, calm) = toy_lake();
        drop(play(&calm, &plan));
        let (_stopped, stopped) = toy_lake();
        let before = RunPlan { stop: Stop::Episodes(12), ..plan.clone() };
        let mut writer = play(&stopped, &before);
        let resumed = ResumeState::resume(&mut writer, RunId(1), &plan).unwrap();
        assert!((3..9).contains(&resumed.episodes()), "{}", resumed.episodes());
        drop(play_on(writer, RunId(1), &plan, resumed));
        assert_same(calm.path(), stopped.path());
    }
}

#[test]
fn shards_of_llvm_are_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let generate = |name: &str, more: &[&str]| {
        let lake = folder.path().join(name);
        let arguments = [
            "generate",
            "--benchmark",
            "benchmark://steplake-v0/huffman",
            "--benchmark",
            "benchmark://steplake-v0/lu_solver",
            "--episodes",
            "7",
            "--episode-length",
            "6",
            "--jobs",
            "2",
            "--ir",
            "keyframes=3",
            "--resume",
        ];
        run(&lake, &[&arguments, more].concat());
        run(&lake, &["seal"]);
        run(&lake, &["dedup"]);
        lake
    };
    let whole = generate("whole", &[]);
    let shards = ["0/3", "1/3", "2/3"];
    let lakes = shards.map(|shard| generate(&shard.replace('/', "-of-"), &["--shard", shard]));
    let merged = folder.path().join("merged");
    let names = lakes.each_ref().map(|lake| lake.to_str().unwrap());
    run(&merged, &[&["merge", "--into", merged.to_str().unwrap()], &names[..]].concat());
    assert_same_contents(&whole, &merged);
    run(&merged, &["verify"]);
}

#[test]
fn what_shards_cannot_tell_alone_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let lake = folder.path().join("lake");
    let refused = |more: &[&str]| {
        let toy = ["generate", "--env", "toy-v0", "--benchmark", "generator://toy-v0/0..3"];
        fail(&lake, &[&toy, more].concat())
    };
    for stop in ["--steps", "--states"] {
        let (code, said) = refused(&[stop, "100", "--shard", "0/2"]);
        assert!(code == 2 && said.contains("the option is --episodes"), "{said}");
    }
    let (code, said) = refused(&["--episodes", "9", "--policy", "explore", "--shard", "0/5"]);
    assert!(code == 2 && said.contains("there are 4, for 5 shards"), "{said}");
    let (code, said) = refused(&["--episodes", "9", "--shard", "3/3"]);
    assert!(code == 2 && said.contains("0/3, 1/3, 2/3"), "{said}");
    assert!(!lake.exists());
}
