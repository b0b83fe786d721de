//! A pure environment without a compiler, for tests, documentation and the recorder's benchmark.
//!
//! A state is a number below the program's size. Every state can be listed, and a step costs well
//! under a microsecond. The environment shows everything that real compilers do: actions that
//! change nothing, an action that fails in some states, and several ways to the same state.

mod environment;
mod planted;
mod programs;
mod session;
mod state;

pub use self::environment::{ENTRIES, ToyEnvironment};
#[doc(hidden)]
pub use self::planted::{Harm, Only, Plant};
#[doc(hidden)]
pub use self::programs::planted;
pub use self::programs::{benchmark, program};

/// The environment's name.
pub const NAME: &str = "toy-v0";

/// The name of the [unsure](ToyEnvironment::unsure) environment.
#[doc(hidden)]
pub const UNSURE: &str = "toy-unsure-v0";
