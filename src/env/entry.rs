//! What the list of environments knows of each.

use super::{Environment, SessionError};

/// An environment with a name.
pub(super) struct Entry {
    /// The name with its version.
    pub(super) name: &'static str,
    pub(super) opening: Opening,
    /// Whether users are told of it. Others are for tests.
    pub(super) is_listed: bool,
}

/// How an environment is opened.
pub(super) enum Opening {
    /// It has one compiler, which is part of this program.
    OfOne(fn() -> Box<dyn Environment>),
    /// It has compilers of this machine.
    OfMany {
        /// Opens the compiler that is named behind a slash, or the usual one of an empty name.
        named: fn(&str) -> Result<Box<dyn Environment>, SessionError>,
        /// Opens this build of it if it is here, else the usual one.
        built: fn(&str) -> Result<Box<dyn Environment>, SessionError>,
    },
}
