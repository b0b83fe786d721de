//! The environments by their names. `LIST` is the one place outside of its own folder that an
//! environment needs.

#![forbid(unsafe_code)]

mod worker;

use steplake_env::{Environment, EnvironmentOpening, ListedEnvironment, SessionError, toy};
use steplake_model::{Classified, ErrorKind, Remedy};

pub use worker::serve_if_worker;

/// The environment used if none is named.
pub const DEFAULT: &str = steplake_llvm::NAME;

/// The environments; the default comes first.
const LIST: [&[ListedEnvironment]; 4] =
    [steplake_llvm::ENTRIES, steplake_gcc::ENTRIES, steplake_loops::ENTRIES, toy::ENTRIES];

/// Why an environment cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no such environment.
    #[error("there is no environment `{0}`")]
    Unknown(String),
    /// Its compiler is not here.
    #[error("{0}")]
    Unavailable(#[from] SessionError),
}

impl Classified for OpenError {
    fn classify(&self) -> (ErrorKind, Option<Remedy>) {
        match self {
            Self::Unknown(_) => (ErrorKind::Usage, None),
            Self::Unavailable(error) => error.classify(),
        }
    }
}

/// Returns the names of the environments; the default comes first.
pub fn names() -> impl Iterator<Item = &'static str> {
    entries().filter(|entry| entry.is_listed).map(|entry| entry.name)
}

fn entries() -> impl Iterator<Item = &'static ListedEnvironment> {
    LIST.into_iter().flatten()
}

/// Returns the entry of a name, and the compiler in it, which is empty for the usual one.
fn entry(name: &str) -> Option<(&'static ListedEnvironment, &str)> {
    let (own, compiler) = name.split_once('/').unwrap_or((name, ""));
    let is_it = |entry: &&ListedEnvironment| match entry.opening {
        EnvironmentOpening::OfOne(_) => entry.name == name,
        EnvironmentOpening::OfMany { .. } => entry.name == own,
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
/// Run a real compiler's sessions in [worker](steplake_env::worker) processes, unless it needs
/// none: see [`Environment::within`].
///
/// # Errors
///
/// [`OpenError`].
pub fn open(name: &str) -> Result<Box<dyn Environment>, OpenError> {
    let (entry, compiler) = entry(name).ok_or_else(|| OpenError::Unknown(name.to_owned()))?;
    match entry.opening {
        EnvironmentOpening::OfOne(open) => Ok(open()),
        EnvironmentOpening::OfMany { named, .. } => Ok(named(compiler)?),
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
        Some((ListedEnvironment { opening: EnvironmentOpening::OfMany { built, .. }, .. }, _)) => {
            Ok(built(build)?)
        }
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
