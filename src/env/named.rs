//! The environments by their names. [`LIST`] is the one place outside of its own folder that an
//! environment needs, besides the declaration of its module.

use super::{Environment, SessionError, gcc, llvm, loops, toy};

/// The environment used if none is named.
pub const DEFAULT: &str = llvm::NAME;

/// The environments; the default comes first.
const LIST: [&[Entry]; 4] = [llvm::ENTRIES, gcc::ENTRIES, loops::ENTRIES, toy::ENTRIES];

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

/// Why an environment cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such environment.
    #[error("there is no environment `{0}`")]
    Unknown(String),
    /// Its compiler is not here.
    #[error(transparent)]
    Unavailable(#[from] SessionError),
}

/// Returns the names of the environments; the default comes first.
pub fn names() -> impl Iterator<Item = &'static str> {
    entries().filter(|entry| entry.is_listed).map(|entry| entry.name)
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    LIST.into_iter().flatten()
}

/// Returns the entry of a name, and the compiler in it, which is empty for the usual one.
fn entry(name: &str) -> Option<(&'static Entry, &str)> {
    let (own, compiler) = name.split_once('/').unwrap_or((name, ""));
    let is_it = |entry: &&Entry| match entry.opening {
        Opening::OfOne(_) => entry.name == name,
        Opening::OfMany { .. } => entry.name == own,
    };
    Some((entries().find(is_it)?, compiler))
}

/// Returns whether there is an environment called `name`, be its compiler here or not.
pub fn is_known(name: &str) -> bool {
    entry(name).is_some()
}

/// Opens the environment called `name`, with sessions in this process. A name with a compiler, such
/// as `gcc-v0/gcc-12` or `gcc-v0//usr/bin/gcc`, chooses among the compilers of this machine.
///
/// Run a real compiler's sessions in [worker](super::worker) processes, unless it needs none: see
/// [`Environment::within`].
///
/// # Errors
///
/// [`OpenError`].
pub fn open(name: &str) -> Result<Box<dyn Environment>, OpenError> {
    let (entry, compiler) = entry(name).ok_or_else(|| OpenError::Unknown(name.to_owned()))?;
    match entry.opening {
        Opening::OfOne(open) => Ok(open()),
        Opening::OfMany { named, .. } => Ok(named(compiler)?),
    }
}

/// Opens the environment called `name` with this build of its compiler, if that is here; else with
/// the one that it usually has.
///
/// # Errors
///
/// Those of [`open`].
pub fn open_build(name: &str, build: &str) -> Result<Box<dyn Environment>, OpenError> {
    match entry(name) {
        Some((Entry { opening: Opening::OfMany { built, .. }, .. }, _)) => Ok(built(build)?),
        _ => open(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_those_of_the_specs() {
        let mut all: Vec<&str> = entries().map(|entry| entry.name).collect();
        let listed: Vec<&str> = names().collect();
        assert_eq!(listed[0], DEFAULT);
        for &name in &all {
            assert!(is_known(name));
            assert_eq!(open(name).unwrap().spec().name.as_ref(), name);
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), entries().count());
    }

    #[test]
    fn a_compiler_is_named_where_there_are_several() {
        assert!(is_known("gcc-v0//usr/bin/gcc") && is_known("gcc-v0/docker:gcc:11.2.0"));
        for name in ["gcc", "gcc-v1", "llvm-v0/", "toy-v0/x", ""] {
            assert!(!is_known(name), "{name}");
            assert!(matches!(open(name), Err(OpenError::Unknown(unknown)) if unknown == name));
        }
    }
}
