//! How a published version compares with the lake at hand.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use steplake::store::{Inventory, RetractionKind, RetractionRow, Table};

/// What publishing a lake would mean for the version that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// The version has all that the lake has: there is nothing to publish.
    Contained,
    /// The lake has all that the version has, or had it and took it back.
    Contains,
    /// Neither is known to have all of the other; what shows it.
    Neither(String),
}

/// Compares `lake` with the version `there`. `known` are the digests of all files that the lake has
/// or had, as [`Lake::known_files`](steplake::store::Lake::known_files) gives them.
///
/// What is compared is files, by digest. Rows that were put into other files are not recognised: a
/// lake that was merged says nothing here about those that it came from.
pub fn relation(lake: &Inventory, known: &BTreeSet<String>, there: &Inventory) -> Relation {
    let (ours, theirs) = (recorded(lake), recorded(there));
    let (our_runs, their_runs) = (runs(lake), runs(there));
    let (our_words, their_words) = (retractions(lake), retractions(there));
    let behind = ours.is_subset(&theirs)
        && our_words.is_subset(&their_words)
        && our_runs.iter().all(|(uid, &done)| their_runs.get(uid).is_some_and(|&d| d || !done));
    let newer_derived = match uncounted(lake).cmp(&uncounted(there)) {
        Ordering::Less => true,
        Ordering::Equal => !derived(lake).is_subset(&derived(there)),
        Ordering::Greater => false,
    };
    if behind && (ours.len() < theirs.len() || !newer_derived) {
        return Relation::Contained;
    }
    let neither = |what: &str| Relation::Neither(what.to_owned());
    if theirs.iter().any(|digest| !known.contains(*digest)) {
        return neither("rows in files that this lake never had");
    }
    if their_runs.keys().any(|uid| !our_runs.contains_key(uid)) {
        return neither("runs of its own");
    }
    if !their_words.is_subset(&our_words) {
        return neither("retractions of its own");
    }
    if !losses(lake).is_subset(&losses(there)) {
        return neither("rows that this one lost in a repair");
    }
    Relation::Contains
}

/// The files of recorded tables.
fn recorded(inventory: &Inventory) -> BTreeSet<&str> {
    let files = inventory.files.iter().filter(|file| !file.table.is_derived());
    files.map(|file| file.digest.as_str()).collect()
}

/// The files of derived tables.
fn derived(inventory: &Inventory) -> BTreeSet<&str> {
    let files = inventory.files.iter().filter(|file| file.table.is_derived());
    files.map(|file| file.digest.as_str()).collect()
}

/// Rows of `steps` that the derived tables do not count.
fn uncounted(inventory: &Inventory) -> u64 {
    let steps = inventory.files.iter().filter(|file| file.table == Table::Steps);
    steps.filter(|file| !file.is_counted).map(|file| file.rows).sum()
}

/// The runs by their names, with whether they are finished.
fn runs(inventory: &Inventory) -> BTreeMap<&str, bool> {
    inventory.runs.iter().map(|run| (run.uid.as_str(), run.finished)).collect()
}

/// What was taken back, where numbers of runs mean the same in all lakes.
fn retractions(inventory: &Inventory) -> BTreeSet<(RetractionKind, String, BTreeSet<&str>)> {
    let uid = |row: &RetractionRow| {
        let uids = inventory.runs.iter().filter(|run| row.runs.contains(&run.id));
        uids.map(|run| run.uid.as_str()).collect::<BTreeSet<_>>()
    };
    let meant = |row: &RetractionRow| {
        let value = if row.kind == RetractionKind::Run { String::new() } else { row.value.clone() };
        (row.kind, value, uid(row))
    };
    inventory.retractions.iter().map(meant).collect()
}

/// What repairs dropped.
fn losses(inventory: &Inventory) -> BTreeSet<(Table, &str, u64)> {
    inventory.losses.iter().map(|row| (row.table, row.path.as_str(), row.rows)).collect()
}

/// Says whether two lakes have the same runs, and took the same back.
pub(crate) fn tell_the_same(one: &Inventory, other: &Inventory) -> bool {
    runs(one) == runs(other) && retractions(one) == retractions(other)
}
