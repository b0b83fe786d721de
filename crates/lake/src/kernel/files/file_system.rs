//! File systems that several machines share. `SQLite`'s log uses shared memory, and the kernel of
//! one machine keeps the locks of a lake. On a shared file system, two machines could write at
//! once.

use std::io;
use std::path::Path;

use super::disk::Disk;
use crate::kernel::error::LakeError;

/// The types of shared file systems: their numbers in `statfs(2)`, and their names.
const SHARED: [(i64, &str); 12] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9P"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x0116_1970, "GFS2"),
];

/// Refuses a folder on a file system that several machines share.
///
/// # Errors
///
/// [`LakeError::SharedFileSystem`].
pub(crate) fn demand_own(disk: &Disk, folder: &Path) -> Result<(), LakeError> {
    let number = match disk.file_system(folder) {
        Ok(number) => number,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(LakeError::io("look at the file system of", folder)(error)),
    };
    match SHARED.iter().find(|(known, _)| *known == number) {
        None => Ok(()),
        Some((_, kind)) => Err(LakeError::SharedFileSystem { path: folder.to_owned(), kind }),
    }
}
