//! What the list of environments knows of each.

use super::{Environment, SessionError};

/// An environment with a name.
#[derive(Debug)]
pub struct ListedEnvironment {
    /// The name with its version.
    pub name: &'static str,
    /// How it is opened.
    pub opening: EnvironmentOpening,
    /// Whether users are told of it. Others are for tests.
    pub is_listed: bool,
}

/// How an environment is opened.
#[derive(Debug)]
pub enum EnvironmentOpening {
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
