//! The environments by their names.

use super::{Environment, SessionError, gcc, llvm, loops, toy};

/// The environment used if none is named.
pub const DEFAULT: &str = llvm::NAME;

/// The names of all environments; the default comes first.
pub const NAMES: [&str; 4] = [llvm::NAME, gcc::NAME, loops::NAME, toy::NAME];

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

/// Returns whether there is an environment called `name`, be its compiler here or not.
pub fn is_known(name: &str) -> bool {
    NAMES.contains(&name) || gcc::compiler_of(name).is_some() || open(name).is_ok()
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
    match name {
        llvm::NAME => Ok(Box::new(llvm::LlvmEnvironment::new())),
        loops::NAME => Ok(Box::new(loops::LoopsEnvironment::default())),
        toy::NAME => Ok(Box::new(toy::ToyEnvironment::default())),
        toy::UNSURE => Ok(Box::new(toy::ToyEnvironment::unsure())),
        #[cfg(debug_assertions)]
        llvm::PLANTED => Ok(Box::new(llvm::LlvmEnvironment::planted())),
        _ => match gcc::compiler_of(name) {
            Some(compiler) => Ok(Box::new(gcc::GccEnvironment::open(compiler)?)),
            None => Err(OpenError::Unknown(name.to_owned())),
        },
    }
}

/// Opens the environment called `name` with this build of its compiler, if that is here; else with
/// the one that it usually has.
///
/// # Errors
///
/// Those of [`open`].
pub fn open_build(name: &str, build: &str) -> Result<Box<dyn Environment>, OpenError> {
    match name {
        gcc::NAME => Ok(Box::new(gcc::GccEnvironment::open_build(build)?)),
        _ => open(name),
    }
}
