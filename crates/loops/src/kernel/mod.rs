//! Code for processors: a state as LLVM's text.
//!
//! Each nest is a function of the arrays, the number of the thread and that of all threads. It runs
//! the thread's share of a parallel nest; another nest is run by thread 0 alone. All threads wait
//! for each other between nests. Tables in the module say what arrays there are: the harness in
//! `data/loops/harness.c` reads them, makes the arrays, and runs the nests.
//!
//! The schedule decides: loops that it does not unroll or make vectors of are loops, and who
//! compiles the text has LLVM's own vectorisers off. A range that is no multiple of a step gets
//! code of its own for what remains, so that every range is a constant but that of a thread's
//! share.

mod emit;
mod functions;
mod lines;
mod locations;
mod nest;
mod values;

pub use self::emit::{TooLarge, module};

/// The version of the text that is made of a state. The number changes with the text of any state.
pub const VERSION: u32 = 2;

/// Returns the first digits of the BLAKE3 of a module's text, in hexadecimal. Schedules with one
/// text have one kernel.
pub fn digest(module: &str) -> String {
    blake3::hash(module.as_bytes()).to_hex().as_str()[..16].to_owned()
}
