//! One sequence of actions, validated as CompilerGym's `validate` does it.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;

use super::blame::BlameSearch;
use super::finding::Miscompilation;
use super::judge::{ExpectedBehaviour, Judge, demand_going_on};
use super::player::PlayedStep;
use super::{CheckedProgram, SemanticsError};
use steplake_env::{Environment, Start, Watch};
use steplake_model::{ActionIndex, Benchmark, Execution, Linker, Rewards, StateId};
use steplake_programs::execution::Difference;
use steplake_sandbox::Interrupt;

/// How many sequences are tried at most to find which of some actions are to blame: enough to find
/// the last of them, and to leave out some others.
const TRIALS_MAX: usize = 16;

/// What a validation found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Validation {
    /// The state after the last action.
    pub state: Option<StateId>,
    /// Why the actions did not give the same states and rewards in two workers, if they did not.
    pub not_repeated: Option<String>,
    /// Whether the program's meaning could be checked: whether somebody says how it is run, and it
    /// does the same whenever it runs. A difference that could not be confirmed says nothing.
    pub is_checked: bool,
    /// Why its meaning could not be checked, or what limits the check, one line each.
    pub remarks: Vec<String>,
    /// How the program behaves otherwise after the actions.
    pub difference: Option<Difference>,
}

impl Validation {
    /// Whether nothing is wrong.
    pub fn is_okay(&self) -> bool {
        self.not_repeated.is_none() && self.difference.is_none()
    }
}

/// Plays actions in two sessions, compares states and rewards, and checks that the program still
/// does what it does untouched. Sessions of `environment` should be in worker processes.
/// `source` is the program's source, if that is one file in C; `inputs` is the folder of its
/// inputs. `interrupt` is asked before each build and each run; a program that runs already comes
/// to its end.
///
/// # Errors
///
/// [`SemanticsError`], also if the program cannot be started.
pub fn validate(
    environment: &dyn Environment,
    action_space: &str,
    benchmark: &Benchmark,
    source: Option<String>,
    inputs: Option<PathBuf>,
    actions: &[ActionIndex],
    interrupt: Interrupt,
) -> Result<Validation, SemanticsError> {
    Validator::new(environment, action_space, benchmark, source, inputs, interrupt)?
        .sequence(actions)
}

/// Validates what comes of one program. What it does untouched is found out once.
pub struct Validator<'a> {
    judge: Judge<'a>,
    subject: CheckedProgram,
    is_runnable: bool,
    /// What the program does untouched, as far as that was found out.
    reference: Option<Result<ExpectedBehaviour, String>>,
    findings: Mutex<Vec<Miscompilation>>,
}

impl std::fmt::Debug for Validator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl<'a> Validator<'a> {
    /// Starts the program. The arguments are those of [`validate`].
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn new(
        environment: &'a dyn Environment,
        action_space: &'a str,
        benchmark: &Benchmark,
        source: Option<String>,
        inputs: Option<PathBuf>,
        interrupt: Interrupt,
    ) -> Result<Self, SemanticsError> {
        let started = environment.session()?.start(&Start {
            benchmark,
            action_space,
            baselines: None,
            watch: &Watch::default(),
        })?;
        // A program that cannot be run is only played.
        let of_played = || Execution::linked(Linker::C, &[]);
        let execution = benchmark.execution.as_ref();
        let subject = CheckedProgram {
            benchmark: benchmark.uri.clone(),
            execution: execution.cloned().unwrap_or_else(of_played),
            initial: started.state,
            program: Arc::clone(&benchmark.program),
            source,
            inputs,
        };
        Ok(Self {
            judge: Judge::new(environment, action_space, true, true, interrupt),
            subject,
            is_runnable: execution.is_some_and(|known| known.run.is_some()),
            reference: None,
            findings: Mutex::default(),
        })
    }

    /// Validates a sequence of actions, as [`validate`] does.
    ///
    /// # Errors
    ///
    /// [`SemanticsError`].
    pub fn sequence(&mut self, actions: &[ActionIndex]) -> Result<Validation, SemanticsError> {
        let mut validation = Validation::default();
        if is_repeated(&mut self.judge, &self.subject, actions, &mut validation)? {
            self.check(None, actions, &mut validation)?;
        }
        Ok(validation)
    }

    /// Checks that another program, which the compiler reads as it reads this one, does what this
    /// one does untouched. It is run as this one is.
    ///
    /// # Errors
    ///
    /// [`SemanticsError`], also if the other program cannot be started.
    pub fn program(&mut self, other: &Benchmark) -> Result<Validation, SemanticsError> {
        let initial = match self.judge.player.initial(other)? {
            Ok(initial) => initial,
            Err(why) => {
                return Ok(Validation { not_repeated: Some(why), ..Validation::default() });
            }
        };
        let (benchmark, program) = (other.uri.clone(), Arc::clone(&other.program));
        let other =
            CheckedProgram { benchmark, program, initial, source: None, ..self.subject.clone() };
        let mut validation = Validation { state: Some(initial), ..Validation::default() };
        self.check(Some(&other), &[], &mut validation)?;
        Ok(validation)
    }

    /// Finds an action that is to blame that the program does something else after these, in a few
    /// trials. The [findings](Self::findings) have it, unless the difference does not show again.
    ///
    /// # Errors
    ///
    /// [`SemanticsError`].
    pub fn blame(&mut self, actions: &[ActionIndex]) -> Result<(), SemanticsError> {
        let Some(Ok(reference)) = &self.reference else { return Ok(()) };
        let interrupt = self.judge.interrupt.clone();
        let ask = || demand_going_on(&interrupt);
        let (judge, subject, findings) = (&mut self.judge, &self.subject, &self.findings);
        let trials_max = TRIALS_MAX;
        let mut blame =
            BlameSearch { judge, place: 0, subject, reference, findings, ask: &ask, trials_max };
        // Why nothing is to blame was said by the validation.
        blame.one_of(actions)?.ok();
        Ok(())
    }

    /// Returns what was found to miscompile the program, and the program.
    pub fn findings(self) -> (CheckedProgram, Vec<Miscompilation>) {
        let findings = self.findings.into_inner();
        (self.subject, findings)
    }

    /// Compares what the program does untouched with what it does after actions, or with what
    /// `other` does after them.
    fn check(
        &mut self,
        other: Option<&CheckedProgram>,
        actions: &[ActionIndex],
        validation: &mut Validation,
    ) -> Result<(), SemanticsError> {
        if !self.is_runnable {
            validation.remarks.push("nobody says how the program is run".to_owned());
            return Ok(());
        }
        match self.check_meaning(other, actions, validation) {
            // What was found before is not lost.
            Err(error @ (SemanticsError::Machine(_) | SemanticsError::NoCode(_)))
                if validation.not_repeated.is_some() =>
            {
                validation.remarks.push(error.to_string());
                Ok(())
            }
            other => other,
        }
    }

    /// Runs the program before and after the actions.
    fn check_meaning(
        &mut self,
        other: Option<&CheckedProgram>,
        actions: &[ActionIndex],
        validation: &mut Validation,
    ) -> Result<(), SemanticsError> {
        let Self { judge, subject: untouched, reference, .. } = self;
        let known = match reference {
            Some(known) => known,
            none => none.insert(judge.reference(untouched)?),
        };
        let reference = match known {
            Ok(reference) => reference,
            Err(why) => {
                validation.remarks.push(why.clone());
                return Ok(());
            }
        };
        validation.remarks.extend(reference.remarks().map(str::to_owned));
        if let Some(undefined) = &reference.undefined {
            let why = format!("it has undefined behaviour of its own: {undefined}");
            validation.remarks.push(why);
            return Ok(());
        }
        let subject = other.unwrap_or(untouched);
        match judge.after(subject, reference, actions)? {
            Ok(None) => {
                validation.is_checked = true;
                let unsanitized = judge.unsanitized.take();
                let remark = |why| format!("AddressSanitizer says nothing of these actions: {why}");
                validation.remarks.extend(unsanitized.map(remark));
            }
            Ok(Some(seen)) => {
                let doubt = judge.doubt(subject, untouched, reference, actions, &seen)?;
                if let Some(why) = doubt {
                    validation.remarks.push(why);
                } else {
                    validation.is_checked = true;
                    validation.difference = Some(seen);
                }
            }
            Err(why) => {
                validation.not_repeated.get_or_insert(why);
            }
        }
        Ok(())
    }
}

/// Plays actions in two workers. Returns whether the first one came to the end.
fn is_repeated(
    judge: &mut Judge<'_>,
    subject: &CheckedProgram,
    actions: &[ActionIndex],
    validation: &mut Validation,
) -> Result<bool, SemanticsError> {
    let played = match judge.player.play(subject, actions)? {
        Ok(played) => played,
        Err(why) => {
            validation.not_repeated = Some(why);
            return Ok(false);
        }
    };
    validation.state = Some(played.last().map_or(subject.initial, |(state, _)| *state));
    judge.player.renew();
    validation.not_repeated = match judge.player.play(subject, actions)? {
        Err(why) => Some(why),
        Ok(again) => {
            let place = played.iter().zip(&again).position(|(one, other)| !are_same(one, other));
            place.map(|place| {
                let what = if played[place].0 == again[place].0 { "reward" } else { "state" };
                let number = actions[place].0;
                format!("action {number} gave another {what} in a second worker")
            })
        }
    };
    Ok(true)
}

/// Whether two steps led to the same state and gave the same rewards, bit for bit: a reward that
/// was not asked for is no number.
fn are_same((state, rewards): &PlayedStep, (other, others): &PlayedStep) -> bool {
    let bits =
        |rewards: &Rewards| rewards.iter().map(|reward| reward.to_bits()).collect::<Vec<_>>();
    state == other && bits(rewards) == bits(others)
}
