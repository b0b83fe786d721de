//! The program that is optimised, in sessions that nobody records.

use super::goal::{Goal, Level};
use super::result::{Check, Found, Optimized, Outcome};
use crate::assembly::catalogue::inputs_folder;
use crate::assembly::command_error::{Code, CommandError};
use crate::assembly::program_under_test::{PIPELINES, pipeline_index};
use crate::env::worker::Interrupt;
use crate::env::{Environment, Session, SessionError, Start, Started, Watch};
use crate::model::{
    ActionIndex, Benchmark, EnvironmentSpec, Outcome as StepOutcome, StateId, Value, opt_command,
};
use crate::semantics::{Validation, validate};

/// The most results that are checked, until one is right.
const CHECKED_MAX: usize = 8;

/// The program that is optimised.
pub(super) struct Subject {
    pub(super) environment: Box<dyn Environment>,
    pub(super) space: String,
    pub(super) source: Option<String>,
    pub(super) benchmark: Benchmark,
    pub(super) goal: Goal,
    pub(super) interrupt: Interrupt,
}

/// A sequence that was played, and where it led.
pub(super) struct Played {
    pub(super) session: Box<dyn Session>,
    pub(super) state: StateId,
    /// The actions that changed anything.
    pub(super) effective: Vec<ActionIndex>,
}

/// Sequences whose programs do something else, and how they differ, one line each.
#[derive(Debug, Default)]
pub(super) struct Wrong(Vec<(Vec<ActionIndex>, String)>);

impl Wrong {
    /// Returns whether a sequence need not be looked at: what a wrong one is continued to is wrong
    /// as well, and after many wrong ones nothing is looked at.
    pub(super) fn excludes(&self, actions: &[ActionIndex]) -> bool {
        self.0.len() >= CHECKED_MAX || self.0.iter().any(|(prefix, _)| actions.starts_with(prefix))
    }

    /// Adds a sequence.
    pub(super) fn note(&mut self, actions: Vec<ActionIndex>, difference: String) {
        self.0.push((actions, difference));
    }

    /// Returns how they differ.
    pub(super) fn lines(self) -> Vec<String> {
        self.0.into_iter().map(|(_, difference)| difference).collect()
    }
}

impl Subject {
    /// Returns the result of a sequence that was played, whose program was found to be right.
    pub(super) fn of_sequence(
        &self,
        outcome: Outcome,
        found: Found,
        played: &mut Played,
        wrong: Vec<String>,
    ) -> Result<Optimized, CommandError> {
        let space = self.environment.spec().action_space(&self.space);
        let specs = played.effective.iter().filter_map(|&action| space?.get(action));
        let pipelines = specs.map(|spec| spec.pipeline.as_str());
        let command = opt_command(pipelines.filter(|text| !text.is_empty()));
        let result = self.optimized(outcome, (Level::Oz, &command), played.session.as_mut(), wrong);
        Ok(Optimized { found: Some(found), ..result? })
    }

    /// Returns the result of one of LLVM's own pipelines.
    pub(super) fn of_pipeline(
        &self,
        outcome: Outcome,
        level: Level,
        wrong: Vec<String>,
    ) -> Result<Optimized, CommandError> {
        let mut session = self.after(&self.benchmark, level)?;
        let pipeline = format!("default<{}>", level.name().trim_start_matches('-'));
        let command = opt_command([pipeline.as_str()].into_iter());
        let check = match outcome {
            Outcome::Small(_) => self.check_pipeline(level)?,
            // Each run that was timed did what the program does untouched.
            Outcome::Fast(_) => Check { is_checked: true, ..Check::default() },
        };
        let result = self.optimized(outcome, (level, &command), session.as_mut(), wrong)?;
        Ok(Optimized { pipeline_check: check, ..result })
    }

    /// Checks what one of LLVM's own pipelines makes, if it is known how to run the program.
    fn check_pipeline(&self, level: Level) -> Result<Check, CommandError> {
        let places = pipeline_index(self.environment.spec(), level.name());
        let actions: Vec<ActionIndex> = places.into_iter().collect();
        let Validation { is_checked, remarks, difference, not_repeated, .. } =
            self.validated(PIPELINES, &actions)?;
        let difference = difference.map(|difference| difference.line()).or(not_repeated);
        Ok(Check { is_checked, remarks, difference })
    }

    /// Plays actions in two workers, and runs the program if it is known how.
    fn validated(&self, space: &str, actions: &[ActionIndex]) -> Result<Validation, CommandError> {
        Ok(validate(
            self.environment.as_ref(),
            space,
            &self.benchmark,
            self.source.clone(),
            inputs_folder(),
            actions,
            self.interrupt.clone(),
        )?)
    }

    /// Returns a result, which is the state of a session.
    fn optimized(
        &self,
        outcome: Outcome,
        (level, command): (Level, &str),
        session: &mut dyn Session,
        wrong: Vec<String>,
    ) -> Result<Optimized, CommandError> {
        let spec = self.environment.spec();
        let path = self.benchmark.uri.file().map(|path| path.display().to_string());
        let input = path.as_deref().map_or("input.bc".into(), shell_words::quote);
        Ok(Optimized {
            uri: self.benchmark.uri.clone(),
            outcome,
            found: None,
            pipeline_check: Check::default(),
            pipeline: level.name(),
            compiler: spec.compiler.clone(),
            command: command.replacen("input.bc", &input, 1),
            is_optnone: self.is_optnone()?,
            bitcode: bytes(session, spec, &spec.state_space)?,
            object: bytes(session, spec, self.goal.object_space())?,
            wrong,
        })
    }

    /// Returns whether functions of the program are marked as those of `clang -O0`, which `opt`
    /// leaves as they are.
    fn is_optnone(&self) -> Result<bool, CommandError> {
        let text = self.ir()?;
        let mut attributes = text.lines().filter(|line| line.starts_with("attributes #"));
        Ok(attributes.any(|line| line.contains(" optnone ")))
    }

    /// Returns the program untouched as LLVM's IR.
    pub(super) fn ir(&self) -> Result<String, CommandError> {
        let (mut session, _) = self.start(&self.benchmark, &self.space)?;
        match observed(session.as_mut(), self.environment.spec(), "Ir")? {
            Value::Text(text) => Ok(text),
            _ => Err(SessionError::Defect("Ir is not a text".to_owned()).into()),
        }
    }

    /// Returns a session in the state that one of LLVM's own pipelines makes of a program.
    pub(super) fn after(
        &self,
        benchmark: &Benchmark,
        level: Level,
    ) -> Result<Box<dyn Session>, CommandError> {
        let failed = |said: String| CommandError::new(Code::Failed, said);
        let pipeline = level.name();
        let place = pipeline_index(self.environment.spec(), pipeline);
        let place = place.ok_or_else(|| failed(format!("there is no pipeline {pipeline}")))?;
        let (mut session, _) = self.start(benchmark, PIPELINES)?;
        match session.apply(place)?.outcome {
            StepOutcome::State { .. } => Ok(session),
            StepOutcome::Crashed(failure) => Err(failed(format!(
                "the compiler failed on {pipeline}: {}: {}",
                failure.kind, failure.detail
            ))),
        }
    }

    /// Starts a program.
    pub(super) fn start(
        &self,
        benchmark: &Benchmark,
        action_space: &str,
    ) -> Result<(Box<dyn Session>, Started), CommandError> {
        let mut session = self.environment.session()?;
        // Nobody looks at rewards here, for which the compiler's own pipelines would be run.
        let (zero, watch) = (self.environment.spec().zero_baselines(), &Watch::default());
        let start = Start { benchmark, action_space, baselines: Some(&zero), watch };
        let started = session.start(&start)?;
        Ok((session, started))
    }

    /// Plays a sequence from the program untouched; none if the compiler fails on it.
    pub(super) fn play(&self, actions: &[ActionIndex]) -> Result<Option<Played>, CommandError> {
        let (mut session, started) = self.start(&self.benchmark, &self.space)?;
        let (mut state, mut effective) = (started.state, Vec::new());
        for &action in actions {
            match session.apply(action)?.outcome {
                StepOutcome::State { id, changed, .. } => {
                    state = id;
                    effective.extend(changed.then_some(action));
                }
                StepOutcome::Crashed(_) => return Ok(None),
            }
        }
        Ok(Some(Played { session, state, effective }))
    }

    /// Checks a sequence that was played: plays it twice, and runs the program if it is known how.
    /// Returns what was found, or none if it is one of the wrong ones now.
    pub(super) fn check(
        &self,
        actions: &[ActionIndex],
        played: &Played,
        wrong: &mut Wrong,
    ) -> Result<Option<Found>, CommandError> {
        let Validation { is_checked, remarks, difference, not_repeated, .. } =
            self.validated(&self.space, &played.effective)?;
        let difference = difference.map(|difference| difference.line());
        if let Some(difference) = difference.or(not_repeated) {
            wrong.note(actions.to_vec(), difference);
            return Ok(None);
        }
        let space = self.environment.spec().action_space(&self.space);
        let specs = played.effective.iter().filter_map(|&action| space?.get(action));
        let actions = specs.map(|spec| spec.name.clone()).collect();
        Ok(Some(Found { actions, check: Check { is_checked, remarks, difference: None } }))
    }

    /// Observes a number.
    pub(super) fn number(
        &self,
        session: &mut dyn Session,
        name: &str,
    ) -> Result<i64, SessionError> {
        match observed(session, self.environment.spec(), name)? {
            Value::Int(number) => Ok(number),
            other => {
                Err(SessionError::Defect(format!("{name} is {other:?}, which is not a number")))
            }
        }
    }

    /// Observes the object file of the goal's code generation.
    pub(super) fn object(&self, session: &mut dyn Session) -> Result<Vec<u8>, SessionError> {
        bytes(session, self.environment.spec(), self.goal.object_space())
    }
}

fn observed(
    session: &mut dyn Session,
    spec: &EnvironmentSpec,
    name: &str,
) -> Result<Value, SessionError> {
    let space = spec.observation_index(name).ok_or_else(|| SessionError::UnknownSpace {
        name: name.to_owned(),
        environment: spec.name.to_string(),
    })?;
    session.observe(space)
}

fn bytes(
    session: &mut dyn Session,
    spec: &EnvironmentSpec,
    name: &str,
) -> Result<Vec<u8>, SessionError> {
    match observed(session, spec, name)? {
        Value::Bytes(bytes) => Ok(bytes),
        _ => Err(SessionError::Defect(format!("{name} is not bytes"))),
    }
}
