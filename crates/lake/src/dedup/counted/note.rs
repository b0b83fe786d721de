//! What the job says of the tables that it wrote.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use serde::Deserialize;

use super::tables::files;
use crate::kernel::{Identity, LakeError, Segment, Snapshot, Table};
use steplake_model::RunId;

/// The folder of the note, beside those of the tables. The note is its only file: one line of JSON.
const FOLDER: &str = "counted";
/// The end of the name of that file.
const ENDING: &str = ".txt";
/// The version of the note that is read.
const VERSION: u32 = 1;
/// The format of tables that are read.
const PARQUET: &str = "parquet";
/// The hexadecimal digits of the digest of a file by which the note names it, as in the names of
/// the files of a lake.
const DIGITS: usize = 16;

/// What was counted, and the number of rows that were written. A job writes it last, so tables
/// without it are not complete.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Note {
    /// The version of this note.
    version: u32,
    /// The format of the tables.
    format: String,
    /// The number of rows of each table.
    rows: BTreeMap<Table, u64>,
    /// The lakes whose steps were counted together.
    lakes: Vec<CountedLake>,
}

/// A lake whose steps were counted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CountedLake {
    /// Where it was.
    address: String,
    /// The version that was read: a snapshot, or a published version.
    #[expect(dead_code, reason = "for people")]
    version: i64,
    identity: Identity,
    /// The names of the actions that were left out.
    retracted: BTreeSet<String>,
    /// The numbers of its runs in the tables, by their names across lakes.
    runs: BTreeMap<String, i32>,
    /// Its files of `steps`, each by the first [`DIGITS`] of its digest.
    steps: BTreeSet<String>,
}

impl Note {
    /// Reads the note of the tables in a folder.
    ///
    /// # Errors
    ///
    /// [`LakeError::OtherTables`] if there is none, or if it is not one of this version.
    pub(super) fn read(folder: &Path) -> Result<Self, LakeError> {
        let refuse = |what: String| LakeError::OtherTables { path: folder.to_owned(), what };
        let found = files(&folder.join(FOLDER), ENDING)?;
        let [path] = found.as_slice() else {
            return Err(refuse(format!(
                "no single file in `{FOLDER}` says what was counted: the job that wrote them has \
                 not ended, or was none that counts steps"
            )));
        };
        let text = std::fs::read_to_string(path).map_err(LakeError::io("read", path))?;
        let note: Self = serde_json::from_str(&text).map_err(|error| {
            refuse(format!("`{FOLDER}` does not say what was counted: {error}"))
        })?;
        if note.version != VERSION || note.format != PARQUET {
            return Err(refuse(format!(
                "they are {} of version {}, and what is read is {PARQUET} of version {VERSION}",
                note.format, note.version
            )));
        }
        if note.lakes.is_empty() {
            return Err(refuse("they were counted of no lake".to_owned()));
        }
        Ok(note)
    }

    /// Compares what was counted with a lake, as far as that tells without its steps.
    ///
    /// # Errors
    ///
    /// What differs.
    pub(super) fn demand_of(&self, snapshot: &Snapshot) -> Result<(), String> {
        let retracted = snapshot.retracted_actions();
        let space = &snapshot.identity().action_space;
        let names = retracted.iter().filter_map(|&action| space.get(action));
        let retracted = names.map(|action| action.name.clone()).collect::<BTreeSet<_>>();
        let left_out = self.lakes.iter().flat_map(|lake| &lake.retracted);
        if left_out.cloned().collect::<BTreeSet<_>>() != retracted {
            return Err(
                "the lake has retracted other actions than those that they leave out".into()
            );
        }
        let numbers = snapshot.runs().iter().map(|run| (run.uid.as_str(), run.id));
        let numbers = numbers.collect::<HashMap<_, _>>();
        self.lakes.iter().try_for_each(|lake| lake.demand_of(snapshot.identity(), &numbers))
    }

    /// The number of files of steps that were counted.
    pub(super) fn files(&self) -> usize {
        self.lakes.iter().map(|lake| lake.steps.len()).sum()
    }

    /// Whether a file of steps was counted.
    pub(super) fn names(&self, steps: &Segment) -> bool {
        let name = steps.digest.get(..DIGITS).unwrap_or_default();
        self.lakes.iter().any(|lake| lake.steps.contains(name))
    }

    /// Compares a number of rows with that which was written.
    ///
    /// # Errors
    ///
    /// The two numbers.
    pub(super) fn demand_rows(&self, table: Table, found: u64) -> Result<(), String> {
        let written = self.rows.get(&table).copied().unwrap_or(0);
        let differ = || format!("{table} has {found} rows, and {written} were written");
        if found == written { Ok(()) } else { Err(differ()) }
    }

    /// The columns of a table as it was written: those of the lake, without the rewards that the
    /// lake got since.
    pub(super) fn schema(&self, table: Table, snapshot: &Snapshot) -> SchemaRef {
        let own = snapshot.schema(table);
        let counted = self.lakes.iter().map(|lake| lake.identity.rewards.len()).max().unwrap_or(0);
        let rewards = snapshot.identity().rewards.len();
        let newer = if table == Table::Failures { 0 } else { rewards.saturating_sub(counted) };
        let fields = own.fields().iter().take(own.fields().len() - newer);
        Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()))
    }
}

impl CountedLake {
    /// Compares what was counted of this lake with the lake of this identity and these runs.
    fn demand_of(&self, own: &Identity, numbers: &HashMap<&str, RunId>) -> Result<(), String> {
        let address = &self.address;
        if let Some((what, here, there)) = own.difference(&self.identity) {
            return Err(format!("{address} has {what} {there}, and this lake has {here}"));
        }
        if self.identity.action_space.actions.len() > own.action_space.actions.len() {
            return Err(format!("{address} has actions that this lake lacks"));
        }
        if !own.rewards.starts_with(&self.identity.rewards) {
            return Err(format!("the rewards of {address} are not the first ones of this lake"));
        }
        for (uid, number) in &self.runs {
            match numbers.get(uid.as_str()) {
                Some(own) if own.0 == *number => {}
                Some(own) => {
                    return Err(format!(
                        "run {uid} has number {number} in them, and number {} in this lake",
                        own.0
                    ));
                }
                None => return Err(format!("run {uid} of {address} is not in this lake")),
            }
        }
        Ok(())
    }
}
