//! Reading of segments, with a check that the content is what was written.
//!
//! A Parquet reader does not notice a flipped bit. The manifest therefore has a digest of each
//! block of a segment. A read of a few bytes reads the blocks that hold them, and checks these
//! blocks.

use std::fmt::Display;
use std::io::{self, Read};
use std::iter::repeat_n;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use bytes::Bytes;
use parking_lot::Mutex;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowSelection, RowSelector,
};
use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::reader::{ChunkReader, Length};
use roaring::RoaringBitmap;

use super::deletions::DeletionVector;
use super::segment::Segment;
use crate::kernel::error::LakeError;
use crate::kernel::files::digest::BLOCK_BYTES;
use crate::kernel::files::disk::DiskReader;
use crate::kernel::files::guarded::guarded;
use crate::kernel::identity_file;
use crate::kernel::schema::table::Table;

const BLOCK: u64 = BLOCK_BYTES as u64;
/// Bytes after which a check of a whole file asks whether to go on.
const ASK_BYTES: u64 = BLOCK << 6;
const DIGEST_BYTES: usize = blake3::OUT_LEN;

/// The rows of a segment that a reader reads: all by default.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowChoice {
    /// The greatest number of rows in a batch, if not that of the Parquet library.
    pub(crate) batch_rows: Option<usize>,
    /// The row groups, in ascending order, if not all.
    pub(crate) groups: Option<Vec<usize>>,
    /// The rows of these row groups, if not all.
    pub(crate) rows: Option<RowSelection>,
}

impl RowChoice {
    /// All rows, in batches of at most this number of rows.
    pub(crate) fn all(batch_rows: usize) -> Self {
        Self { batch_rows: Some(batch_rows), ..Self::default() }
    }

    /// The rows at these positions of the file, in ascending order.
    pub(crate) fn at(positions: &RoaringBitmap, footer: &ParquetMetaData) -> Self {
        let (mut groups, mut rows, mut total) = (Vec::new(), Vec::new(), 0);
        for (place, group) in row_groups(footer) {
            let own = positions.range(bound(group.start)..bound(group.end));
            let before = rows.len();
            rows.extend(own.map(|position| total + length(group.start..u64::from(position))));
            if rows.len() > before {
                groups.push(place);
                total += length(group);
            }
        }
        let single = rows.into_iter().map(|row| row..row + 1);
        let rows = Some(RowSelection::from_consecutive_ranges(single, total));
        Self { groups: Some(groups), rows, ..Self::default() }
    }

    /// The positions in the file of the rows that are read, in ascending order.
    pub(crate) fn positions(&self, footer: &ParquetMetaData) -> impl Iterator<Item = u32> {
        let chosen = row_groups(footer).filter(|(place, _)| self.has_group(*place));
        let chosen = chosen.flat_map(|(_, group)| bound(group.start)..bound(group.end));
        let all = || vec![RowSelector::select(usize::MAX)];
        let selectors: Vec<RowSelector> = self.rows.clone().map_or_else(all, Into::into);
        let selectors = selectors.into_iter().flat_map(|it| repeat_n(!it.skip, it.row_count));
        chosen.zip(selectors).filter_map(|(position, is_read)| is_read.then_some(position))
    }

    fn has_group(&self, place: usize) -> bool {
        self.groups.as_ref().is_none_or(|groups| groups.contains(&place))
    }

    /// Leaves out the rows that are deleted.
    pub(crate) fn without(mut self, deletions: &DeletionVector, footer: &ParquetMetaData) -> Self {
        if deletions.is_empty() {
            return self;
        }
        let chosen = row_groups(footer).filter(|(place, _)| self.has_group(*place));
        let live = deletions.live_selection(chosen.map(|(_, group)| group));
        self.rows = Some(match self.rows {
            None => live,
            Some(rows) => rows.intersection(&live),
        });
        self
    }
}

impl Segment {
    /// Reads the whole file and compares its digest with the manifest.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if they differ, [`LakeError::Io`] if the file cannot be read.
    pub fn check(&self) -> Result<(), LakeError> {
        self.check_while(&mut || Ok(()))
    }

    /// As [`check`](Self::check). Asks `go_on` every few megabytes, and returns its error.
    pub(crate) fn check_while(
        &self,
        go_on: &mut dyn FnMut() -> Result<(), LakeError>,
    ) -> Result<(), LakeError> {
        let file = self.open()?;
        let mut hasher = blake3::Hasher::new();
        for start in (0..self.bytes).step_by(BLOCK_BYTES) {
            if start % ASK_BYTES == 0 {
                go_on()?;
            }
            hasher.update(&file.read(start..self.bytes.min(start + BLOCK))?);
        }
        if hasher.finalize().to_hex().as_str() == self.digest {
            return Ok(());
        }
        Err(LakeError::corrupt(&self.path, "its content does not match its digest"))
    }

    /// Opens the file to read it. Every read is checked against the manifest.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if it is missing or has another length, [`LakeError::Io`] if it
    /// cannot be opened.
    pub fn open(&self) -> Result<SegmentFile, LakeError> {
        let file = self.disk.open(&self.path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LakeError::corrupt(&self.path, "it is missing"),
            _ => LakeError::io("open", &self.path)(error),
        })?;
        SegmentFile::new(self, file)
    }

    /// Reads the columns at these places of the table's schema, of the rows that `choose` selects
    /// and that are not deleted. A file that is older than some columns lacks them: they are null.
    /// A file with other columns is refused.
    pub(crate) fn reader(
        &self,
        schema: &SchemaRef,
        places: &[usize],
        pages: PageIndexPolicy,
        choose: impl FnOnce(&ParquetMetaData) -> RowChoice,
    ) -> Result<SegmentRows, LakeError> {
        let file = self.open()?;
        let footer = self.footer(&file, pages)?;
        self.rows_of(file, &footer, schema, places, choose)
    }

    /// As [`reader`](Self::reader), of a file that is open and whose footer is known.
    pub(crate) fn rows_of(
        &self,
        file: SegmentFile,
        footer: &ArrowReaderMetadata,
        schema: &SchemaRef,
        places: &[usize],
        choose: impl FnOnce(&ParquetMetaData) -> RowChoice,
    ) -> Result<SegmentRows, LakeError> {
        let Some(own) = own_places(self.table, footer.schema(), schema) else {
            let lake = self.path.ancestors().nth(3).unwrap_or(&self.path);
            return Err(other_columns(lake, &self.path.display().to_string()));
        };
        // It lacks columns, or has none that can be null in their place.
        let is_narrower = footer.schema().fields() != schema.fields();
        let there = places.iter().filter_map(|&place| own[place]);
        let build = || {
            let choice = choose(footer.metadata());
            let choice = choice.without(self.deleted(), footer.metadata());
            let builder =
                ParquetRecordBatchReaderBuilder::new_with_metadata(file.clone(), footer.clone());
            let mask = ProjectionMask::roots(builder.parquet_schema(), there);
            let mut builder = builder.with_projection(mask);
            if let Some(rows) = choice.batch_rows {
                builder = builder.with_batch_size(rows);
            }
            if let Some(groups) = choice.groups {
                builder = builder.with_row_groups(groups);
            }
            if let Some(rows) = choice.rows {
                builder = builder.with_row_selection(rows);
            }
            builder.build()
        };
        let reader = guarded(build).map_err(|error| file.unreadable(&error))?;
        let widened = is_narrower
            .then(|| Arc::new(schema.project(places).expect("the places are of the schema")));
        Ok(SegmentRows { file, reader, widened })
    }

    /// The footer, with the page index if `pages` says so. The number of rows is checked.
    pub(crate) fn footer(
        &self,
        file: &SegmentFile,
        pages: PageIndexPolicy,
    ) -> Result<ArrowReaderMetadata, LakeError> {
        let options = ArrowReaderOptions::new().with_page_index_policy(pages);
        let footer = guarded(|| ArrowReaderMetadata::load(file, options))
            .map_err(|error| file.unreadable(&error))?;
        let rows = u64::try_from(footer.metadata().file_metadata().num_rows()).unwrap_or(0);
        if rows != self.rows {
            let what = format!("its footer says {rows} rows and the manifest {}", self.rows);
            return Err(LakeError::corrupt(&self.path, what));
        }
        Ok(footer)
    }
}

/// The positions in a file of the rows of each row group.
pub(crate) fn row_groups(footer: &ParquetMetaData) -> impl Iterator<Item = (usize, Range<u64>)> {
    let groups = footer.row_groups().iter().enumerate();
    groups.scan(0, |first, (place, group)| {
        let start = *first;
        *first += u64::try_from(group.num_rows()).unwrap_or(0);
        Some((place, start..*first))
    })
}

/// A position as deletion vectors count it. Segments have fewer rows.
fn bound(position: u64) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// The error for data that is as it was written and has columns that `lake.json` does not name.
pub(crate) fn other_columns(lake: &Path, data: &str) -> LakeError {
    let what = format!(
        "it does not name the columns of {data}, which is sound: an older or another `lake.json` \
         lies here; put back the one that belongs to the lake"
    );
    LakeError::corrupt(&lake.join(identity_file::FILE_NAME), what)
}

/// For each column of `schema`, its place in `older`, which lacks it if it was made before the
/// column came. None if the table cannot have had the columns of `older` before it grew to those of
/// `schema`: columns keep their order, those that come can be null, and others may become so.
pub(crate) fn own_places(
    table: Table,
    older: &Schema,
    schema: &Schema,
) -> Option<Vec<Option<usize>>> {
    let mut next = 0;
    // What could not be null may be so now.
    let is_of = |older: &FieldRef, field: &FieldRef| {
        older == field
            || (field.is_nullable() && older.as_ref().clone().with_nullable(true) == **field)
    };
    let mut place = |field: &FieldRef| {
        if older.fields().get(next).is_some_and(|older| is_of(older, field)) {
            next += 1;
            return Some(Some(next - 1));
        }
        (field.is_nullable() && table.has_grown_by(field.name())).then_some(None)
    };
    let places = schema.fields().iter().map(&mut place).collect::<Option<Vec<_>>>()?;
    (next == older.fields().len()).then_some(places)
}

/// The batch with the columns of `schema` that it lacks, as null.
pub(crate) fn widened(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let rows = batch.num_rows();
    let column = |field: &FieldRef| match batch.column_by_name(field.name()) {
        Some(column) => Arc::clone(column),
        None => new_null_array(field.data_type(), rows),
    };
    let columns = schema.fields().iter().map(column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

/// The rows of a segment, in batches.
#[derive(Debug)]
pub struct SegmentRows {
    file: SegmentFile,
    reader: ParquetRecordBatchReader,
    /// The columns to widen the batches to, if the file lacks some.
    widened: Option<SchemaRef>,
}

impl Iterator for SegmentRows {
    type Item = Result<RecordBatch, LakeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = guarded(|| self.reader.next().transpose());
        let batch = batch.map_err(|error| self.file.unreadable(&error)).transpose()?;
        let Some(schema) = &self.widened else { return Some(batch) };
        Some(batch.and_then(|batch| {
            widened(&batch, schema).map_err(|error| self.file.unreadable(&error))
        }))
    }
}

/// A segment that is open for reading.
#[derive(Debug, Clone)]
pub struct SegmentFile {
    file: Arc<DiskReader>,
    segment: Segment,
    /// The number and content of the last block that was read. Many small reads of page headers hit
    /// the same block.
    last: Arc<Mutex<Option<(u64, Bytes)>>>,
    /// The first error. Parquet and Arrow pass it on as text only.
    failure: Arc<Mutex<Option<LakeError>>>,
}

impl SegmentFile {
    pub(crate) fn new(segment: &Segment, file: DiskReader) -> Result<Self, LakeError> {
        let bytes = file.bytes().map_err(LakeError::io("read", &segment.path))?;
        let corrupt = |what: &str| Err(LakeError::corrupt(&segment.path, what));
        if bytes != segment.bytes {
            return corrupt(&format!("it has {bytes} bytes and should have {}", segment.bytes));
        }
        if !segment.blocks.is_intact() {
            return corrupt("its digests in the manifest are damaged");
        }
        if segment.blocks.list.len() as u64 != bytes.div_ceil(BLOCK) * DIGEST_BYTES as u64 {
            return corrupt("the manifest has another number of digests than it has blocks");
        }
        Ok(Self {
            file: Arc::new(file),
            segment: segment.clone(),
            last: Arc::default(),
            failure: Arc::default(),
        })
    }

    /// Reads a range of bytes.
    ///
    /// # Errors
    ///
    /// [`LakeError::Corrupt`] if the blocks that hold them are not what was written, or if the
    /// range exceeds the file; [`LakeError::Io`] if they cannot be read.
    pub fn read(&self, range: Range<u64>) -> Result<Bytes, LakeError> {
        let path = &self.segment.path;
        let corrupt = |what: String| Err(LakeError::corrupt(path, what));
        if range.start > range.end || range.end > self.segment.bytes {
            return corrupt(format!(
                "it refers to bytes {} to {} of itself",
                range.start, range.end
            ));
        }
        let (start, place) = (range.start / BLOCK * BLOCK, length(0..range.start % BLOCK));
        let within = place..place + length(range.clone());
        if let Some((number, block)) = self.last.lock().as_ref()
            && *number == start / BLOCK
            && within.end <= block.len()
        {
            return Ok(block.slice(within));
        }
        let end = range.end.next_multiple_of(BLOCK).min(self.segment.bytes);
        let mut content = vec![0; length(start..end)];
        let read = self.file.read_at(&mut content, start).map_err(LakeError::io("read", path))?;
        if read < content.len() {
            return corrupt(format!("it ends at byte {}", start + read as u64));
        }
        let first = length(0..start / BLOCK);
        let digests = self.segment.blocks.list.chunks(DIGEST_BYTES).skip(first);
        for ((block, digest), number) in content.chunks(BLOCK_BYTES).zip(digests).zip(first..) {
            if blake3::hash(block).as_bytes() != digest {
                let start = number * BLOCK_BYTES;
                return corrupt(format!("bytes {start} on do not match their digest"));
            }
        }
        let content = Bytes::from(content);
        let last = content.len().saturating_sub(1) / BLOCK_BYTES * BLOCK_BYTES;
        let number = start / BLOCK + (last / BLOCK_BYTES) as u64;
        *self.last.lock() = Some((number, content.slice(last..)));
        Ok(content.slice(within))
    }

    /// Reads several ranges. Neighbours are read at once: the columns of a row group lie one behind
    /// the other, and each end of a range costs a whole block.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, LakeError> {
        let mut parts = Vec::with_capacity(ranges.len());
        for group in ranges.chunk_by(are_neighbours) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            let whole = self.read(first.start..last.end)?;
            parts.extend(group.iter().map(|range| {
                let place = length(first.start..range.start);
                whole.slice(place..place + length(range.clone()))
            }));
        }
        Ok(parts)
    }

    /// The cause of `error`, which a Parquet reader returned: the first error of the file, or
    /// damage.
    pub(crate) fn unreadable(&self, error: &dyn Display) -> LakeError {
        let failure = self.failure.lock().take();
        failure.unwrap_or_else(|| {
            let what = format!("it cannot be read as Parquet ({error})");
            LakeError::corrupt(&self.segment.path, what)
        })
    }

    /// As [`read`](Self::read), for libraries that pass errors on as text. The error is kept.
    fn read_or_keep(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.read(range).map_err(|error| {
            let text = error.to_string();
            self.failure.lock().get_or_insert(error);
            io::Error::other(text)
        })
    }
}

/// Whether two ranges are best read at once: at most one block lies between them.
fn are_neighbours(one: &Range<u64>, next: &Range<u64>) -> bool {
    let is_sound = one.start <= one.end && next.start <= next.end;
    is_sound && next.start.checked_sub(one.end).is_some_and(|between| between <= BLOCK)
}

/// The length of a range that fits into memory.
fn length(range: Range<u64>) -> usize {
    usize::try_from(range.end - range.start).expect("what is in memory has a length")
}

impl SegmentFile {
    /// Reads the Bloom filter of the leading keys of a row group; none if the file has no such
    /// filters.
    ///
    /// # Errors
    ///
    /// If the content is not what was written, or cannot be read.
    pub fn key_filter(
        &self,
        footer: &ParquetMetaData,
        row_group: usize,
    ) -> Result<Option<Sbbf>, ParquetError> {
        let key = self.segment.table.key()[0];
        let columns = footer.row_group(row_group).columns();
        let column = columns.iter().find(|column| column.column_path().parts() == [key]);
        column.map_or(Ok(None), |column| Sbbf::read_from_column_chunk(column, self))
    }
}

impl Length for SegmentFile {
    fn len(&self) -> u64 {
        self.segment.bytes
    }
}

impl ChunkReader for SegmentFile {
    type T = SegmentStream;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(SegmentStream { file: self.clone(), at: start, block: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.saturating_add(length as u64);
        Ok(self.read_or_keep(start..end)?)
    }
}

/// The bytes of a segment from an offset on.
#[derive(Debug)]
pub struct SegmentStream {
    file: SegmentFile,
    at: u64,
    block: Bytes,
}

impl Read for SegmentStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() && self.at < self.file.segment.bytes {
            let end = (self.at / BLOCK + 1) * BLOCK;
            self.block = self.file.read_or_keep(self.at..end.min(self.file.segment.bytes))?;
        }
        let read = (&self.block[..]).read(buffer)?;
        self.block = self.block.split_off(read);
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_lie_behind_one_another() {
        let is = |one: Range<u64>, next: Range<u64>| are_neighbours(&one, &next);
        assert!(is(0..10, 10..20) && is(0..10, 10 + BLOCK..20 + BLOCK));
        assert!(!is(0..10, 11 + BLOCK..20 + BLOCK), "far apart");
        assert!(!is(10..20, 0..10) && !is(0..10, 5..20), "the other way round, or one in another");
    }
}
