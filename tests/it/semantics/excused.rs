//! Programs that tell nothing about passes.

use super::{program, recorded, verified};

const PLAYED: &[&str] = &["mem2reg", "planted-bug"];

#[test]
fn a_program_that_differs_from_run_to_run_is_left_out() {
    let program = program(
        "random",
        "@format = private constant [4 x i8] c\"%u\\0A\\00\"
         declare i32 @printf(ptr, ...)
         declare i32 @getpid()
         define i32 @main() {
           %a = alloca i32
           %n = call i32 @getpid()
           store i32 %n, ptr %a
           %l = load i32, ptr %a
           %p = call i32 (ptr, ...) @printf(ptr @format, i32 %l)
           ret i32 0
         }",
    );
    let (_folder, lake) = recorded(&[(&program, PLAYED)]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("it does not do the same whenever it runs"), "{said}");
    assert!(said.contains("0 states of 0 programs"), "{said}");
}

/// Equal messages of a shell that finds no program say nothing about passes.
#[test]
fn a_program_that_never_runs_is_left_out() {
    let mut program = super::subtraction();
    let execution = program.execution.as_mut().unwrap();
    execution.run.as_mut().unwrap().arguments = vec!["./b.out".to_owned()];
    let (_folder, lake) = recorded(&[(&program, PLAYED)]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("it ended with exit code 127"), "{said}");
    assert!(said.contains("0 states of 0 programs"), "{said}");
}

/// The program overflows a global variable of its own, so the compiler may do what it likes.
#[test]
fn a_program_with_undefined_behaviour_is_not_miscompiled() {
    let program = program(
        "undefined",
        "@format = private constant [4 x i8] c\"%d\\0A\\00\"
         @numbers = internal global [4 x i32] zeroinitializer
         declare i32 @printf(ptr, ...)
         define i32 @difference(i32 %x, i32 %y) {
           %a = alloca i32
           %b = alloca i32
           store i32 %x, ptr %a
           store i32 %y, ptr %b
           %l = load i32, ptr %a
           %r = load i32, ptr %b
           %d = sub i32 %l, %r
           ret i32 %d
         }
         define i32 @main(i32 %count, ptr %words) {
           %n = zext i32 %count to i64
           %i = add i64 %n, 3
           %e = getelementptr [4 x i32], ptr @numbers, i64 0, i64 %i
           store i32 7, ptr %e
           %d = call i32 @difference(i32 40, i32 2)
           %p = call i32 (ptr, ...) @printf(ptr @format, i32 %d)
           ret i32 0
         }",
    );
    let (_folder, lake) = recorded(&[(&program, PLAYED)]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    let own = "it has undefined behaviour of its own: AddressSanitizer reports: global-buffer-over";
    assert!(said.contains(own), "{said}");
    assert!(said.contains("undefined behaviour of the program shows: its output has"), "{said}");
}

#[test]
fn memory_that_was_never_written_is_undefined_behaviour_of_the_program() {
    let program = program(
        "unwritten",
        "declare i32 @puts(ptr)
         declare ptr @malloc(i64)
         @yes = private constant [4 x i8] c\"yes\\00\"
         define i32 @main() {
           %p = call ptr @malloc(i64 64)
           %q = getelementptr i8, ptr %p, i64 32
           %l = load i32, ptr %q
           %c = icmp eq i32 %l, 123456
           br i1 %c, label %then, label %end
         then:
           %s = call i32 @puts(ptr @yes)
           br label %end
         end:
           ret i32 0
         }",
    );
    let (_folder, lake) = recorded(&[(&program, &["rpo-function-attrs", "inferattrs"])]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("MemorySanitizer reports: use-of-uninitialized-value"), "{said}");
}

#[test]
fn a_race_of_threads_is_undefined_behaviour_of_the_program() {
    let program = program(
        "race",
        "@number = internal global i32 0
         declare i32 @pthread_create(ptr, ptr, ptr, ptr)
         declare i32 @pthread_join(i64, ptr)
         define ptr @work(ptr %unused) {
           %a = alloca i32
           store i32 1, ptr %a
           %l = load i32, ptr @number
           %n = add i32 %l, 1
           store i32 %n, ptr @number
           ret ptr null
         }
         define i32 @main() {
           %t = alloca i64
           %c = call i32 @pthread_create(ptr %t, ptr null, ptr @work, ptr null)
           %w = call ptr @work(ptr null)
           %i = load i64, ptr %t
           %j = call i32 @pthread_join(i64 %i, ptr null)
           ret i32 0
         }",
    );
    let (_folder, lake) = recorded(&[(&program, &["mem2reg", "inferattrs"])]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("ThreadSanitizer reports: data race"), "{said}");
}
