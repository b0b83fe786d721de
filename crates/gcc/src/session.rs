//! A live session: arithmetic on choices, and a compiler that is asked when somebody looks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::context::GccContext;
use super::outputs::{CompilerOutput, CompilerResult, ObjectFacts, OutputId};
use super::sections::text_size;
use super::spaces::{Observation, SizeCost};
use super::state::{GccState, OptionChoices};
use super::workplace::{CompileFault, Workplace};
use steplake_env::{Session, SessionError, Start, Started, action, action_space, unknown_space};
use steplake_model::{
    ActionIndex, Baselines, Failure, FailureKind, ObservationIndex, Outcome, StateId, Step, Value,
};
use steplake_programs::datasets::reading_directive_in_assembly;

/// The names of files in the command line that is shown, as CompilerGym shows them. The compiler
/// gets preprocessed C under another name.
const SHOWN_FILES: &str = "-w -c src.c -o obj.o";

pub(super) struct GccSession {
    context: Arc<GccContext>,
    workplace: Workplace,
    episode: Option<GccEpisode>,
}

#[derive(Debug, Clone)]
struct GccEpisode {
    state: GccState,
    id: StateId,
    baselines: Baselines,
}

impl GccSession {
    pub(super) fn new(context: Arc<GccContext>) -> Self {
        let workplace = Workplace::new(Arc::clone(&context.compiler), context.config.clone());
        Self { context, workplace, episode: None }
    }

    fn episode(&self) -> Result<&GccEpisode, SessionError> {
        self.episode.as_ref().ok_or(SessionError::NoEpisode)
    }

    /// Returns the output of a state, be it without its assembly.
    fn output(
        &mut self,
        state: &GccState,
        id: StateId,
    ) -> Result<(OutputId, CompilerOutput), SessionError> {
        match self.context.outputs.of_state(id) {
            Some(known) => known.map_err(SessionError::Unobservable),
            None => self.compile(state, id),
        }
    }

    /// Returns the name of a state's output, and the assembly.
    fn compiled(
        &mut self,
        state: &GccState,
        id: StateId,
    ) -> Result<(OutputId, Arc<[u8]>), SessionError> {
        let (mut found, mut output) = self.output(state, id)?;
        if output.assembly.is_none() {
            (found, output) = self.compile(state, id)?;
        }
        let lost = || SessionError::Defect("the assembly of an output is lost".to_owned());
        Ok((found, output.assembly.ok_or_else(lost)?))
    }

    fn compile(
        &mut self,
        state: &GccState,
        id: StateId,
    ) -> Result<(OutputId, CompilerOutput), SessionError> {
        let words = state.choices.words(&self.context.compiler.options);
        let made = answer(self.workplace.assembly(&state.source, &words))?;
        match made.and_then(without_files) {
            Ok(assembly) => Ok(self.context.outputs.note(id, assembly)),
            Err(failure) => {
                self.context.outputs.note_failure(id, failure.clone());
                Err(SessionError::Unobservable(failure))
            }
        }
    }

    /// Returns the bytes of the object file, and what is kept of it.
    fn assembled(
        &mut self,
        state: &GccState,
        id: StateId,
    ) -> Result<(Vec<u8>, ObjectFacts), SessionError> {
        let (id, assembly) = self.compiled(state, id)?;
        let made = answer(self.workplace.object(&state.source, &assembly))?;
        let made = made.and_then(|bytes| {
            let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
            let text = text_size(&bytes).ok_or_else(no_object)?;
            let object = ObjectFacts { bytes: length, text, md5: md5(&bytes) };
            Ok((bytes, object))
        });
        let object = made.as_ref().map(|(_, object)| object.clone()).map_err(Clone::clone);
        self.context.outputs.note_object(id, object);
        made.map_err(SessionError::Unobservable)
    }

    /// Returns what is known of the object file, which is made for new outputs alone.
    fn object(&mut self, state: &GccState, id: StateId) -> Result<ObjectFacts, SessionError> {
        let (_, output) = self.output(state, id)?;
        match output.object {
            Some(known) => known.map_err(SessionError::Unobservable),
            None => Ok(self.assembled(state, id)?.1),
        }
    }

    fn cost(&mut self, state: &GccState, id: StateId, cost: SizeCost) -> Result<i64, SessionError> {
        match cost {
            SizeCost::Assembly => Ok(self.output(state, id)?.1.bytes),
            SizeCost::Object => Ok(self.object(state, id)?.bytes),
            SizeCost::Text => Ok(self.object(state, id)?.text),
        }
    }

    /// Returns a cost of the program with one option alone.
    fn baseline(&mut self, cost: SizeCost, level: &str) -> Result<i64, SessionError> {
        let options = &self.context.compiler.options;
        let choices = OptionChoices::parse(options, level).map_err(SessionError::Defect)?;
        let source = Arc::clone(&self.episode()?.state.source);
        let state = GccState { source, choices };
        let id = state.identify(&self.context.compiler.options);
        self.cost(&state, id, cost)
    }

    fn command_line(&self, state: &GccState) -> String {
        let words = state.choices.words(&self.context.compiler.options).join(" ");
        let blank = if words.is_empty() { "" } else { " " };
        format!("gcc-{}{blank}{words} {SHOWN_FILES}", self.context.compiler.major)
    }
}

/// Refuses assembly that takes in a file when it is assembled: what it becomes would depend on the
/// machine, and hold what the machine has. The options decide which assembler text is there.
fn without_files(assembly: Vec<u8>) -> CompilerResult<Vec<u8>> {
    match reading_directive_in_assembly(&assembly) {
        None => Ok(assembly),
        Some(directive) => Err(Failure {
            kind: FailureKind::Assembler,
            detail: format!(
                "its assembler text has `{directive}` in it, by which it could take in any file"
            ),
        }),
    }
}

/// Tells what the compiler answers from what is no answer.
pub(super) fn answer<T>(made: Result<T, CompileFault>) -> Result<CompilerResult<T>, SessionError> {
    match made {
        Ok(made) => Ok(Ok(made)),
        Err(CompileFault::Compiler(failure)) => Ok(Err(failure)),
        Err(CompileFault::Session(error)) => Err(error),
    }
}

fn no_object() -> Failure {
    let detail = "what it wrote is no ELF object".to_owned();
    Failure { kind: FailureKind::Assembler, detail }
}

fn text(bytes: &[u8]) -> Value {
    Value::Text(String::from_utf8_lossy(bytes).into_owned())
}

/// Returns the MD5 of bytes in hexadecimal digits, as CompilerGym's hashes of outputs are.
fn md5(bytes: &[u8]) -> String {
    use md5::{Digest as _, Md5};
    let digits = Md5::digest(bytes).into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// Counts the lines of assembly by their first word, directives as well, and returns the counts as
/// JSON. Labels are not indented, and do not count.
fn instruction_counts(assembly: &[u8]) -> String {
    let mut counts = BTreeMap::<&str, u64>::new();
    let assembly = String::from_utf8_lossy(assembly);
    for line in assembly.lines().filter_map(|line| line.strip_prefix('\t')) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
        let end = line.find(|c| !is_part(c)).unwrap_or(line.len());
        if end > 0 {
            *counts.entry(&line[..end]).or_default() += 1;
        }
    }
    serde_json::to_string(&counts).expect("names and numbers serialise")
}

impl Session for GccSession {
    fn start(&mut self, start: &Start<'_>) -> Result<Started, SessionError> {
        self.episode = None;
        action_space(&self.context.spec, start.action_space)?;
        let options = &self.context.compiler.options;
        let state = GccState::parse(options, &start.benchmark.program).map_err(|detail| {
            SessionError::BadProgram { uri: start.benchmark.uri.to_string(), detail }
        })?;
        let id = state.identify(options);
        let baselines = start.baselines.cloned().unwrap_or_default();
        self.episode = Some(GccEpisode { state, id, baselines: baselines.clone() });
        Ok(Started { state: id, baselines })
    }

    fn apply(&mut self, index: ActionIndex) -> Result<Step, SessionError> {
        let episode = self.episode.as_mut().ok_or(SessionError::NoEpisode)?;
        action(&self.context.spec.action_spaces[0], index)?;
        let action = self.context.actions[index.place()];
        let options = &self.context.compiler.options;
        let choice = &mut episode.state.choices.0[action.option];
        let next = action.of(*choice, options.list()[action.option].last_choice());
        let changed = std::mem::replace(choice, next) != next;
        if changed {
            episode.id = episode.state.identify(options);
        }
        Ok(Step {
            outcome: Outcome::State {
                id: episode.id,
                changed,
                end_of_episode: false,
                action_space_changed: false,
            },
            // All rewards are on request.
            rewards: vec![f64::NAN; self.context.spec.reward_spaces.len()].into(),
            wall_time: Duration::ZERO,
        })
    }

    fn observe(&mut self, space: ObservationIndex) -> Result<Value, SessionError> {
        let GccEpisode { state, id, baselines } = self.episode()?.clone();
        let observation = self.context.observations.get(usize::from(space.0)).cloned();
        let name = self.context.spec.observation_space(space).map_or("?", |space| &space.name);
        let observation = observation.ok_or_else(|| unknown_space(&self.context.spec, name))?;
        let options = &self.context.compiler.options;
        Ok(match observation {
            Observation::Source => text(&state.source.text),
            Observation::Choices => Value::IntVector(state.choices.0.clone()),
            Observation::State => Value::Bytes(state.serialise(options)),
            Observation::CommandLine => Value::Text(self.command_line(&state)),
            Observation::Rtl => {
                let words = state.choices.words(options);
                let made = answer(self.workplace.rtl(&state.source, &words))?;
                text(&made.map_err(SessionError::Unobservable)?)
            }
            Observation::Assembly => text(&self.compiled(&state, id)?.1),
            Observation::AssemblyHash => Value::Text(md5(&self.compiled(&state, id)?.1)),
            Observation::InstructionCounts => {
                Value::Text(instruction_counts(&self.compiled(&state, id)?.1))
            }
            Observation::Object => Value::Bytes(self.assembled(&state, id)?.0),
            Observation::ObjectHash => Value::Text(self.object(&state, id)?.md5),
            Observation::Size(cost) => Value::Int(self.cost(&state, id, cost)?),
            Observation::Baseline(cost, level) => match baselines.get(name) {
                Some(known) => Value::Int(known),
                None => Value::Int(self.baseline(cost, &level)?),
            },
        })
    }

    fn identify(&mut self, state: &[u8]) -> Result<StateId, SessionError> {
        let options = &self.context.compiler.options;
        let state = GccState::parse(options, state).map_err(|detail| SessionError::BadProgram {
            uri: "a stored state".to_owned(),
            detail,
        })?;
        Ok(state.identify(options))
    }

    fn fork(&mut self) -> Result<Box<dyn Session>, SessionError> {
        let episode = self.episode()?.clone();
        let mut fork = Self::new(Arc::clone(&self.context));
        fork.episode = Some(episode);
        Ok(Box::new(fork))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_and_directives_are_counted_by_name() {
        let assembly = b"\t.file\t\"a.c\"\n\t.text\nf:\n.L1:\n\tmovl\t$1, %eax\n\tret\n\tret\n\t\n";
        let counts = r#"{".file":1,".text":1,"movl":1,"ret":2}"#;
        assert_eq!(instruction_counts(assembly), counts);
        assert_eq!(md5(b""), "d41d8cd98f00b204e9800998ecf8427e");
    }
}
