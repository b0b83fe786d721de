//! Which entries were played on this machine.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::NamedTempFile;

use crate::environments::catalogue::cache_folder;
use crate::leaderboard::Entry;

/// The folder in the cache.
const FOLDER: &str = "leaderboards";

/// What was played on this machine and turned out to be what it says. It is kept in the cache, by
/// the digest of the entry with its rows and its task: the files of an entry are written by
/// whoever sends them, and say nothing about that.
#[derive(Debug)]
pub struct Verified(Option<PathBuf>);

impl Verified {
    /// Opens what is known here: nothing if there is no place for a cache.
    pub fn here() -> Self {
        Self(cache_folder().map(|cache| cache.join(FOLDER)))
    }

    /// Returns whether all rows of an entry were played here.
    pub fn has(&self, entry: &Entry) -> bool {
        self.file(entry).is_some_and(|file| file.is_file())
    }

    /// Notes that all rows of an entry were played here. A note that cannot be written costs
    /// another verification.
    pub fn note(&self, entry: &Entry) {
        let Some(file) = self.file(entry) else { return };
        let Entry { task, method, .. } = entry;
        let by = env!("CARGO_PKG_VERSION");
        // For people.
        let text = json!({"task": task, "method": method, "steplake": by}).to_string();
        if let Err(error) = write_whole(&file, &text) {
            tracing::warn!("{} cannot be written: {error}", file.display());
        }
    }

    fn file(&self, entry: &Entry) -> Option<PathBuf> {
        Some(self.0.as_ref()?.join(entry.digest() + ".json"))
    }
}

/// Writes a file that appears whole or not at all.
fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mut new = NamedTempFile::new_in(folder)?;
    new.write_all(text.as_bytes())?;
    new.persist(file).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leaderboard::entry_for_tests;

    #[test]
    fn an_entry_that_changes_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let known = Verified(Some(folder.path().join(FOLDER)));
        let entry = entry_for_tests("one");
        assert!(!known.has(&entry));
        known.note(&entry);
        assert!(known.has(&entry));
        let mut other = entry.clone();
        other.scores.all_rows += 1.0;
        assert!(!known.has(&other) && !known.has(&entry_for_tests("two")));
        let nowhere = Verified(None);
        nowhere.note(&entry);
        assert!(!nowhere.has(&entry));
    }
}
