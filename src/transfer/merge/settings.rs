/// Files that are read at a time where each holds states of all kinds.
const FILES_AT_ONCE: usize = 64;

/// How a merge goes about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Files of states that are read at a time: where there are more, some are taken together
    /// first. The memory that a merge takes grows with it. It changes nothing of what the merge
    /// comes to.
    pub files_at_once: usize,
    /// Whether the hot rows of finished episodes are left out: the new lake has what is sealed, no
    /// more.
    pub sealed_only: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { files_at_once: FILES_AT_ONCE, sealed_only: false }
    }
}
