//! Command lines of a compiler, run on the source: what whoever copies a row from a table gets.
//!
//! A session compiles a program that was preprocessed once. Some choices work on that alone, and
//! some make objects that a plain linker refuses.

use std::time::Duration;

use super::play::{PlayResult, TaskProgram};
use super::{ProgramOracle, Referee};
use crate::env::gcc;
use crate::execution::{
    Executable, ExecutableCode as MachineCode, ExecutionError, Oracle, RunSettings,
};
use crate::model::as_f64;
use crate::model::line;
use crate::sandbox::Interrupt;
use crate::{Error, ErrorKind};

/// The most wall time of a run: the programs of tasks take less than a second, and what choices
/// make of them may never end.
const RUN_MAX: Duration = Duration::from_mins(1);

/// The name of a source that does not say it.
const UNNAMED: &str = "program.c";

/// Precedes the name of the source's file in a preprocessed program.
const MARKER: &[u8] = b"# 1 \"";

impl Referee {
    /// Has the compiler make an object of the source of a program with these choices, and links
    /// it if it is known how. Returns the executable; none if it cannot be had for reasons that
    /// say nothing about the choices. The inner error says why the choices are refused.
    pub(super) fn linked(
        &self,
        subject: &TaskProgram,
        choices: &[i32],
    ) -> Result<Result<Option<FromSource>, String>, Error> {
        let (Some(all), Some(source)) = (self.player.environment.choices(), &subject.source) else {
            return Ok(Ok(None));
        };
        let name = file_name(&subject.benchmark.program);
        let object = match all.object_of_source(&name, source, choices)? {
            Ok(object) => object,
            Err(failure) => {
                return Ok(Err(format!("its command line fails on the source: {failure}")));
            }
        };
        let executable = match &subject.benchmark.execution {
            None => None,
            Some(execution) => {
                let code = MachineCode::of(&execution.build, &object);
                match Executable::build(execution, code, &settings()) {
                    Ok(executable) => Some(executable),
                    Err(ExecutionError::BuildFailed { detail }) => {
                        return Ok(Err(format!(
                            "what its command line makes of the source cannot be linked: {detail}"
                        )));
                    }
                    Err(error) => return Err(Error::new(ErrorKind::Failed, line(&error))),
                }
            }
        };
        Ok(Ok(Some(FromSource { object, executable })))
    }

    /// Checks choices of which a row says that they cost so much: they make an object of the same
    /// size of the source, and a program that does what it does without options. Returns whether
    /// it was run. The inner error says why the choices are refused.
    pub(super) fn holds_from_source(
        &self,
        subject: &TaskProgram,
        choices: &[i32],
        played: PlayResult,
        known: &mut Option<ProgramOracle>,
    ) -> Result<Result<bool, String>, Error> {
        let made = match self.linked(subject, choices)? {
            Ok(Some(made)) => made,
            Ok(None) => return Ok(Ok(false)),
            Err(why) => return Ok(Err(why)),
        };
        let bytes = match &*self.player.reward.cost {
            gcc::OBJECT_SIZE => i64::try_from(made.object.len()).ok(),
            gcc::TEXT_SIZE => gcc::text_size(&made.object),
            _ => None,
        };
        let cost = played.cost;
        if let Some(bytes) = bytes.filter(|&bytes| (as_f64(bytes) - cost).abs() > 0.5) {
            return Ok(Err(format!(
                "its command line makes {bytes} bytes of the source, and {cost} of what is \
                 preprocessed"
            )));
        }
        if known.is_none() {
            *known = Some(self.oracle(subject, choices.len())?);
        }
        let (Some(Some(oracle)), Some(executable)) = (&known, &made.executable) else {
            return Ok(Ok(false));
        };
        match oracle.time(executable) {
            Ok(_) => Ok(Ok(true)),
            Err(untimed) if untimed.is_wrong => {
                let what = untimed.what;
                Ok(Err(format!(
                    "its command line makes a program that does something else: {what}"
                )))
            }
            Err(_unsure) => Ok(Ok(false)),
        }
    }

    /// Returns what the program does that the compiler makes without options.
    fn oracle(&self, subject: &TaskProgram, options: usize) -> Result<ProgramOracle, Error> {
        let untouched = vec![-1; options];
        let made = self.linked(subject, &untouched)?;
        let (Some(execution), Ok(Some(made))) = (&subject.benchmark.execution, made) else {
            return Ok(None);
        };
        let oracle = Oracle::of(execution, &made.object, &settings(), &Interrupt::default());
        Ok(oracle.and_then(Oracle::for_times).ok())
    }
}

/// What a command line makes of a source.
pub(super) struct FromSource {
    object: Vec<u8>,
    executable: Option<Executable>,
}

fn settings() -> RunSettings {
    RunSettings { run_limit: RUN_MAX, ..RunSettings::default() }
}

/// Returns the name of the source's file: it is part of the object.
fn file_name(program: &[u8]) -> String {
    let name = program.strip_prefix(MARKER).and_then(|rest| {
        let end = rest.iter().position(|&byte| byte == b'"')?;
        str::from_utf8(&rest[..end]).ok()
    });
    let is_c = |name: &str| name.rsplit_once('.').is_some_and(|(_, ending)| ending == "c");
    let is_plain = |name: &&str| is_c(name) && !name.contains(['/', '\\']);
    name.filter(is_plain).unwrap_or(UNNAMED).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_called_as_its_program_says() {
        assert_eq!(file_name(b"# 1 \"huffman.c\"\nint x;\n"), "huffman.c");
        for other in [&b"int x;\n"[..], b"# 1 \"a/b.c\"\n", b"# 1 \"a.i\"\n", b"# 1 \"a.c"] {
            assert_eq!(file_name(other), UNNAMED, "{}", String::from_utf8_lossy(other));
        }
    }
}
