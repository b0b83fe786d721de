//! Preprocesses C once, so that a program is one text that needs no headers, and holds nothing of
//! the machine.

use std::fs;
use std::path::{Path, PathBuf};

use super::assembler_text::reading_directive_in_assembly;
use super::clang::{
    self, COMPILE_LIMIT, Compiled, Language, SourceFile, refused_assembly, refused_file,
    shell_words,
};
use super::command::{ForeignTool, ToolRun, disk_error};
use super::opened::{TARGET, foreign, own_files};
use crate::datasets::DatasetError;

/// How errors call the compiler, wherever it lies.
const GCC: ForeignTool = ForeignTool { name: "gcc", package: "gcc libc6-dev" };

/// The files of a run.
const PROGRAM: &str = "program.i";
const ASSEMBLY: &str = "program.s";
const OPENED: &str = "opened";

/// Flags of a dataset that speak of clang's diagnostics alone.
const OF_CLANG: &str = "-Wno-error=";

/// A GCC as a preprocessor.
#[derive(Debug, Clone)]
pub struct Preprocessor {
    driver: PathBuf,
    build: String,
    read: Vec<PathBuf>,
}

impl Preprocessor {
    /// The flags for every source: no line markers, and none of the library's checks, which depend
    /// on the level of optimisation that the preprocessor is told.
    pub const FLAGS: &str = "-E -P -w -U_FORTIFY_SOURCE";

    /// Takes the compiler at `driver`, whose exact build is called `build`. It may read the
    /// system's files, and those in `read`.
    pub fn new(driver: PathBuf, build: String, read: Vec<PathBuf>) -> Self {
        Self { driver, build, read }
    }

    pub(in crate::datasets) fn version(&self) -> &str {
        &self.build
    }

    /// Makes a program of a source of C, and has the compiler accept it.
    ///
    /// # Errors
    ///
    /// [`DatasetError::DoesNotCompile`], and [`DatasetError::Refused`] if it takes in a file that
    /// is neither its own nor a header.
    pub(in crate::datasets) fn preprocess(
        &self,
        source: &SourceFile<'_>,
    ) -> Result<Compiled, DatasetError> {
        if source.language != Language::C {
            let detail = "programs of gcc-v0 are C".to_owned();
            return Err(DatasetError::DoesNotCompile { uri: source.uri.to_owned(), detail });
        }
        let out = tempfile::tempdir().map_err(|error| clang::scratch_error(&error))?;
        let mut headers = self.headers()?;
        // A generator's own headers are this machine's, be the compiler in a container image.
        let is_folder = |flag: &&&str| flag.starts_with("-I/");
        headers.extend(source.flags.iter().filter(is_folder).map(|flag| PathBuf::from(&flag[2..])));
        let file = clang::plain_name(source.file);
        let own = source.flags.iter().copied().filter(|flag| !flag.starts_with(OF_CLANG));
        let arguments: Vec<&str> =
            Self::FLAGS.split(' ').chain(own).chain([file.as_str()]).collect();
        let run = self.run(source.uri).args(&arguments).arg("-o").arg(out.path().join(PROGRAM));
        let run = run.args(["-MD", "-MT", TARGET, "-MF"]).arg(out.path().join(OPENED));
        let run = run.folder(source.folder).writes(out.path());
        let run = source.beside.iter().fold(run, ToolRun::reads);
        run.output().map_err(|error| rejected(source.uri, error))?;
        let opened = fs::read(out.path().join(OPENED)).unwrap_or_default();
        if let Some(file) = foreign(source.folder, source.beside, &headers, &opened) {
            return Err(refused_file(source.uri, &format!("`{file}`")));
        }
        let files = own_files(source.folder, &opened);
        let text =
            fs::read(out.path().join(PROGRAM)).map_err(|error| clang::scratch_error(&error))?;
        let program = [line_marker(source.file).as_bytes(), &text].concat();
        self.demand_compilable(source.uri, &program, out.path())?;
        let command = format!("{} {}", GCC.name, shell_words(&arguments));
        Ok(Compiled { program, command, files })
    }

    /// Accepts preprocessed C: it compiles, and its assembler text reads no file. Other options can
    /// give it another text, so whoever compiles it looks again.
    ///
    /// # Errors
    ///
    /// [`DatasetError::DoesNotCompile`] and [`DatasetError::Refused`].
    pub(in crate::datasets) fn accept(
        &self,
        uri: &str,
        program: &[u8],
    ) -> Result<(), DatasetError> {
        let out = tempfile::tempdir().map_err(|error| clang::scratch_error(&error))?;
        self.demand_compilable(uri, program, out.path())
    }

    fn demand_compilable(&self, uri: &str, program: &[u8], out: &Path) -> Result<(), DatasetError> {
        let scratch = |error| clang::scratch_error(&error);
        fs::write(out.join(PROGRAM), program).map_err(scratch)?;
        let run = self.run(uri).args(["-S", "-O0", "-w", "-x", "cpp-output", PROGRAM]);
        let run = run.args(["-o", ASSEMBLY]).folder(out).writes(out);
        run.output().map_err(|error| rejected(uri, error))?;
        let assembly = fs::read(out.join(ASSEMBLY)).map_err(scratch)?;
        reading_directive_in_assembly(&assembly)
            .map_or(Ok(()), |directive| Err(refused_assembly(uri, directive)))
    }

    fn run<'a>(&self, what: &'a str) -> ToolRun<'a> {
        let run = ToolRun::new(GCC, what).at(self.driver.clone()).limit(COMPILE_LIMIT);
        self.read.iter().fold(run, ToolRun::reads)
    }

    /// Returns the folders of the compiler's and the system's headers, both as the compiler names
    /// them and with links resolved.
    fn headers(&self) -> Result<Vec<PathBuf>, DatasetError> {
        let run = self.run("the folders of its headers");
        let text = run.args(["-E", "-v", "-x", "c", "/dev/null"]).messages()?;
        Ok(clang::header_folders(&text))
    }
}

/// Returns the line by which the compiler takes the program for this file: otherwise its assembly
/// would name the file that it was read from.
fn line_marker(file: &str) -> String {
    let name = file.replace('\\', "\\\\").replace('"', "\\\"");
    format!("# 1 \"{name}\"\n")
}

/// Interprets the compiler's error.
fn rejected(uri: &str, error: DatasetError) -> DatasetError {
    match error {
        DatasetError::ToolFailed { detail, .. } if disk_error(&detail).is_none() => {
            if let Some((_, file)) = detail.split_once("fatal error: ")
                && let Some(file) = file.strip_suffix(": Permission denied")
            {
                return refused_file(uri, &format!("`{file}`"));
            }
            DatasetError::DoesNotCompile { uri: uri.to_owned(), detail }
        }
        other => other,
    }
}
