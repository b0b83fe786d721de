//! Sanitizers: which there are, how they get into an executable, and what they report.

use std::collections::BTreeMap;

use steplake_model::{Build, EXECUTABLE, Execution, Linker, ShellCommand};
use steplake_programs::execution::ProgramRun;

/// A sanitizer of clang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sanitizer {
    /// Accesses outside of objects, and to objects that are gone.
    Address,
    /// Decisions on memory that was never written.
    Memory,
    /// Races between threads.
    Thread,
    /// Undefined behaviour of the C language. Its checks are inserted where clang translates the
    /// source.
    UndefinedBehaviour,
}

/// What a program is before a sanitizer's checks are in the executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SanitizedForm {
    /// An object that has them.
    Object,
    /// A source of one file, into which they are inserted when it is compiled.
    Source,
    /// The same in C that GCC has preprocessed.
    Preprocessed,
}

/// The functions by which OpenMP begins threads, as an object names them.
const OPENMP: [&[u8]; 2] = [b"\0__kmpc_fork_call\0", b"\0GOMP_parallel\0"];

/// Others that begin threads. The types of parameters follow the name of the one of C++.
const THREADS: [&[u8]; 3] =
    [b"\0pthread_create\0", b"\0thrd_create\0", b"\0_ZNSt6thread15_M_start_thread"];

/// The libraries of C: `MemorySanitizer` knows what they write.
const OF_C: [&str; 5] = ["-lc", "-ldl", "-lm", "-lpthread", "-lrt"];

/// The name of a source in the scratch folder.
const SOURCE: &str = "program.c";

/// The name of an object there.
const OBJECT: &str = "program.o";

impl Sanitizer {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Address => "AddressSanitizer",
            Self::Memory => "MemorySanitizer",
            Self::Thread => "ThreadSanitizer",
            Self::UndefinedBehaviour => "UndefinedBehaviorSanitizer",
        }
    }

    /// LLVM's observation space of object files with its checks; none if it needs the source.
    pub(super) fn space(self) -> Option<&'static str> {
        match self {
            Self::Address => Some("ObjectAddressSanitizer"),
            Self::Memory => Some("ObjectMemorySanitizer"),
            Self::Thread => Some("ObjectThreadSanitizer"),
            Self::UndefinedBehaviour => None,
        }
    }

    /// Why it would report errors where there are none, if it would: it has not seen to the
    /// libraries that the program uses.
    pub(super) fn is_misled(self, plain: &Execution, object: &[u8]) -> Option<&'static str> {
        let is_foreign = |argument: &String| {
            let is_library = argument.starts_with("-l") || !argument.starts_with('-');
            is_library && !OF_C.contains(&argument.as_str())
        };
        match (self, &plain.build) {
            (Self::Memory, Build::Link { linker: Linker::Cxx, .. }) => {
                Some("it does not see what the library of C++ writes")
            }
            (Self::Memory, Build::Link { arguments, .. }) if arguments.iter().any(is_foreign) => {
                Some("it does not see what libraries write, except for those of C")
            }
            (Self::Thread, Build::Link { .. }) if OPENMP.iter().any(|name| has(object, name)) => {
                Some("it does not see how the library of OpenMP orders threads")
            }
            _ => None,
        }
    }

    /// What clang calls it.
    fn flags(self) -> &'static str {
        match self {
            Self::Address => "-fsanitize=address",
            Self::Memory => "-fsanitize=memory",
            Self::Thread => "-fsanitize=thread",
            // LLVM's passes use what this check is about, and the group leaves it out.
            Self::UndefinedBehaviour => {
                "-fsanitize=undefined,float-cast-overflow -fno-sanitize-recover=all"
            }
        }
    }

    /// The variable that holds the options of its library, and the options. There are no symbols to
    /// name, and a leak is no undefined behaviour.
    fn options(self) -> (&'static str, &'static str) {
        match self {
            Self::Address => ("ASAN_OPTIONS", "symbolize=0:detect_leaks=0"),
            Self::Memory => ("MSAN_OPTIONS", "symbolize=0"),
            Self::Thread => ("TSAN_OPTIONS", "symbolize=0"),
            Self::UndefinedBehaviour => ("UBSAN_OPTIONS", "symbolize=0"),
        }
    }

    /// How a program of this form is built with it and run. `None` for programs that are built by a
    /// command, which does not take objects, and for sources of C++.
    pub(super) fn execution(self, plain: &Execution, form: SanitizedForm) -> Option<Execution> {
        let Build::Link { linker, arguments } = &plain.build else { return None };
        let (driver, file) = match (form, linker) {
            (SanitizedForm::Source, Linker::C) => ("\"$CC\" -w -O0", SOURCE),
            // GCC's headers have a type that clang has under another name.
            (SanitizedForm::Preprocessed, Linker::C) => {
                ("\"$CC\" -w -O0 -D_Float128=__float128", SOURCE)
            }
            (SanitizedForm::Source | SanitizedForm::Preprocessed, Linker::Cxx) => return None,
            (SanitizedForm::Object, Linker::C) => ("\"$CC\"", OBJECT),
            (SanitizedForm::Object, Linker::Cxx) => ("\"$CC\" --driver-mode=g++", OBJECT),
        };
        let (flags, arguments) = (self.flags(), arguments.join(" "));
        let driver = format!("{driver} --no-default-config {flags}");
        let line = format!("cp \"$IN\" {file} && {driver} {file} -o {EXECUTABLE} {arguments}");
        let build = ShellCommand {
            arguments: vec![line],
            environment: BTreeMap::new(),
            outfiles: vec![EXECUTABLE.to_owned()],
            ..ShellCommand::default()
        };
        let mut execution = Execution { build: Build::Command(build), ..plain.clone() };
        if let Some(run) = &mut execution.run {
            let (name, options) = self.options();
            run.environment.insert(name.to_owned(), options.to_owned());
        }
        Some(execution)
    }

    /// What it reported in a run, if anything: the line that says what is wrong.
    pub(super) fn report(self, run: &ProgramRun) -> Option<String> {
        let stderr = String::from_utf8_lossy(&run.stderr);
        let mark = match self {
            Self::Address => "ERROR: AddressSanitizer: ",
            Self::Memory => "WARNING: MemorySanitizer: ",
            Self::Thread => "WARNING: ThreadSanitizer: ",
            Self::UndefinedBehaviour => "runtime error: ",
        };
        let (_, said) = stderr.lines().find_map(|line| line.split_once(mark))?;
        // What follows differs from run to run: addresses, and the number of the process.
        let ends = if self == Self::UndefinedBehaviour { &[][..] } else { &[" on ", " (pid="] };
        let said = ends.iter().fold(said, |said, end| said.split(end).next().unwrap_or(said));
        Some(said.trim().to_owned())
    }
}

/// Whether a program begins threads: whether its object names a function that does so.
pub(super) fn has_threads(object: &[u8]) -> bool {
    OPENMP.iter().chain(&THREADS).any(|name| has(object, name))
}

fn has(object: &[u8], name: &[u8]) -> bool {
    object.windows(name.len()).any(|bytes| bytes == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use steplake_programs::execution::{Behaviour, ProgramEnd};

    #[test]
    fn a_report_is_told_without_addresses() {
        let report = |sanitizer: Sanitizer, stderr: &str| {
            let behaviour =
                Behaviour { end: ProgramEnd::Exit(1), stdout: Vec::new(), files: BTreeMap::new() };
            let (wall_time, cpu_time) = (Duration::ZERO, Duration::ZERO);
            let stderr = stderr.as_bytes().to_vec();
            sanitizer.report(&ProgramRun { behaviour, stderr, wall_time, cpu_time })
        };
        let address =
            "=====\n==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602 at\n";
        let said = report(Sanitizer::Address, address);
        assert_eq!(said.as_deref(), Some("heap-buffer-overflow"));
        let memory = "==7==WARNING: MemorySanitizer: use-of-uninitialized-value\n    #0 0x5\n";
        let said = report(Sanitizer::Memory, memory);
        assert_eq!(said.as_deref(), Some("use-of-uninitialized-value"));
        let thread = "==================\nWARNING: ThreadSanitizer: data race (pid=1)\n";
        assert_eq!(report(Sanitizer::Thread, thread).as_deref(), Some("data race"));
        let undefined = "program.c:3:9: runtime error: signed integer overflow: 1 + 2\n";
        let said = report(Sanitizer::UndefinedBehaviour, undefined);
        assert_eq!(said.as_deref(), Some("signed integer overflow: 1 + 2"));
        assert_eq!(report(Sanitizer::Address, "AddressSanitizer is not at fault\n"), None);
    }

    #[test]
    fn a_sanitizer_that_does_not_see_into_a_library_is_not_believed() {
        let misled = |sanitizer: Sanitizer, linker, arguments: &[&str], object: &[u8]| {
            sanitizer.is_misled(&Execution::linked(linker, arguments), object).is_some()
        };
        let (memory, thread) = (Sanitizer::Memory, Sanitizer::Thread);
        assert!(!misled(memory, Linker::C, &["-lm", "-pthread"], b""));
        assert!(misled(memory, Linker::C, &["-lm", "-lz"], b""));
        assert!(misled(memory, Linker::C, &["/usr/lib/libz.a"], b""));
        assert!(misled(memory, Linker::Cxx, &[], b""));
        let (openmp, own) = (b"\0__kmpc_fork_call\0", b"\0pthread_create\0");
        assert!(misled(thread, Linker::C, &[], openmp) && has_threads(openmp));
        assert!(!misled(thread, Linker::Cxx, &[], own) && has_threads(own));
        assert!(has_threads(b"\0_ZNSt6thread15_M_start_threadESt10unique_ptrIN\0"));
        assert!(!has_threads(b"\0pthread_create_other\0"));
    }

    #[test]
    fn programs_that_a_command_builds_have_no_sanitizers() {
        let mut plain = Execution::linked(Linker::C, &["-lm"]);
        let with = Sanitizer::Address.execution(&plain, SanitizedForm::Object).unwrap();
        let Build::Command(build) = &with.build else { panic!("{with:?}") };
        assert!(build.line().ends_with("-fsanitize=address program.o -o a.out -lm"));
        assert!(with.run.unwrap().environment.contains_key("ASAN_OPTIONS"));
        plain.build = Build::Command(ShellCommand::default());
        assert_eq!(Sanitizer::Address.execution(&plain, SanitizedForm::Object), None);
    }
}
