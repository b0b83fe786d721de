//! The stored form of a version: a small manifest that names a list, and the list of everything in
//! the version. Both are JSON; the list is named by its content.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use steplake::lake::FileRow;
use steplake::lake::{
    FORMAT_VERSION, Identity, IdentityError, LayerId, LossRow, RetractionKind, RetractionRow,
    RunRow, SnapshotId, Table,
};
use steplake::model::RunId;
use steplake::transfer::Inventory;

use crate::RemoteError;

/// The version of the format at a prefix.
pub const FORMAT: u32 = 1;

/// A manifest. Everything except the list's digest is for people who look at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// The version's number.
    pub version: u64,
    /// The digest of the list, in hexadecimal; `None` if the version is forgotten, or if
    /// [`gc`](crate::gc) took the number.
    pub list: Option<String>,
    /// The random name of the publication or collection, which identifies its own manifest.
    pub publication: String,
    /// The time of publication, Unix time in milliseconds.
    pub published_at_ms: i64,
    /// The version that was the newest before, and that this one contains.
    pub parent: Option<u64>,
    /// Number of rows of `episodes`.
    pub episodes: u64,
    /// Number of rows of `steps`.
    pub steps: u64,
    /// Number of files.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
}

impl Manifest {
    /// Returns what is left of a forgotten version: its number.
    #[must_use]
    pub fn forgotten(self) -> Self {
        Self { list: None, episodes: 0, steps: 0, files: 0, bytes: 0, ..self }
    }

    /// Returns a manifest that takes a number for no version.
    pub(crate) fn without_version(number: u64, publication: String, at_ms: i64) -> Self {
        Self {
            format: FORMAT,
            version: number,
            list: None,
            publication,
            published_at_ms: at_ms,
            parent: None,
            episodes: 0,
            steps: 0,
            files: 0,
            bytes: 0,
        }
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("strings and numbers serialise");
        text.push(b'\n');
        text
    }

    /// Parses the manifest in `object`, which must be that of version `number`.
    pub(crate) fn from_json(object: &str, number: u64, text: &[u8]) -> Result<Self, RemoteError> {
        check_format(object, text)?;
        let manifest: Self = serde_json::from_slice(text)
            .map_err(|error| RemoteError::damaged(object, error.to_string()))?;
        if manifest.version != number {
            let what = format!("it says that it is version {}", manifest.version);
            return Err(RemoteError::damaged(object, what));
        }
        if !manifest.list.as_deref().is_none_or(is_digest) {
            return Err(RemoteError::damaged(object, "its list has no digest"));
        }
        Ok(manifest)
    }
}

/// Returns whether a text is a BLAKE3 digest in hexadecimal.
fn is_digest(text: &str) -> bool {
    is_hex(text, 64)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn check_format(object: &str, text: &[u8]) -> Result<(), RemoteError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let Format { format: found } = serde_json::from_slice(text)
        .map_err(|error| RemoteError::damaged(object, error.to_string()))?;
    if found == FORMAT {
        return Ok(());
    }
    Err(RemoteError::Format { object: object.to_owned(), found, known: FORMAT })
}

/// The stored list of everything in a version.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    format: u32,
    /// The manifest's `publication`. It makes every list a different object.
    #[serde(default)]
    publication: String,
    /// The content of `lake.json`.
    identity: serde_json::Value,
    snapshot: i64,
    runs: Vec<ListedRun>,
    retractions: Vec<ListedRetraction>,
    losses: Vec<ListedLoss>,
    dedup_inputs: Option<String>,
    files: Vec<ListedFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedRun {
    run_id: i32,
    uid: String,
    arguments: String,
    started_at_ms: i64,
    finished: bool,
    repeated_windows: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedRetraction {
    kind: String,
    value: String,
    reason: String,
    runs: Vec<i32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedLoss {
    table: String,
    path: String,
    rows: u64,
    what: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedFile {
    table: String,
    /// The path of the object below the prefix, for readers that use other Parquet software.
    object: String,
    rows: u64,
    bytes: u64,
    digest: String,
    key_min: Option<i64>,
    key_max: Option<i64>,
    layer: Option<i64>,
    counted: bool,
}

impl ListedFile {
    /// Returns the file, or the name of an impossible one.
    fn read(self, table: Table) -> Result<FileRow, String> {
        let file = FileRow {
            table,
            rows: self.rows,
            bytes: self.bytes,
            digest: self.digest,
            key_range: self.key_min.zip(self.key_max),
            layer: self.layer.map(LayerId),
            is_counted: self.counted,
        };
        // Earlier versions sent files without the name of the publication.
        let plain = format!("segments/{}/{}.parquet", file.table, file.digest);
        let is_its_own = self.object == plain
            || content_of(&self.object) == Some((file.table.name(), &file.digest));
        if file.is_well_formed() && is_its_own { Ok(file) } else { Err(self.object) }
    }
}

/// The paths of files below the prefix, by digest.
pub(crate) type Objects = HashMap<String, String>;

/// Number of hexadecimal digits in the name of a publication.
const NAME_DIGITS: usize = 32;

/// Returns the object to which the publication called `name` sends a file: no other publication
/// ever writes an object of this name.
pub(crate) fn segment_object(row: &FileRow, name: &str) -> String {
    debug_assert!(is_hex(name, NAME_DIGITS));
    format!("segments/{}/{}-{name}.parquet", row.table, row.digest)
}

/// Returns the table and the digest of the file in an object of this name.
pub(crate) fn content_of(object: &str) -> Option<(&str, &str)> {
    let (table, file) = object.strip_prefix("segments/")?.split_once('/')?;
    let (digest, name) = file.strip_suffix(".parquet")?.split_once('-')?;
    (is_digest(digest) && is_hex(name, NAME_DIGITS)).then_some((table, digest))
}

/// Formats a list. `objects` holds the place of each file.
pub(crate) fn list_to_json(inventory: &Inventory, objects: &Objects, publication: &str) -> Vec<u8> {
    let run = |row: &RunRow| ListedRun {
        run_id: row.id.0,
        uid: row.uid.clone(),
        arguments: row.arguments.clone(),
        started_at_ms: row.started_at_ms,
        finished: row.finished,
        repeated_windows: row.repeated_windows,
    };
    let retraction = |row: &RetractionRow| ListedRetraction {
        kind: row.kind.as_str().to_owned(),
        value: row.value.clone(),
        reason: row.reason.clone(),
        runs: row.runs.iter().map(|run| run.0).collect(),
    };
    let loss = |row: &LossRow| ListedLoss {
        table: row.table.name().to_owned(),
        path: row.path.clone(),
        rows: row.rows,
        what: row.what.clone(),
    };
    let file = |row: &FileRow| ListedFile {
        table: row.table.name().to_owned(),
        object: objects[&row.digest].clone(),
        rows: row.rows,
        bytes: row.bytes,
        digest: row.digest.clone(),
        key_min: row.key_range.map(|range| range.0),
        key_max: row.key_range.map(|range| range.1),
        layer: row.layer.map(|layer| layer.0),
        counted: row.is_counted,
    };
    let identity = inventory.identity.to_json();
    let list = List {
        format: FORMAT,
        publication: publication.to_owned(),
        identity: serde_json::from_str(&identity).expect("an identity is JSON"),
        snapshot: inventory.snapshot.0,
        runs: inventory.runs.iter().map(run).collect(),
        retractions: inventory.retractions.iter().map(retraction).collect(),
        losses: inventory.losses.iter().map(loss).collect(),
        dedup_inputs: inventory.dedup_inputs.clone(),
        files: inventory.files.iter().map(file).collect(),
    };
    let mut text = serde_json::to_vec_pretty(&list).expect("strings and numbers serialise");
    text.push(b'\n');
    text
}

/// Parses the list in `object`, whose digest was compared.
pub(crate) fn list_from_json(
    object: &str,
    text: &[u8],
) -> Result<(Inventory, Objects), RemoteError> {
    check_format(object, text)?;
    let damaged = |what: String| RemoteError::damaged(object, what);
    let list: List = serde_json::from_slice(text).map_err(|error| damaged(error.to_string()))?;
    let identity = Identity::from_json(&list.identity.to_string());
    let identity = identity.map_err(|error| match error {
        IdentityError::Damaged(what) => damaged(what),
        IdentityError::Format { found } => {
            RemoteError::LakeFormat { object: object.to_owned(), found, known: FORMAT_VERSION }
        }
    })?;
    let table = |name: &str| {
        Table::from_name(name).ok_or_else(|| damaged(format!("there is no table called {name}")))
    };
    let snapshot = SnapshotId(list.snapshot);
    let run = |row: ListedRun| RunRow {
        id: RunId(row.run_id),
        uid: row.uid,
        arguments: row.arguments,
        started_at_ms: row.started_at_ms,
        finished: row.finished,
        repeated_windows: row.repeated_windows,
    };
    let retraction = |row: ListedRetraction| {
        let kinds = [RetractionKind::Benchmark, RetractionKind::Run, RetractionKind::Action];
        let kind = kinds.into_iter().find(|kind| kind.as_str() == row.kind);
        let kind = kind.ok_or_else(|| damaged(format!("{} cannot be retracted", row.kind)))?;
        let runs = row.runs.into_iter().map(RunId).collect();
        Ok::<_, RemoteError>(RetractionRow {
            id: 0,
            kind,
            value: row.value,
            reason: row.reason,
            snapshot,
            runs,
        })
    };
    let loss = |row: ListedLoss| {
        let table = table(&row.table)?;
        Ok::<_, RemoteError>(LossRow {
            table,
            path: row.path,
            rows: row.rows,
            what: row.what,
            snapshot,
        })
    };
    let file = |row: ListedFile| {
        let table = table(&row.table)?;
        row.read(table).map_err(|object| damaged(format!("{object} is no file of a lake")))
    };
    let place = |row: &ListedFile| (row.digest.clone(), row.object.clone());
    let objects = list.files.iter().map(place).collect();
    let inventory = Inventory {
        identity,
        snapshot,
        runs: list.runs.into_iter().map(run).collect(),
        retractions: list.retractions.into_iter().map(retraction).collect::<Result<_, _>>()?,
        losses: list.losses.into_iter().map(loss).collect::<Result<_, _>>()?,
        dedup_inputs: list.dedup_inputs,
        files: list.files.into_iter().map(file).collect::<Result<_, _>>()?,
    };
    Ok((inventory, objects))
}

#[cfg(test)]
mod tests {
    use steplake::model::ActionSpace;

    use super::*;

    /// Returns a list of a lake without rows.
    fn list() -> String {
        let identity = Identity {
            format_version: FORMAT_VERSION,
            environment: "toy-v0".into(),
            compiler: "toy 1".into(),
            target: "none".into(),
            action_space: ActionSpace { name: "toy-v0".into(), actions: Vec::new() },
            observations: Vec::new(),
            rewards: Vec::new(),
            baselines: Vec::new(),
        };
        let inventory = Inventory {
            identity,
            snapshot: SnapshotId(1),
            runs: Vec::new(),
            retractions: Vec::new(),
            losses: Vec::new(),
            dedup_inputs: None,
            files: Vec::new(),
        };
        String::from_utf8(list_to_json(&inventory, &Objects::new(), "")).unwrap()
    }

    #[test]
    fn a_lake_of_another_format_is_no_damage() {
        assert_eq!(list_from_json("l", list().as_bytes()).unwrap().0.identity.compiler, "toy 1");
        let of_format = |found: u32| {
            let known = format!("\"format_version\": {FORMAT_VERSION}");
            let text = list().replace(&known, &format!("\"format_version\": {found}"));
            list_from_json("l", text.as_bytes()).unwrap_err().to_string()
        };
        let other = |found: u32, advice: &str| {
            format!(
                "l lists a lake of format {found}, and this steplake reads format {FORMAT_VERSION}: {advice}"
            )
        };
        let anew = "nothing converts it, so record it anew, and publish to another prefix";
        let (older, newer) = (FORMAT_VERSION - 1, FORMAT_VERSION + 1);
        assert_eq!(of_format(older), other(older, anew));
        assert_eq!(of_format(newer), other(newer, "use a newer one"));
        assert!(
            list_from_json("l", b"{\"format\": 1}").unwrap_err().to_string().contains("damaged")
        );
    }
}
