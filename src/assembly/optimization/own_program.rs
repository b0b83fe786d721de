//! The program that a user names: its name in the lake.

use std::fs;

use crate::assembly::catalogue::Catalogue;
use crate::assembly::command_error::CommandError;
use crate::assembly::how_run::cache;
use crate::datasets::{Aim, compiled_for, named_file};
use crate::model::BenchmarkUri;

/// Returns the URI of what the user has named.
pub(super) fn uri_of(program: &str) -> Result<String, CommandError> {
    if program.contains("://") {
        return Ok(program.to_owned());
    }
    let path = fs::canonicalize(program)
        .map_err(|error| CommandError::usage(format!("{program} cannot be read: {error}")))?;
    Ok(format!("file://{}", path.display()))
}

/// Returns the program that is optimised: of a file of C or C++, bitcode whose functions are marked
/// as `clang` marks them with this aim; any other program as it is.
pub(super) fn aimed_at(
    aim: Aim,
    named: &BenchmarkUri,
    catalogue: &Catalogue,
) -> Result<BenchmarkUri, CommandError> {
    let Some(path) = named_file(named) else { return Ok(named.clone()) };
    match compiled_for(aim, &path, &cache()?)? {
        Some(bitcode) => catalogue.one(bitcode.as_str()),
        None => Ok(named.clone()),
    }
}
