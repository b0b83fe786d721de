//! What a state of LLVM must not depend on: the CPU, the programs before, debug info.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use steplake::env::llvm::{LlvmEnvironment, assemble};
use steplake::env::{Environment, Session, Start, Watch};
use steplake::model::{Baselines, Benchmark, Outcome, Provenance, StateId};

use crate::fixtures::programs::{InTime as _, program};

const SPACE: &str = "llvm22-all-v0";

fn benchmark(program: &[u8]) -> Benchmark {
    let uri = "file:///program.bc".parse().unwrap();
    Benchmark { uri, program: program.into(), provenance: Provenance::default(), execution: None }
}

/// A module that calls mathematical functions of C with all sorts of numbers, one call a function.
fn calls() -> String {
    let one = "acos asin atan cos cosh erf exp exp2 exp10 log log10 log1p log2 sin sinh tan tanh";
    let mut text =
        "declare double @pow(double, double)\ndeclare double @atan2(double, double)\n".to_owned();
    let mut function = 0;
    let mut add = |call: &str| {
        function += 1;
        writeln!(text, "define double @f{function}() {{ %r = call double {call} ret double %r }}")
            .unwrap();
    };
    // Far from round, and the same on every machine.
    let numbers = |seed: u64| {
        (1..=200_u64).map(move |index| {
            let bits = (seed * 1_000 + index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            // Between 1/8 and 16, by the exponent and the mantissa.
            (0x3fc0_0000_0000_0000 + (bits >> 8) % 0x0070_0000_0000_0000, bits)
        })
    };
    // The numbers by which the defect was found.
    add("@pow(double 0x4024306881610703, double 0x4013A611572E1D95)");
    for (x, y) in numbers(0) {
        let y = 0x3fe0_0000_0000_0000 + y % 0x0040_0000_0000_0000;
        add(&format!("@pow(double 0x{x:016X}, double 0x{y:016X})"));
        add(&format!("@atan2(double 0x{x:016X}, double 0x{y:016X})"));
    }
    for (seed, name) in one.split(' ').enumerate() {
        for (x, _) in numbers(seed as u64 + 1) {
            // Arcs of a number below one.
            let x = if name.starts_with('a') { x % 0x3ff0_0000_0000_0000 } else { x };
            add(&format!("@{name}(double 0x{x:016X})"));
        }
    }
    for name in one.split(' ') {
        writeln!(text, "declare double @{name}(double)").unwrap();
    }
    text
}

#[test]
fn calls_are_folded_to_the_same_numbers_on_every_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fold.ll");
    std::fs::write(&path, calls()).unwrap();
    let replay = |hwcaps: Option<&str>| {
        let mut command = program(env!("CARGO_BIN_EXE_steplake"));
        command.arg("replay").arg(format!("file://{}", path.display())).args(["sccp", "--ir"]);
        if let Some(hwcaps) = hwcaps {
            command.env("GLIBC_TUNABLES", format!("glibc.cpu.hwcaps={hwcaps}"));
        }
        let output = command.output_in_time();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let usual = replay(None);
    let folded = usual.lines().filter(|line| line.contains("ret double") && !line.contains('%'));
    assert!(folded.count() > 3_000, "too few calls were folded");
    for hwcaps in ["-FMA,-FMA4", "-AVX2", "-AVX,-AVX2,-FMA,-FMA4,-AVX512F,-SSE4_1,-SSE4_2"] {
        assert_eq!(replay(Some(hwcaps)), usual, "with {hwcaps}");
    }
}

/// What LLVM takes of the host's libm: functions that round nothing, and `logl`, by which it
/// guesses how many digits a number has.
const EXACT: &str = "ceil fabs feclearexcept fetestexcept floor ldexp logb logl modf nextafter nextafterf rint round sqrt";

/// What the program brings itself.
const OURS: &str =
    "acos asin atan atan2 cos cosh erf exp log log10 log1p log2 log2f pow qsort sin sinh tan tanh";

/// The names that `nm` gives with these arguments.
fn symbols<'a>(arguments: impl IntoIterator<Item = &'a str>) -> HashSet<String> {
    let output = program("nm").args(arguments).output_in_time();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let names = lines.lines().filter_map(|line| line.split_whitespace().last()?.split('@').next());
    names.map(str::to_owned).collect()
}

#[test]
fn no_function_of_the_host_takes_part_in_a_pass() {
    let output = |tool: &str, arguments: &[&str]| {
        String::from_utf8(program(tool).args(arguments).output_in_time().stdout).unwrap()
    };
    let of_host = symbols(["-D", "--undefined-only", env!("CARGO_BIN_EXE_steplake")]);
    assert!(of_host.contains("malloc"), "{of_host:?}");
    for name in OURS.split_whitespace() {
        assert!(!of_host.contains(name), "`{name}` is the host's");
    }
    let config = format!("{}/bin/llvm-config", std::env::var("LLVM_SYS_221_PREFIX").unwrap());
    let archives = output(&config, &["--link-static", "--libfiles", "passes", "x86"]);
    let library = output("cc", &["-print-file-name=libm.so.6"]);
    let of_libm = symbols(["-D", "--defined-only", library.trim()]);
    let wanted = symbols(["--undefined-only"].into_iter().chain(archives.split_whitespace()));
    assert!(wanted.contains("pow") && of_libm.contains("pow"));
    let known: HashSet<&str> = EXACT.split_whitespace().chain(OURS.split_whitespace()).collect();
    for name in wanted.intersection(&of_libm) {
        assert!(known.contains(name.as_str()), "LLVM calls `{name}`, which would be the host's");
    }
}

/// Begins and takes actions that ask which functions the target's library has.
fn walk(
    environment: &LlvmEnvironment,
    session: &mut dyn Session,
    program: &Benchmark,
) -> (Baselines, Vec<StateId>) {
    let watch = Watch::default();
    let start = Start { benchmark: program, action_space: SPACE, baselines: None, watch: &watch };
    let started = session.start(&start).unwrap();
    let mut states = vec![started.state];
    for name in
        ["inferattrs", "mem2reg", "instcombine", "loop-simplify", "loop-idiom", "sccp", "dce"]
    {
        let space = environment.spec().action_space(SPACE).unwrap();
        let step = session.apply(space.index_of(name).unwrap()).unwrap();
        match step.outcome {
            Outcome::State { id, .. } => states.push(id),
            Outcome::Crashed(failure) => panic!("{name}: {failure:?}"),
        }
    }
    (started.baselines, states)
}

/// A program whose calls exist in the libraries of some targets only.
fn library_calls(triple: &str) -> Benchmark {
    let text = format!(
        "target triple = \"{triple}\"
        @text = private constant [4 x i8] c\"abc\\00\"
        @line = private constant [5 x i8] c\"abc\\0A\\00\"
        declare i32 @printf(ptr, ...)
        declare double @exp10(double)
        declare float @exp10f(float)
        declare ptr @stpcpy(ptr, ptr)
        declare double @pow(double, double)
        define double @folds() {{ %r = call double @exp10(double 2.5) ret double %r }}
        define float @unused() {{ %r = call float @exp10f(float 2.5) ret float 1.0 }}
        define double @powers(double %x) {{
            %r = call double @pow(double 1.0e1, double %x)
            ret double %r
        }}
        define ptr @copies(ptr %to) {{ %r = call ptr @stpcpy(ptr %to, ptr @text) ret ptr %r }}
        define void @prints() {{ %r = call i32 (ptr, ...) @printf(ptr @line) ret void }}
        define void @fills(ptr %to, i64 %n) {{
        entry:
            br label %loop
        loop:
            %i = phi i64 [ 0, %entry ], [ %next, %loop ]
            %place = getelementptr i32, ptr %to, i64 %i
            store i32 16909060, ptr %place, align 4
            %next = add nuw nsw i64 %i, 1
            %more = icmp ult i64 %next, %n
            br i1 %more, label %loop, label %done
        done:
            ret void
        }}"
    );
    benchmark(&assemble(text.as_bytes()).unwrap())
}

#[test]
fn a_program_does_not_depend_on_the_programs_before() {
    let triples = ["x86_64-pc-linux-gnu", "x86_64-pc-windows-msvc", "x86_64-apple-macosx10.12.0"];
    let programs = triples.map(library_calls);
    let environment = LlvmEnvironment::new();
    let alone = programs
        .each_ref()
        .map(|program| walk(&environment, environment.session().unwrap().as_mut(), program));
    assert!(alone[0] != alone[1] && alone[1] != alone[2], "the targets make no difference");
    for first in 0..triples.len() {
        let mut session = environment.session().unwrap();
        walk(&environment, session.as_mut(), &programs[first]);
        for (second, program) in programs.iter().enumerate() {
            let after = walk(&environment, session.as_mut(), program);
            assert_eq!(after, alone[second], "{} after {}", triples[second], triples[first]);
        }
    }
}

#[test]
fn debug_info_does_not_make_another_program() {
    let environment = LlvmEnvironment::new();
    let mut session = environment.session().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.bc");
    let mut first_state = |source: &Path, flags: &[&str]| {
        let mut command = program("clang-22");
        command.args(["-c", "-emit-llvm", "-O1", "-Xclang", "-disable-llvm-passes", "-w"]);
        let status = command.args(flags).arg(source).arg("-o").arg(&out).status_in_time();
        assert!(status.success(), "{} {flags:?}", source.display());
        let program = benchmark(&std::fs::read(&out).unwrap());
        let names = ["O0", "O3", "Oz"].map(|level| (format!("IrInstructionCount{level}"), 1));
        let baselines = Baselines(names.into());
        let watch = Watch::default();
        let baselines = Some(&baselines);
        let start = Start { benchmark: &program, action_space: SPACE, baselines, watch: &watch };
        session.start(&start).unwrap().state
    };
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/programs");
    let files = std::fs::read_dir(programs).unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|e| e == "c")).collect();
    sources.sort();
    assert!(sources.len() >= 25);
    for source in &sources {
        let plain = first_state(source, &["-g0"]);
        assert_eq!(first_state(source, &["-g"]), plain, "{}", source.display());
    }
    for flags in [["-gdwarf-4", "-g1"], ["-gdwarf64", "-g3"], ["-gcodeview", "-g"]] {
        assert_eq!(
            first_state(&sources[0], &flags),
            first_state(&sources[0], &["-g0"]),
            "{flags:?}"
        );
    }
}
