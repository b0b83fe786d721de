//! What programs do after recorded actions: a planted bug is found, minimised and written down, and
//! programs that tell nothing are left out.

mod excused;
mod order;
mod planted;
mod validation;

use std::path::Path;
use std::sync::Arc;

use steplake::env::llvm::{LlvmEnvironment, assemble};
use steplake::env::{Environment as _, Session, Start, Watch};
use steplake::lake::Lake;
use steplake::model::{
    ActionIndex, ActionSpace, Benchmark, Execution, Linker, Outcome, Provenance, StateId,
};
use steplake::record::{Recording, RecordingOptions, SpaceChoice, identity};

use crate::execution::compile;
use crate::fixtures::programs::InTime as _;
use crate::fixtures::support::steplake;

/// The action space with the planted bug.
const SPACE: &str = "llvm-planted-v0";

/// A program of LLVM's text that is linked and run.
fn program(name: &str, text: &str) -> Benchmark {
    Benchmark {
        uri: format!("file:///{name}.bc").parse().unwrap(),
        program: assemble(text.as_bytes()).unwrap().into(),
        provenance: Provenance::default(),
        execution: Some(Execution::linked(Linker::C, &[])),
    }
}

/// A program of C or C++ that is linked and run. Its variables are in memory.
fn compiled(file: &str, text: &str) -> Benchmark {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(file);
    std::fs::write(&source, text).unwrap();
    let flags = ["-c", "-emit-llvm", "-O0", "-Xclang", "-disable-O0-optnone"];
    let bitcode = compile(&source, &flags, &folder.path().join("a.bc"));
    let is_cxx = Path::new(file).extension().is_some_and(|ending| ending == "cc");
    let linker = if is_cxx { Linker::Cxx } else { Linker::C };
    Benchmark {
        uri: format!("file:///{file}.bc").parse().unwrap(),
        program: bitcode.into(),
        provenance: Provenance::default(),
        execution: Some(Execution::linked(linker, &[])),
    }
}

/// A function of two numbers, which are in memory at first: their difference is a `sub`.
fn of_memory(name: &str, operation: &str) -> String {
    format!(
        "define i32 @{name}(i32 %x, i32 %y) {{
           %a = alloca i32
           %b = alloca i32
           store i32 %x, ptr %a
           store i32 %y, ptr %b
           %l = load i32, ptr %a
           %r = load i32, ptr %b
           %d = {operation} i32 %l, %r
           ret i32 %d
         }}
         "
    )
}

/// A program that prints the difference of two numbers, which are in memory at first.
fn subtraction() -> Benchmark {
    program(
        "subtraction",
        &(of_memory("difference", "sub")
            + "@format = private constant [4 x i8] c\"%d\\0A\\00\"
         declare i32 @printf(ptr, ...)
         define i32 @main() {
           %d = call i32 @difference(i32 40, i32 2)
           %p = call i32 (ptr, ...) @printf(ptr @format, i32 %d)
           ret i32 0
         }"),
    )
}

/// A program that writes to one of four numbers, by a difference.
fn indexed() -> Benchmark {
    program(
        "indexed",
        "@numbers = internal global [4 x i32] zeroinitializer
         define void @write(i32 %x, i32 %y) {
           %a = alloca i32
           %b = alloca i32
           store i32 %x, ptr %a
           store i32 %y, ptr %b
           %l = load i32, ptr %a
           %r = load i32, ptr %b
           %d = sub i32 %l, %r
           %n = sext i32 %d to i64
           %p = getelementptr [4 x i32], ptr @numbers, i64 0, i64 %n
           store i32 1, ptr %p
           ret void
         }
         define i32 @main() {
           call void @write(i32 3, i32 1)
           ret i32 0
         }",
    )
}

/// A lake in which these episodes were played.
fn recorded(episodes: &[(&Benchmark, &[&str])]) -> (tempfile::TempDir, Lake) {
    recorded_by(&RecordingOptions::default(), |session, space| {
        for (benchmark, names) in episodes {
            start(session, benchmark);
            play(session, space, names);
        }
    })
}

fn start(session: &mut dyn Session, benchmark: &Benchmark) -> StateId {
    let watch = &Watch::default();
    let start = Start { benchmark, action_space: SPACE, baselines: None, watch };
    session.start(&start).unwrap().state
}

/// Applies actions, and returns the state after each.
fn play(session: &mut dyn Session, space: &ActionSpace, names: &[&str]) -> Vec<StateId> {
    let apply = |name: &&str| match session.apply(space.index_of(name).unwrap()).unwrap().outcome {
        Outcome::State { id, .. } => id,
        Outcome::Crashed(failure) => panic!("{failure:?}"),
    };
    names.iter().map(apply).collect()
}

/// A lake of what was played.
fn recorded_by(
    options: &RecordingOptions,
    played: impl FnOnce(&mut dyn Session, &ActionSpace),
) -> (tempfile::TempDir, Lake) {
    let folder = tempfile::tempdir().unwrap();
    let environment = LlvmEnvironment::planted();
    let spec = environment.spec();
    let space = spec.action_space(SPACE).unwrap();
    let identity = identity(spec, space, &SpaceChoice::default()).unwrap();
    let lake = Lake::create(folder.path().join("lake"), &identity).unwrap();
    let mut writer = lake.writer().unwrap();
    let run = writer.begin_run("{}", 0).unwrap();
    let recording = Recording::begin(writer, spec, run, options).unwrap();
    let mut session = recording.recorder(environment.session().unwrap());
    played(&mut session, space);
    drop(session);
    recording.close().unwrap().seal().unwrap();
    (folder, lake)
}

/// What `verify --semantics` says of a lake, and its exit code.
fn verified(lake: &Lake, more: &[&str]) -> (i32, String) {
    let arguments = [&["verify", "--semantics", "100"], more].concat();
    let output = steplake(lake.path()).args(arguments).output_in_time();
    let said = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), said)
}

/// Indices of actions of the space with the planted bug.
fn actions(names: &[&str]) -> Vec<ActionIndex> {
    let environment = Arc::new(LlvmEnvironment::planted());
    let space = environment.spec().action_space(SPACE).unwrap();
    names.iter().map(|name| space.index_of(name).unwrap()).collect()
}
