//! The disk space for data that does not fit into the memory of queries.

use std::sync::Arc;

use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder};
use nix::sys::statvfs::statvfs;

/// The upper bound of the default limit, in bytes.
const BYTES_MAX: u64 = 64 << 30;

/// The default limit is the free space divided by this: recordings may grow on the same disk.
const FREE_SHARE: u64 = 4;

/// The disk space for temporary files of queries. They lie in the system's temporary folder
/// (`TMPDIR`, else `/tmp`) and are deleted with their query. Clones share the space: all engines
/// with a clone stay within one limit together. A query that needs more fails.
#[derive(Debug, Clone)]
pub struct SpillSpace {
    pub(super) files: Arc<DiskManager>,
}

impl SpillSpace {
    /// A space of `bytes_max` bytes.
    pub fn of(bytes_max: u64) -> Self {
        let files = DiskManagerBuilder::default().with_max_temp_directory_size(bytes_max).build();
        Self { files: Arc::new(files.expect("the folder is made when it is first needed")) }
    }
}

impl Default for SpillSpace {
    /// A quarter of the space that is free now in the temporary folder, but at most 64 GiB.
    fn default() -> Self {
        let disk = statvfs(&std::env::temp_dir()).ok();
        let free = disk.and_then(|disk| disk.blocks_available().checked_mul(disk.fragment_size()));
        Self::of(free.map_or(BYTES_MAX, |free| BYTES_MAX.min(free / FREE_SHARE)))
    }
}
