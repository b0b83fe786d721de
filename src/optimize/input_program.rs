//! The program that is optimised, in sessions that nobody records.

use std::path::Path;
use std::sync::Arc;

use super::goal::{Goal, LlvmPipeline};
use super::maker::{CompiledProgram, Maker};
use super::result::{Check, Comparison, Improvement, Optimized};
use crate::env::{Environment, Session, SessionError, Start, Started, Watch};
use crate::environments::catalogue::inputs_folder;
use crate::ir::exported;
use crate::lake::Lake;
use crate::measure::CodeGeneration;
use crate::model::{ActionIndex, Benchmark, EnvironmentSpec, Outcome, Provenance, StateId, Value};
use crate::sandbox::Interrupt;
use crate::semantics::{Validation, Validator};
use crate::verification::note_findings;
use crate::{Error, ErrorKind};

/// The most results that are checked, until one is right.
const CHECKED_MAX: usize = 8;

/// The program that is optimised.
pub(super) struct InputProgram {
    pub(super) environment: Box<dyn Environment>,
    pub(super) space: String,
    pub(super) source: Option<String>,
    pub(super) benchmark: Benchmark,
    pub(super) goal: Goal,
    pub(super) interrupt: Interrupt,
}

/// A sequence that was played, and where it led.
pub(super) struct PlayedSequence {
    pub(super) session: Box<dyn Session>,
    pub(super) state: StateId,
    /// The actions that changed anything.
    pub(super) effective: Vec<ActionIndex>,
}

/// A sequence whose program does something else, and how it differs, in one line.
#[derive(Debug)]
struct WrongOne {
    actions: Vec<ActionIndex>,
    difference: String,
}

/// Sequences whose programs do something else.
#[derive(Debug, Default)]
pub(super) struct Wrong(Vec<WrongOne>);

impl Wrong {
    /// Returns whether a sequence need not be looked at: what a wrong one is continued to is wrong
    /// as well, and after many wrong ones nothing is looked at.
    pub(super) fn excludes(&self, actions: &[ActionIndex]) -> bool {
        let is_continued = |one: &WrongOne| actions.starts_with(&one.actions);
        self.0.len() >= CHECKED_MAX || self.0.iter().any(is_continued)
    }

    /// Adds a sequence.
    pub(super) fn note(&mut self, actions: Vec<ActionIndex>, difference: String) {
        self.0.push(WrongOne { actions, difference });
    }

    /// Returns how they differ.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.iter().map(|one| one.difference.clone()).collect()
    }
}

impl InputProgram {
    /// Returns a result. `found` is what made it, if that is a sequence, and `check` how it was
    /// checked otherwise.
    pub(super) fn optimized(
        &self,
        maker: &Maker,
        outcome: Comparison,
        (found, pipeline, check): (Option<Improvement>, LlvmPipeline, Check),
        made: &CompiledProgram,
        wrong: Vec<String>,
    ) -> Result<Optimized, Error> {
        let object = maker.object(made)?.map_err(|why| {
            Error::new(ErrorKind::Failed, format!("no object file can be made: {why}"))
        })?;
        Ok(Optimized {
            uri: self.benchmark.uri.clone(),
            outcome,
            found,
            pipeline_check: check,
            pipeline: pipeline.name(),
            compiler: self.environment.spec().compiler.clone(),
            commands: maker.commands(made),
            is_optnone: maker.is_unmarked(),
            bitcode: made.bitcode.to_vec(),
            object,
            wrong,
            miscompilations: 0,
            tried: 0,
            is_interrupted: false,
        })
    }

    /// Returns what checks programs by running them.
    pub(super) fn validator(&self) -> Result<Validator<'_>, Error> {
        Ok(Validator::new(
            self.environment.as_ref(),
            &self.space,
            &self.benchmark,
            self.source.clone(),
            inputs_folder(),
            self.interrupt.clone(),
        )?)
    }

    /// Checks what a pipeline of LLVM's own makes, if it is known how to run the program.
    pub(super) fn check_pipeline(
        &self,
        made: &CompiledProgram,
        validator: &mut Validator<'_>,
    ) -> Result<Check, Error> {
        let Validation { is_checked, remarks, difference, not_repeated, .. } =
            validator.program(&self.of(made))?;
        let difference = difference.map(|difference| difference.line()).or(not_repeated);
        Ok(Check { is_checked, remarks, difference })
    }

    /// Returns what was made as a program.
    fn of(&self, made: &CompiledProgram) -> Benchmark {
        Benchmark {
            uri: self.benchmark.uri.clone(),
            program: Arc::clone(&made.bitcode),
            provenance: Provenance::default(),
            execution: None,
        }
    }

    /// Starts what was made, and returns its state too.
    pub(super) fn start_made(
        &self,
        made: &CompiledProgram,
    ) -> Result<(Box<dyn Session>, StateId), Error> {
        let (session, started) = self.start(&self.of(made), &self.space)?;
        Ok((session, started.state))
    }

    /// Makes what the effective actions of a sequence make. The inner error says why it cannot be
    /// made.
    pub(super) fn made(
        &self,
        maker: &Maker,
        played: &PlayedSequence,
    ) -> Result<Result<CompiledProgram, String>, Error> {
        let space = self.environment.spec().action_space(&self.space);
        let specs = played.effective.iter().filter_map(|&action| space?.get(action));
        maker.sequence(specs.map(|spec| spec.pipeline.as_str()))
    }

    /// Writes down what the validator has found to miscompile the program, and returns the number
    /// of new rows.
    pub(super) fn note_findings(lake: &Path, validator: Validator<'_>) -> usize {
        let (subject, findings) = validator.findings();
        if findings.is_empty() {
            return 0;
        }
        let generation = CodeGeneration::O0;
        let noted = Lake::open(lake)
            .and_then(|lake| note_findings(&lake, &[subject], &findings, generation));
        noted.unwrap_or_else(|error| {
            // The result is not lost.
            tracing::warn!(%error, "a miscompilation is not written to `miscompilations`");
            0
        })
    }

    /// Returns the program untouched as LLVM's IR.
    pub(super) fn ir(&self) -> Result<String, Error> {
        let (mut session, _) = self.start(&self.benchmark, &self.space)?;
        exported(self.environment.as_ref(), session.as_mut())
    }

    /// Starts a program.
    pub(super) fn start(
        &self,
        benchmark: &Benchmark,
        action_space: &str,
    ) -> Result<(Box<dyn Session>, Started), Error> {
        let mut session = self.environment.session()?;
        // Nobody looks at rewards here, for which the compiler's own pipelines would be run.
        let (zero, watch) = (self.environment.spec().zero_baselines(), &Watch::default());
        let start = Start { benchmark, action_space, baselines: Some(&zero), watch };
        let started = session.start(&start)?;
        Ok((session, started))
    }

    /// Plays a sequence from the program untouched; none if the compiler fails on it.
    pub(super) fn play(&self, actions: &[ActionIndex]) -> Result<Option<PlayedSequence>, Error> {
        let (mut session, started) = self.start(&self.benchmark, &self.space)?;
        let (mut state, mut effective) = (started.state, Vec::new());
        for &action in actions {
            match session.apply(action)?.outcome {
                Outcome::State { id, changed, .. } => {
                    state = id;
                    effective.extend(changed.then_some(action));
                }
                Outcome::Crashed(_) => return Ok(None),
            }
        }
        Ok(Some(PlayedSequence { session, state, effective }))
    }

    /// Checks a sequence that was played, and what its commands make: plays it twice, makes it
    /// twice, and runs both programs if it is known how. Returns what was found, or none if it is
    /// one of the wrong ones now.
    pub(super) fn check(
        &self,
        maker: &Maker,
        actions: &[ActionIndex],
        (played, made): (&PlayedSequence, &CompiledProgram),
        validator: &mut Validator<'_>,
        wrong: &mut Wrong,
    ) -> Result<Option<Improvement>, Error> {
        let mut validation = validator.sequence(&played.effective)?;
        if validation.difference.is_some() {
            validator.blame(&played.effective)?;
        }
        let (_, state) = self.start_made(made)?;
        let mut whose = "";
        if validation.is_okay() && state != played.state {
            validation = validator.program(&self.of(made))?;
            whose = "as its commands make it, ";
        }
        let Validation { is_checked, remarks, difference, not_repeated, .. } = validation;
        let difference = difference.map(|difference| difference.line()).or(not_repeated);
        let is_repeated = || -> Result<bool, Error> {
            let again = self.made(maker, played)?;
            Ok(again.is_ok_and(|again| again.bitcode == made.bitcode))
        };
        let difference = match difference {
            Some(difference) => Some(format!("{whose}{difference}")),
            None if is_repeated()? => None,
            None => Some("its commands do not make the same whenever they run".to_owned()),
        };
        if let Some(difference) = difference {
            wrong.note(actions.to_vec(), difference);
            return Ok(None);
        }
        let space = self.environment.spec().action_space(&self.space);
        let specs = played.effective.iter().filter_map(|&action| space?.get(action));
        let actions = specs.map(|spec| spec.name.clone()).collect();
        let check = Check { is_checked, remarks, difference: None };
        Ok(Some(Improvement { actions, check, is_of_lake: state == played.state }))
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
