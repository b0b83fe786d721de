//! Files: operations that can fail, digests of blocks, locks, and a reserve for full disks.

pub(crate) mod digest;
pub(crate) mod disk;
pub(crate) mod file_system;
pub(crate) mod guarded;
pub(crate) mod lock;
pub(crate) mod reserve;
