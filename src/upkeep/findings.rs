//! What a verification finds.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::model::StateId;

/// One thing that is wrong with a lake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file that it was found in.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

/// A state whose IR is stored, as a verification comes upon it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredState {
    /// The file that it was found in.
    pub path: PathBuf,
    /// The state that it is stored as.
    pub state: StateId,
    /// Its serialisation, which is what its SHA-1 says.
    pub bitcode: Vec<u8>,
}

/// Things that are wrong, each kind in each file once, with the first example and how many there
/// are.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<(PathBuf, &'static str), (String, u64)>);

impl Findings {
    /// Adds a finding. `what` says what is wrong and what to do.
    pub(super) fn add(&mut self, path: &Path, kind: &'static str, what: impl FnOnce() -> String) {
        self.0.entry((path.to_owned(), kind)).or_insert_with(|| (what(), 0)).1 += 1;
    }

    pub(super) fn into_list(self) -> Vec<Finding> {
        let finding = |((path, _), (what, count)): ((PathBuf, &str), (String, u64))| {
            let more =
                if count > 1 { format!(" ({} more such)", count - 1) } else { String::new() };
            Finding { path, what: what + &more }
        };
        self.0.into_iter().map(finding).collect()
    }
}
