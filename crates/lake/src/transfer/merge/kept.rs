//! Files of the first lake that the new lake has too.
//!
//! A file stays if the new lake has all of its rows, unchanged. These rows are then not written
//! again: the new lake gets the file by a hard link, and only the other rows are written. What
//! makes a file differ:
//!
//! - An episode or a program in it was retracted in another lake.
//! - Another lake has a value that a row lacks, or a form of it that the merge prefers.
//! - The new lake has more columns, or has them in another order.
//!
//! The layers of the derived tables stay if they count just what they would count in the new lake.
//! The steps of the other lakes are then uncounted.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;

use arrow::array::RecordBatch;

use super::error::MergeError;
use super::runs::Runs;
use super::source::SourceLake;
use crate::kernel::{
    DEDUP_INPUTS, Lake, LakeError, RetractionKind, RetractionRow, ScanColumns, Segment, Table,
};

/// The files of recorded tables of the first lake that stay, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Kept(HashSet<PathBuf>);

/// What the new lake has of the first one, as links that are durable.
#[derive(Debug, Default)]
pub(super) struct KeptSegments {
    /// Files of recorded tables.
    pub(super) recorded: Vec<Segment>,
    /// Files of the layers; none if the layers do not stay.
    pub(super) layers: Option<Vec<Segment>>,
}

impl KeptSegments {
    /// Returns the files whose steps the layers count.
    pub(super) fn counted(&self) -> Vec<Segment> {
        self.recorded.iter().filter(|file| file.is_counted).cloned().collect()
    }
}

impl Kept {
    /// Begins with all files of the tables that have the same columns in the new lake.
    pub(super) fn of(first: &SourceLake, lake: &Lake) -> Self {
        let recorded = Table::ALL.into_iter().filter(|table| table.is_recorded());
        let alike = recorded.filter(|&table| has_same_columns(first, lake, table));
        let files = alike.flat_map(|table| first.snapshot.segments(table));
        Self(files.map(|file| file.path.clone()).collect())
    }

    /// Returns whether a file of the lake at this place stays.
    pub(super) fn has(&self, place: usize, file: &Segment) -> bool {
        place == 0 && self.0.contains(&file.path)
    }

    /// Writes the rows of these files that the new lake has, instead of keeping the files.
    pub(super) fn remove(&mut self, files: &BTreeSet<PathBuf>) {
        self.0.retain(|file| !files.contains(file));
    }

    /// Keeps only those files of a table of which `holds` is true for all batches of these columns.
    pub(super) fn retain(
        &mut self,
        first: &SourceLake,
        table: Table,
        columns: &[&str],
        holds: &mut dyn FnMut(&RecordBatch) -> bool,
    ) -> Result<(), LakeError> {
        for file in first.snapshot.segments(table) {
            if !self.has(0, file) {
                continue;
            }
            for batch in first.snapshot.scan_segment(file, ScanColumns::Named(columns)) {
                if !holds(&batch?) {
                    self.0.remove(&file.path);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Keeps at most this many files of a table, the largest ones.
    pub(super) fn retain_largest(&mut self, first: &SourceLake, table: Table, files_max: usize) {
        let files = first.snapshot.segments(table).iter().filter(|file| self.has(0, file));
        let mut files = files.collect::<Vec<_>>();
        files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        for file in files.into_iter().skip(files_max) {
            self.0.remove(&file.path);
        }
    }

    /// Gives the files to the new lake, and the layers if they stay.
    pub(super) fn link(
        &self,
        first: &SourceLake,
        lake: &Lake,
        runs: &Runs,
    ) -> Result<KeptSegments, MergeError> {
        let recorded = Table::ALL.into_iter().flat_map(|table| first.snapshot.segments(table));
        let mut recorded = recorded.filter(|file| self.has(0, file));
        let mut recorded = link_all(lake, &mut recorded)?;
        if !self.keeps_layers(first, lake, runs) {
            for file in &mut recorded {
                file.row.is_counted = false;
            }
            return Ok(KeptSegments { recorded, layers: None });
        }
        let layers = first.snapshot.layers();
        let layers = link_all(lake, &mut layers.into_values().flatten())?;
        Ok(KeptSegments { recorded, layers: Some(layers) })
    }

    /// Returns whether the layers of the first lake are intact and count the steps of files that
    /// stay, and no others, by the rules that hold in the new lake.
    fn keeps_layers(&self, first: &SourceLake, lake: &Lake, runs: &Runs) -> bool {
        let snapshot = &first.snapshot;
        let mut derived = Table::ALL.into_iter().filter(|table| table.is_derived());
        let mut counted = snapshot.segments(Table::Steps).iter().filter(|file| file.is_counted);
        snapshot.dedup_inputs() == Some(DEDUP_INPUTS)
            && derived.all(|table| has_same_columns(first, lake, table))
            && counted.all(|file| self.has(0, file))
            && retracted_actions(snapshot.retractions()) == retracted_actions(&runs.retractions)
            && snapshot.layers().into_values().flatten().all(|file| file.check().is_ok())
    }
}

fn has_same_columns(first: &SourceLake, lake: &Lake, table: Table) -> bool {
    first.snapshot.schema(table) == *lake.schemas.get(table)
}

fn retracted_actions(retractions: &[RetractionRow]) -> BTreeSet<&str> {
    let actions = retractions.iter().filter(|row| row.kind == RetractionKind::Action);
    actions.map(|row| row.value.as_str()).collect()
}

/// Links files into the new lake. Durable on return.
fn link_all(
    lake: &Lake,
    files: &mut dyn Iterator<Item = &Segment>,
) -> Result<Vec<Segment>, LakeError> {
    let (mut linked, mut folders) = (Vec::new(), BTreeSet::new());
    for file in files {
        let segment = file.row.segment(lake, file.blocks.clone());
        let folder = lake.table_folder(file.table);
        lake.disk.create_dir(&folder)?;
        folders.insert(folder);
        if !segment.path.exists() {
            lake.disk.link(&file.path, &segment.path)?;
        }
        linked.push(segment);
    }
    folders.iter().try_for_each(|folder| lake.disk.sync_dir(folder))?;
    Ok(linked)
}
