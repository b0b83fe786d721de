//! A reserve of room on the disk: a file that holds nothing.
//!
//! Even what makes room needs some: to forget snapshots, a transaction and an entry of the log of
//! snapshots are written. Where the disk is full, the file goes first. It is part of no snapshot,
//! and whatever a crash leaves of it is as good as another, so it is not written through
//! [`Disk`](super::disk::Disk).

use std::fs::File;
use std::io;
use std::path::Path;

use nix::fcntl::posix_fallocate;
use nix::sys::statvfs::statvfs;

use crate::kernel::error::LakeError;

/// The name of the file in the lake.
pub(crate) const FILE_NAME: &str = "reserve";

/// What the file takes: room for some transactions, and for checkpoints of the Delta tables.
const BYTES: u64 = 1 << 20;

/// The file is made only where so many times its size are free.
const FREE_TIMES: u64 = 8;

/// Makes the reserve, if there is none and the disk has plenty of room. A lake without one works as
/// well, so errors do not matter.
pub(crate) fn keep(lake: &Path) {
    let path = lake.join(FILE_NAME);
    let make = || -> io::Result<()> {
        if free_bytes(lake)? < BYTES * FREE_TIMES {
            return Ok(());
        }
        let file = File::create(&path)?;
        Ok(posix_fallocate(&file, 0, i64::try_from(BYTES).map_err(io::Error::other)?)?)
    };
    let is_there = std::fs::metadata(&path).is_ok_and(|file| file.len() >= BYTES);
    if !is_there && let Err(error) = make() {
        tracing::debug!(%error, "no room is kept in reserve");
        give_up(lake);
    }
}

/// The bytes that are free where the lake lies.
pub(crate) fn free_bytes(lake: &Path) -> io::Result<u64> {
    let disk = statvfs(lake)?;
    Ok(disk.blocks_available().saturating_mul(disk.fragment_size()))
}

/// Removes the reserve. Returns whether there was one.
fn give_up(lake: &Path) -> bool {
    std::fs::remove_file(lake.join(FILE_NAME)).is_ok()
}

/// Does the work, and once more without the reserve if the disk is full.
pub(crate) fn use_for<T>(
    lake: &Path,
    mut work: impl FnMut() -> Result<T, LakeError>,
) -> Result<T, LakeError> {
    match work() {
        Err(LakeError::DiskFull { .. }) if give_up(lake) => work(),
        done => done,
    }
}
