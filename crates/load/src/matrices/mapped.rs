//! Files that are mapped into memory.

#![expect(
    unsafe_code,
    reason = "a mapping is sound only while nobody changes its file, and the prefetch of an address is an intrinsic"
)]

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps a file of the cache into memory. Processes that map it share its pages.
///
/// The cache writes a file under another name, renames it, and never changes it again. Only its
/// user may write to the folder.
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: see above: nobody writes to the file or shortens it while it is mapped.
    unsafe { Mmap::map(file) }
}

/// Asks memory for bytes that are about to be read, and does not wait for them.
pub(crate) fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const CACHE_LINE: usize = 64;

        // A row of several lines ends in the middle of the last one.
        for byte in bytes.iter().step_by(CACHE_LINE).chain(bytes.last()) {
            // SAFETY: a prefetch reads nothing, and never faults.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = bytes;
}
