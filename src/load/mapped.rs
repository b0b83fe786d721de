//! Files that are mapped into memory.

#![expect(unsafe_code, reason = "a mapping is sound only while nobody changes its file")]

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps a file of the cache into memory. Processes that map it share its pages.
///
/// The cache writes a file under another name, renames it, and never changes it again. Only its
/// user may write to the folder.
pub(super) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: see above: nobody writes to the file or shortens it while it is mapped.
    unsafe { Mmap::map(file) }
}
