//! The program that a user names: its name in the lake, and how it is run.

use std::fs;
use std::path::PathBuf;

use crate::assembly::catalogue::Catalogue;
use crate::assembly::command_error::CommandError;
use crate::datasets::{Aim, Cache, compiled_for};
use crate::model::{BenchmarkUri, Execution, Input, Linker};

/// The name of the file with the standard input, in the folder where the program runs.
const STDIN: &str = "stdin";

/// The library that every program may need besides those that its linker knows.
const LIBRARIES: &[&str] = &["-lm"];

/// How a program of the user's own is run: linked with nothing but the libraries of its language
/// and of mathematics, and started in a folder that is empty but for its standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HowRun {
    /// The arguments, as the words of a shell; nothing in them is expanded.
    pub arguments: String,
    /// The file that it reads as its standard input, which is empty if there is none.
    pub stdin: Option<PathBuf>,
}

impl HowRun {
    /// Says how a program is built and run, and puts its standard input into the cache.
    ///
    /// # Errors
    ///
    /// If the arguments are no words of a shell, or the input cannot be read.
    pub(super) fn execution(&self, linker: Linker) -> Result<Execution, CommandError> {
        let words = shell_words::split(&self.arguments).map_err(|error| {
            CommandError::usage(format!("--arguments {}: {error}", self.arguments))
        })?;
        let mut execution = Execution::linked(linker, LIBRARIES);
        let Some(run) = &mut execution.run else { return Ok(execution) };
        run.arguments.extend(words.iter().map(|word| shell_words::quote(word).into_owned()));
        if let Some(path) = &self.stdin {
            let content = fs::read(path).map_err(|error| {
                CommandError::usage(format!("--stdin {} cannot be read: {error}", path.display()))
            })?;
            let blake3 = cache()?.keep_input(&content)?;
            run.arguments.push(format!("<{STDIN}"));
            run.infiles.push(STDIN.to_owned());
            execution.inputs.push(Input { name: STDIN.to_owned(), blake3 });
        }
        Ok(execution)
    }
}

/// Returns the linker that knows the libraries of a program, which is LLVM's IR as text: that of
/// C++ if it has a symbol that is mangled as those are.
pub(super) fn linker_of(ir: &str) -> Linker {
    let mut globals = ir
        .lines()
        .filter(|line| ["@", "define ", "declare "].iter().any(|begin| line.starts_with(begin)));
    let is_mangled = |line: &str| ["@_Z", "@__cxa_", "@__gxx_"].iter().any(|of| line.contains(of));
    if globals.any(is_mangled) { Linker::Cxx } else { Linker::C }
}

fn cache() -> Result<Cache, CommandError> {
    Ok(Cache::new(Cache::users_root()?))
}

/// Returns the program that is optimised: of a file of C or C++, bitcode in the cache whose
/// functions are marked as `clang` marks them with this aim; any other program as it is.
pub(super) fn aimed_at(
    aim: Aim,
    named: &BenchmarkUri,
    catalogue: &Catalogue,
) -> Result<BenchmarkUri, CommandError> {
    match compiled_for(aim, named, &cache()?)? {
        Some(bitcode) => catalogue.one(&bitcode.display().to_string()),
        None => Ok(named.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_words_that_no_shell_expands() {
        let how = HowRun { arguments: "-n 3 'two words' '$HOME'".to_owned(), stdin: None };
        let run = how.execution(Linker::C).unwrap().run.unwrap();
        assert_eq!(run.line(), "./a.out -n 3 'two words' '$HOME'");
        let unclosed = HowRun { arguments: "'".to_owned(), stdin: None };
        assert!(
            unclosed.execution(Linker::C).unwrap_err().to_string().starts_with("--arguments '")
        );
    }

    #[test]
    fn mangled_symbols_need_the_libraries_of_cxx() {
        for cxx in [
            "declare ptr @_Znwm(i64)",
            "@_ZTVN3one",
            "define i32 @main() personality ptr @__gxx_personality_v0 {",
        ] {
            assert_eq!(linker_of(&format!("define i32 @f() {{\n{cxx}\n")), Linker::Cxx, "{cxx}");
        }
        for c in
            ["@text = constant [4 x i8] c\"a_Zb\"", "  call void @_Zap()", "define i32 @main() {"]
        {
            assert_eq!(linker_of(&format!("{c}\n")), Linker::C, "{c}");
        }
    }
}
