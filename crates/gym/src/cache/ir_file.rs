//! The IR of states that were recorded since the server started, in a file without a name.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// The compression level, as in the lake.
const LEVEL: i32 = 3;

/// Bytes that are kept until the process ends. The lake has them too, but to read single rows of
/// its hot log takes longer than a client wants to wait.
#[derive(Debug)]
pub(super) struct IrFile {
    file: File,
    end: AtomicU64,
}

/// Where something is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IrLocation {
    offset: u64,
    compressed: usize,
    bytes: usize,
}

impl IrFile {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile()?, end: AtomicU64::new(0) })
    }

    /// Keeps some bytes.
    pub(super) fn keep(&self, bytes: &[u8]) -> io::Result<IrLocation> {
        let packed = zstd::bulk::compress(bytes, LEVEL)?;
        let offset = self.end.fetch_add(packed.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(&packed, offset)?;
        Ok(IrLocation { offset, compressed: packed.len(), bytes: bytes.len() })
    }

    /// Returns what was kept at a place.
    pub(super) fn read(&self, place: IrLocation) -> io::Result<Vec<u8>> {
        let mut packed = vec![0; place.compressed];
        self.file.read_exact_at(&mut packed, place.offset)?;
        zstd::bulk::decompress(&packed, place.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_there() {
        let kept = IrFile::new().unwrap();
        let texts = [&b"one"[..], b"", &[7; 10_000]];
        let places = texts.map(|text| kept.keep(text).unwrap());
        for (text, place) in texts.into_iter().zip(places) {
            assert_eq!(kept.read(place).unwrap(), text);
        }
    }
}
