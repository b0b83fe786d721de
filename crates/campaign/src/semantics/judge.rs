//! What a program should do, and whether it does so after some actions.

use std::path::PathBuf;

use super::player::SequencePlayer;
use super::sanitizers::{SanitizedForm, Sanitizer, has_threads};
use super::{CheckedProgram, SemanticsError};
use steplake_env::{Environment, SessionError};
use steplake_model::{ActionIndex, Build, DifferenceKind, Execution};
use steplake_programs::execution::{
    Difference, Executable, ExecutableCode, ExecutionError, Oracle, ProgramRun, RunSettings,
    UNTOUCHED_RUN_MAX,
};
use steplake_sandbox::Interrupt;

/// How much more time a program may take with a sanitizer.
const SANITIZER_FACTOR: u32 = 10;

/// What a program is compared with: what it has to do, and what sanitizers say of it untouched.
#[derive(Debug)]
pub(super) struct ExpectedBehaviour {
    pub(super) oracle: Oracle,
    /// Whether `AddressSanitizer` has nothing to report, so that a report after actions tells of
    /// them.
    is_address_clean: bool,
    /// What is wrong with the program itself.
    pub(super) undefined: Option<String>,
    /// Why sanitizers could not be used.
    pub(super) unavailable: Vec<String>,
}

/// Builds and runs programs.
pub(super) struct Judge<'a> {
    pub(super) player: SequencePlayer<'a>,
    sanitizes: bool,
    /// Is asked before each build and each run.
    pub(super) interrupt: Interrupt,
    /// Why `AddressSanitizer` says nothing about where the player was in the last comparison,
    /// though it could be used in the first state.
    pub(super) unsanitized: Option<String>,
}

/// What a program does in a run, or why it cannot be built.
type RunOrRefusal = Result<ProgramRun, String>;

impl<'a> Judge<'a> {
    pub(super) fn new(
        environment: &'a dyn Environment,
        action_space: &'a str,
        sanitizes: bool,
        has_rewards: bool,
        interrupt: Interrupt,
    ) -> Self {
        let player = SequencePlayer::new(environment, action_space, has_rewards);
        Self { player, sanitizes, interrupt, unsanitized: None }
    }

    /// Finds out what a program is to be compared with. The inner error says why it cannot tell
    /// right from wrong.
    pub(super) fn reference(
        &mut self,
        subject: &CheckedProgram,
    ) -> Result<Result<ExpectedBehaviour, String>, SemanticsError> {
        if let Err(why) = self.player.play(subject, &[])? {
            return Ok(Err(why));
        }
        let code = match self.code(&subject.execution)? {
            Ok(code) => code,
            Err(why) => return Ok(Err(why)),
        };
        let inputs = subject.inputs.clone();
        let settings =
            RunSettings { run_limit: UNTOUCHED_RUN_MAX, inputs, ..RunSettings::default() };
        let oracle = match Oracle::of(&subject.execution, &code, &settings, &self.interrupt) {
            Ok(oracle) => oracle,
            Err(error) => return no_oracle(error).map(Err),
        };
        let (is_address_clean, undefined, unavailable) = (false, None, Vec::new());
        let mut reference = ExpectedBehaviour { oracle, is_address_clean, undefined, unavailable };
        if self.sanitizes {
            self.sanitize_untouched(subject, &mut reference)?;
        }
        Ok(Ok(reference))
    }

    /// Looks for undefined behaviour of the program itself.
    fn sanitize_untouched(
        &mut self,
        subject: &CheckedProgram,
        reference: &mut ExpectedBehaviour,
    ) -> Result<(), SemanticsError> {
        let object = self.player.object()?.unwrap_or_default();
        // An environment that inserts no checks into objects compiles C, and has the text.
        let text = if self.instruments() {
            let source = subject.source.as_deref();
            source.map(|source| (SanitizedForm::Source, source.as_bytes()))
        } else {
            Some((SanitizedForm::Preprocessed, &*subject.program))
        };
        let mut sanitizers = vec![Sanitizer::Address, Sanitizer::Memory];
        if has_threads(&object) {
            sanitizers.push(Sanitizer::Thread);
        }
        if text.is_some() {
            sanitizers.push(Sanitizer::UndefinedBehaviour);
        }
        for sanitizer in sanitizers {
            if let Some(why) = sanitizer.is_misled(&subject.execution, &object) {
                reference.unavailable.push(format!("{}: {why}", sanitizer.name()));
                continue;
            }
            let is_in_object = self.instruments() && sanitizer.space().is_some();
            let ran = match text {
                Some((form, text)) if !is_in_object => {
                    self.built(subject, reference, (sanitizer, form), text)?
                }
                _ => self.instrumented(subject, reference, sanitizer)?,
            };
            if let Some(ran) = ran {
                reference.note_untouched(sanitizer, &ran);
            }
        }
        // Checks of a text say nothing about what was made of it.
        reference.is_address_clean &= self.instruments();
        Ok(())
    }

    /// Whether the environment inserts the checks of sanitizers into objects of states.
    fn instruments(&self) -> bool {
        Sanitizer::Address.space().is_some_and(|space| self.player.space(space).is_some())
    }

    /// Runs the program where the player is with a sanitizer. `None` if it cannot have one.
    fn instrumented(
        &mut self,
        subject: &CheckedProgram,
        reference: &ExpectedBehaviour,
        sanitizer: Sanitizer,
    ) -> Result<Option<RunOrRefusal>, SemanticsError> {
        let form = SanitizedForm::Object;
        let space = sanitizer.space().and_then(|space| self.player.space(space));
        let is_linked = sanitizer.execution(&subject.execution, form).is_some();
        let Some(space) = space.filter(|_| is_linked) else { return Ok(None) };
        match self.player.observe(space)? {
            Ok(object) => self.built(subject, reference, (sanitizer, form), &object),
            Err(why) => Ok(Some(Err(why))),
        }
    }

    /// Builds a program with a sanitizer, and runs it.
    fn built(
        &self,
        subject: &CheckedProgram,
        reference: &ExpectedBehaviour,
        (sanitizer, form): (Sanitizer, SanitizedForm),
        program: &[u8],
    ) -> Result<Option<RunOrRefusal>, SemanticsError> {
        let Some(execution) = sanitizer.execution(&subject.execution, form) else {
            return Ok(None);
        };
        let plain = reference.oracle.settings();
        let settings = RunSettings {
            run_limit: plain.run_limit * SANITIZER_FACTOR,
            // A sanitizer reserves terabytes, and finds its own memory by this file system. Of
            // other processes, the walls hide all but their names.
            memory_bytes: None,
            reads: vec![PathBuf::from("/proc")],
            ..plain.clone()
        };
        self.run(&execution, program, &settings).map(Some)
    }

    /// Says how the program behaves otherwise after these actions; `None` if it does not. The inner
    /// error says why the compiler did not come there.
    pub(super) fn after(
        &mut self,
        subject: &CheckedProgram,
        reference: &ExpectedBehaviour,
        actions: &[ActionIndex],
    ) -> Result<Result<Option<Difference>, String>, SemanticsError> {
        match self.player.play(subject, actions)? {
            Ok(_) => self.here(subject, reference).map(Ok),
            Err(why) => Ok(Err(why)),
        }
    }

    /// Says why a difference that was seen where the player is may not be the compiler's doing: it
    /// does not show in a second run, or not in one of what a new session makes of the actions, or
    /// the `untouched` program has changed too.
    pub(super) fn doubt(
        &mut self,
        subject: &CheckedProgram,
        untouched: &CheckedProgram,
        reference: &ExpectedBehaviour,
        actions: &[ActionIndex],
        seen: &Difference,
    ) -> Result<Option<String>, SemanticsError> {
        let once = || format!("seen once, and not when tried again: {}", seen.line());
        if self.here(subject, reference)?.is_none() {
            return Ok(Some(once()));
        }
        self.player.renew();
        match self.after(subject, reference, actions)? {
            Ok(Some(_)) => self.doubt_of_all(untouched, reference),
            Ok(None) => Ok(Some(once())),
            Err(why) => Ok(Some(why)),
        }
    }

    /// Says how the untouched program, in a new session, behaves otherwise than it did. Then
    /// something else than the actions changes it.
    pub(super) fn doubt_of_all(
        &mut self,
        subject: &CheckedProgram,
        reference: &ExpectedBehaviour,
    ) -> Result<Option<String>, SemanticsError> {
        self.player.renew();
        let said = |difference: Difference| {
            format!("the untouched program differs as well now: {}", difference.line())
        };
        Ok(match self.after(subject, reference, &[])? {
            Ok(difference) => difference.map(said),
            Err(why) => Some(why),
        })
    }

    /// Says how the program behaves otherwise where the player is.
    pub(super) fn here(
        &mut self,
        subject: &CheckedProgram,
        reference: &ExpectedBehaviour,
    ) -> Result<Option<Difference>, SemanticsError> {
        self.unsanitized = None;
        let not_built = |why: &str| Some(Difference::of_texts(DifferenceKind::Build, "", why));
        let code = match self.code(&subject.execution)? {
            Ok(code) => code,
            Err(why) => return Ok(not_built(&why)),
        };
        let run = match self.run(&subject.execution, &code, reference.oracle.settings())? {
            Ok(run) => run,
            Err(why) => return Ok(not_built(&why)),
        };
        if let Some(difference) = reference.oracle.difference(&run) {
            return Ok(Some(difference));
        }
        if !reference.is_address_clean {
            return Ok(None);
        }
        let sanitizer = Sanitizer::Address;
        let run = match self.instrumented(subject, reference, sanitizer)? {
            None => return Ok(None),
            Some(Ok(run)) => run,
            Some(Err(why)) => {
                self.unsanitized = Some(why);
                return Ok(None);
            }
        };
        if let Some(report) = sanitizer.report(&run) {
            return Ok(Some(Difference::reported(sanitizer.name(), &report)));
        }
        self.unsanitized = reference.oracle.difference(&run).map(|difference| difference.line());
        Ok(None)
    }

    /// The code that the program's build wants, of where the player is.
    fn code(&mut self, execution: &Execution) -> Result<Result<Vec<u8>, String>, SemanticsError> {
        match execution.build {
            Build::Link { .. } => self.player.object(),
            Build::Command(_) => self.player.serialised(),
        }
    }

    /// Builds a program and runs it. The inner error says why it cannot be built or begun.
    fn run(
        &self,
        execution: &Execution,
        code: &[u8],
        settings: &RunSettings,
    ) -> Result<RunOrRefusal, SemanticsError> {
        demand_going_on(&self.interrupt)?;
        let built = match Executable::build(
            execution,
            ExecutableCode::of(&execution.build, code),
            settings,
        ) {
            Ok(built) => built,
            Err(error) => return of_the_program(error).map(Err),
        };
        demand_going_on(&self.interrupt)?;
        match built.run(&[]) {
            Ok(run) => Ok(Ok(run)),
            Err(error) => of_the_program(error).map(Err),
        }
    }
}

/// Stops if whoever waits has given up.
pub(super) fn demand_going_on(interrupt: &Interrupt) -> Result<(), SemanticsError> {
    if interrupt.is_raised() { Err(SessionError::Interrupted.into()) } else { Ok(()) }
}

impl ExpectedBehaviour {
    /// Takes down what a sanitizer found in the first state.
    fn note_untouched(&mut self, sanitizer: Sanitizer, ran: &RunOrRefusal) {
        let name = sanitizer.name();
        let run = match ran {
            Ok(run) => run,
            Err(why) => {
                return self.unavailable.push(format!(
                    "{name}: {why} (the libraries are in the package libclang-rt-22-dev)"
                ));
            }
        };
        if let Some(report) = sanitizer.report(run) {
            self.undefined.get_or_insert(format!("{name} reports: {report}"));
        } else if let Some(difference) = self.oracle.difference(run) {
            self.unavailable.push(format!(
                "{name}: under it, the untouched program behaves otherwise: {}",
                difference.line()
            ));
        } else if sanitizer == Sanitizer::Address {
            self.is_address_clean = true;
        }
    }

    /// What limits what it tells, one line each.
    pub(super) fn remarks(&self) -> impl Iterator<Item = &str> {
        self.oracle.remark().into_iter().chain(self.unavailable.iter().map(String::as_str))
    }
}

/// Why a program has no oracle, unless this machine is at fault. An input that is missing now was
/// never there.
fn no_oracle(error: ExecutionError) -> Result<String, SemanticsError> {
    match error {
        ExecutionError::Stopped => Err(SessionError::Interrupted.into()),
        ExecutionError::RunFailed { detail } => Ok(format!("untouched, {detail}")),
        ExecutionError::TimedOut { .. } => Ok(format!("untouched, {error}")),
        ExecutionError::Unsteady { .. } => Ok(error.to_string()),
        ExecutionError::MissingInput { .. } => Ok(format!("it cannot be built: {error}")),
        other => of_the_program(other).map(|why| format!("it cannot be built: {why}")),
    }
}

/// Tells what is wrong with a program from what is wrong with this machine. A missing input is the
/// machine's fault: the oracle had it.
fn of_the_program(error: ExecutionError) -> Result<String, SemanticsError> {
    if error.is_of_machine() || matches!(error, ExecutionError::MissingInput { .. }) {
        return Err(SemanticsError::Machine(error));
    }
    Ok(error.to_string())
}
