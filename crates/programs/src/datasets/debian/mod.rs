//! `benchmark://debian-v0/<package>@<version>/<file>`: the C and C++ files of Debian's source
//! packages.
//!
//! A package is fetched with its checksums and unpacked with Debian's patches; each of its files is
//! compiled by itself, in the language that its ending says. No program of the package is run, so
//! there is no `configure`: the flags
//! state what is true of every Debian system, the include path is found by reading the includes,
//! and a file that needs more is listed as unavailable, with the compiler's message.

mod apt;
mod control;
mod copyright;
mod dataset;
mod includes;
mod package;

pub(super) use self::apt::Apt;
pub(super) use self::dataset::Debian;
pub(super) use self::includes::SourceTree;

/// The beginning of its URIs.
const URI: &str = "benchmark://debian-v0";
