//! Counts of what a log has and a lake does not take.

use std::collections::BTreeMap;

/// The greatest length of an example, in characters.
const EXAMPLE_CHARACTERS_MAX: usize = 120;

/// Why a row or a value of a log was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The name of the program is no benchmark URI.
    Benchmark,
    /// The actions are not numbers with single blanks between them.
    Actions,
    /// An action is none of the action space.
    UnknownAction,
    /// The state is not 40 lower-case hexadecimal digits, and the compiler did not fail.
    State,
    /// `done` is neither 0 nor 1.
    Done,
    /// The log has the same actions twice, which its key should forbid.
    Repeated,
    /// The log lacks the row of the state before, so it does not tell where the action was taken.
    Gap,
    /// The row follows one at which the compiler failed.
    AfterFailure,
    /// The total reward is null or not a finite number. The step has no reward, nor has the next.
    Reward,
    /// The log lacks the observations of a state.
    Unobserved,
    /// `ir_instruction_count` is no integer.
    Count,
    /// The text of the IR is not compressed as it should be, or too large.
    Ir,
    /// `autophase` is not 56 integers.
    Autophase,
    /// `instcount` is not 70 integers.
    InstCount,
}

impl Reason {
    /// Whether the whole row of `States` is left out. Otherwise, a value is null.
    pub fn skips_row(self) -> bool {
        use Reason::{AfterFailure, Gap, Repeated, UnknownAction};
        let malformed = [Self::Benchmark, Self::Actions, Self::State, Self::Done];
        malformed.contains(&self) || matches!(self, UnknownAction | Repeated | Gap | AfterFailure)
    }

    /// What is wrong, for a message that ends with what it is about.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Benchmark => "the program's name is no benchmark URI",
            Self::Actions => "the actions are not numbers with single blanks between them",
            Self::UnknownAction => "an action is none of the action space",
            Self::State => "the state is not 40 hexadecimal digits",
            Self::Done => "`done` is neither 0 nor 1",
            Self::Repeated => "the log has the row twice",
            Self::Gap => "the log lacks the step before",
            Self::AfterFailure => "the compiler had failed before",
            Self::Reward => "the reward is missing or no number",
            Self::Unobserved => "the log lacks the state's observations",
            Self::Count => "the instruction count is no integer",
            Self::Ir => "the IR is damaged or too large",
            Self::Autophase => "`autophase` is not the right number of integers",
            Self::InstCount => "`instcount` is not the right number of integers",
        }
    }
}

/// What was not taken of a log, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped(BTreeMap<Reason, (u64, String)>);

impl Skipped {
    /// Counts one more. `example` says where, and is kept for the first of a reason.
    pub(super) fn add(&mut self, reason: Reason, example: impl FnOnce() -> String) {
        let (count, _) = self.0.entry(reason).or_insert_with(|| {
            let printable = |one: char| if one.is_control() { '\u{fffd}' } else { one };
            (0, example().chars().take(EXAMPLE_CHARACTERS_MAX).map(printable).collect())
        });
        *count += 1;
    }

    /// How many were not taken for this reason.
    pub fn count(&self, reason: Reason) -> u64 {
        self.0.get(&reason).map_or(0, |(count, _)| *count)
    }

    /// The reasons, each with its count and where it was met first.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64, &str)> {
        self.0.iter().map(|(&reason, (count, example))| (reason, *count, example.as_str()))
    }
}
