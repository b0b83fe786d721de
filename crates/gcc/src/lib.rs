//! GCC's flags and parameters, as `gcc-v0`.
//!
//! # State and output
//!
//! A *state* is a preprocessed source and the choice of each of some 500 options, and its name is a
//! hash of these. So a step is arithmetic: no compiler is asked for the next state, and none is
//! needed to replay. An *output* is what the compiler makes of a state, named by a hash of its
//! assembly. Sizes, counts and the object belong to the output, and most states of a program share
//! theirs with others. The compiler runs when somebody looks at a state whose output is not known,
//! and the assembler when the output is new.
//!
//! # Actions
//!
//! An action changes the choice of one option. All choices at once are a program:
//! [`GccEnvironment::program`] makes one, and so does the observation `state`. It is the source,
//! below a line of comment with the options that are set.
//!
//! # Failures
//!
//! The compiler fails on no action. If it fails on an observation, that is
//! [`SessionError::Unobservable`](steplake_env::SessionError::Unobservable), and the state is as it
//! was. A crash, and a limit that was exceeded, have happened twice then; what the compiler or the
//! assembler say of their input, they would say again. Who records the observation, or is rewarded
//! for it, has a failed step in place of the state.

#![forbid(unsafe_code)]

mod actions;
mod compiler;
mod context;
mod environment;
mod folder;
mod help;
mod image;
mod options;
mod outputs;
mod sections;
mod seen;
mod session;
mod spaces;
mod state;
#[cfg(test)]
mod tests;
mod tool;
mod workplace;

pub use self::environment::ENTRIES;
pub use self::environment::GccEnvironment;
pub use self::options::{GccOption, GccOptions, OptionFamily, OptionValues};
pub use self::sections::text_size;

/// The environment's name.
pub const NAME: &str = "gcc-v0";

/// The observation space of the size of an object file, in bytes.
pub const OBJECT_SIZE: &str = "obj_size";

/// The observation space of the size of code and read-only data in an object, in bytes, as
/// `llvm-size` counts them.
pub const TEXT_SIZE: &str = "text_size";

/// Precedes the name of a container image in place of a compiler's name.
const IMAGE_PREFIX: &str = "docker:";
