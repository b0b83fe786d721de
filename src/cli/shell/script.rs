//! Statements from a file, or from standard input.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use super::session::{Flow, Session};
use super::statements::Statements;
use crate::cli::failure::Failed;

/// Answers the statements of a file.
pub(super) fn file(session: &mut Session<'_>, path: &Path) -> Result<Flow, Failed> {
    let name = path.display();
    let file = File::open(path)
        .map_err(|error| Failed::usage(format!("{name} cannot be read: {error}")))?;
    run(session, BufReader::new(file), &name.to_string())
}

/// Answers statements as they arrive, up to the first that fails; the last needs no semicolon.
/// `name` is the source of the statements.
pub(super) fn run(
    session: &mut Session<'_>,
    input: impl BufRead,
    name: &str,
) -> Result<Flow, Failed> {
    let mut statements = Statements::default();
    for line in input.lines() {
        let line =
            line.map_err(|error| Failed::usage(format!("{name} cannot be read: {error}")))?;
        statements.push(&line);
        while let Some(piece) = statements.next() {
            if session.perform(&piece, Some(name))? == Flow::Leave {
                return Ok(Flow::Leave);
            }
        }
    }
    match statements.rest() {
        Some(piece) => session.perform(&piece, Some(name)),
        None => Ok(Flow::On),
    }
}
