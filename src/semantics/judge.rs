//! What a program should do, and whether it does so after some actions.

use std::path::PathBuf;
use std::time::Duration;

use super::difference::Difference;
use super::player::{OBJECT, Player};
use super::sanitizers::{Sanitizer, has_threads};
use super::{SemanticsError, Subject};
use crate::env::worker::Interrupt;
use crate::env::{Environment, SessionError};
use crate::execution::{Behaviour, Code, End, Executable, ExecutionError, Run, Settings};
use crate::lake::DifferenceKind;
use crate::model::{ActionIndex, Build, Execution};

/// The most time of a program in its first state.
const EXPECTED_RUN_MAX: Duration = Duration::from_mins(1);

/// The least time that a program gets after actions.
const RUN_MIN: Duration = Duration::from_secs(10);

/// How much longer than in its first state a program may take after actions. Passes slow a program
/// down by less, and a busy machine too.
const RUN_FACTOR: u32 = 20;

/// How much more a program may take with a sanitizer.
const SANITIZER_FACTOR: u32 = 10;

/// What a program should do, as it does in its first state.
#[derive(Debug)]
pub(super) struct Oracle {
    expected: Behaviour,
    /// The time of a run.
    run_time: Duration,
    /// Whether `AddressSanitizer` has nothing to report, so that a report after actions tells of
    /// them.
    is_address_clean: bool,
    /// What is wrong with the program itself.
    pub(super) undefined: Option<String>,
    /// Why sanitizers could not be used.
    pub(super) unavailable: Vec<String>,
    /// That it ends with an error, having failed to open files.
    pub(super) in_vain: Option<String>,
}

/// Builds and runs programs.
pub(super) struct Judge<'a> {
    pub(super) player: Player<'a>,
    sanitizes: bool,
    /// Is asked before each build and each run.
    pub(super) interrupt: Interrupt,
    /// Why `AddressSanitizer` says nothing about where the player was in the last comparison,
    /// though it could be used in the first state.
    pub(super) unsanitized: Option<String>,
}

/// What a program does in a run, or why it cannot be built.
type Ran = Result<Run, String>;

impl<'a> Judge<'a> {
    pub(super) fn new(
        environment: &'a dyn Environment,
        action_space: &'a str,
        sanitizes: bool,
        has_rewards: bool,
        interrupt: Interrupt,
    ) -> Self {
        let player = Player::new(environment, action_space, has_rewards);
        Self { player, sanitizes, interrupt, unsanitized: None }
    }

    /// Finds out what a program should do. The inner error says why it cannot tell right from
    /// wrong.
    pub(super) fn oracle(
        &mut self,
        subject: &Subject,
    ) -> Result<Result<Oracle, String>, SemanticsError> {
        if let Err(why) = self.player.play(subject, &[])? {
            return Ok(Err(why));
        }
        let settings = Settings { run_limit: EXPECTED_RUN_MAX, ..settings(subject) };
        let code = match self.code(&subject.execution)? {
            Ok(code) => code,
            Err(why) => return Ok(Err(why)),
        };
        let [first, second] = match self.run_apart(&subject.execution, &code, &settings) {
            Ok(Ok(runs)) => runs,
            Ok(Err(why)) => return Ok(Err(format!("it cannot be built: {why}"))),
            // It was never there; if it goes later, the machine is at fault.
            Err(SemanticsError::Machine(error @ ExecutionError::MissingInput { .. })) => {
                return Ok(Err(format!("it cannot be built: {error}")));
            }
            Err(error) => return Err(error),
        };
        let in_vain = self.in_vain(&subject.execution, &code, &settings, first.behaviour.end)?;
        if !first.behaviour.end.tells_right_from_wrong() {
            let end = first.behaviour.end.to_string();
            return Ok(Err(format!("untouched, {}", in_vain.unwrap_or(end))));
        }
        if let Some(difference) = Difference::between(&first.behaviour, &second.behaviour) {
            let what = difference.line();
            return Ok(Err(format!("it does not do the same whenever it runs: {what}")));
        }
        let mut oracle = Oracle {
            expected: first.behaviour,
            run_time: first.wall_time.max(second.wall_time),
            is_address_clean: false,
            undefined: None,
            unavailable: Vec::new(),
            in_vain: in_vain.map(|end| format!("untouched, {end}")),
        };
        if self.sanitizes {
            self.sanitize_untouched(subject, &mut oracle)?;
        }
        Ok(Ok(oracle))
    }

    /// Looks for undefined behaviour of the program itself.
    fn sanitize_untouched(
        &mut self,
        subject: &Subject,
        oracle: &mut Oracle,
    ) -> Result<(), SemanticsError> {
        let object = self.player.bytes(OBJECT)?.unwrap_or_default();
        let mut sanitizers = vec![Sanitizer::Address, Sanitizer::Memory];
        if has_threads(&object) {
            sanitizers.push(Sanitizer::Thread);
        }
        if subject.source.is_some() {
            sanitizers.push(Sanitizer::UndefinedBehaviour);
        }
        for sanitizer in sanitizers {
            if let Some(why) = sanitizer.is_misled(&subject.execution, &object) {
                oracle.unavailable.push(format!("{}: {why}", sanitizer.name()));
                continue;
            }
            let ran = if sanitizer.space().is_some() {
                self.instrumented(subject, oracle, sanitizer)?
            } else {
                let source = subject.source.as_deref().unwrap_or_default();
                self.built(subject, oracle, sanitizer, source.as_bytes())?
            };
            if let Some(ran) = ran {
                oracle.note_untouched(sanitizer, &ran);
            }
        }
        Ok(())
    }

    /// Runs the program where the player is with a sanitizer. `None` if it cannot have one.
    fn instrumented(
        &mut self,
        subject: &Subject,
        oracle: &Oracle,
        sanitizer: Sanitizer,
    ) -> Result<Option<Ran>, SemanticsError> {
        if sanitizer.execution(&subject.execution).is_none() {
            return Ok(None);
        }
        match self.player.bytes(sanitizer.space().unwrap_or(OBJECT))? {
            Ok(object) => self.built(subject, oracle, sanitizer, &object),
            Err(why) => Ok(Some(Err(why))),
        }
    }

    /// Builds a program with a sanitizer, and runs it.
    fn built(
        &self,
        subject: &Subject,
        oracle: &Oracle,
        sanitizer: Sanitizer,
        program: &[u8],
    ) -> Result<Option<Ran>, SemanticsError> {
        let Some(execution) = sanitizer.execution(&subject.execution) else { return Ok(None) };
        let settings = Settings {
            run_limit: oracle.run_limit() * SANITIZER_FACTOR,
            // A sanitizer reserves terabytes, and finds its own memory by this file system. Of
            // other processes, the walls hide all but their names.
            memory_bytes: None,
            reads: vec![PathBuf::from("/proc")],
            ..settings(subject)
        };
        self.run(&execution, program, &settings).map(Some)
    }

    /// Says how the program behaves otherwise after these actions; `None` if it does not. The inner
    /// error says why the compiler did not come there.
    pub(super) fn after(
        &mut self,
        subject: &Subject,
        oracle: &Oracle,
        actions: &[ActionIndex],
    ) -> Result<Result<Option<Difference>, String>, SemanticsError> {
        match self.player.play(subject, actions)? {
            Ok(_) => self.here(subject, oracle).map(Ok),
            Err(why) => Ok(Err(why)),
        }
    }

    /// Says why a difference that was seen where the player is may not be the compiler's doing: it
    /// does not show in a second run, or not in one of what a new session makes of the actions, or
    /// the `untouched` program has changed too.
    pub(super) fn doubt(
        &mut self,
        subject: &Subject,
        untouched: &Subject,
        oracle: &Oracle,
        actions: &[ActionIndex],
        seen: &Difference,
    ) -> Result<Option<String>, SemanticsError> {
        let once = || format!("seen once, and not when tried again: {}", seen.line());
        if self.here(subject, oracle)?.is_none() {
            return Ok(Some(once()));
        }
        self.player.renew();
        match self.after(subject, oracle, actions)? {
            Ok(Some(_)) => self.doubt_of_all(untouched, oracle),
            Ok(None) => Ok(Some(once())),
            Err(why) => Ok(Some(why)),
        }
    }

    /// Says how the untouched program, in a new session, behaves otherwise than it did. Then
    /// something else than the actions changes it.
    pub(super) fn doubt_of_all(
        &mut self,
        subject: &Subject,
        oracle: &Oracle,
    ) -> Result<Option<String>, SemanticsError> {
        self.player.renew();
        let said = |difference: Difference| {
            format!("the untouched program differs as well now: {}", difference.line())
        };
        Ok(match self.after(subject, oracle, &[])? {
            Ok(difference) => difference.map(said),
            Err(why) => Some(why),
        })
    }

    /// Says how the program behaves otherwise where the player is.
    pub(super) fn here(
        &mut self,
        subject: &Subject,
        oracle: &Oracle,
    ) -> Result<Option<Difference>, SemanticsError> {
        self.unsanitized = None;
        let not_built = |why: &str| Some(Difference::of_texts(DifferenceKind::Build, "", why));
        let code = match self.code(&subject.execution)? {
            Ok(code) => code,
            Err(why) => return Ok(not_built(&why)),
        };
        let settings = Settings { run_limit: oracle.run_limit(), ..settings(subject) };
        let run = match self.run(&subject.execution, &code, &settings)? {
            Ok(run) => run,
            Err(why) => return Ok(not_built(&why)),
        };
        if let Some(difference) = Difference::between(&oracle.expected, &run.behaviour) {
            return Ok(Some(difference));
        }
        if !oracle.is_address_clean {
            return Ok(None);
        }
        let sanitizer = Sanitizer::Address;
        let run = match self.instrumented(subject, oracle, sanitizer)? {
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
        let otherwise = Difference::between(&oracle.expected, &run.behaviour);
        self.unsanitized = otherwise.map(|difference| difference.line());
        Ok(None)
    }

    /// The code that the program's build wants, of where the player is.
    fn code(&mut self, execution: &Execution) -> Result<Result<Vec<u8>, String>, SemanticsError> {
        match execution.build {
            Build::Link { .. } => self.player.bytes(OBJECT),
            Build::Command(_) => self.player.serialised(),
        }
    }

    /// Builds a program in two folders and runs it in each, in different seconds, so that what
    /// depends on the folder or the time is not the same.
    fn run_apart(
        &self,
        execution: &Execution,
        code: &[u8],
        settings: &Settings,
    ) -> Result<Result<[Run; 2], String>, SemanticsError> {
        let first = match self.run(execution, code, settings)? {
            Ok(run) => run,
            Err(why) => return Ok(Err(why)),
        };
        first.let_a_second_pass();
        Ok(self.run(execution, code, settings)?.map(|second| [first, second]))
    }

    /// Builds a program and runs it. The inner error says why it cannot be built or begun.
    fn run(
        &self,
        execution: &Execution,
        code: &[u8],
        settings: &Settings,
    ) -> Result<Ran, SemanticsError> {
        demand_going_on(&self.interrupt)?;
        let built = match Executable::build(execution, code_of(execution, code), settings) {
            Ok(built) => built,
            Err(error) => return of_the_program(error).map(Err),
        };
        demand_going_on(&self.interrupt)?;
        match built.run(&[]) {
            Ok(run) => Ok(Ok(run)),
            Err(error) => of_the_program(error).map(Err),
        }
    }

    /// Says how a program ended that ended with an error, if it had failed to open files.
    fn in_vain(
        &self,
        execution: &Execution,
        code: &[u8],
        settings: &Settings,
        end: End,
    ) -> Result<Option<String>, SemanticsError> {
        if !end.is_error() {
            return Ok(None);
        }
        demand_going_on(&self.interrupt)?;
        let built = Executable::build(execution, code_of(execution, code), settings);
        let unopened = built.ok().and_then(|built| built.unopened());
        Ok(unopened.map(|unopened| format!("{end}; {unopened}")))
    }
}

/// Stops if whoever waits has given up.
pub(super) fn demand_going_on(interrupt: &Interrupt) -> Result<(), SemanticsError> {
    if interrupt.is_raised() { Err(SessionError::Interrupted.into()) } else { Ok(()) }
}

/// What an executable is made of.
fn code_of<'a>(execution: &Execution, code: &'a [u8]) -> Code<'a> {
    match execution.build {
        Build::Link { .. } => Code::Object(code),
        Build::Command(_) => Code::Program(code),
    }
}

impl Oracle {
    /// Takes down what a sanitizer found in the first state.
    fn note_untouched(&mut self, sanitizer: Sanitizer, ran: &Ran) {
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
        } else if let Some(difference) = Difference::between(&self.expected, &run.behaviour) {
            self.unavailable.push(format!(
                "{name}: under it, the untouched program behaves otherwise: {}",
                difference.line()
            ));
        } else if sanitizer == Sanitizer::Address {
            self.is_address_clean = true;
        }
    }

    /// What limits what it tells, one line each.
    pub(super) fn remarks(&self) -> impl Iterator<Item = &String> {
        self.in_vain.iter().chain(&self.unavailable)
    }

    fn run_limit(&self) -> Duration {
        RUN_MIN.max(self.run_time * RUN_FACTOR)
    }
}

fn settings(subject: &Subject) -> Settings {
    Settings { inputs: subject.inputs.clone(), ..Settings::default() }
}

/// Tells what is wrong with a program from what is wrong with this machine. A missing input is the
/// machine's fault: the oracle had it.
fn of_the_program(error: ExecutionError) -> Result<String, SemanticsError> {
    match error {
        ExecutionError::ToolMissing { .. }
        | ExecutionError::NotSetUp { .. }
        | ExecutionError::MissingInput { .. }
        | ExecutionError::Machine(_) => Err(SemanticsError::Machine(error)),
        other => Ok(other.to_string()),
    }
}
