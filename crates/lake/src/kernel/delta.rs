//! Each table of a lake as a Delta table, for readers that know nothing of steplake.
//!
//! This file makes the contents of the log. `other_tools.rs` writes the logs of a local
//! lake, and `crates/remote` those of a published one. The versions of all tables advance together:
//! version *N* is snapshot *N*, or published version *N*. A version is a file of actions (`add`,
//! `remove`); a checkpoint lists a version whole. Only this project writes to the tables: they
//! require a writer feature that no other tool has, so that no `VACUUM` removes files of older
//! versions.
//!
//! Source: the Delta transaction log protocol, delta-io/delta, `PROTOCOL.md`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::json::ReaderBuilder;
use parquet::arrow::ArrowWriter;
use serde_json::{Map, Value, json};

use super::identity::Identity;
use crate::kernel::schema::table::Table;
use crate::kernel::segments::segment::FileRow;
use crate::kernel::versions::manifest::SnapshotKind;

/// The folder of the versions, in the folder of a table.
pub const FOLDER: &str = "_delta_log";
/// The file that names the newest checkpoint.
pub const LAST_CHECKPOINT: &str = "_last_checkpoint";
/// The number of versions from one checkpoint to the next in a local lake. A reader reads at most
/// this many files of actions.
pub const CHECKPOINT_INTERVAL: i64 = 10;
/// The writer feature that keeps other writers away.
const WRITER_FEATURE: &str = "steplake";
/// The feature of readers that leave out deleted rows.
const VECTOR_FEATURE: &str = "deletionVectors";
/// The property of a derived table that says how many steps it does not count.
const UNCOUNTED_STEPS: &str = "steplake.uncounted_steps";

/// A file of a Delta table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaFile {
    /// Its path in the folder of the table.
    pub path: String,
    /// What the lake says of it.
    pub row: FileRow,
}

impl DeltaFile {
    /// Describes a file of a lake that has this path in the folder of its table.
    pub fn new(row: FileRow, path: &str) -> Self {
        Self { path: path.to_owned(), row }
    }
}

/// One version of a Delta table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaVersion<'a> {
    /// The number of the version.
    pub number: i64,
    /// When it was made, Unix time in milliseconds.
    pub created_at_ms: i64,
    /// The operation that made it, e.g. `seal`.
    pub operation: &'a str,
    /// A one-line description for people.
    pub detail: &'a str,
    /// The steps of the version that its derived tables do not count.
    pub uncounted_steps: u64,
}

/// Keeps the files that readers of Delta tables see. Layers from before there were deletion vectors
/// have rows of one (state, action) several times; of such layers, only the oldest is kept.
pub fn retain_visible<T>(files: &mut Vec<T>, row: impl Fn(&T) -> &FileRow) {
    let is_earlier = |file: &T| row(file).layer.is_some() && row(file).deletions.is_none();
    if files.iter().any(is_earlier) {
        retain_oldest_layer(files, row);
    }
}

/// Keeps the files that readers see who know nothing of deleted rows. Of derived tables these are
/// the files of the oldest layer: what the tables were when all layers were merged last.
pub(crate) fn retain_oldest_layer<T>(files: &mut Vec<T>, row: impl Fn(&T) -> &FileRow) {
    let oldest = files.iter().filter_map(|file| row(file).layer).min();
    files.retain(|file| row(file).layer.is_none_or(|layer| Some(layer) == oldest));
}

/// The steps in the files of a version that its derived tables do not count: all if it has none.
pub fn uncounted_steps<'a>(files: impl Iterator<Item = &'a FileRow> + Clone) -> u64 {
    let is_derived = files.clone().any(|file| file.layer.is_some());
    let steps = files.filter(|file| file.table == Table::Steps);
    steps.filter(|file| !file.is_counted || !is_derived).map(|file| file.rows).sum()
}

/// The name of a version's file of actions.
pub fn version_name(version: i64) -> String {
    format!("{version:020}.json")
}

/// The name of a version's checkpoint.
pub fn checkpoint_name(version: i64) -> String {
    format!("{version:020}.checkpoint.parquet")
}

/// The version that a file in the log's folder belongs to, if it is a version or a checkpoint.
pub fn version_of(name: &str) -> Option<i64> {
    let number = name.strip_suffix(".json").or_else(|| name.strip_suffix(".checkpoint.parquet"))?;
    (number.len() == 20).then(|| number.parse().ok()).flatten()
}

/// The actions that make a table without rows.
pub fn creation(table: Table, identity: &Identity) -> Vec<u8> {
    lines(&[protocol(&[]), metadata(table, identity, 0)])
}

/// The actions that turn the version with the files `before` into the version with the files
/// `now`; without `before`, those that make a table. With an `identity`, the version also lists the
/// columns, since columns may have been appended.
pub fn commit(
    table: Table,
    identity: Option<&Identity>,
    version: &DeltaVersion<'_>,
    before: Option<&[DeltaFile]>,
    now: &[DeltaFile],
) -> Vec<u8> {
    let at_ms = version.created_at_ms;
    // Who follows the changes of a table need not read rows again that were merged.
    let changes = version.operation != SnapshotKind::Compact.as_str();
    let mut actions = vec![json!({"commitInfo": {
        "timestamp": at_ms,
        "operation": version.operation.to_uppercase(),
        "operationParameters": {"detail": version.detail},
        "engineInfo": concat!("steplake/", env!("CARGO_PKG_VERSION")),
    }})];
    if before.map(protocol) != Some(protocol(now)) {
        actions.push(protocol(now));
    }
    let before = before.unwrap_or_default();
    let steps = version.uncounted_steps;
    actions.extend(identity.map(|identity| metadata(table, identity, steps)));
    actions.extend(without(before, now).map(|file| {
        let path = file.path.as_str();
        let mut remove = json!({"path": path, "deletionTimestamp": at_ms, "dataChange": changes});
        if let Some(vector) = deletion_vector(&file.row) {
            remove["deletionVector"] = vector;
        }
        json!({"remove": remove})
    }));
    actions.extend(without(now, before).map(|file| add(table, file, at_ms, changes)));
    lines(&actions)
}

/// The files that are not among `others` with the same deleted rows.
fn without<'a>(
    files: &'a [DeltaFile],
    others: &'a [DeltaFile],
) -> impl Iterator<Item = &'a DeltaFile> {
    let others = others.iter().map(|file| (&file.path, file)).collect::<HashMap<_, _>>();
    let is_there = move |file: &&DeltaFile| {
        others.get(&file.path).is_some_and(|other| other.row.deleted() == file.row.deleted())
    };
    files.iter().filter(move |file| !is_there(file))
}

/// A checkpoint, as Parquet, and the `_last_checkpoint` that names it.
pub fn checkpoint(
    table: Table,
    identity: &Identity,
    version: &DeltaVersion<'_>,
    files: &[DeltaFile],
) -> (Vec<u8>, Vec<u8>) {
    let mut actions = vec![protocol(files), metadata(table, identity, version.uncounted_steps)];
    actions.extend(files.iter().map(|file| add(table, file, version.created_at_ms, true)));
    let schema = Arc::new(checkpoint_schema());
    let in_memory = "actions of our own fit their schema";
    let reader = ReaderBuilder::new(Arc::clone(&schema)).with_batch_size(actions.len());
    let mut decoder = reader.build_decoder().expect(in_memory);
    decoder.serialize(&actions).expect(in_memory);
    let batch = decoder.flush().expect(in_memory).expect("there are actions");
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, None).expect(in_memory);
    writer.write(&batch).expect(in_memory);
    let parquet = writer.into_inner().expect(in_memory);
    let last = json!({"version": version.number, "size": actions.len()});
    (parquet, lines(&[last]))
}

fn lines(actions: &[Value]) -> Vec<u8> {
    let lines = actions.iter().flat_map(|action| [action.to_string(), "\n".to_owned()]);
    lines.collect::<String>().into_bytes()
}

/// What a reader of these files has to know. Many know nothing of deletion vectors, so only a
/// version that has one demands them.
fn protocol(files: &[DeltaFile]) -> Value {
    if files.iter().all(|file| file.row.deleted().is_empty()) {
        return json!({"protocol": {
            "minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [WRITER_FEATURE],
        }});
    }
    json!({"protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [VECTOR_FEATURE],
        "writerFeatures": [WRITER_FEATURE, VECTOR_FEATURE],
    }})
}

fn metadata(table: Table, identity: &Identity, uncounted_steps: u64) -> Value {
    let mut configuration = Map::new();
    if table.is_derived() {
        configuration.insert(UNCOUNTED_STEPS.to_owned(), uncounted_steps.to_string().into());
    }
    let schema = table.schema(identity);
    let fields = schema
        .fields()
        .iter()
        .map(|field| delta_field(field, table.column_doc(field.name()).unwrap_or_default()));
    let schema = json!({"type": "struct", "fields": fields.collect::<Vec<_>>()});
    json!({"metaData": {
        "id": table_id(table, identity),
        "name": table.name(),
        "description": table.doc(),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema.to_string(),
        "partitionColumns": [],
        "configuration": configuration,
        "createdTime": 0,
    }})
}

/// A GUID that depends only on the lake and the table.
fn table_id(table: Table, identity: &Identity) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("steplake 2026 name of a Delta table");
    hasher.update(identity.digest().as_bytes()).update(table.name().as_bytes());
    let hex = hasher.finalize().to_hex();
    let part = |range: std::ops::Range<usize>| &hex[range];
    format!("{}-{}-4{}-8{}-{}", part(0..8), part(8..12), part(13..16), part(17..20), part(20..32))
}

fn delta_field(field: &Field, comment: &str) -> Value {
    json!({
        "name": field.name(),
        "type": delta_type(field.data_type()),
        "nullable": field.is_nullable(),
        "metadata": {"comment": comment},
    })
}

fn delta_type(data_type: &DataType) -> Value {
    match data_type {
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "byte".into(),
        DataType::Int32 => "integer".into(),
        DataType::Int64 => "long".into(),
        DataType::Float64 => "double".into(),
        DataType::Utf8 => "string".into(),
        DataType::Dictionary(_, value) => delta_type(value),
        DataType::Binary | DataType::FixedSizeBinary(_) => "binary".into(),
        DataType::List(item) => json!({
            "type": "array",
            "elementType": delta_type(item.data_type()),
            "containsNull": item.is_nullable(),
        }),
        DataType::Struct(fields) => {
            let fields = fields.iter().map(|field| delta_field(field, ""));
            json!({"type": "struct", "fields": fields.collect::<Vec<_>>()})
        }
        other => unreachable!("no column of a lake is {other}"),
    }
}

fn add(table: Table, file: &DeltaFile, at_ms: i64, changes: bool) -> Value {
    let mut stats = json!({"numRecords": file.row.rows});
    if let Some((least, greatest)) = file.row.key_range {
        let of_key = |value: i64| Map::from_iter([(table.key()[0].to_owned(), Value::from(value))]);
        stats["minValues"] = of_key(least).into();
        stats["maxValues"] = of_key(greatest).into();
    }
    let mut add = json!({
        "path": file.path,
        "partitionValues": {},
        "size": file.row.bytes,
        "modificationTime": at_ms,
        "dataChange": changes,
        "tags": {"steplake.blake3": file.row.digest},
    });
    if let Some(vector) = deletion_vector(&file.row) {
        // The least and the greatest key may be those of deleted rows.
        stats["tightBounds"] = false.into();
        add["deletionVector"] = vector;
    }
    add["stats"] = stats.to_string().into();
    json!({"add": add})
}

/// The deleted rows of a file, in the log itself.
fn deletion_vector(row: &FileRow) -> Option<Value> {
    let deleted = row.deleted();
    let (text, bytes) = deleted.to_text();
    (!deleted.is_empty()).then(|| {
        json!({
            "storageType": "i",
            "pathOrInlineDv": text,
            "sizeInBytes": bytes,
            "cardinality": deleted.len(),
        })
    })
}

fn checkpoint_schema() -> Schema {
    let types = [DataType::Utf8, DataType::Int64, DataType::Int32, DataType::Boolean];
    let [text, long, integer, boolean] =
        types.map(|data_type| move |name: &str| Field::new(name, data_type.clone(), true));
    let list = |name: &str| {
        let item = Field::new("element", DataType::Utf8, true);
        Field::new(name, DataType::List(Arc::new(item)), true)
    };
    let map = |name: &str| {
        let entry = Fields::from(vec![Field::new("key", DataType::Utf8, false), text("value")]);
        let entries = Field::new("key_value", DataType::Struct(entry), false);
        Field::new(name, DataType::Map(Arc::new(entries), false), true)
    };
    let structure = |name: &str, fields: Vec<Field>| Field::new_struct(name, fields, true);
    let vector = || {
        let fields = vec![
            text("storageType"),
            text("pathOrInlineDv"),
            integer("offset"),
            integer("sizeInBytes"),
            long("cardinality"),
        ];
        structure("deletionVector", fields)
    };
    Schema::new(vec![
        structure("txn", vec![text("appId"), long("version"), long("lastUpdated")]),
        structure(
            "add",
            vec![
                text("path"),
                map("partitionValues"),
                long("size"),
                long("modificationTime"),
                boolean("dataChange"),
                text("stats"),
                map("tags"),
                vector(),
            ],
        ),
        structure(
            "remove",
            vec![text("path"), long("deletionTimestamp"), boolean("dataChange"), vector()],
        ),
        structure(
            "metaData",
            vec![
                text("id"),
                text("name"),
                text("description"),
                structure("format", vec![text("provider"), map("options")]),
                text("schemaString"),
                list("partitionColumns"),
                map("configuration"),
                long("createdTime"),
            ],
        ),
        structure(
            "protocol",
            vec![
                integer("minReaderVersion"),
                integer("minWriterVersion"),
                list("readerFeatures"),
                list("writerFeatures"),
            ],
        ),
    ])
}
