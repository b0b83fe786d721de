//! Segments as they are read: nothing is handed out that is not what was written.
//!
//! A Parquet reader takes a flipped bit for data. So the manifest has a digest of each block of a
//! segment, and whoever reads a few bytes reads the blocks that hold them, and checks those.

use std::fmt::Display;
use std::io::{self, Read};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::disk::{BLOCK_BYTES, DiskReader};
use super::{BlockDigests, Lake, Segment, StoreError, Table};

const BLOCK: u64 = BLOCK_BYTES as u64;
const DIGEST_BYTES: usize = blake3::OUT_LEN;

/// A segment that is open for reading.
#[derive(Debug, Clone)]
pub struct SegmentFile {
    file: Arc<DiskReader>,
    segment: Segment,
    /// The block that was read last, and its number: pages are many, and their heads are small.
    last: Arc<Mutex<Option<(u64, Bytes)>>>,
    /// The first thing that went wrong. Parquet and Arrow tell of it in words alone.
    failure: Arc<Mutex<Option<StoreError>>>,
}

impl SegmentFile {
    pub(super) fn new(segment: &Segment, file: DiskReader) -> Result<Self, StoreError> {
        let bytes = file.bytes().map_err(StoreError::io("read", &segment.path))?;
        if bytes != segment.bytes {
            let what = format!("it has {bytes} bytes and should have {}", segment.bytes);
            return Err(StoreError::corrupt(&segment.path, what));
        }
        if !segment.blocks.is_intact() {
            let what = "its digests in the manifest are damaged";
            return Err(StoreError::corrupt(&segment.path, what));
        }
        if segment.blocks.list.len() as u64 != bytes.div_ceil(BLOCK) * DIGEST_BYTES as u64 {
            let what = "the manifest has another number of digests than it has blocks";
            return Err(StoreError::corrupt(&segment.path, what));
        }
        Ok(Self {
            file: Arc::new(file),
            segment: segment.clone(),
            last: Arc::default(),
            failure: Arc::default(),
        })
    }

    /// The bytes of a range of the file.
    ///
    /// # Errors
    ///
    /// [`StoreError::Corrupt`] when the blocks that hold them are not what was written, or the
    /// range goes beyond the file; [`StoreError::Io`] when they cannot be read.
    pub fn read(&self, range: Range<u64>) -> Result<Bytes, StoreError> {
        let path = &self.segment.path;
        if range.start > range.end || range.end > self.segment.bytes {
            let what = format!("it refers to bytes {} to {} of itself", range.start, range.end);
            return Err(StoreError::corrupt(path, what));
        }
        let (start, place) = (range.start / BLOCK * BLOCK, length(0..range.start % BLOCK));
        let within = place..place + length(range.clone());
        if let Some((number, block)) = lock(&self.last).as_ref()
            && *number == start / BLOCK
            && within.end <= block.len()
        {
            return Ok(block.slice(within));
        }
        let end = range.end.next_multiple_of(BLOCK).min(self.segment.bytes);
        let mut content = vec![0; length(start..end)];
        let read = self.file.read_at(&mut content, start).map_err(StoreError::io("read", path))?;
        if read < content.len() {
            let what = format!("it ends at byte {}", start + read as u64);
            return Err(StoreError::corrupt(path, what));
        }
        let first = length(0..start / BLOCK);
        let digests = self.segment.blocks.list.chunks(DIGEST_BYTES).skip(first);
        for ((block, digest), number) in content.chunks(BLOCK_BYTES).zip(digests).zip(first..) {
            if blake3::hash(block).as_bytes() != digest {
                let what = format!("bytes {} on do not match their digest", number * BLOCK_BYTES);
                return Err(StoreError::corrupt(path, what));
            }
        }
        let content = Bytes::from(content);
        let last = content.len().saturating_sub(1) / BLOCK_BYTES * BLOCK_BYTES;
        let number = start / BLOCK + (last / BLOCK_BYTES) as u64;
        *lock(&self.last) = Some((number, content.slice(last..)));
        Ok(content.slice(within))
    }

    /// What went wrong with the file, where `error` of a reader above it may come of that.
    pub(super) fn unreadable(&self, error: &dyn Display) -> StoreError {
        let failure = lock(&self.failure).take();
        failure.unwrap_or_else(|| {
            let what = format!("it cannot be read as Parquet ({error})");
            StoreError::corrupt(&self.segment.path, what)
        })
    }

    /// As [`read`](Self::read), for readers that know no errors of ours.
    fn read_or_keep(&self, range: Range<u64>) -> io::Result<Bytes> {
        self.read(range).map_err(|error| {
            let text = error.to_string();
            lock(&self.failure).get_or_insert(error);
            io::Error::other(text)
        })
    }
}

/// Runs a reader of Arrow or Parquet over what a file holds. Those panic over some content that no
/// digest keeps from them: here that is an error as any other.
///
/// # Errors
///
/// What the reader said as it panicked.
pub(super) fn guarded<T, E: Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| error.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(text.unwrap_or("its reader panicked").lines().next().unwrap_or_default().to_owned())
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The length of a range of a file that is in memory.
fn length(range: Range<u64>) -> usize {
    usize::try_from(range.end - range.start).expect("what is in memory has a length")
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

/// A segment from some place on.
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

/// Reads what another tool may have put in the place of a segment, for the fuzzer, under digests
/// that are right.
#[doc(hidden)]
pub fn fuzz_segment(lake: &Lake, content: &[u8]) {
    use parquet::file::metadata::ParquetMetaDataReader;
    let path = lake.path.join("fuzzed.parquet");
    if std::fs::write(&path, content).is_err() {
        return;
    }
    let footer = ParquetMetaDataReader::new().parse_and_finish(&Bytes::copy_from_slice(content));
    let rows = footer.map_or(1, |footer| footer.file_metadata().num_rows());
    let digests = content.chunks(BLOCK_BYTES).flat_map(|block| *blake3::hash(block).as_bytes());
    let blocks = BlockDigests::new(digests.collect());
    for table in Table::ALL {
        let segment = Segment {
            table,
            path: path.clone(),
            rows: u64::try_from(rows).unwrap_or(0),
            bytes: content.len() as u64,
            digest: blake3::hash(content).to_hex().to_string(),
            key_range: Some((i64::MIN, i64::MAX)),
            blocks: blocks.clone(),
            disk: lake.disk.clone(),
            layer: None,
            is_counted: false,
        };
        super::verify::fuzz_segment(lake, &segment);
    }
}
