//! How programs of the user's own are run.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::Error;
use crate::datasets::ProgramCache;
use crate::env::{Environment, Start, Watch};
use crate::environments::catalogue::Catalogue;
use crate::generate::ProgramProvider as _;
use crate::lake::Snapshot;
use crate::model::{Benchmark, BenchmarkUri, EXECUTABLE, Execution, Input, Linker, StateId, Value};

/// The name of the file with the standard input, in the folder where the program runs.
const STDIN: &str = "stdin";

/// The library that every program may need besides those that its linker knows.
const LIBRARIES: &[&str] = &["-lm"];

/// How a program of the user's own is run: linked with nothing but the libraries of its language
/// and of mathematics, and started in a folder that is empty but for its standard input and copies
/// of its inputs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HowRun {
    /// The arguments, as the words of a shell; nothing in them is expanded.
    pub arguments: String,
    /// The file that it reads as its standard input, which is empty if there is none.
    pub stdin: Option<PathBuf>,
    /// Files that it reads. Relative paths keep their folders.
    pub inputs: Vec<PathBuf>,
}

impl HowRun {
    /// Says how a program is built and run, and puts the files that it reads into the cache.
    ///
    /// # Errors
    ///
    /// If the arguments are no words of a shell, or a file cannot be read or has no place.
    pub(super) fn execution(&self, linker: Linker) -> Result<Execution, Error> {
        let words = shell_words::split(&self.arguments)
            .map_err(|error| Error::usage(format!("arguments `{}`: {error}", self.arguments)))?;
        let mut execution = Execution::linked(linker, LIBRARIES);
        let Some(run) = &mut execution.run else { return Ok(execution) };
        run.arguments.extend(words.iter().map(|word| shell_words::quote(word).into_owned()));
        for path in &self.inputs {
            let name = place(path)?;
            let is_taken = [EXECUTABLE, STDIN].contains(&name.as_str())
                || execution.inputs.iter().any(|input| input.name == name);
            if is_taken {
                return Err(Error::usage(format!(
                    "input {}: another file lies there as `{name}`: rename it",
                    path.display()
                )));
            }
            run.infiles.push(name.clone());
            execution.inputs.push(kept(path, name)?);
        }
        if let Some(path) = &self.stdin {
            run.arguments.push(format!("<{STDIN}"));
            run.infiles.push(STDIN.to_owned());
            execution.inputs.push(kept(path, STDIN.to_owned())?);
        }
        Ok(execution)
    }

    /// Says how a program is built and run that no lake has.
    ///
    /// # Errors
    ///
    /// If the arguments are no words of a shell, a file cannot be read or has no place, or the
    /// compiler cannot start the program.
    pub fn execution_of(
        &self,
        environment: &dyn Environment,
        benchmark: &Benchmark,
    ) -> Result<Execution, Error> {
        let spec = environment.spec();
        let mut session = environment.session()?;
        session.start(&Start {
            benchmark,
            action_space: &spec.action_spaces[0].name,
            baselines: Some(&spec.zero_baselines()),
            watch: &Watch::default(),
        })?;
        let text = match spec.observation_index("Ir").map(|space| session.observe(space)) {
            Some(Ok(Value::Text(text))) => text,
            _ => String::new(),
        };
        self.execution(linker_of(&text))
    }

    /// Says how a program of a lake is built and run.
    pub(super) fn execution_in(
        &self,
        environment: &dyn Environment,
        snapshot: &Snapshot,
        catalogue: &Catalogue,
        (uri, initial): (&BenchmarkUri, StateId),
    ) -> Result<Execution, Error> {
        let program = match snapshot.ir(&[initial])?.pop().flatten() {
            Some(program) => program.into(),
            None => catalogue.load(uri)?.program,
        };
        let text = environment.session()?.text(&program)?;
        self.execution(linker_of(&text))
    }
}

/// Whether a program is one of the user's own, of which only the user says how it is run.
pub(super) fn is_own(uri: &BenchmarkUri) -> bool {
    uri.scheme() == "file"
}

/// Refuses to be told how programs are run where none is the user's own.
pub(super) fn demand_own<'a>(
    how: Option<&HowRun>,
    uris: impl IntoIterator<Item = &'a BenchmarkUri>,
) -> Result<(), Error> {
    if how.is_none() || uris.into_iter().any(is_own) {
        return Ok(());
    }
    Err(Error::usage(
        "how a program is run is to be said of programs of your own alone (file:///…), and there \
         is none of these: leave it out",
    ))
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

/// Returns where the copy of a file lies in the folder of a program.
fn place(path: &Path) -> Result<String, Error> {
    let is_plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    let whole = path.components().all(is_plain).then(|| {
        path.components().filter(|part| matches!(part, Component::Normal(_))).collect::<PathBuf>()
    });
    let placed = whole.or_else(|| path.file_name().map(PathBuf::from));
    placed.as_deref().and_then(Path::to_str).map(str::to_owned).ok_or_else(|| {
        Error::usage(format!("input {}: its name is that of no file, or not UTF-8", path.display()))
    })
}

/// Puts a file into the cache of inputs.
fn kept(path: &Path, name: String) -> Result<Input, Error> {
    let content = fs::read(path)
        .map_err(|error| Error::usage(format!("{} cannot be read: {error}", path.display())))?;
    Ok(Input { name, blake3: cache()?.keep_input(&content)? })
}

/// Returns the cache of this user.
pub(super) fn cache() -> Result<ProgramCache, Error> {
    Ok(ProgramCache::new(ProgramCache::users_root()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_words_that_no_shell_expands() {
        let arguments = "-n 3 'two words' '$HOME'".to_owned();
        let how = HowRun { arguments, ..HowRun::default() };
        let run = how.execution(Linker::C).unwrap().run.unwrap();
        assert_eq!(run.line(), "./a.out -n 3 'two words' '$HOME'");
        let unclosed = HowRun { arguments: "'".to_owned(), ..HowRun::default() };
        assert!(unclosed.execution(Linker::C).unwrap_err().to_string().starts_with("arguments `"));
    }

    #[test]
    fn relative_inputs_keep_their_folders() {
        for (path, wanted) in [
            ("a.txt", "a.txt"),
            ("./data/a.txt", "data/a.txt"),
            ("/data/a.txt", "a.txt"),
            ("../data/a.txt", "a.txt"),
        ] {
            assert_eq!(place(Path::new(path)).unwrap(), wanted, "{path}");
        }
        assert!(place(Path::new("..")).is_err());
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
