/// The default of [`MergeOptions::files_at_once`].
const FILES_AT_ONCE: usize = 64;

/// Parameters of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeOptions {
    /// Number of files of `observations` or `ir` that are read at a time. If there are more, some
    /// are merged into temporary files first. A larger number takes more memory; the result is the
    /// same.
    pub files_at_once: usize,
    /// Whether to leave out hot rows, so that the new lake has what is sealed and nothing else.
    pub sealed_only: bool,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self { files_at_once: FILES_AT_ONCE, sealed_only: false }
    }
}
