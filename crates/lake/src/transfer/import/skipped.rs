//! Counts of what a log has and a lake does not take.

use std::collections::BTreeMap;

/// The greatest length of an example, in characters.
const EXAMPLE_CHARACTERS_MAX: usize = 120;

steplake_model::named! {
    /// Why a row or a value of a log was not taken.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Reason {
        /// The name of the program is no benchmark URI.
        Benchmark = "the program's name is no benchmark URI",
        /// The actions are not numbers with single blanks between them.
        Actions = "the actions are not numbers with single blanks between them",
        /// An action is none of the action space.
        UnknownAction = "an action is none of the action space",
        /// The state is not 40 lower-case hexadecimal digits, and the compiler did not fail.
        State = "the state is not 40 hexadecimal digits",
        /// `done` is neither 0 nor 1.
        Done = "`done` is neither 0 nor 1",
        /// The log has the same actions twice, which its key should forbid.
        Repeated = "the log has the row twice",
        /// The log lacks the row of the state before, so it does not tell where the action was
        /// taken.
        Gap = "the log lacks the step before",
        /// The row follows one at which the compiler failed.
        AfterFailure = "the compiler had failed before",
        /// The total reward is null or not a finite number. The step has no reward, nor has the
        /// next.
        Reward = "the reward is missing or no number",
        /// The log lacks the observations of a state.
        Unobserved = "the log lacks the state's observations",
        /// `ir_instruction_count` is no integer.
        Count = "the instruction count is no integer",
        /// The text of the IR is not compressed as it should be, or too large.
        Ir = "the IR is damaged or too large",
        /// `autophase` is not 56 integers.
        Autophase = "`autophase` is not the right number of integers",
        /// `instcount` is not 70 integers.
        InstCount = "`instcount` is not the right number of integers",
    }

    /// What is wrong, for a message that ends with what it is about.
    fn as_str;
}

impl Reason {
    /// Whether the whole row of `States` is left out. Otherwise, a value is null.
    pub fn skips_row(self) -> bool {
        use Reason::{AfterFailure, Gap, Repeated, UnknownAction};
        let malformed = [Self::Benchmark, Self::Actions, Self::State, Self::Done];
        malformed.contains(&self) || matches!(self, UnknownAction | Repeated | Gap | AfterFailure)
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
