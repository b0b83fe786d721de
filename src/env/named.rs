//! The environments by their names.

use super::{Environment, llvm, toy};

/// The environment used if none is named.
pub const DEFAULT: &str = llvm::NAME;

/// The names of all environments; the default comes first.
pub const NAMES: [&str; 2] = [llvm::NAME, toy::NAME];

/// Opens the environment called `name`, with sessions in this process; `None` if there is none.
///
/// Run a real compiler's sessions in [worker](super::worker) processes.
pub fn open(name: &str) -> Option<Box<dyn Environment>> {
    match name {
        llvm::NAME => Some(Box::new(llvm::LlvmEnvironment::new())),
        toy::NAME => Some(Box::new(toy::ToyEnvironment::default())),
        toy::UNSURE => Some(Box::new(toy::ToyEnvironment::unsure())),
        #[cfg(debug_assertions)]
        llvm::PLANTED => Some(Box::new(llvm::LlvmEnvironment::planted())),
        _ => None,
    }
}
