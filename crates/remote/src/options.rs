use std::path::PathBuf;

/// The size of a request in bytes: of a part, if a file has several.
const PART_BYTES: u64 = 16 << 20;

/// How often a publication or a collection tries again after another one was faster.
pub(crate) const ATTEMPTS_MAX: u32 = 16;

/// Parameters of a publication.
#[derive(Debug, Clone)]
pub struct PublishOptions {
    /// Number of files that are sent at a time.
    pub parallel: usize,
    /// Whether to merge the lake with a version that has something that the lake lacks. The local
    /// lake then does not contain the result.
    pub merge: bool,
    /// Whether to read back and compare every file, even those that were already there. Damaged or
    /// missing files are sent again, and a new version names them.
    pub read_back: bool,
    /// Whether the newest readable version counts as the newest if the manifest or the list of the
    /// newest is damaged. The new version lacks what only the damaged one had.
    pub replace_damaged: bool,
    /// The size of a request in bytes; larger files are sent in parts. S3 requires at least 5 MiB.
    pub part_bytes: u64,
    /// The folder for the temporary lakes of a merge; by default beside the lake.
    pub work: Option<PathBuf>,
}

impl Default for PublishOptions {
    fn default() -> Self {
        Self {
            parallel: 4,
            merge: false,
            read_back: false,
            replace_damaged: false,
            part_bytes: PART_BYTES,
            work: None,
        }
    }
}

/// Parameters of a fetch.
#[derive(Debug, Clone)]
pub struct FetchOptions {
    /// Number of files that are fetched at a time.
    pub parallel: usize,
    /// Whether to compare files that are already here with their digests first. Damaged files are
    /// fetched again.
    pub verify: bool,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self { parallel: 4, verify: false }
    }
}
