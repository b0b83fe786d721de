//! What is found to miscompile.

use super::CheckedProgram;
use crate::measure::{CodeGeneration, compilation};
use steplake_lake::{LakeError, MiscompilationRow, random_uid};
use steplake_model::{ActionIndex, StateId};
use steplake_programs::execution::{Difference, RunSettings, tool_version};

/// A miscompilation: a program behaves otherwise after the last of some actions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miscompilation {
    /// The place of the program.
    pub subject: usize,
    /// The minimised actions, from the first state on; the last one is to blame.
    pub actions: Vec<ActionIndex>,
    /// The state before the last action, which behaves as expected.
    pub state: StateId,
    /// The state after it.
    pub next_state: StateId,
    /// What differs.
    pub difference: Difference,
    /// Whether the actions are minimal. If not, trials ran out.
    pub minimised: bool,
    /// The length of the recorded sequence.
    pub recorded: usize,
    /// How many drawn states show it: this one, and those whose sequence contains these actions.
    pub states: usize,
}

impl Miscompilation {
    /// The row of the table `miscompilations`, for code that was made in this way.
    ///
    /// # Errors
    ///
    /// If the system gives no random numbers.
    pub fn row(
        &self,
        subject: &CheckedProgram,
        generation: CodeGeneration,
        found_at_ms: i64,
    ) -> Result<MiscompilationRow, LakeError> {
        let tool = tool_version(&subject.execution.build, &RunSettings::default());
        let tool = tool.unwrap_or_else(|_| "a tool of an unknown version".to_owned());
        Ok(MiscompilationRow {
            uid: random_uid()?,
            benchmark: subject.benchmark.clone(),
            actions: self.actions.clone(),
            state: self.state,
            next_state: self.next_state,
            kind: self.difference.kind,
            subject: self.difference.subject.clone(),
            expected: self.difference.expected.clone(),
            actual: self.difference.actual.clone(),
            minimised: self.minimised,
            compilation: compilation(&subject.execution, generation, &tool),
            found_at_ms,
        })
    }
}
