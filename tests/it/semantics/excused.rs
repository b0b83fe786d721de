//! Programs that tell nothing about passes.

use std::fs::File;
use std::time::SystemTime;

use steplake::record::RecordingOptions;

use super::{
    compiled, of_memory, play, program, recorded, recorded_by, start, subtraction, verified,
};

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
    let mut program = subtraction();
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
        &(of_memory("difference", "sub")
            + "@format = private constant [4 x i8] c\"%d\\0A\\00\"
         @numbers = internal global [4 x i32] zeroinitializer
         declare i32 @printf(ptr, ...)
         define i32 @main(i32 %count, ptr %words) {
           %n = zext i32 %count to i64
           %i = add i64 %n, 3
           %e = getelementptr [4 x i32], ptr @numbers, i64 0, i64 %i
           store i32 7, ptr %e
           %d = call i32 @difference(i32 40, i32 2)
           %p = call i32 (ptr, ...) @printf(ptr @format, i32 %d)
           ret i32 0
         }"),
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

/// Each is left out, though two runs of one executable in one second do the same.
#[test]
fn a_program_that_prints_its_folder_or_the_time_is_left_out() {
    let folder = "#include <stdio.h>\n#include <unistd.h>\n\
        int main(void) { char folder[4096]; puts(getcwd(folder, sizeof folder)); return 0; }\n";
    let time = "#include <stdio.h>\n#include <time.h>\n\
        int main(void) { printf(\"%ld\\n\", (long)time(NULL)); return 0; }\n";
    let programs = [compiled("folder.c", folder), compiled("time.c", time)];
    let played = programs.each_ref().map(|program| (program, &["mem2reg", "inferattrs"][..]));
    let (_folder, lake) = recorded(&played);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(said.matches("it does not do the same whenever it runs").count(), 2, "{said}");
    assert!(said.contains("0 states of 0 programs"), "{said}");
}

/// Something else than the actions changes what the program does, and for good: here its fifth run,
/// elsewhere a disk that is full.
#[test]
fn what_the_untouched_program_does_as_well_is_no_miscompilation() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    File::create(&runs).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    // Programs write nothing outside of their folder, but they may change the times of files: those
    // of this one count the runs.
    let count = format!("$(stat -c %Y {})", runs.display());
    let line = format!(
        "touch -c -d @$(({count} + 1)) {} && ./a.out && test {count} -lt 5",
        runs.display()
    );
    let mut program = subtraction();
    program.execution.as_mut().unwrap().run.as_mut().unwrap().arguments = vec![line];
    let (_folder, lake) = recorded(&[(&program, &["mem2reg", "dce"])]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("0 states of 1 program behave as their first states do"), "{said}");
    assert!(said.contains("the untouched program differs as well now: it ended with"), "{said}");
}

/// The library of C++ writes the word, and `MemorySanitizer` does not see it.
#[test]
fn a_correct_program_of_cxx_has_no_undefined_behaviour() {
    let text = "#include <iostream>\n#include <mutex>\n#include <sstream>\n#include <thread>\n\
        int main() { std::istringstream in(\"one two\"); std::string word; std::mutex mutex;\n\
        auto read = [&] { std::lock_guard<std::mutex> lock(mutex); in >> word;\n\
        if (word == \"one\" || word == \"two\") std::cout << word << std::endl; };\n\
        std::thread one(read), two(read); one.join(); two.join(); return 0; }\n";
    let (_folder, lake) = recorded(&[(&compiled("words.cc", text), &["mem2reg"])]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("undefined behaviour"), "{said}");
    assert!(said.contains("1 state of 1 program behave as their first states do"), "{said}");
    assert!(said.contains("not used: MemorySanitizer: it does not see what "), "{said}");
}

#[test]
fn a_race_of_threads_of_cxx_is_undefined_behaviour_of_the_program() {
    let text = "#include <thread>\n\
        int number; void work() { for (int i = 0; i < 1000; ++i) number += 1; }\n\
        int main() { std::thread other(work); work(); other.join(); return 0; }\n";
    let (_folder, lake) = recorded(&[(&compiled("race.cc", text), &["mem2reg"])]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("ThreadSanitizer reports: data race"), "{said}");
}

/// The shell ends with 134 then, and does so in every state.
#[test]
fn a_program_that_crashes_in_a_shell_is_left_out() {
    let mut program = compiled("abort.c", "#include <stdlib.h>\nint main(void) { abort(); }\n");
    let run = program.execution.as_mut().unwrap().run.as_mut().unwrap();
    run.arguments = vec!["true; ./a.out; exit $?".to_owned()];
    let (_folder, lake) = recorded(&[(&program, &["mem2reg", "inferattrs"])]);
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("untouched, it ended with exit code 134"), "{said}");
}

/// Without stored IR, a program is loaded by its name.
#[test]
fn a_program_that_is_not_at_hand_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (gone, mut there) = (subtraction(), subtraction());
    let file = folder.path().join("there.bc");
    std::fs::write(&file, &there.program).unwrap();
    there.uri = format!("file://{}", file.display()).parse().unwrap();
    let options = RecordingOptions { keyframes: None, ..RecordingOptions::default() };
    let (_folder, lake) = recorded_by(&options, |session, space| {
        for program in [&gone, &there] {
            start(session, program);
            play(session, space, &["mem2reg", "planted-bug"]);
        }
    });
    let (code, said) = verified(&lake, &[]);
    assert_eq!(code, 4, "{said}");
    assert!(said.starts_with("verify: ") && said.contains("\nfile:///subtraction.bc: "), "{said}");
    assert!(said.contains("there.bc: miscompiled by planted-bug"), "{said}");
}
