//! Damage to files, as opposed to a disk that does not work.

use std::io::ErrorKind;
use std::path::Path;

use crate::kernel::files::digest::Content;
use crate::kernel::{Identity, Lake, LakeError, identity_file};

/// Refuses to call files damaged if the disk reads nothing at all.
pub(super) fn demand_disk(lake: &Lake) -> Result<(), LakeError> {
    Identity::read(&lake.path, &lake.disk).map(drop)
}

/// Returns what is wrong with a file; any error that is not about its content stays an error.
pub(super) fn damage(error: LakeError) -> Result<String, LakeError> {
    use rusqlite::ErrorCode::Unknown;
    /// What the operating system reports for a disk that cannot read.
    const EIO: i32 = 5;
    match error {
        // Without the lake's own `lake.json`, nothing shows whether other files are sound.
        LakeError::Corrupt { path, what } if !path.ends_with(identity_file::FILE_NAME) => Ok(what),
        LakeError::Io { source, .. } if source.raw_os_error() == Some(EIO) => {
            Ok(format!("the disk cannot read it ({source})"))
        }
        // A table is missing, or a value has the wrong type.
        LakeError::Sqlite { source, .. }
            if matches!(source.sqlite_error_code(), None | Some(Unknown)) =>
        {
            Ok(source.to_string().lines().next().unwrap_or_default().to_owned())
        }
        other => Err(other),
    }
}

/// Reads a file. Returns `None` if it is missing, unreadable, or does not have this digest. A disk
/// may fail for a moment, so the file is read twice before it is given up.
pub(super) fn intact(lake: &Lake, path: &Path, digest: &str) -> Result<Option<Content>, LakeError> {
    let read = || {
        let content = Content::read(&lake.disk.open(path)?)?;
        Ok(content.filter(|content| content.digest == digest))
    };
    let found = match read() {
        Ok(Some(content)) => return Ok(Some(content)),
        _ => read(),
    };
    found.or_else(|error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Ok(None),
        _ => damage(LakeError::io("read", path)(error)).map(|_| None),
    })
}
