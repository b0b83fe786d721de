//! From text and bitcode to a state, and back.

use super::{GOLDEN, begin, engine, walk};
use crate::engine::PipelineEffect;
use crate::module::{LocalNames, Module, ModuleError};
use crate::session::first_state;
use crate::{assemble, disassemble};

#[test]
fn what_is_no_program_is_refused_in_one_line() {
    let unreadable = |bytes: &[u8]| match assemble(bytes) {
        Err(ModuleError::Unreadable(message)) => message,
        other => panic!("{other:?}"),
    };
    assert!(unreadable(b"define i32 @f() {\n  ret nothing\n}").starts_with("line 2: "));
    let broken = b"define i32 @f() {\n  br label %a\na:\n  %x = add i32 %x, 1\n  ret i32 %x\n}";
    assert!(unreadable(broken).contains("Only PHI nodes may reference their own value"));
    let bitcode = assemble(GOLDEN).unwrap();
    for end in [4, 5, 40, bitcode.len() / 2] {
        let message = unreadable(&bitcode[..end]);
        assert!(!message.is_empty() && !message.contains('\n'), "{message}");
    }
}

#[test]
fn a_program_for_another_machine_is_refused() {
    let engine = engine();
    let bitcode = assemble(b"target triple = \"aarch64-linux-gnu\"").unwrap();
    let error = first_state(&engine, &bitcode).unwrap_err();
    assert!(matches!(&error, ModuleError::WrongTarget(text) if text.contains("aarch64")));
}

#[test]
fn names_and_debug_info_make_no_difference_to_the_state() {
    let engine = engine();
    let text = std::str::from_utf8(GOLDEN).unwrap();
    let renamed = text.replace("%sum", "%total").replace("other", "rest");
    let state = |text: &str| begin(&engine, text.as_bytes()).state_id();
    assert_eq!(state(&renamed), state(&format!("source_filename = \"x.c\"\n{text}")));
}

#[test]
fn text_goes_through_bitcode_and_back() {
    let bitcode = assemble(GOLDEN).unwrap();
    let text = disassemble(&bitcode).unwrap();
    assert!(text.contains("switch i32 %sum, label %other ["), "{text}");
    assert_eq!(assemble(text.as_bytes()).map(|again| disassemble(&again)), Ok(Ok(text)));
}

/// Where LLVM upgrades the intrinsics of its older versions, it leaves declarations behind that
/// have the type of the old ones and the name of the new.
#[test]
fn a_program_of_an_older_llvm_becomes_a_valid_state() {
    let old = b"@number = internal global i32 1
        declare void @llvm.lifetime.start.p0(i64, ptr)
        define i32 @main() {
          %place = alloca i32
          call void @llvm.lifetime.start.p0(i64 4, ptr %place)
          %number = load i32, ptr @number
          ret i32 %number
        }";
    let mut engine = engine();
    // Text, which is upgraded as old bitcode is.
    let mut program = Module::parse(old, LocalNames::Keep).unwrap();
    program.adopt(engine.machine()).unwrap();
    program.canonicalise();
    // A pass that changes names has the whole module verified.
    assert_eq!(engine.run(&mut program, "strip"), Ok(PipelineEffect::Some));
    program.verify_changes().unwrap();
    let text = disassemble(program.write()).unwrap();
    assert!(text.contains("@llvm.lifetime.start.p0(ptr"), "{text}");
    assert!(!text.contains("@llvm.lifetime.start.i64"), "{text}");
}

#[test]
fn states_come_back_the_same_from_their_bitcode() {
    walk(2, 40, &mut |pipeline, _, _, program| {
        let mut again = Module::revive(program.write()).unwrap();
        assert!(again.write() == program.write(), "after {pipeline} (seed 2)");
        assert_eq!(again.instructions(), program.instructions());
        assert_eq!(again.features(), program.features());
        assert_eq!(program.registered(), "", "{pipeline}");
    });
}

#[test]
fn replayed_steps_lead_where_the_first_ones_led() {
    let mut second = engine();
    walk(3, 40, &mut |pipeline, before, _, program| {
        let mut replay = Module::revive(before).unwrap();
        if second.run(&mut replay, pipeline).unwrap() == PipelineEffect::Some {
            replay.canonicalise_changes();
        }
        assert!(replay.write() == program.write(), "{pipeline} (seed 3)");
    });
}
