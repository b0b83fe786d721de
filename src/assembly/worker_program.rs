//! The program that worker processes execute.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The program that workers execute, if it is another one than this.
static PROGRAM: OnceLock<File> = OnceLock::new();

/// Has workers execute the program at `path` in place of this one, for a library in a program that
/// cannot [serve](super::worker::serve_if_worker) itself. Only the first call counts.
///
/// # Errors
///
/// If the file cannot be opened.
pub fn set_program(path: &Path) -> std::io::Result<()> {
    if PROGRAM.get().is_none() {
        let _ = PROGRAM.set(File::open(path)?);
    }
    Ok(())
}

/// Returns the path of the program that workers execute. It leads to the same file even after a
/// build or an upgrade has replaced it: a newer program may have other actions and other state ids.
pub(super) fn program() -> PathBuf {
    match PROGRAM.get() {
        Some(file) => PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        None => PathBuf::from("/proc/self/exe"),
    }
}
