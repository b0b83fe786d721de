//! Runs of one program: what it should do, and how long it takes to do that.

use std::time::Duration;

use crate::execution::{Behaviour, Code, Executable, ExecutionError, Settings};
use crate::model::{Build, Execution, Linker};

/// How machine code is made of a state that is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeGeneration {
    /// As `clang -O0` does, which adds no optimisation of its own to the passes of the state.
    O0,
    /// As `clang -O3` does.
    O3,
}

impl CodeGeneration {
    /// Returns the observation space of such object files.
    pub fn object_space(self) -> &'static str {
        match self {
            Self::O0 => "Object",
            Self::O3 => "ObjectCodegenO3",
        }
    }

    /// Returns how a text for the column `compilation` begins that names it.
    pub fn words(self) -> &'static str {
        match self {
            Self::O0 => "code generation of clang -O0; ",
            Self::O3 => "code generation of clang -O3; ",
        }
    }
}

/// Why a run has no time that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untimed {
    /// What was wrong, one line.
    pub what: String,
    /// Whether the program does something else than it should, also when it runs again.
    pub is_wrong: bool,
}

impl From<ExecutionError> for Untimed {
    fn from(error: ExecutionError) -> Self {
        Self { what: error.to_string(), is_wrong: false }
    }
}

/// Builds a program of its code: an object file, or the program itself for a build command.
///
/// # Errors
///
/// Those of [`Executable::build`].
pub fn build(
    execution: &Execution,
    code: &[u8],
    settings: &Settings,
) -> Result<Executable, ExecutionError> {
    let code = match execution.build {
        Build::Link { .. } => Code::Object(code),
        Build::Command(_) => Code::Program(code),
    };
    Executable::build(execution, code, settings)
}

/// Returns what a program should do: what `first` does, which is made of `code`, the program in its
/// first state. It is run in two folders and in different seconds: what depends on either is not
/// the same. It may end with any exit code, and has to do so by itself.
///
/// # Errors
///
/// Why that does not tell right from wrong, in one line.
pub fn expected(
    execution: &Execution,
    code: &[u8],
    settings: &Settings,
    first: &Executable,
) -> Result<Behaviour, String> {
    let run = first.run(&[]).map_err(|error| error.to_string())?;
    let end = run.behaviour.end;
    // A time of a program that did not get what it reads says nothing.
    if !end.tells_right_from_wrong() || (end.is_error() && first.unopened().is_some()) {
        return Err(format!("in its first state, {}", first.run_failed(&run)));
    }
    run.let_a_second_pass();
    let again = build(execution, code, settings);
    let again = again.and_then(|again| again.run(&[])).map_err(|error| error.to_string())?;
    match difference(&run.behaviour, &again.behaviour) {
        None => Ok(run.behaviour),
        Some(what) => Err(not_the_same(&what)),
    }
}

/// Runs a program once and returns the wall time, if it does what is expected.
///
/// # Errors
///
/// Why there is none. A wrong result is confirmed by a second run.
pub fn time(executable: &Executable, expected: &Behaviour) -> Result<Duration, Untimed> {
    let what = match time_once(executable, expected)? {
        Ok(time) => return Ok(time),
        Err(what) => what,
    };
    let is_wrong = time_once(executable, expected)?.is_err();
    let once = if is_wrong { "" } else { "seen once, and not when it ran again: " };
    Err(Untimed { what: format!("{once}{what}"), is_wrong })
}

/// Runs a program once and returns the wall time, or what it does otherwise than expected.
pub(super) fn time_once(
    executable: &Executable,
    expected: &Behaviour,
) -> Result<Result<Duration, String>, ExecutionError> {
    let run = executable.run(&[])?;
    Ok(difference(expected, &run.behaviour).map_or(Ok(run.wall_time), Err))
}

/// How machine code is made of a state and what is run, for the column `compilation`: in words, and
/// as a digest of the whole execution. `tool` is the version of the linker, or of the compiler that
/// a build command is given.
pub fn compilation(execution: &Execution, generation: CodeGeneration, tool: &str) -> String {
    let how = match &execution.build {
        Build::Link { linker, arguments } => {
            let linker = match linker {
                Linker::C => "cc",
                Linker::Cxx => "c++",
            };
            let line = format!("{linker} program.o {}", arguments.join(" "));
            format!("{}{}", generation.words(), line.trim_end())
        }
        Build::Command(command) => command.line(),
    };
    let digest = blake3::hash(execution.to_json().as_bytes()).to_hex();
    format!("{how}; {tool}; execution {}", &digest[..16])
}

/// Says that a program does not do the same whenever it runs.
pub(super) fn not_the_same(what: &str) -> String {
    format!("it does not do the same whenever it runs: {what}")
}

/// What differs between two behaviours, in one line.
fn difference(expected: &Behaviour, found: &Behaviour) -> Option<String> {
    if expected.end != found.end {
        return Some(format!("in its first state {}, and in this one {}", expected.end, found.end));
    }
    if expected.stdout != found.stdout {
        let pairs = expected.stdout.iter().zip(&found.stdout);
        let place = pairs.take_while(|(one, other)| one == other).count();
        return Some(format!("its output differs from that of its first state at byte {place}"));
    }
    let differs = expected.files.iter().find(|(name, file)| found.files.get(*name) != Some(*file));
    differs.map(|(name, _)| format!("its file `{name}` differs from that of its first state"))
}
