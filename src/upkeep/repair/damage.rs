//! Damage, as opposed to errors of getting at a file.

use crate::lake::{Identity, Lake, LakeError, identity_file};

/// Refuses to call files damaged on a disk that gives nothing any more.
pub(super) fn demand_disk(lake: &Lake) -> Result<(), LakeError> {
    Identity::read(&lake.path, &lake.disk).map(drop)
}

/// What is wrong with a file, if the error is about that.
pub(super) fn damage(error: LakeError) -> Result<String, LakeError> {
    /// What the operating system calls a disk that cannot read.
    const EIO: i32 = 5;
    match error {
        // Without the lake's own `lake.json`, nothing shows whether other files are sound.
        LakeError::Corrupt { path, what } if !path.ends_with(identity_file::FILE_NAME) => Ok(what),
        LakeError::Io { source, .. } if source.raw_os_error() == Some(EIO) => {
            Ok(format!("the disk cannot read it ({source})"))
        }
        other => Err(other),
    }
}

/// Whether an error of `SQLite` is about what a database holds: a table that it lacks, a value that
/// is none. Others are about getting at it.
pub(super) fn is_about_content(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), None | Some(rusqlite::ErrorCode::Unknown))
}
