//! States that are given by choices.

use super::SessionError;

/// How an environment makes states of choices: each option of the compiler has one choice, or is
/// absent.
pub trait Choices {
    /// Returns the options in their order.
    fn options(&self) -> Vec<Choosable>;

    /// Returns choices that are worth a try before all others, such as the compiler's levels. The
    /// first ones leave the program as it is.
    fn starts(&self) -> Vec<Box<[i32]>>;

    /// Returns the program that begins where all choices are made at once: the state of `program`,
    /// which is a program of the environment, with these choices. There is one for each option,
    /// from 0, and -1 for an option that is absent.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadProgram`] if the program or the choices are none of this compiler.
    fn program(&self, program: &[u8], choices: &[i32]) -> Result<Vec<u8>, SessionError>;
}

/// What can be chosen of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choosable {
    /// The last choice; the first one is 0.
    pub last: i32,
    /// Whether the choices are numbers, so that near ones are alike.
    pub are_numbers: bool,
}
