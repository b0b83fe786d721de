//! Segments: immutable Parquet files, each named by its table and the digest of its content.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, PageIndexPolicy, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::disk::{BLOCK_BYTES, DiskFile, WriteFailure};
use super::reading::{SegmentFile, guarded};
use super::table::Each;
use super::{Disk, Identity, LayerId, StoreError, Table, retired, retired_place};

/// Bytes of a row group of `ir`, before which a new one is begun.
const IR_ROW_GROUP_BYTES_MAX: usize = 16 << 20;
/// Columns of derived tables of which most values differ, or come in short runs.
const DERIVED_VARIOUS: [&str; 6] = [
    "state_id",
    "state_key",
    "next_state_id",
    "next_state_key",
    "wall_time_us",
    "first_episode_id",
];
/// Rows of a page of `ir`: what is read for the IR of one state.
const IR_PAGE_ROWS_MAX: usize = 16;

/// What says which rows of a segment are read.
pub(super) type SegmentReaderBuilder = ParquetRecordBatchReaderBuilder<SegmentFile>;

/// A Parquet file of the lake, as the manifest lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The table that it holds rows of.
    pub table: Table,
    /// Where it lies while the newest snapshot has it: the file's name for good. A retired one lies
    /// at [`retired_place`](super::retired_place) of this, see [`place`](Self::place).
    pub path: PathBuf,
    /// Its rows.
    pub rows: u64,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of its content, hex.
    pub digest: String,
    /// The least and the greatest value of the leading key column, where that is a number.
    pub key_range: Option<(i64, i64)>,
    /// Of a derived table: the layer that it belongs to.
    pub layer: Option<LayerId>,
    /// Of `steps`: whether the layers of the same snapshot count its steps.
    pub is_counted: bool,
    /// The digests of the blocks of its content.
    pub(crate) blocks: BlockDigests,
    /// The disk that it lies on.
    pub(crate) disk: Disk,
}

/// BLAKE3 of each block of a file, one after another, and of all these together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockDigests {
    pub(super) list: Arc<[u8]>,
    pub(super) digest: [u8; blake3::OUT_LEN],
}

impl BlockDigests {
    pub(crate) fn new(list: Vec<u8>) -> Self {
        Self { digest: *blake3::hash(&list).as_bytes(), list: list.into() }
    }

    /// Says whether the list is the one that was written.
    pub(super) fn is_intact(&self) -> bool {
        *blake3::hash(&self.list).as_bytes() == self.digest
    }
}

impl Segment {
    /// Where its file lies at this moment.
    pub fn place(&self) -> PathBuf {
        let retired = retired_place(&self.path);
        if !self.path.exists() && retired.exists() { retired } else { self.path.clone() }
    }

    /// Reads the whole file and says whether it is what was written. No Parquet reader does: a
    /// flipped bit reads back as wrong data.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when it is not, [`StoreError::Io`] when it cannot be read.
    pub fn check(&self) -> Result<(), StoreError> {
        let file = self.open()?;
        let mut hasher = blake3::Hasher::new();
        for block in 0..self.bytes.div_ceil(BLOCK_BYTES as u64) {
            let start = block * BLOCK_BYTES as u64;
            hasher.update(&file.read(start..self.bytes.min(start + BLOCK_BYTES as u64))?);
        }
        if hasher.finalize().to_hex().as_str() == self.digest {
            return Ok(());
        }
        Err(StoreError::corrupt(&self.path, "its content does not match its digest"))
    }

    /// Opens the file to read it, wherever it lies. What is read is checked against the manifest
    /// first.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when it is missing or of another length, [`StoreError::Io`] when it
    /// cannot be opened.
    pub fn open(&self) -> Result<SegmentFile, StoreError> {
        let file = retired::open(&self.path, &self.disk).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => StoreError::corrupt(&self.path, "it is missing"),
            _ => StoreError::io("open", &self.path)(error),
        })?;
        SegmentFile::new(self, file)
    }

    /// A reader of the rows that `choose` says, and the file that its errors are of. A file with
    /// other columns than `schema` has is refused.
    pub(super) fn reader(
        &self,
        schema: &SchemaRef,
        pages: PageIndexPolicy,
        choose: impl FnOnce(SegmentReaderBuilder) -> SegmentReaderBuilder,
    ) -> Result<(SegmentFile, ParquetRecordBatchReader), StoreError> {
        let file = self.open()?;
        let footer = self.footer(&file, pages)?;
        if footer.schema().fields() != schema.fields() {
            let what = "it has other columns than lake.json says";
            return Err(StoreError::corrupt(&self.path, what));
        }
        let builder = SegmentReaderBuilder::new_with_metadata(file.clone(), footer);
        let reader =
            guarded(|| choose(builder).build()).map_err(|error| file.unreadable(&error))?;
        Ok((file, reader))
    }

    /// The footer, with the page index where it is asked for. The row count is checked.
    pub(super) fn footer(
        &self,
        file: &SegmentFile,
        pages: PageIndexPolicy,
    ) -> Result<ArrowReaderMetadata, StoreError> {
        let options = ArrowReaderOptions::new().with_page_index_policy(pages);
        let footer = guarded(|| ArrowReaderMetadata::load(file, options))
            .map_err(|error| file.unreadable(&error))?;
        let rows = u64::try_from(footer.metadata().file_metadata().num_rows()).unwrap_or(0);
        if rows != self.rows {
            let what = format!("its footer says {rows} rows and the manifest {}", self.rows);
            return Err(StoreError::corrupt(&self.path, what));
        }
        Ok(footer)
    }
}

/// The key-value metadata that every segment of a lake's table carries.
pub(super) fn footer_entries(identity: &Identity, table: Table) -> Vec<(String, String)> {
    let entry = |key: &str, value: String| (format!("steplake.{key}"), value);
    let mut entries = vec![
        entry("format_version", identity.format_version.to_string()),
        entry("table", table.name().into()),
        entry("environment", identity.environment.clone()),
        entry("compiler", identity.compiler.clone()),
        entry("target", identity.target.clone()),
        entry("action_space", identity.action_space.name.clone()),
        entry("identity", identity.digest()),
    ];
    if table.columns().iter().any(|column| column.each == Some(Each::Observation)) {
        for space in identity.observations.iter().filter(|space| space.width.is_some()) {
            let names = serde_json::to_string(&space.features).expect("names serialise");
            entries.push(entry(&format!("features.{}", space.name), names));
        }
    }
    entries
}

fn properties(identity: &Identity, table: Table, schema: &SchemaRef) -> WriterProperties {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3).expect("3 is a level of zstd"));
    let metadata =
        footer_entries(identity, table).into_iter().map(|(key, value)| KeyValue::new(key, value));
    let sorting = table.key().iter().map(|key| {
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
        // Every column here has one leaf, so places of leaves are places of columns.
        if let DataType::FixedSizeList(item, _) = field.data_type() {
            let leaf =
                ColumnPath::new(vec![field.name().clone(), "list".into(), item.name().clone()]);
            properties = properties
                .set_column_dictionary_enabled(leaf.clone(), false)
                .set_column_encoding(leaf.clone(), Encoding::BYTE_STREAM_SPLIT)
                .set_column_statistics_enabled(leaf, EnabledStatistics::None);
        }
    }
    if table == Table::Ir {
        let bitcode = ColumnPath::from("bitcode");
        properties = properties
            .set_max_row_group_bytes(Some(IR_ROW_GROUP_BYTES_MAX))
            .set_write_batch_size(IR_PAGE_ROWS_MAX)
            .set_data_page_row_count_limit(IR_PAGE_ROWS_MAX)
            .set_column_dictionary_enabled(bitcode.clone(), false)
            .set_column_compression(bitcode.clone(), Compression::UNCOMPRESSED)
            .set_column_statistics_enabled(bitcode, EnabledStatistics::None);
    }
    // Where most values of a row group differ, a dictionary costs time and room.
    let various: &[&str] = match table {
        Table::Ir => &["state_id", "state_key", "bitcode_sha1"],
        Table::Observations => &["state_id", "state_key"],
        Table::StateTransitions | Table::Conflicts | Table::Failures => &DERIVED_VARIOUS,
        _ => &[],
    };
    for column in various {
        properties = properties.set_column_dictionary_enabled((*column).into(), false);
    }
    properties.build()
}

/// What writing segments needs to know of the lake.
#[derive(Debug, Clone)]
pub(super) struct SegmentPlace {
    pub(super) lake: PathBuf,
    pub(super) identity: Arc<Identity>,
    pub(super) disk: Disk,
}

/// A segment that is being written, under a temporary name in its table's folder.
///
/// [`finish`](Self::finish) makes it durable under its final name; it belongs to the lake once the
/// manifest lists it. Dropped before that, it leaves nothing; a crash leaves a file that the next
/// holder of the same right removes.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    table: Table,
    folder: PathBuf,
    temporary: PathBuf,
    disk: Disk,
    writer: Option<ArrowWriter<DiskFile>>,
    rows: u64,
    key_range: Option<(i64, i64)>,
    failure: WriteFailure,
    finished: bool,
}

/// A segment that is durable under its final name.
#[derive(Debug)]
pub(super) struct FinishedSegment {
    pub(super) segment: Segment,
    /// False when a file of that name, hence of that content, was there before.
    pub(super) fresh: bool,
}

impl SegmentWriter {
    pub(super) fn create(
        place: &SegmentPlace,
        table: Table,
        schema: &SchemaRef,
    ) -> Result<Self, StoreError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let folder = place.lake.join(table.name());
        place.disk.create_dir(&folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".{table}-{number}.tmp"));
        let file = place.disk.create(temporary.clone())?;
        let failure = file.failure();
        let properties = properties(&place.identity, table, schema);
        let writer = ArrowWriter::try_new(file, Arc::clone(schema), Some(properties))
            .map_err(write_error(&failure, &temporary))?;
        let (disk, writer) = (place.disk.clone(), Some(writer));
        Ok(Self {
            table,
            folder,
            temporary,
            disk,
            writer,
            rows: 0,
            key_range: None,
            failure,
            finished: false,
        })
    }

    /// Adds rows. They come in the order of the table's key.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), StoreError> {
        let writer = self.writer.as_mut().expect("a writer is there until it is finished");
        writer.write(batch).map_err(write_error(&self.failure, &self.temporary))?;
        self.rows += batch.num_rows() as u64;
        let leading = batch.column_by_name(&self.table.key()[0]).expect("a key is a column");
        if let Some(keys) = leading.as_primitive_opt::<Int64Type>()
            && let (Some(&first), Some(&last)) = (keys.values().first(), keys.values().last())
        {
            let least = self.key_range.map_or(first, |range| range.0);
            assert!(
                self.key_range.is_none_or(|range| range.1 <= first) && first <= last,
                "rows come sorted"
            );
            self.key_range = Some((least, last));
        }
        Ok(())
    }

    pub(super) fn table(&self) -> Table {
        self.table
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Makes the segment durable under its final name. Sync, rename, sync of the folder: after `Ok`
    /// a power cut takes nothing of it.
    pub(super) fn finish(mut self) -> Result<FinishedSegment, StoreError> {
        let writer = self.writer.take().expect("a writer is there until it is finished");
        let mut file = writer.into_inner().map_err(write_error(&self.failure, &self.temporary))?;
        file.flush().map_err(StoreError::io("write", &self.temporary))?;
        file.sync()?;
        let digest = file.digest().to_hex();
        let path = self.folder.join(format!("{}-{}.parquet", self.table, &digest[..16]));
        let fresh = !path.exists();
        self.disk.rename(&self.temporary, &path)?;
        self.finished = true;
        let segment = Segment {
            table: self.table,
            path,
            rows: self.rows,
            bytes: file.bytes(),
            digest: digest.to_string(),
            key_range: self.key_range,
            layer: None,
            is_counted: false,
            blocks: BlockDigests::new(file.blocks()),
            disk: self.disk.clone(),
        };
        Ok(FinishedSegment { segment, fresh })
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        drop(self.writer.take());
        if !self.finished {
            // What cannot be removed now, the next writer removes.
            let _ = self.disk.remove(&self.temporary);
        }
    }
}

/// Turns an error of the Parquet writer into one of the store. The writer tells of a failing file
/// in words alone, so what the disk said is asked for first.
fn write_error(failure: &WriteFailure, path: &Path) -> impl FnOnce(ParquetError) -> StoreError {
    let error = failure.error();
    move |source| match error {
        Some(error) => StoreError::io("write", path)(error),
        None => StoreError::Parquet { path: path.to_owned(), source },
    }
}

/// Says whether `name` is one that this module gives to the files of `table`.
pub(super) fn is_own_name(table: Table, name: &str) -> bool {
    let of_table = |name: &str, end: &str| {
        let rest = name.strip_prefix(table.name())?.strip_prefix('-')?;
        rest.strip_suffix(end).map(str::to_owned)
    };
    let hex = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let finished = of_table(name, ".parquet").is_some_and(|text| hex(&text));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let temporary = name.strip_prefix('.').and_then(|name| of_table(name, ".tmp"));
    finished || temporary.is_some_and(|text| number(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_ours() {
        for name in ["steps-0123456789abcdef.parquet", ".steps-0.tmp", ".steps-12.tmp"] {
            assert!(is_own_name(Table::Steps, name), "{name}");
            assert!(!is_own_name(Table::Ir, name), "{name}");
        }
        for name in [
            "steps.parquet",
            "steps-copy.parquet",
            "steps-0123456789abcdef.parquet.bak",
            ".steps-.tmp",
            "notes",
        ] {
            assert!(!is_own_name(Table::Steps, name), "{name}");
        }
    }
}
