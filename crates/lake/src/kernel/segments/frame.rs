//! Frames of the hot log: one record batch each, as a compressed Arrow IPC stream with a digest.

use std::path::Path;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;

use super::reading::{other_columns, own_places, widened};
use crate::kernel::error::LakeError;
use crate::kernel::files::guarded::guarded;
use crate::kernel::schema::table::Table;

/// The cheapest level that halves the size of steps. A higher level costs more time than it saves
/// on the disk.
const ZSTD_LEVEL: i32 = 1;

/// The greatest size of a frame in memory. A text column of Arrow has at most 2 GiB. A reader
/// allocates the size that the frame states, so the size has to be bounded.
const FRAME_BYTES_MAX: usize = 1 << 32;

/// A frame as the log stores it.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) table: Table,
    pub(crate) rows: u64,
    /// The length of the decompressed body: about what the rows take in memory.
    pub(crate) bytes: u64,
    pub(crate) digest: [u8; 32],
    pub(crate) body: Vec<u8>,
}

impl Frame {
    pub(crate) fn encode(table: Table, batch: &RecordBatch) -> Self {
        let in_memory = "a batch of our own writes into memory";
        let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).expect(in_memory);
        writer.write(batch).expect(in_memory);
        let stream = writer.into_inner().expect(in_memory);
        let body = zstd::bulk::compress(&stream, ZSTD_LEVEL).expect(in_memory);
        let (rows, bytes) = (batch.num_rows() as u64, stream.len() as u64);
        Self { table, rows, bytes, digest: digest(table, &body), body }
    }

    /// Whether the frame is what was written.
    pub(crate) fn is_intact(&self) -> bool {
        digest(self.table, &self.body) == self.digest
    }

    /// The rows, with null in columns that are newer than the frame. Errors name the frame by `seq`
    /// and `log`.
    pub(crate) fn decode(
        &self,
        schema: &SchemaRef,
        seq: i64,
        log: &Path,
    ) -> Result<RecordBatch, LakeError> {
        let corrupt =
            |what: &str| LakeError::corrupt(log, format!("frame {seq} of {}: {what}", self.table));
        if !self.is_intact() {
            return Err(corrupt("its digest does not match"));
        }
        let bytes = usize::try_from(self.bytes).map_err(|error| corrupt(&error.to_string()))?;
        if bytes > FRAME_BYTES_MAX {
            return Err(corrupt("it says that it is larger than any frame"));
        }
        let stream = zstd::bulk::decompress(&self.body, bytes)
            .map_err(|error| corrupt(&error.to_string()))?;
        let mut stream = Buffer::from_vec(stream);
        let batch = guarded(|| StreamDecoder::new().decode(&mut stream))
            .map_err(|error| corrupt(&error))?;
        let batch = batch.ok_or_else(|| corrupt("it holds no batch"))?;
        if batch.num_rows() as u64 != self.rows {
            return Err(corrupt("it has another number of rows than it says"));
        }
        if batch.schema().fields() == schema.fields() {
            return Ok(batch);
        }
        if own_places(self.table, &batch.schema(), schema).is_none() {
            let lake = log.parent().unwrap_or(log);
            return Err(other_columns(lake, &format!("frame {seq} of {}", self.table)));
        }
        widened(&batch, schema).map_err(|error| corrupt(&error.to_string()))
    }
}

pub(crate) fn digest(table: Table, body: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(table.name().as_bytes()).update(body);
    hasher.finalize().into()
}
