//! What can be chosen where states are given by choices.

/// What can be chosen of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choosable {
    /// The last choice; the first one is 0.
    pub last: i32,
    /// Whether the choices are numbers, so that near ones are alike.
    pub are_numbers: bool,
}
