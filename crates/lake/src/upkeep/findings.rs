//! The findings of a verification.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::kernel::LakeError;
use crate::kernel::identity_file::FILE_NAME;
use steplake_model::StateId;

/// Something wrong with a lake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The damaged file.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub what: String,
}

impl Finding {
    /// Makes a finding from the first of `count` examples.
    pub fn of(path: PathBuf, what: String, count: u64) -> Self {
        let more = if count > 1 { format!(" ({} more such)", count - 1) } else { String::new() };
        Self { path, what: what + &more }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

/// A state whose IR is stored, as a verification reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredState {
    /// The file that holds it.
    pub path: PathBuf,
    /// The state under whose id it is stored.
    pub state: StateId,
    /// Its serialisation, which matches its SHA-1.
    pub bitcode: Vec<u8>,
}

/// Findings by file and kind, each with the first example and the number of such findings.
#[derive(Debug, Default)]
pub(super) struct Findings(BTreeMap<(PathBuf, &'static str), (String, u64)>);

impl Findings {
    /// Adds a finding. `what` says what is wrong and what to do.
    pub(super) fn add(&mut self, path: &Path, kind: &'static str, what: impl FnOnce() -> String) {
        self.0.entry((path.to_owned(), kind)).or_insert_with(|| (what(), 0)).1 += 1;
    }

    /// Adds the finding that a file cannot be read. `advice` says what to do.
    pub(super) fn add_error(&mut self, path: &Path, advice: &'static str, error: LakeError) {
        let what = match error {
            // This error says itself what to do, and no repair helps.
            LakeError::Corrupt { path: identity, what } if identity.ends_with(FILE_NAME) => {
                return self.add(&identity, "another identity", || what);
            }
            LakeError::Corrupt { what, .. } => what,
            other => match std::error::Error::source(&other) {
                Some(source) => format!("{other} ({source})"),
                None => other.to_string(),
            },
        };
        self.add(path, advice, || format!("{what}: {advice}"));
    }

    pub(super) fn into_list(self) -> Vec<Finding> {
        let findings = self.0.into_iter();
        findings.map(|((path, _), (what, count))| Finding::of(path, what, count)).collect()
    }
}
