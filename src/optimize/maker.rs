//! The commands that make results of the program. The report prints them, and what they make is
//! the result: a state of the lake may differ from it, since `opt` keeps between two passes what a
//! state forgets, such as the order in which the uses of a value are listed.

use std::path::Path;
use std::sync::Arc;

use super::goal::{Goal, LlvmPipeline};
use crate::datasets::{compiled_at, demand_llvm_tools, llvm_commands};
use crate::model::{Benchmark, BenchmarkUri, opt_command};
use crate::{Error, ErrorKind};

/// The files that commands name.
const BITCODE_IN: &str = "input.bc";
const TEXT_IN: &str = "input.ll";
const BITCODE_OUT: &str = "output.bc";
const OBJECT_OUT: &str = "output.o";

/// What takes the mark off functions that clang makes at `-O0`: `opt` leaves marked ones alone.
const UNMARK: &str = "opt-22 -passes=forceattrs -force-remove-attribute=optnone";

/// Makes results of one program.
pub(super) struct Maker {
    goal: Goal,
    /// The file of C or C++ of which the program is compiled, with its flags, if it is.
    source: Option<BenchmarkUri>,
    /// The command that makes the input of `opt`, whose name and content follow.
    making: String,
    input_name: &'static str,
    input: Vec<u8>,
}

/// A result.
#[derive(Debug, Clone)]
pub(super) struct CompiledProgram {
    pub(super) bitcode: Arc<[u8]>,
    /// The commands that make the bitcode.
    commands: Vec<String>,
    /// The object and its command, if it is not made of the bitcode.
    object: Option<(Vec<u8>, String)>,
}

/// What a user cannot make again.
type Unmade = String;

impl Maker {
    /// A maker for a program whose IR is `text`. `source` is the file of C or C++ of which it is
    /// compiled, if it is.
    ///
    /// # Errors
    ///
    /// If LLVM's tools are not installed, or cannot be run.
    pub(super) fn new(
        goal: Goal,
        benchmark: &Benchmark,
        text: String,
        source: Option<BenchmarkUri>,
    ) -> Result<Self, Error> {
        demand_llvm_tools()?;
        let is_optnone = is_optnone(&text);
        let (origin, input_name, input) = if let Some(uri) = &source {
            let command = format!("{} -o -", benchmark.provenance.compile_command);
            (in_folder_of(uri, &command), BITCODE_IN, benchmark.program.to_vec())
        } else {
            let uri = shell_words::quote(benchmark.uri.as_str());
            (format!("steplake replay {uri} --ir"), TEXT_IN, text.into_bytes())
        };
        if !is_optnone {
            let making = format!("{origin} >{input_name}");
            return Ok(Self { goal, source, making, input_name, input });
        }
        let making = format!("{origin} | {UNMARK} -o {BITCODE_IN}");
        let unmark = [format!("{UNMARK} <{input_name} -o unmarked.bc")];
        let unmarked = llvm_commands(&unmark, &[(input_name, &input)], "unmarked.bc")?;
        let input = unmarked.map_err(|why| failed("opt-22", &why))?;
        Ok(Self { goal, source, making, input_name: BITCODE_IN, input })
    }

    /// Whether functions of the program were marked as those of `clang -O0`, which the commands
    /// take off.
    pub(super) fn is_unmarked(&self) -> bool {
        self.making.contains(UNMARK)
    }

    /// Makes what these pipelines make of the program. The inner error says why `opt` does not.
    pub(super) fn sequence<'a>(
        &self,
        pipelines: impl Iterator<Item = &'a str>,
    ) -> Result<Result<CompiledProgram, Unmade>, Error> {
        let calls = opt_command(pipelines.filter(|text| !text.is_empty()));
        let calls = calls.split(" | ").map(|call| call.replacen("opt", "opt-22", 1));
        let calls = calls.collect::<Vec<_>>().join(" | ");
        let command = calls.replacen(BITCODE_IN, self.input_name, 1);
        let given: [(&str, &[u8]); 1] = [(self.input_name, &self.input)];
        let made = llvm_commands(std::slice::from_ref(&command), &given, BITCODE_OUT)?;
        Ok(made.map(|bitcode| CompiledProgram {
            bitcode: bitcode.into(),
            commands: vec![self.making.clone(), command],
            object: None,
        }))
    }

    /// Makes what a pipeline of LLVM's own makes: of a file of C or C++, what clang itself does.
    pub(super) fn level(&self, level: LlvmPipeline) -> Result<CompiledProgram, Error> {
        let name = level.name();
        let Some(uri) = &self.source else {
            let pipeline = format!("default<{}>", name.trim_start_matches('-'));
            let made = self.sequence([pipeline.as_str()].into_iter())?;
            return made.map_err(|why| failed(&format!("opt-22 on {name}"), &why));
        };
        let by_clang = compiled_at(name, uri)?;
        let by_clang = by_clang.ok_or_else(|| failed("clang-22", "the file is no source"))?;
        let command =
            |of: &str, to: &str| format!("{} >{to}", in_folder_of(uri, &format!("{of} -o -")));
        let object = command(&by_clang.object_command, OBJECT_OUT);
        Ok(CompiledProgram {
            commands: vec![command(&by_clang.bitcode_command, BITCODE_OUT)],
            bitcode: by_clang.bitcode.into(),
            object: Some((by_clang.object, object)),
        })
    }

    /// Makes the object file of a result. The inner error says why there is none.
    pub(super) fn object(&self, made: &CompiledProgram) -> Result<Result<Vec<u8>, Unmade>, Error> {
        if let Some((object, _)) = &made.object {
            return Ok(Ok(object.clone()));
        }
        let given: [(&str, &[u8]); 1] = [(BITCODE_OUT, &made.bitcode)];
        Ok(llvm_commands(&[self.object_command()], &given, OBJECT_OUT)?)
    }

    /// Returns the commands that make a result, its object file last.
    pub(super) fn commands(&self, made: &CompiledProgram) -> Vec<String> {
        let object = made.object.as_ref().map(|(_, command)| command.clone());
        let object = object.unwrap_or_else(|| self.object_command());
        made.commands.iter().cloned().chain([object]).collect()
    }

    /// Returns the command that makes machine code of bitcode, as the observation space of the goal
    /// has it: first what clang runs at `-O0` too, then its code generation.
    fn object_command(&self) -> String {
        let (passes, level) = match self.goal {
            Goal::Ir | Goal::Size => (
                "-passes='default<O0>,forceattrs' -force-attribute=optsize \
                 -force-attribute=minsize",
                "-O2",
            ),
            Goal::Runtime => ("-passes='default<O0>'", "-O3"),
        };
        format!(
            "opt-22 {passes} {BITCODE_OUT} -o - | \
             llc-22 {level} -relocation-model=pic -filetype=obj -o {OBJECT_OUT}"
        )
    }
}

/// Returns whether functions of a program are marked as those of `clang -O0`.
fn is_optnone(text: &str) -> bool {
    let mut attributes = text.lines().filter(|line| line.starts_with("attributes #"));
    attributes.any(|line| line.contains(" optnone "))
}

/// Returns a command that a shell runs in the folder of a file, wherever it is itself.
fn in_folder_of(uri: &BenchmarkUri, command: &str) -> String {
    let path = uri.file().unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new("/")).display().to_string();
    format!("(cd {} && {command})", shell_words::quote(&folder))
}

/// Says that a tool failed on the program.
fn failed(what: &str, why: &str) -> Error {
    Error::new(ErrorKind::Failed, format!("{what} failed: {why}"))
}
