//! LLVM's optimiser as an environment.
//!
//! A state is a module, an action a pass pipeline. LLVM 22 is reached through inkwell, with a C++
//! shim (`shim/`) for what neither inkwell nor LLVM's C API offers.
//!
//! # What a state is
//!
//! Its [`StateId`](crate::model::StateId) is the SHA-1 over hashes of its content
//! (`shim/content.cpp`): one for what belongs to no function, one for each function, and one that
//! says which of the things they mention are the same. It says what canonical bitcode says, without
//! writing it: two ids are equal exactly when the bitcode is. A module with debug info, which only
//! tests have, is named by its bitcode itself.
//!
//! For a step from a stored state to lead where the recorded one led, everything that passes can
//! see must follow from the bitcode. What does not is brought into a *canonical form* after every
//! read and every change (`shim/canonical.cpp`):
//!
//! | what passes see | and bitcode does not hold | canonical |
//! |---|---|---|
//! | use-lists | their order | ascending by the user's place |
//! | intrinsics' declarations | attributes beyond the standard ones | the standard ones |
//! | names of local values | (dropped) | none |
//! | clashing global names | the last number LLVM appended | starts from 1 at every step |
//! | block numbers | all of it | counted anew |
//! | analyses | all of it | none at the beginning of a step |
//!
//! and what bitcode holds though the program does not (debug info, module and source name, the list
//! of metadata kinds and bundle tags that the context happens to know) is dropped or fixed.
//!
//! # How a step goes
//!
//! Run the pipeline; compare a fingerprint of the module with the one before, without writing
//! anything, since two steps of three change nothing; if it differs, canonicalise, and hash what
//! changed. The verifier looks at what several steps have changed together, or at each step's
//! changes at once ([`Session::check`](crate::env::Session::check)). Of one state in a thousand the
//! id is found out a second time, from its bitcode alone.
//!
//! | file | holds |
//! |---|---|
//! | `environment` | [`LlvmEnvironment`]: compiler and spaces |
//! | `session` | [`LlvmSession`]: start, apply, observe, fork |
//! | `spaces` | the spaces, and the action tables in `actions/` |
//! | `features` | the names of `InstCount` and `Autophase` |
//! | `math` | the functions that LLVM folds calls with, in place of the host's |
//! | `passes` | [`PassRunner`]: the floor for benchmarks |
//! | [`probe`] | which actions are pure functions of the state, which crash, are slow, do nothing |
//! | `program`, `engine`, `ffi` | the ring around the shim: with `math` the only unsafe code |

mod engine;
mod environment;
mod features;
mod ffi;
mod math;
mod passes;
pub mod probe;
mod program;
mod session;
mod spaces;
#[cfg(test)]
mod tests;

pub use environment::{LlvmEnvironment, NAME};
pub use passes::PassRunner;
pub use program::ProgramError;
pub use session::LlvmSession;

use program::{LocalNames, Program};

/// The text of a program's bitcode.
///
/// # Errors
///
/// [`ProgramError::Unreadable`].
pub fn disassemble(bitcode: &[u8]) -> Result<String, ProgramError> {
    Ok(Program::parse(bitcode, LocalNames::Keep)?.print())
}

/// Plain bitcode of a program that is given as bitcode or as LLVM's text, once it has been found
/// valid.
///
/// # Errors
///
/// [`ProgramError::Unreadable`], for text with the line.
pub fn assemble(program: &[u8]) -> Result<Vec<u8>, ProgramError> {
    Ok(Program::parse(program, LocalNames::Keep)?.write().to_vec())
}
