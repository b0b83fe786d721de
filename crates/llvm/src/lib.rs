//! LLVM's optimiser as an environment.
//!
//! A state is a module; an action is a pass pipeline. LLVM 22 is reached through inkwell, with a
//! C++ shim (`shim/`) for what neither inkwell nor LLVM's C API offers.
//!
//! Without the feature `llvm` only the spaces are here, and sessions live in worker processes of a
//! program that has the compiler.
//!
//! # What a state is
//!
//! A state's [`StateId`](steplake_model::StateId) is the SHA-1 over hashes of its content
//! (`shim/content.cpp`): one for everything outside functions, one for each function, one that says
//! which of the things they mention are the same, and one for the names registered in the context.
//! The id says what canonical bitcode says, without writing it: two ids are equal exactly when the
//! bitcode is. A module with debug info, which only tests have, is named by its bitcode itself.
//!
//! A step from a stored state leads where the recorded one led only if everything that passes can
//! see follows from the bitcode. What does not is brought into a *canonical form* after every read
//! and every change (`shim/canonical.cpp`):
//!
//! | passes see | bitcode does not hold | canonical |
//! |---|---|---|
//! | use-lists | their order | ascending by the user's place |
//! | intrinsics' declarations | attributes beyond the standard ones | the standard ones |
//! | names of local values | (dropped) | none |
//! | clashing global names | the last number LLVM appended | starts from 1 at every step |
//! | block numbers | all of it | counted anew |
//! | addresses of blocks | those that nothing uses | dropped |
//! | analyses | all of it | none at the beginning of a step |
//!
//! Passes also leave what means the same in the order of a hash table of addresses: the entries of
//! phi nodes are ordered by the numbers of their blocks.
//!
//! Bitcode also holds things that are not part of the program: debug info, the names of the module,
//! of its source and of its compiler, and the metadata kinds and bundle tags that the context
//! happens to know. These are dropped or fixed.
//!
//! # How a step goes
//!
//! A step runs the pipeline and compares a fingerprint of the module with the one before. It writes
//! nothing yet, since two steps of three change nothing. If the fingerprints differ, it
//! canonicalises the module and hashes what changed. The verifier checks the changes of several
//! steps together, or those of each step at once
//! ([`Session::check`](steplake_env::Session::check)). For one state in a thousand the id is
//! computed a second time, from its bitcode alone.
//!
//! | file | holds |
//! |---|---|
//! | `environment` | [`LlvmEnvironment`]: compiler and spaces |
//! | `session` | [`LlvmSession`]: start, apply, observe, fork |
//! | `spaces` | the spaces, and the action tables in `actions/` |
//! | `features` | the names of `InstCount` and `Autophase` |
//! | `math` | the functions with which LLVM folds calls, in place of the host's |
//! | `options` | options of LLVM's command line as parameters of actions |
//! | `passes` | [`PassRunner`]: the floor for benchmarks |
//! | [`probe`] | which actions are pure functions of the state, crash, are slow, or do nothing |
//! | `codegen` | machine code of a program, whose size is observed |
//! | `node_link` | the graph of a program as JSON |
//! | `ir2vec` | the embedding of a program, with the vocabulary in `data/ir2vec` |
//! | `inst2vec` | the statements of a program, and their embeddings, with the vocabulary in `data/inst2vec` |
//! | `module`, `engine`, `options`, `codegen`, `ir2vec`, `ffi` | the ring around the shim; with `math` all unsafe code |

#[cfg(feature = "compiler")]
mod codegen;
mod environment;
#[cfg_attr(not(feature = "compiler"), expect(dead_code, reason = "sessions use the rest"))]
mod features;
#[cfg_attr(not(feature = "compiler"), expect(dead_code, reason = "sessions use the rest"))]
mod spaces;

#[cfg(feature = "compiler")]
mod engine;
#[cfg(feature = "compiler")]
mod ffi;
#[cfg(feature = "compiler")]
mod inst2vec;
#[cfg(feature = "compiler")]
mod ir2vec;
#[cfg(feature = "compiler")]
mod math;
#[cfg(feature = "compiler")]
mod module;
#[cfg(feature = "compiler")]
mod node_link;
#[cfg(feature = "compiler")]
mod options;
#[cfg(feature = "compiler")]
mod passes;
#[cfg(feature = "compiler")]
pub mod probe;
#[cfg(feature = "compiler")]
mod session;
#[cfg(test)]
mod tests;

pub use environment::ENTRIES;
pub use environment::{LlvmEnvironment, NAME};
#[cfg(feature = "compiler")]
pub use module::ModuleError;
#[cfg(feature = "compiler")]
pub use passes::PassRunner;
#[cfg(feature = "compiler")]
pub use session::LlvmSession;

#[cfg(feature = "compiler")]
use module::{LocalNames, Module};

/// Disassembles a program's bitcode to text. Bitcode with the order of use-lists, as the
/// observation `Bitcode` has it, becomes text with that order: `opt` does to it what an action does
/// to the state.
///
/// # Errors
///
/// [`ModuleError::Unreadable`].
#[cfg(feature = "compiler")]
pub fn disassemble(bitcode: &[u8]) -> Result<String, ModuleError> {
    let mut module = Module::parse(bitcode, LocalNames::Keep)?;
    let has_use_lists = module.write_with_use_lists() == bitcode;
    Ok(if has_use_lists { module.print_with_use_lists() } else { module.print() })
}

/// Verifies a program, given as bitcode or as LLVM's text, and returns it as plain bitcode.
///
/// # Errors
///
/// [`ModuleError::Unreadable`]; for text, it names the line.
#[cfg(feature = "compiler")]
pub fn assemble(program: &[u8]) -> Result<Vec<u8>, ModuleError> {
    Ok(Module::parse(program, LocalNames::Keep)?.write().to_vec())
}
