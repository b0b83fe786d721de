//! One sequence of actions, validated as CompilerGym's `validate` does it.

use std::path::PathBuf;
use std::sync::Arc;

use super::difference::Difference;
use super::judge::{Judge, Oracle};
use super::player::PlayedStep;
use super::{SemanticsError, Subject};
use crate::env::worker::Interrupt;
use crate::env::{Environment, Start, Watch};
use crate::model::{ActionIndex, Benchmark, Execution, Linker, Rewards, StateId};

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
    let sequences = &[actions];
    let validations =
        validate_each(environment, action_space, benchmark, source, inputs, sequences, interrupt)?;
    Ok(validations.into_iter().next().unwrap_or_default())
}

/// Validates several sequences of one program, each as [`validate`] does it. What the program does
/// untouched is found out once.
///
/// # Errors
///
/// Those of [`validate`].
pub fn validate_each(
    environment: &dyn Environment,
    action_space: &str,
    benchmark: &Benchmark,
    source: Option<String>,
    inputs: Option<PathBuf>,
    sequences: &[&[ActionIndex]],
    interrupt: Interrupt,
) -> Result<Vec<Validation>, SemanticsError> {
    let started = environment.session()?.start(&Start {
        benchmark,
        action_space,
        baselines: None,
        watch: &Watch::default(),
    })?;
    // A program that cannot be run is only played.
    let of_played = || Execution::linked(Linker::C, &[]);
    let is_runnable = benchmark.execution.as_ref().is_some_and(|known| known.run.is_some());
    let subject = &Subject {
        benchmark: benchmark.uri.clone(),
        execution: benchmark.execution.clone().unwrap_or_else(of_played),
        initial: started.state,
        program: Arc::clone(&benchmark.program),
        source,
        inputs,
    };
    let mut judge = Judge::new(environment, action_space, true, true, interrupt);
    let mut oracle = None;
    let each = sequences.iter().map(|actions| {
        let mut validation = Validation::default();
        if !is_repeated(&mut judge, subject, actions, &mut validation)? {
            return Ok(validation);
        }
        if !is_runnable {
            validation.remarks.push("nobody says how the program is run".to_owned());
            return Ok(validation);
        }
        match check_meaning(&mut judge, subject, &mut oracle, actions, &mut validation) {
            // What was found before is not lost.
            Err(error @ (SemanticsError::Machine(_) | SemanticsError::NoCode(_)))
                if validation.not_repeated.is_some() =>
            {
                validation.remarks.push(error.to_string());
            }
            other => other?,
        }
        Ok(validation)
    });
    each.collect()
}

/// Plays actions in two workers. Returns whether the first one came to the end.
fn is_repeated(
    judge: &mut Judge<'_>,
    subject: &Subject,
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

/// Runs the program before and after the actions. `known` is what it does untouched, as far as that
/// was found out.
fn check_meaning(
    judge: &mut Judge<'_>,
    subject: &Subject,
    known: &mut Option<Result<Oracle, String>>,
    actions: &[ActionIndex],
    validation: &mut Validation,
) -> Result<(), SemanticsError> {
    let known = match known {
        Some(known) => known,
        none => none.insert(judge.oracle(subject)?),
    };
    let oracle = match known {
        Ok(oracle) => oracle,
        Err(why) => {
            validation.remarks.push(why.clone());
            return Ok(());
        }
    };
    validation.remarks.extend(oracle.unavailable.iter().cloned());
    if let Some(undefined) = &oracle.undefined {
        let why = format!("it has undefined behaviour of its own: {undefined}");
        validation.remarks.push(why);
        return Ok(());
    }
    match judge.after(subject, oracle, actions)? {
        Ok(None) => {
            validation.is_checked = true;
            let unsanitized = judge.unsanitized.take();
            let remark = |why| format!("AddressSanitizer says nothing of these actions: {why}");
            validation.remarks.extend(unsanitized.map(remark));
        }
        Ok(Some(seen)) => {
            let doubt = judge.doubt(subject, oracle, actions, &seen)?;
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
