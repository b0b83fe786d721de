//! The derived tables, made on a cluster.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use steplake::cli::dedup::said;
use steplake::dedup::Settings;
use steplake::lake::{Lake, ScanColumns, SnapshotKind, Table};

use crate::lakes::{APART, count, in_layers};
use crate::processes::{Cluster, texts};

/// Jobs of a dedup, each of which is a query: the steps, then the three tables. Once the third has
/// begun, all rows of the first table have come and were written.
const CONFLICTS: usize = 3;

fn derived(lake: &Lake) -> Vec<(Table, Vec<Vec<String>>)> {
    let snapshot = lake.snapshot().unwrap();
    let derived = Table::ALL.into_iter().filter(|table| table.is_derived());
    derived
        .map(|table| {
            let batches = snapshot.scan(table, ScanColumns::All).map(Result::unwrap);
            (table, texts(&batches.collect::<Vec<_>>()))
        })
        .collect()
}

fn assert_same(found: &Lake, wanted: &Lake) {
    for ((table, found), (_, wanted)) in derived(found).into_iter().zip(derived(wanted)) {
        assert_eq!(found, wanted, "{table}");
    }
}

fn dedup(cluster: &Cluster, lake: &Lake) -> Child {
    let mut command = cluster.command(lake.path(), "dedup");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn successful(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Waits for the first task of the `number`-th job; the executor that has it.
fn begun(cluster: &Cluster, number: usize) -> usize {
    let mut jobs = BTreeSet::new();
    loop {
        let (executor, line) = cluster.next_line();
        // `Received task: [TID job/stage.attempt/task.attempt]`.
        let task =
            line.split_once("Received task: [TID ").and_then(|(_, task)| task.split_once('/'));
        if let Some((job, _)) = task {
            jobs.insert(job.to_owned());
        }
        if jobs.len() == number {
            return executor;
        }
    }
}

/// All files of a folder with their sizes, but for those of the database, which are written to by
/// readers too.
fn files(folder: &Path) -> BTreeSet<(PathBuf, u64)> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else if Table::ALL.iter().any(|table| folder.ends_with(table.name())) {
            found.insert((entry.path(), entry.metadata().unwrap().len()));
        }
    }
    found
}

#[test]
fn a_dedup_makes_the_same_tables() {
    let cluster = Cluster::start(2);
    let folder = tempfile::tempdir().unwrap();
    let here = in_layers(&folder.path().join("here"), 3);
    let there = in_layers(&folder.path().join("there"), 3);
    let full = count(&here, Settings { full: true, ..APART });
    assert_eq!(successful(&dedup(&cluster, &there).wait_with_output().unwrap()), said(&full));
    assert!(full.conflicts > 0 && full.failures > 0);
    assert_same(&there, &here);
    let snapshot = there.snapshot().unwrap();
    assert_eq!(snapshot.history().last().unwrap().kind, SnapshotKind::Dedup);
    assert_eq!(snapshot.layers().len(), 1);
    // A later pass goes on from it.
    assert!(count(&there, APART).unchanged);
}

#[test]
fn a_dedup_loses_an_executor_and_makes_the_same_tables() {
    let mut cluster = Cluster::start(2);
    let folder = tempfile::tempdir().unwrap();
    let here = in_layers(&folder.path().join("here"), 3);
    let there = in_layers(&folder.path().join("there"), 3);
    let full = count(&here, Settings { full: true, ..APART });
    let working = dedup(&cluster, &there);
    let executor = begun(&cluster, CONFLICTS);
    cluster.kill(executor);
    assert_eq!(successful(&working.wait_with_output().unwrap()), said(&full));
    assert_same(&there, &here);
    assert_eq!(there.snapshot().unwrap().layers().len(), 1);
}

#[test]
fn a_dedup_that_is_killed_leaves_the_lake_as_it_was() {
    let mut cluster = Cluster::start(2);
    let folder = tempfile::tempdir().unwrap();
    let here = in_layers(&folder.path().join("here"), 3);
    let there = in_layers(&folder.path().join("there"), 3);
    let (newest, before) = (there.newest().unwrap(), files(there.path()));
    let mut working = dedup(&cluster, &there);
    begun(&cluster, CONFLICTS);
    // With nobody to work on the rest, it cannot come to its end before it is killed.
    for executor in 0..2 {
        cluster.kill(executor);
    }
    working.kill().unwrap();
    working.wait().unwrap();
    let left = files(there.path());
    assert!(left.is_superset(&before) && left != before, "it was killed before it wrote: {left:?}");
    assert_eq!(there.newest().unwrap(), newest);
    assert_same(&there, &here);
    // Its lock is gone with it, and what it left goes with the next pass.
    let full = Settings { full: true, ..APART };
    assert_eq!(said(&count(&there, full)), said(&count(&here, full)));
    assert_same(&there, &here);
    there.maintenance().unwrap();
    let listed = there.snapshot().unwrap();
    for (path, _) in left.difference(&before) {
        let is_listed =
            listed.segments(Table::StateTransitions).iter().any(|own| own.path == *path);
        assert!(is_listed || !path.exists(), "{} is left", path.display());
    }
}

#[test]
fn a_damaged_file_is_not_counted() {
    let cluster = Cluster::start(1);
    let folder = tempfile::tempdir().unwrap();
    let lake = in_layers(&folder.path().join("lake"), 2);
    let (newest, before) = (lake.newest().unwrap(), derived(&lake));
    let snapshot = lake.snapshot().unwrap();
    let damaged = &snapshot.segments(Table::Episodes)[0].path;
    let mut bytes = std::fs::read(damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(damaged, bytes).unwrap();
    let output = dedup(&cluster, &lake).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(damaged.to_str().unwrap()) && said.contains("digest"), "{said}");
    assert_eq!((lake.newest().unwrap(), derived(&lake)), (newest, before));
}
