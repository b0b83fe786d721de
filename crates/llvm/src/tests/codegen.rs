//! Machine code against that of LLVM's own tools.

use std::path::Path;

use super::tools::run;
use super::{begin, engine, real_programs};
use crate::LlvmEnvironment;
use crate::codegen::ObjectFile;
use crate::session::first_state;
use crate::spaces::CodeGeneration;
use steplake_env::{Environment as _, Start, Watch};
use steplake_model::{ActionIndex, Benchmark, Provenance, Value};

/// The bytes that `llvm-size` calls `text`.
fn text_size(object: &Path) -> i64 {
    let listed = run("llvm-size", &[], object);
    listed.lines().nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

/// A function that is inlined at any level, twice.
const ALWAYS_INLINE: &[u8] = b"
define internal i32 @helper(i32 %x) alwaysinline {
  %y = mul i32 %x, 3
  %z = xor i32 %y, %x
  ret i32 %z
}
define i32 @first(i32 %x) {
  %a = call i32 @helper(i32 %x)
  %b = call i32 @helper(i32 %a)
  ret i32 %b
}
";

#[test]
fn what_must_be_inlined_is_inlined_as_by_clang() {
    let folder = tempfile::tempdir().unwrap();
    let (bitcode, object) = (folder.path().join("a.bc"), folder.path().join("a.o"));
    let mut program = begin(&engine(), ALWAYS_INLINE);
    std::fs::write(&bitcode, program.write()).unwrap();
    run("clang", &["-w", "-c", "-O0", "-x", "ir", "-o", object.to_str().unwrap()], &bitcode);
    let ours = ObjectFile::compile(program.write(), CodeGeneration::O0).text_size();
    assert_eq!(ours, text_size(&object));
}

/// A member of a template that another file instantiates: it is here only to be inlined, and
/// nowhere else.
const ELSEWHERE: &[u8] = b"
define available_externally i32 @member(i32 %x) alwaysinline {
  %y = call i32 @inner(i32 %x)
  ret i32 %y
}
define available_externally i32 @inner(i32 %x) alwaysinline {
  %y = mul i32 %x, 3
  ret i32 %y
}
define i32 @user(i32 %x) {
  %a = call i32 @member(i32 %x)
  ret i32 %a
}
";

#[test]
fn what_must_be_inlined_is_not_looked_for_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("a.o");
    let mut program = begin(&engine(), ELSEWHERE);
    let [o0, os, oz, o3] =
        [CodeGeneration::O0, CodeGeneration::Os, CodeGeneration::Oz, CodeGeneration::O3];
    for generation in [o0, os, oz, o3] {
        std::fs::write(&object, ObjectFile::compile(program.write(), generation).bytes()).unwrap();
        let symbols = run("llvm-nm", &[], &object);
        assert!(symbols.contains("T user") && !symbols.contains(" U "), "{symbols}");
    }
}

#[test]
fn sizes_are_those_of_the_tools() {
    let engine = engine();
    let folder = tempfile::tempdir().unwrap();
    let (bitcode, object) = (folder.path().join("a.bc"), folder.path().join("a.o"));
    let file = object.to_str().unwrap();
    for (at, program) in real_programs().iter().enumerate() {
        let mut program = first_state(&engine, program).unwrap();
        std::fs::write(&bitcode, program.write()).unwrap();
        let ours = ObjectFile::compile(program.write(), CodeGeneration::O0);
        run("clang", &["-w", "-c", "-O0", "-x", "ir", "-o", file], &bitcode);
        assert_eq!(ours.text_size(), text_size(&object), "program {at}, by clang");
        run("llc", &["-O0", "-relocation-model=pic", "-filetype=obj", "-o", file], &bitcode);
        assert_eq!(ours.text_size(), text_size(&object), "program {at}, by llc");
        std::fs::write(&object, ours.bytes()).unwrap();
        assert_eq!(ours.text_size(), text_size(&object), "program {at}, our object");
    }
}

#[test]
fn code_for_size_is_that_of_functions_to_be_optimised_for_size() {
    let engine = engine();
    let folder = tempfile::tempdir().unwrap();
    let [bitcode, marked, object] = ["a.bc", "b.bc", "b.o"].map(|name| folder.path().join(name));
    let (to, file) = (marked.to_str().unwrap(), object.to_str().unwrap());
    for program in real_programs() {
        let mut program = first_state(&engine, &program).unwrap();
        std::fs::write(&bitcode, program.write()).unwrap();
        let o0 = ObjectFile::compile(program.write(), CodeGeneration::O0).text_size();
        let force = ["-passes=forceattrs", "-force-attribute=optsize", "-o", to];
        let minimise = [&force[..], &["-force-attribute=minsize"]].concat();
        for (generation, force) in
            [(CodeGeneration::Os, &force[..]), (CodeGeneration::Oz, &minimise[..])]
        {
            run("opt", force, &bitcode);
            run("llc", &["-O2", "-relocation-model=pic", "-filetype=obj", "-o", file], &marked);
            let ours = ObjectFile::compile(program.write(), generation).text_size();
            assert_eq!(ours, text_size(&object), "{generation:?}");
            assert!(ours < o0, "{generation:?}: {ours} of {o0}");
        }
        assert_eq!(ObjectFile::compile(program.write(), CodeGeneration::O0).text_size(), o0);
    }
}

#[test]
fn code_for_speed_is_that_of_functions_as_they_are_marked() {
    let engine = engine();
    let folder = tempfile::tempdir().unwrap();
    let [bitcode, object] = ["a.bc", "a.o"].map(|name| folder.path().join(name));
    let file = object.to_str().unwrap();
    for program in real_programs() {
        let mut program = first_state(&engine, &program).unwrap();
        std::fs::write(&bitcode, program.write()).unwrap();
        run("llc", &["-O3", "-relocation-model=pic", "-filetype=obj", "-o", file], &bitcode);
        let ours = ObjectFile::compile(program.write(), CodeGeneration::O3).text_size();
        assert_eq!(ours, text_size(&object));
    }
}

#[test]
fn a_program_is_as_it_was_after_it_was_compiled() {
    let mut program = first_state(&engine(), &real_programs()[0]).unwrap();
    let (id, bitcode) = (program.state_id(), program.write().to_vec());
    let first = ObjectFile::compile(&bitcode, CodeGeneration::Oz).bytes().to_vec();
    assert_eq!((program.state_id(), program.write()), (id, &bitcode[..]));
    assert_eq!(program.registered(), "");
    assert_eq!(ObjectFile::compile(&bitcode, CodeGeneration::Oz).bytes(), first);
}

#[test]
fn baselines_are_sizes_after_the_pipelines_of_the_tools() {
    let environment = LlvmEnvironment::new();
    let folder = tempfile::tempdir().unwrap();
    let [bitcode, optimised, object] = ["a.bc", "b.bc", "b.o"].map(|name| folder.path().join(name));
    let (to, file) = (optimised.to_str().unwrap(), object.to_str().unwrap());
    for (at, program) in real_programs().into_iter().enumerate() {
        let mut first = first_state(&engine(), &program).unwrap();
        std::fs::write(&bitcode, first.write()).unwrap();
        let provenance = Provenance::default();
        let uri = format!("file:///{at}").parse().unwrap();
        let benchmark = Benchmark { uri, program: program.into(), provenance, execution: None };
        let start = Start {
            benchmark: &benchmark,
            action_space: "llvm22-v1",
            baselines: None,
            watch: &Watch::default(),
        };
        let (mut session, mut later) =
            (environment.session().unwrap(), environment.session().unwrap());
        session.start(&start).unwrap();
        later.start(&start).unwrap();
        for action in 0..20 {
            later.apply(ActionIndex(action)).unwrap();
        }
        for (name, pipeline) in [
            ("ObjectTextSizeO0", None),
            ("ObjectTextSizeO3", Some("default<O3>")),
            ("ObjectTextSizeOz", Some("default<Oz>")),
        ] {
            let source = match pipeline {
                None => &bitcode,
                Some(pipeline) => {
                    run("opt", &[&format!("-passes={pipeline}"), "-o", to], &bitcode);
                    &optimised
                }
            };
            run("clang", &["-w", "-c", "-O0", "-x", "ir", "-o", file], source);
            let wanted = Value::Int(text_size(&object));
            let space = environment.spec().observation_index(name).unwrap();
            assert_eq!(session.observe(space).unwrap(), wanted, "{name} of program {at}");
            assert_eq!(later.observe(space).unwrap(), wanted, "{name} of program {at}, later");
        }
    }
}
