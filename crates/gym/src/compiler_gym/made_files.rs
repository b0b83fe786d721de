//! The executables that the service makes where its client wants them.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

use steplake::execution::Executable;

/// How a program of Linux begins.
const ELF: [u8; 4] = *b"\x7fELF";

/// Copies an executable to a path. Whoever reaches the service names any path and any build
/// command, so what is copied is a program, and what it replaces is one too.
///
/// # Errors
///
/// [`ErrorKind::InvalidData`] if the build command made no program, [`ErrorKind::AlreadyExists`] if
/// something else lies at the path, and those of [`Executable::save`].
pub(super) fn save(executable: &Executable, path: &Path) -> io::Result<()> {
    if !is_program(executable.open()?)? {
        return Err(ErrorKind::InvalidData.into());
    }
    match fs::symlink_metadata(path) {
        Ok(there) if there.is_file() && is_program(File::open(path)?)? => {}
        Ok(_) => return Err(ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    executable.save(path)
}

fn is_program(file: File) -> io::Result<bool> {
    let mut begin = Vec::new();
    file.take(ELF.len() as u64).read_to_end(&mut begin)?;
    Ok(begin == ELF)
}
