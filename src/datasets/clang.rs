//! How every program is compiled, so that equal sources give equal bytes on every machine.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use super::DatasetError;
use super::command::{Run, RunError, Tool, find};

const CLANG: Tool = Tool { name: "clang-22", package: "clang-22" };
const CLANGXX: Tool = Tool { name: "clang++-22", package: "clang-22 g++" };

/// The longest that one compilation may take.
const COMPILE_LIMIT: Duration = Duration::from_mins(2);

/// Optimisation is on, so that no function is marked `noinline` or `optnone`, and the passes are
/// off, since they are what is studied. Everything else keeps out what differs from machine to
/// machine or from day to day: configuration files, the identification of the build, working
/// folders. Dates are held by `SOURCE_DATE_EPOCH`.
///
/// `-funroll-loops` is there because without it `-O1` marks every loop with
/// `llvm.loop.unroll.disable`, and no unrolling pass would ever do anything.
pub(super) const FLAGS: [&str; 13] = [
    "--no-default-config",
    "--target=x86_64-pc-linux-gnu",
    "-O1",
    "-funroll-loops",
    "-Xclang",
    "-disable-llvm-passes",
    "-g0",
    "-w",
    "-fno-ident",
    "-fno-color-diagnostics",
    "-ffile-compilation-dir=.",
    "-emit-llvm",
    "-c",
];

/// What a source is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    C,
    Cxx,
    /// LLVM's own text.
    Ir,
}

/// One source file to compile.
#[derive(Debug, Clone)]
pub(super) struct Source<'a> {
    /// The benchmark, for messages.
    pub(super) uri: &'a str,
    pub(super) language: Language,
    /// The folder in which the compiler runs.
    pub(super) folder: &'a Path,
    /// The file, relative to that folder: this name goes into the program as `__FILE__`.
    pub(super) file: &'a str,
    /// Flags of this source alone.
    pub(super) flags: &'a [String],
}

/// A compiled source.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) bitcode: Vec<u8>,
    pub(super) command: String,
}

/// The compiler's version line: part of the name of everything that it makes.
pub(super) fn version() -> Result<&'static str, DatasetError> {
    static VERSION: OnceLock<String> = OnceLock::new();
    if let Some(version) = VERSION.get() {
        return Ok(version);
    }
    let output = Run::new(CLANG, "its version").arg("--version").output()?;
    let text = String::from_utf8_lossy(&output);
    let line = text.lines().next().unwrap_or_default().trim().to_owned();
    Ok(VERSION.get_or_init(|| line))
}

/// Compiles a source to bitcode.
pub(super) fn compile(source: &Source<'_>) -> Result<Compiled, DatasetError> {
    let tool = if source.language == Language::Cxx { CLANGXX } else { CLANG };
    let language: &[&str] = if source.language == Language::Ir { &["-x", "ir"] } else { &[] };
    find(tool)?;
    let out = tempfile::NamedTempFile::new().map_err(|error| scratch_error(&error))?;
    // A file called `-x.c` is a file.
    let file = if source.file.starts_with('-') {
        format!("./{}", source.file)
    } else {
        source.file.to_owned()
    };
    let arguments = || {
        let own = source.flags.iter().map(String::as_str);
        FLAGS.into_iter().chain(own).chain(language.iter().copied()).chain([file.as_str()])
    };
    let run = Run::new(tool, source.uri).args(arguments()).arg("-o").arg(out.path());
    match run.folder(source.folder).limit(COMPILE_LIMIT).output() {
        Ok(_) => {}
        Err(RunError::Failed(failed)) if failed.disk_error().is_none() => {
            let uri = source.uri.to_owned();
            return Err(DatasetError::DoesNotCompile { uri, detail: failed.detail });
        }
        Err(error) => return Err(error.into()),
    }
    let bitcode = fs::read(out.path()).map_err(|error| scratch_error(&error))?;
    let shown: Vec<&str> = arguments().collect();
    Ok(Compiled { bitcode, command: format!("{} {}", tool.name, shown.join(" ")) })
}

fn scratch_error(error: &std::io::Error) -> DatasetError {
    DatasetError::ToolFailed {
        tool: CLANG.name.to_owned(),
        what: "its output in the temporary folder".to_owned(),
        detail: error.to_string(),
    }
}
