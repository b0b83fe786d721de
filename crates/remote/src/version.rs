//! The stored form of a version: a small manifest that names a list, and the list of everything in
//! the version. Both are JSON; the list is named by its content.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steplake_lake::transfer::Inventory;
use steplake_lake::{FORMAT_VERSION, FileRow, Table, is_read};
use steplake_model::plain_problem;

use crate::RemoteError;

/// The version of the format at a prefix.
pub const FORMAT: u32 = 3;

/// A manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The time of publication, Unix time in milliseconds. For people, like the counts below.
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
            publication,
            published_at_ms: at_ms,
            ..Self::default()
        }
    }

    /// Parses the manifest in `object`, which must be that of version `number`.
    pub(crate) fn from_json(object: &str, number: u64, text: &[u8]) -> Result<Self, RemoteError> {
        check_formats(object, text)?;
        let manifest: Self = parse(object, text)?;
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

/// What a lake notes of the version in which all of it was published: JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PublicationNote {
    /// The version's number.
    pub(crate) version: u64,
    /// The manifest's `publication`.
    pub(crate) publication: String,
}

impl PublicationNote {
    pub(crate) fn of(manifest: &Manifest) -> Self {
        Self { version: manifest.version, publication: manifest.publication.clone() }
    }

    /// Parses a note; none if another program wrote it.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a number and a text serialise")
    }
}

/// Formats a manifest or a list as stored.
pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("strings and numbers serialise");
    text.push(b'\n');
    text
}

/// Returns whether a text is a BLAKE3 digest in hexadecimal.
fn is_digest(text: &str) -> bool {
    is_hex(text, 64)
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn parse<'a, T: Deserialize<'a>>(object: &str, text: &'a [u8]) -> Result<T, RemoteError> {
    serde_json::from_slice(text)
        .map_err(|error| RemoteError::damaged(object, plain_problem(&error.to_string())))
}

/// Checks the format of an object, and that of the lake if the object lists one. A newer format may
/// differ in anything else.
fn check_formats(object: &str, text: &[u8]) -> Result<(), RemoteError> {
    #[derive(Deserialize)]
    struct Formats {
        format: u32,
        #[serde(default)]
        identity: serde_json::Value,
    }
    let Formats { format, identity } = parse(object, text)?;
    let lake = identity["format_version"].as_u64().and_then(|found| u32::try_from(found).ok());
    let advice = "nothing converts it, so publish the lake to another prefix";
    let anew = "nothing converts it, so record it anew, and publish to another prefix";
    let lake = lake.unwrap_or(FORMAT_VERSION);
    for (has, found, known, advice, is_known) in [
        ("has", format, FORMAT, advice, format == FORMAT),
        ("lists a lake of", lake, FORMAT_VERSION, anew, is_read(lake)),
    ] {
        if !is_known {
            let object = object.to_owned();
            return Err(RemoteError::Format { object, has, found, known, advice });
        }
    }
    Ok(())
}

/// The paths of files below the prefix, by digest.
pub(crate) type Objects = BTreeMap<String, String>;

/// The list of everything in a version.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct VersionList {
    format: u32,
    /// The manifest's `publication`. It makes every list a different object.
    publication: String,
    #[serde(flatten)]
    pub(crate) inventory: Inventory,
    /// The object of each file, for readers that use other Parquet software.
    pub(crate) objects: Objects,
}

impl VersionList {
    pub(crate) fn new(inventory: Inventory, objects: Objects, publication: String) -> Self {
        Self { format: FORMAT, publication, inventory, objects }
    }

    /// Parses the list in `object`, whose digest was compared.
    pub(crate) fn from_json(object: &str, text: &[u8]) -> Result<Self, RemoteError> {
        check_formats(object, text)?;
        let list: Self = parse(object, text)?;
        for row in &list.inventory.files {
            let wanted = Some((row.table.name(), row.digest.as_str()));
            let object_there = list.objects.get(&row.digest).map(String::as_str);
            if !row.is_well_formed() || object_there.and_then(content_of) != wanted {
                let what = format!("it lists an impossible file of {} ({})", row.table, row.digest);
                return Err(RemoteError::damaged(object, what));
            }
        }
        Ok(list)
    }
}

/// Number of hexadecimal digits in the name of a publication.
const NAME_DIGITS: usize = 32;

/// Returns the folder of a table's files. It is the folder of the Delta table.
pub(crate) fn table_folder(table: Table) -> String {
    format!("segments/{table}")
}

/// Returns the object to which the publication called `name` sends a file: no other publication
/// ever writes an object of this name.
pub(crate) fn segment_object(row: &FileRow, name: &str) -> String {
    debug_assert!(is_hex(name, NAME_DIGITS));
    format!("{}/{}-{name}.parquet", table_folder(row.table), row.digest)
}

/// Returns the table and the digest of the file in an object of this name.
pub(crate) fn content_of(object: &str) -> Option<(&str, &str)> {
    let (table, file) = object.strip_prefix("segments/")?.split_once('/')?;
    let (digest, name) = file.strip_suffix(".parquet")?.split_once('-')?;
    (is_digest(digest) && is_hex(name, NAME_DIGITS)).then_some((table, digest))
}

#[cfg(test)]
mod tests {
    use steplake_lake::{FORMAT_VERSION_OLDEST, Identity, SnapshotId};
    use steplake_model::ActionSpace;

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
            state_scheme: 1,
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
        let list = VersionList::new(inventory, Objects::new(), String::new());
        String::from_utf8(to_json(&list)).unwrap()
    }

    fn refusal(text: &str) -> String {
        VersionList::from_json("l", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_lake_of_another_format_is_no_damage() {
        let read = VersionList::from_json("l", list().as_bytes()).unwrap();
        assert_eq!(read.inventory.identity.compiler, "toy 1");
        let of_format = |found: u32| {
            let known = format!("\"format_version\": {FORMAT_VERSION}");
            refusal(&list().replace(&known, &format!("\"format_version\": {found}")))
        };
        let other = |found: u32, advice: &str| {
            format!(
                "l lists a lake of format {found}, and this steplake reads format {FORMAT_VERSION}: {advice}"
            )
        };
        let anew = "nothing converts it, so record it anew, and publish to another prefix";
        let (older, newer) = (FORMAT_VERSION_OLDEST - 1, FORMAT_VERSION + 1);
        assert_eq!(of_format(older), other(older, anew));
        assert_eq!(of_format(newer), other(newer, "use a newer one"));
        assert!(refusal("{\"format\": 3}").contains("damaged"));
    }

    #[test]
    fn a_published_lake_of_another_format_is_refused_with_advice() {
        let of_format =
            |found: u32| refusal(&list().replace("\"format\": 3", &format!("\"format\": {found}")));
        assert!(of_format(2).ends_with("publish the lake to another prefix"));
        assert!(of_format(4).ends_with("use a newer one"));
    }

    #[test]
    fn a_file_without_its_object_is_damage() {
        let digest = "0123456789abcdef".repeat(4);
        let file = format!(
            r#"{{"table": "steps", "rows": 1, "bytes": 2, "digest": "{digest}", "key_range": null,
               "layer": null, "is_counted": false}}"#
        );
        let text = list().replace("\"files\": []", &format!("\"files\": [{file}]"));
        assert!(refusal(&text).contains(&digest));
        let object = |table: &str| {
            let path = format!("segments/{table}/{digest}-{}.parquet", "0".repeat(32));
            text.replace("\"objects\": {}", &format!("\"objects\": {{\"{digest}\": \"{path}\"}}"))
        };
        VersionList::from_json("l", object("steps").as_bytes()).unwrap();
        assert!(refusal(&object("ir")).contains(&digest));
    }
}
