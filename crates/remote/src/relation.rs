//! Compares a published version with the local lake.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use steplake_lake::transfer::Inventory;
use steplake_lake::{RetractionKind, RetractionRow, Table};

/// What publishing a lake means for the published version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionRelation {
    /// The version has everything in the lake: nothing has to be published.
    Contained,
    /// The lake has everything in the version, or had it and retracted it.
    Contains,
    /// Neither is known to have everything in the other; the text is the evidence.
    Neither(String),
}

/// Compares `lake` with the version `there`. `known` are the digests of all files that the lake has
/// or had, as returned by [`Lake::known_files`](steplake_lake::Lake::known_files).
///
/// Compares files by digest. Rows that were written to other files are not recognised: a merged
/// lake shows no relation here to the lakes it was made from.
pub fn relation(lake: &Inventory, known: &BTreeSet<String>, there: &Inventory) -> VersionRelation {
    let (ours, theirs) = (files(lake, false), files(there, false));
    let (our_runs, their_runs) = (runs(lake), runs(there));
    let (our_retractions, their_retractions) = (retractions(lake), retractions(there));
    let behind = ours.is_subset(&theirs)
        && our_retractions.is_subset(&their_retractions)
        && our_runs.iter().all(|(uid, &done)| their_runs.get(uid).is_some_and(|&d| d || !done));
    let newer_derived = match uncounted(lake).cmp(&uncounted(there)) {
        Ordering::Less => true,
        Ordering::Equal => !files(lake, true).is_subset(&files(there, true)),
        Ordering::Greater => false,
    };
    if behind && (ours.len() < theirs.len() || !newer_derived) {
        return VersionRelation::Contained;
    }
    let neither = |what: &str| VersionRelation::Neither(what.to_owned());
    if theirs.iter().any(|digest| !known.contains(*digest)) {
        return neither("rows in files that this lake never had");
    }
    if their_runs.keys().any(|uid| !our_runs.contains_key(uid)) {
        return neither("runs of its own");
    }
    if !their_retractions.is_subset(&our_retractions) {
        return neither("retractions of its own");
    }
    if !losses(lake).is_subset(&losses(there)) {
        return neither("rows that this one lost in a repair");
    }
    VersionRelation::Contains
}

/// Returns the files of the derived tables, or of all other tables.
fn files(inventory: &Inventory, derived: bool) -> BTreeSet<&str> {
    let files = inventory.files.iter().filter(|file| file.table.is_derived() == derived);
    files.map(|file| file.digest.as_str()).collect()
}

/// Returns the number of rows of `steps` that the derived tables do not count.
fn uncounted(inventory: &Inventory) -> u64 {
    let steps = inventory.files.iter().filter(|file| file.table == Table::Steps);
    steps.filter(|file| !file.is_counted).map(|file| file.rows).sum()
}

/// Returns the runs by name, and whether they are finished.
fn runs(inventory: &Inventory) -> BTreeMap<&str, bool> {
    inventory.runs.iter().map(|run| (run.uid.as_str(), run.finished)).collect()
}

/// Returns the retractions, with the uids of runs, which are the same in all lakes.
fn retractions(inventory: &Inventory) -> BTreeSet<(RetractionKind, String, BTreeSet<&str>)> {
    let uid = |row: &RetractionRow| {
        let uids = inventory.runs.iter().filter(|run| row.runs.contains(&run.id));
        uids.map(|run| run.uid.as_str()).collect::<BTreeSet<_>>()
    };
    let identity = |row: &RetractionRow| {
        let value = if row.kind == RetractionKind::Run { String::new() } else { row.value.clone() };
        (row.kind, value, uid(row))
    };
    inventory.retractions.iter().map(identity).collect()
}

/// Returns what repairs dropped.
fn losses(inventory: &Inventory) -> BTreeSet<(Table, &str, u64)> {
    inventory.losses.iter().map(|row| (row.table, row.path.as_str(), row.rows)).collect()
}

/// Returns whether two lakes have the same runs and retractions.
pub(crate) fn same_runs_and_retractions(one: &Inventory, other: &Inventory) -> bool {
    runs(one) == runs(other) && retractions(one) == retractions(other)
}
