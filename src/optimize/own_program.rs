//! The program that a user names: its name in the lake.

use crate::Error;
use crate::datasets::{Aim, compiled_for};
use crate::environments::catalogue::Catalogue;
use crate::how_run::cache;
use crate::model::BenchmarkUri;

/// Returns the program that is optimised: of a file of C or C++, bitcode whose functions are marked
/// as `clang` marks them with this aim; any other program as it is.
pub(super) fn aimed_at(
    aim: Aim,
    named: &BenchmarkUri,
    catalogue: &Catalogue,
) -> Result<BenchmarkUri, Error> {
    match compiled_for(aim, named, &cache()?)? {
        Some(bitcode) => catalogue.one(bitcode.as_str()),
        None => Ok(named.clone()),
    }
}
