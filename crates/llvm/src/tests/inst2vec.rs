//! Statements against those of `CompilerGym`'s client: `inst2vec/golden.py` makes them again.

use super::{EVERYTHING, GOLDEN, begin, engine, real_programs};
use crate::inst2vec::{embeddings, numbers, statements};
use crate::module::Module;
use crate::session::first_state;

macro_rules! statements_of {
    ($($name:literal)*) => {
        [$((
            $name,
            include_bytes!(concat!("inst2vec/", $name, ".bc")).as_slice(),
            include_str!(concat!("inst2vec/", $name, ".txt")),
        )),*]
    };
}

/// The name of each program, its bitcode with typed pointers, and its statements.
const PROGRAMS: [(&str, &[u8], &str); 6] = statements_of!(
    "fourier" "fourier.O1" "shapes_of_data" "shapes_of_data.O1" "throwing" "throwing.O1"
);

/// The number of the statement for all that are not in the vocabulary.
const UNKNOWN: i32 = 8564;

/// A golden statement, as far as types of pointers can be known from a program without them.
fn as_can_be_known(statement: &str) -> String {
    // LLVM 22's `lifetime` says nothing of its argument.
    let known = statement.replace("(i64 <INT>, i8* nonnull <%ID>)", "(i64 <INT>, i8* <%ID>)");
    // Nothing tells a table of virtual functions from other pointers.
    let known = known.replace("<{ i32 (...)**, i32, [4 x i8] }>", "<{ i8*, i32, [4 x i8] }>");
    if known.starts_with("<@ID> = ") {
        // Clang indexed variables by `i32` in initial values, and by `i64` elsewhere.
        return known.replace(", i32 <INT>, i32 <INT>)", ", i64 <INT>, i64 <INT>)");
    }
    known
}

/// Sorts the entries of a phi node.
fn with_sorted_entries(statement: &str) -> String {
    let Some((phi, entries)) = statement.split_once(" = phi ").and_then(|(_, rest)| {
        let (of_type, entries) = rest.split_once(" [ ")?;
        Some((of_type, entries.strip_suffix(" ]")?))
    }) else {
        return statement.to_owned();
    };
    let mut entries: Vec<_> = entries.split(" ], [ ").collect();
    entries.sort_unstable();
    format!("<%ID> = phi {phi} [ {} ]", entries.join(" ], [ "))
}

#[test]
fn programs_have_the_statements_that_the_client_finds_in_typed_text() {
    let engine = engine();
    for (name, bitcode, golden) in PROGRAMS {
        let found = statements(&first_state(&engine, bitcode).unwrap().typed_text());
        assert_eq!(found.len(), golden.lines().count(), "{name}");
        for (found, golden) in found.iter().zip(golden.lines()) {
            // States have the entries of phi nodes in an order of their own.
            let [found, golden] = [found, golden].map(with_sorted_entries);
            assert_eq!(found, as_can_be_known(&golden), "{name}");
            assert!(golden == found || golden.contains('*'), "{name}: {golden}");
        }
    }
}

#[test]
fn typed_pointers_make_most_statements_known() {
    let engine = engine();
    let (mut plain, mut typed, mut all) = (0, 0, 0);
    let unknown = |statements: &[String]| {
        numbers(statements).into_iter().filter(|&number| number == UNKNOWN).count()
    };
    for bitcode in real_programs() {
        let mut program = first_state(&engine, &bitcode).unwrap();
        let found = statements(&program.typed_text());
        typed += unknown(&found);
        all += found.len();
        plain += unknown(&statements(&program.print()));
    }
    assert!(plain * 100 > all * 60 && typed * 100 < all * 32, "{plain} {typed} {all}");
}

#[test]
fn statements_depend_on_the_program_alone_and_leave_it_as_it_was() {
    let engine = engine();
    let real = real_programs();
    let real = real.iter().map(|program| first_state(&engine, program).unwrap());
    for mut program in real.chain([GOLDEN, EVERYTHING].map(|text| begin(&engine, text))) {
        let before = (program.state_id(), program.registered());
        let text = program.typed_text();
        assert_eq!(Module::revive(program.write()).unwrap().typed_text(), text);
        assert_eq!((program.state_id(), program.registered()), before);
        assert!(!text.contains("ptr %") && !text.contains("ptr @"), "{text}");
        let statements = statements(&text);
        assert_eq!(embeddings(&numbers(&statements)).len(), 200 * statements.len());
    }
}

#[test]
fn what_pointers_point_to_follows_from_their_use() {
    let text = b"%pair = type { ptr, i32 }
        @names = constant [2 x ptr] [ptr @a, ptr @b]
        @a = private constant [2 x i8] c\"a\\00\"
        @b = private constant [2 x i8] c\"b\\00\"
        declare ptr @malloc(i64)
        define ptr @f(ptr %list, ptr noundef readonly captures(none) %call, i64 %n) {
          %slot = alloca ptr
          store ptr %list, ptr %slot
          %at = load ptr, ptr %slot
          %next = getelementptr inbounds nuw %pair, ptr %at, i32 0, i32 0
          %held = load ptr, ptr %next
          store ptr %held, ptr %slot
          %name = getelementptr [2 x ptr], ptr @names, i64 0, i64 %n
          %text = load ptr, ptr %name
          %got = call double %call(ptr %text, <2 x i32> splat (i32 7))
          %new = call ptr @malloc(i64 8)
          store double %got, ptr %new
          ret ptr %held
        }";
    let lines = [
        "@names = constant [2 x i8*] [i8* getelementptr inbounds ([2 x i8], [2 x i8]* @a, i64 0, \
         i64 0), i8* getelementptr inbounds ([2 x i8], [2 x i8]* @b, i64 0, i64 0)]",
        "define %pair* @f(%pair* %0, double (i8*, <2 x i32>)* nocapture readonly %1, i64 %2) {",
        "%4 = alloca %pair*, align 8",
        "%6 = getelementptr inbounds %pair, %pair* %5, i32 0, i32 0",
        "%7 = load %pair*, %pair** %6, align 8",
        "%8 = getelementptr [2 x i8*], [2 x i8*]* @names, i64 0, i64 %2",
        "%9 = load i8*, i8** %8, align 8",
        "%10 = call double %1(i8* %9, <2 x i32> <i32 7, i32 7>)",
        "%11 = call i8* @malloc(i64 8)",
        "store double %10, double* %11, align 8",
        "ret %pair* %7",
        "%pair = type { %pair*, i32 }",
    ];
    let typed = begin(&engine(), text).typed_text();
    for line in lines {
        assert!(typed.lines().any(|found| found == line), "no `{line}` in\n{typed}");
    }
}
