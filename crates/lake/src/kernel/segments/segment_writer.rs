//! Writing of segments.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use super::segment::{FileRow, Segment};
use crate::kernel::error::LakeError;
use crate::kernel::files::digest::ContentHasher;
use crate::kernel::files::disk::{Disk, DiskFile, WriteFailure};
use crate::kernel::handle::Lake;
use crate::kernel::identity::Identity;
use crate::kernel::schema::table::{FEATURES_KEY, Table, has_large_rows};

/// The greatest number of bytes in a row group of `ir`, or of observations that may be as large.
const LARGE_ROW_GROUP_BYTES_MAX: usize = 16 << 20;
/// Lists of a program graph whose numbers ascend, or are near one another: written as differences,
/// they take half the bytes.
const DIFFERENCES: [&str; 2] = ["edge_source", "edge_target"];
/// Columns of derived tables whose values mostly differ or come in short runs.
const DERIVED_VARIOUS: &[&str] = &[
    "state_id",
    "state_key",
    "next_state_id",
    "next_state_key",
    "wall_time_us",
    "first_episode_id",
];
/// The greatest number of rows in a page of `ir`, which is read for the IR of one state.
const IR_PAGE_ROWS_MAX: usize = 16;

/// The share of keys that a file does not have, and that its filter takes for its own.
const FALSE_POSITIVES: f64 = 0.01;

/// The name of the entry that says the format of the lake when the file was written.
pub(crate) const FORMAT_ENTRY: &str = "format_version";

/// The key-value metadata that every segment of a lake's table carries.
pub(crate) fn footer_entries(
    identity: &Identity,
    table: Table,
    schema: &Schema,
) -> Vec<(String, String)> {
    let entry = |key: &str, value: String| (format!("steplake.{key}"), value);
    let mut entries = vec![
        entry(FORMAT_ENTRY, identity.format_version.to_string()),
        entry("table", table.name().into()),
        entry("environment", identity.environment.clone()),
        entry("compiler", identity.compiler.clone()),
        entry("target", identity.target.clone()),
        entry("action_space", identity.action_space.name.clone()),
        entry("identity", identity.digest()),
    ];
    for field in schema.fields() {
        if let Some(features) = field.metadata().get(FEATURES_KEY) {
            entries.push(entry(&format!("features.{}", field.name()), features.clone()));
        }
    }
    entries
}

/// The Parquet column of the items of a list.
fn leaf(list: &[&FieldRef], item: &Field) -> ColumnPath {
    let outer = list.iter().map(|field| field.name().as_str());
    ColumnPath::new(outer.chain(["list", item.name()]).map(str::to_owned).collect())
}

fn without_statistics(
    properties: WriterPropertiesBuilder,
    leaf: ColumnPath,
) -> WriterPropertiesBuilder {
    properties.set_column_statistics_enabled(leaf, EnabledStatistics::None)
}

fn properties(identity: &Identity, table: Table, schema: &SchemaRef) -> WriterProperties {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3).expect("3 is a level of zstd"));
    let entries = footer_entries(identity, table, schema).into_iter();
    let metadata = entries.map(|(key, value)| KeyValue::new(key, value));
    let sorting = table.key().iter().map(|key| {
        // The columns before a key have one leaf each, so its place among the leaves is the same.
        let place = schema.index_of(key).expect("a key is a column");
        let column_idx = i32::try_from(place).expect("few columns");
        SortingColumn { column_idx, descending: false, nulls_first: false }
    });
    let mut properties = WriterProperties::builder()
        .set_compression(zstd)
        .set_max_row_group_row_count(Some(table.row_group_rows()))
        .set_key_value_metadata(Some(metadata.collect()))
        .set_sorting_columns(Some(sorting.collect()));
    for field in schema.fields() {
        if let DataType::List(item) = field.data_type() {
            properties = without_statistics(properties, leaf(&[field], item));
        } else if let DataType::Struct(lists) = field.data_type() {
            for list in lists {
                let DataType::List(item) = list.data_type() else { continue };
                let leaf = leaf(&[field, list], item);
                properties = without_statistics(properties, leaf.clone());
                if DIFFERENCES.contains(&list.name().as_str()) {
                    properties = properties
                        .set_column_dictionary_enabled(leaf.clone(), false)
                        .set_column_encoding(leaf, Encoding::DELTA_BINARY_PACKED);
                }
            }
        }
    }
    if has_large_rows(schema) {
        properties = properties.set_max_row_group_bytes(Some(LARGE_ROW_GROUP_BYTES_MAX));
    }
    if table == Table::Ir {
        let bitcode = ColumnPath::from("bitcode");
        properties = properties
            .set_write_batch_size(IR_PAGE_ROWS_MAX)
            .set_data_page_row_count_limit(IR_PAGE_ROWS_MAX)
            .set_column_dictionary_enabled(bitcode.clone(), false)
            .set_column_compression(bitcode.clone(), Compression::UNCOMPRESSED)
            .set_column_statistics_enabled(bitcode, EnabledStatistics::None);
    }
    if has_key_filter(table) {
        let key = ColumnPath::from(table.key()[0]);
        properties = properties
            .set_column_bloom_filter_enabled(key.clone(), true)
            .set_column_bloom_filter_fpp(key, FALSE_POSITIVES);
    }
    // If most values of a row group differ, a dictionary costs time and space.
    let various: &[&str] = match table {
        Table::Ir => &["state_id", "state_key", "bitcode_sha1"],
        Table::Observations => &["state_id", "state_key"],
        Table::Measurements | Table::Miscompilations => &["uid"],
        Table::StateTransitions | Table::Conflicts | Table::Failures => DERIVED_VARIOUS,
        _ => &[],
    };
    for column in various {
        properties = properties.set_column_dictionary_enabled((*column).into(), false);
    }
    properties.build()
}

/// Whether files of the table have a Bloom filter of their leading keys: where keys are hashes that
/// every file spreads over, and single ones are looked up.
fn has_key_filter(table: Table) -> bool {
    matches!(table, Table::Observations | Table::Ir | Table::StateTransitions)
}

/// A segment that is being written, under a temporary name in its table's folder.
///
/// [`finish`](Self::finish) makes it durable under its final name. It belongs to the lake once the
/// manifest lists it. If it is dropped before that, its file is removed. After a crash, the next
/// holder of the same right removes the file.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    pub(crate) table: Table,
    folder: PathBuf,
    temporary: PathBuf,
    disk: Disk,
    writer: Option<ArrowWriter<HashedFile>>,
    pub(crate) rows: u64,
    key_range: Option<(i64, i64)>,
    failure: WriteFailure,
    finished: bool,
}

impl SegmentWriter {
    /// Begins a segment with the columns of `schema`: those of the table in a snapshot or a writer.
    pub(crate) fn create(lake: &Lake, table: Table, schema: &SchemaRef) -> Result<Self, LakeError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let disk = lake.disk.clone();
        let folder = lake.table_folder(table);
        disk.create_dir(&folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".{table}-{number}.tmp"));
        let file = disk.create(temporary.clone())?;
        let failure = file.failure.clone();
        let file = HashedFile { file, hasher: ContentHasher::default() };
        let properties = properties(&lake.identity, table, schema);
        let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties))
            .map_err(write_error(&failure, &temporary))?;
        Ok(Self {
            table,
            folder,
            temporary,
            disk,
            writer: Some(writer),
            rows: 0,
            key_range: None,
            failure,
            finished: false,
        })
    }

    /// Adds rows, in the order of the table's key.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), LakeError> {
        let writer = self.writer.as_mut().expect("a writer is there until it is finished");
        writer.write(batch).map_err(write_error(&self.failure, &self.temporary))?;
        self.rows += batch.num_rows() as u64;
        let leading = batch.column_by_name(self.table.key()[0]).expect("a key is a column");
        if let Some(keys) = leading.as_primitive_opt::<Int64Type>()
            && let (Some(&first), Some(&last)) = (keys.values().first(), keys.values().last())
        {
            let least = self.key_range.map_or(first, |range| range.0);
            let goes_on = self.key_range.is_none_or(|range| range.1 <= first);
            assert!(goes_on && first <= last, "rows come sorted");
            self.key_range = Some((least, last));
        }
        Ok(())
    }

    /// Makes the segment durable under its final name: syncs the file, renames it, and syncs the
    /// folder. After `Ok` it survives a power cut.
    pub(crate) fn finish(self) -> Result<Segment, LakeError> {
        self.finish_fresh().map(|(segment, _)| segment)
    }

    /// As [`finish`](Self::finish). Also returns false if a file of this name, hence of this
    /// content, was there before.
    pub(crate) fn finish_fresh(mut self) -> Result<(Segment, bool), LakeError> {
        let writer = self.writer.take().expect("a writer is there until it is finished");
        let written = writer.into_inner().map_err(write_error(&self.failure, &self.temporary))?;
        let HashedFile { mut file, hasher } = written;
        file.flush().map_err(LakeError::io("write", &self.temporary))?;
        file.sync()?;
        let content = hasher.finish();
        let row = FileRow {
            table: self.table,
            rows: self.rows,
            bytes: content.bytes,
            digest: content.digest,
            key_range: self.key_range,
            layer: None,
            is_counted: false,
            deletions: None,
        };
        let path = self.folder.join(row.name());
        let fresh = !path.exists();
        self.disk.rename(&self.temporary, &path)?;
        self.finished = true;
        let segment = Segment { row, path, blocks: content.blocks, disk: self.disk.clone() };
        Ok((segment, fresh))
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        drop(self.writer.take());
        if !self.finished {
            // A file that cannot be removed now is removed by the next holder of the right.
            let _ = self.disk.remove(&self.temporary);
        }
    }
}

/// Turns an error of the Parquet writer into one of the lake. The Parquet writer passes errors of
/// the disk on as text only, so the error of the disk has precedence.
fn write_error(failure: &WriteFailure, path: &Path) -> impl FnOnce(ParquetError) -> LakeError {
    let error = failure.error();
    move |source| match error {
        Some(error) => LakeError::io("write", path)(error),
        None => LakeError::Parquet { path: path.to_owned(), source },
    }
}

/// A file whose digests are computed while it is written.
#[derive(Debug)]
struct HashedFile {
    file: DiskFile,
    hasher: ContentHasher,
}

impl io::Write for HashedFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.hasher.update(&buffer[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
