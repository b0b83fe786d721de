//! What can be chosen where states are given by choices.

use super::error::SessionError;
use steplake_model::Failure;

/// What can be chosen of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choosable {
    /// The last choice; the first one is 0.
    pub last: i32,
    /// Whether the choices are numbers, so that near ones are alike.
    pub are_numbers: bool,
}

/// How an environment makes states of choices: each option of the compiler has one choice, or is
/// absent.
pub trait Choices {
    /// Returns the options in their order.
    fn options(&self) -> Vec<Choosable>;

    /// Returns choices that are worth a try before all others, such as the compiler's levels. The
    /// first ones leave all options absent: a program stays as it is, unless it is a state, which
    /// loses the choices that were made.
    fn starts(&self) -> Vec<Box<[i32]>>;

    /// Returns the choices that the options of a command line make, -1 where there is none.
    ///
    /// # Errors
    ///
    /// What is no option of this compiler.
    fn read(&self, options: &str) -> Result<Box<[i32]>, String>;

    /// Returns the program that begins where all choices are made at once: the state of `program`,
    /// which is a program of the environment, with these choices. There is one for each option,
    /// from 0, and -1 for an option that is absent.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadProgram`] if the program or the choices are none of this compiler.
    fn program(&self, program: &[u8], choices: &[i32]) -> Result<Vec<u8>, SessionError>;

    /// Has the compiler make an object of a source, as whoever runs the command line of these
    /// choices does: programs are made of sources in another way, with which some choices work that
    /// do not work so. `name` is that of the source's file.
    ///
    /// # Errors
    ///
    /// How the compiler fails is the inner error; others are of the machine.
    fn object_of_source(
        &self,
        name: &str,
        source: &str,
        choices: &[i32],
    ) -> Result<Result<Vec<u8>, Failure>, SessionError>;
}
