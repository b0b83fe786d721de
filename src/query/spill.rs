//! The disk space for what does not fit into the memory of queries.

use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder};
use nix::sys::statvfs::statvfs;

/// The default limit at most, in bytes.
const BYTES_MAX: u64 = 64 << 30;

/// The default limit is one part in so many of the free space: recordings may grow on the same
/// disk.
const FREE_SHARE: u64 = 4;

/// The disk space for temporary files of queries. They lie in the system's temporary folder
/// (`TMPDIR`, else `/tmp`) and are deleted with their query. Clones share the space, so all engines
/// that have a clone stay within one limit together. A query that needs more fails.
#[derive(Debug, Clone)]
pub struct SpillSpace {
    files: Arc<DiskManager>,
}

impl SpillSpace {
    /// So many bytes.
    pub fn of(bytes_max: u64) -> Self {
        let files = DiskManagerBuilder::default().with_max_temp_directory_size(bytes_max).build();
        Self { files: Arc::new(files.expect("the folder is made when it is first needed")) }
    }

    /// How many bytes the files may have together.
    pub fn bytes_max(&self) -> u64 {
        self.files.max_temp_directory_size()
    }

    pub(super) fn files(&self) -> &Arc<DiskManager> {
        &self.files
    }
}

impl Default for SpillSpace {
    /// A quarter of what is free now in the temporary folder, and 64 GiB at most.
    fn default() -> Self {
        let disk = statvfs(&std::env::temp_dir()).ok();
        let free = disk.and_then(|disk| disk.blocks_available().checked_mul(disk.fragment_size()));
        Self::of(free.map_or(BYTES_MAX, |free| BYTES_MAX.min(free / FREE_SHARE)))
    }
}
