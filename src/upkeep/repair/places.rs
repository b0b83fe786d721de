//! Where databases lie while one is restored.

use std::path::{Path, PathBuf};

use crate::lake::{Lake, sqlite};

/// A path with more behind its name.
pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(end);
    path.into()
}

/// Where an old database is kept.
pub(super) fn damaged_database(lake: &Lake) -> PathBuf {
    with_end(&lake.path.join(sqlite::FILE_NAME), ".damaged")
}

/// Where a new database waits for its place. It is there from its completion to the end of the
/// restoration.
pub(super) fn new_database(lake: &Lake) -> PathBuf {
    with_end(&lake.path.join(sqlite::FILE_NAME), ".new")
}
