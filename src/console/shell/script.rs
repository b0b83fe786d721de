//! Statements from a file, or from standard input.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;

use super::session::{Next, ShellSession};
use super::statements::{ShellInput, Statements};
use crate::Error;

/// The maximum depth of included files; a longer chain means that a file includes itself.
const DEPTH_MAX: usize = 16;

/// Answers the statements of a file, at a depth of `depth` includes. `Break` means that the user
/// wants to leave.
pub(super) fn file(
    session: &mut ShellSession<'_>,
    path: &Path,
    depth: usize,
) -> Result<ControlFlow<()>, Error> {
    let name = path.display().to_string();
    let file = File::open(path)
        .map_err(|error| Error::usage(format!("{name} cannot be read: {error}")))?;
    run(session, BufReader::new(file), &name, depth)
}

/// Answers statements as they arrive, up to the first that fails; the last needs no semicolon.
/// `name` is the source of the statements.
pub(super) fn run(
    session: &mut ShellSession<'_>,
    input: impl BufRead,
    name: &str,
    depth: usize,
) -> Result<ControlFlow<()>, Error> {
    let mut statements = Statements::default();
    for line in input.lines() {
        let line = line.map_err(|error| Error::usage(format!("{name} cannot be read: {error}")))?;
        statements.push(&line);
        while let Some(piece) = statements.next() {
            if perform(session, &piece, Some(name), depth)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    match statements.rest() {
        Some(piece) => perform(session, &piece, Some(name), depth),
        None => Ok(ControlFlow::Continue(())),
    }
}

/// Executes a piece, with the statements of the file that it includes, if any. `name` is the source
/// of the piece, used in errors.
pub(super) fn perform(
    session: &mut ShellSession<'_>,
    piece: &ShellInput,
    name: Option<&str>,
    depth: usize,
) -> Result<ControlFlow<()>, Error> {
    let path = match session.perform(piece, name)? {
        Next::Continue => return Ok(ControlFlow::Continue(())),
        Next::Leave => return Ok(ControlFlow::Break(())),
        Next::Include(path) => path,
    };
    let included = if depth == DEPTH_MAX {
        Err(Error::usage("`\\i`: files include one another endlessly"))
    } else {
        file(session, &path, depth + 1)
    };
    included.map_err(|error| match name {
        Some(name) => error.at(&format!("{name}, line {}", piece.at.line)),
        None => error,
    })
}
