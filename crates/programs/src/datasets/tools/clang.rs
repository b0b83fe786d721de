//! Compiles programs so that equal sources give equal bytes on every machine, and nothing else of a
//! machine gets into them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use super::assembler_text::reading_directive;
use super::command::{ForeignTool, ToolRun, disk_error, find};
use super::opened::{TARGET, foreign, own_files};
use crate::datasets::DatasetError;

const CLANG: ForeignTool = ForeignTool { name: "clang-22", package: "clang-22" };
const CLANGXX: ForeignTool = ForeignTool { name: "clang++-22", package: "clang-22 g++" };
const DIS: ForeignTool = ForeignTool { name: "llvm-dis-22", package: "llvm-22" };

/// The time limit of one compilation.
pub(in crate::datasets) const COMPILE_LIMIT: Duration = Duration::from_mins(2);

pub(in crate::datasets) use super::clang_flags::FLAGS;

/// The flags of what clang makes by itself: they change no code, but keep out what differs between
/// machines and days, as the others do.
const OWN_FLAGS: &str = "--no-default-config --target=x86_64-pc-linux-gnu -g0 -w -fno-ident \
    -fno-color-diagnostics -ffile-compilation-dir=.";

/// The language of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::datasets) enum Language {
    C,
    Cxx,
    /// LLVM's own text.
    Ir,
}

impl Language {
    /// Returns the language of a source file by its ending; none for any other file.
    pub(in crate::datasets) fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "c" => Some(Self::C),
            "cc" | "cpp" | "cxx" => Some(Self::Cxx),
            _ => None,
        }
    }
}

/// One source file to compile.
#[derive(Debug, Clone)]
pub(in crate::datasets) struct SourceFile<'a> {
    /// The benchmark, for messages.
    pub(in crate::datasets) uri: &'a str,
    pub(in crate::datasets) language: Language,
    /// The folder in which the compiler runs. The program may contain the files there and below,
    /// and headers.
    pub(in crate::datasets) folder: &'a Path,
    /// The file, relative to that folder. `__FILE__` puts this name into the program.
    pub(in crate::datasets) file: &'a str,
    /// Flags for this source alone.
    pub(in crate::datasets) flags: &'a [&'a str],
    /// Files, and folders of files, that the program may contain besides those: what a user has
    /// named. They are absolute and have no links in them.
    pub(in crate::datasets) beside: &'a [PathBuf],
}

/// A compiled source.
#[derive(Debug)]
pub(in crate::datasets) struct Compiled {
    /// The program: bitcode if clang made it.
    pub(in crate::datasets) program: Vec<u8>,
    /// The command, for a shell in the source's folder.
    pub(in crate::datasets) command: String,
    /// The files of the source's folder that are in the program.
    pub(in crate::datasets) files: BTreeSet<PathBuf>,
}

/// Returns the compiler's version line, part of the cache key of everything that the compiler
/// makes.
pub(in crate::datasets) fn version() -> Result<&'static str, DatasetError> {
    static VERSION: OnceLock<String> = OnceLock::new();
    if let Some(version) = VERSION.get() {
        return Ok(version);
    }
    let output = ToolRun::new(CLANG, "its version").arg("--version").output()?;
    let text = String::from_utf8_lossy(&output);
    let line = text.lines().next().unwrap_or_default().trim().to_owned();
    Ok(VERSION.get_or_init(|| line))
}

/// Returns the folders of the compiler's and the system's headers, both as the compiler names them
/// and with links resolved.
fn headers(language: Language) -> Result<&'static [PathBuf], DatasetError> {
    static HEADERS: [OnceLock<Vec<PathBuf>>; 2] = [const { OnceLock::new() }; 2];
    let (tool, name, place) = match language {
        Language::C => (CLANG, "c", &HEADERS[0]),
        Language::Cxx => (CLANGXX, "c++", &HEADERS[1]),
        Language::Ir => return Ok(&[]),
    };
    if let Some(headers) = place.get() {
        return Ok(headers);
    }
    let what = "the folders of its headers";
    let run = ToolRun::new(tool, what).args(FLAGS.split(' '));
    let text = run.args(["-E", "-v", "-x", name, "/dev/null"]).messages()?;
    let headers = header_folders(&text);
    if headers.is_empty() {
        let (tool, what) = (tool.name.to_owned(), what.to_owned());
        return Err(DatasetError::ToolFailed { tool, what, detail: "it names none".to_owned() });
    }
    let has_library = || headers.iter().any(|folder| folder.join("iostream").is_file());
    if language == Language::Cxx && !has_library() {
        let tool = "the headers of the C++ library".to_owned();
        return Err(DatasetError::ToolMissing { tool, package: "g++" });
    }
    Ok(place.get_or_init(|| headers))
}

/// Returns the folders of headers that a compiler lists for `-v`, both as it names them and with
/// links resolved.
pub(in crate::datasets) fn header_folders(text: &str) -> Vec<PathBuf> {
    let lines = text.lines().skip_while(|line| !line.starts_with("#include <...>")).skip(1);
    let named =
        lines.take_while(|line| line.starts_with(' ')).map(|line| PathBuf::from(line.trim()));
    named.flat_map(|folder| [fs::canonicalize(&folder).ok(), Some(folder)]).flatten().collect()
}

/// Returns the name of a file as an argument that is no option: a compiler would take `-x.c` for
/// one, and read options from the file `x.c` for `@x.c`.
pub(in crate::datasets) fn plain_name(file: &str) -> String {
    if file.starts_with(['-', '@']) { format!("./{file}") } else { file.to_owned() }
}

/// Returns the command that compiles a file of C without flags of its own.
pub(in crate::datasets) fn command(file: &str) -> String {
    format!("{} {FLAGS} {}", CLANG.name, shell_words(&[file]))
}

/// Compiles a source to bitcode.
///
/// # Errors
///
/// [`DatasetError::DoesNotCompile`]; [`DatasetError::Refused`] if the compiler opened, or an
/// assembler would open, a file that is neither the program's own nor a header.
pub(in crate::datasets) fn compile(source: &SourceFile<'_>) -> Result<Compiled, DatasetError> {
    compile_by(source, |run| run)
}

/// Compiles a source as clang itself does, with its own passes. `kinds` are the flags that say what
/// is made. Returns that, and the command, for a shell in the source's folder.
///
/// # Errors
///
/// [`DatasetError::DoesNotCompile`]. What the source takes in is not looked at.
pub(in crate::datasets) fn compile_whole(
    source: &SourceFile<'_>,
    kinds: &[&str],
) -> Result<(Vec<u8>, String), DatasetError> {
    let tool = if source.language == Language::Cxx { CLANGXX } else { CLANG };
    let out = tempfile::tempdir().map_err(|error| scratch_error(&error))?;
    let made = out.path().join("made");
    let file = plain_name(source.file);
    let own = source.flags.iter().chain(kinds).copied();
    let arguments: Vec<&str> = OWN_FLAGS.split(' ').chain(own).chain([file.as_str()]).collect();
    let run = ToolRun::new(tool, source.uri).args(&arguments).arg("-o").arg(&made);
    let run = run.folder(source.folder).writes(out.path()).limit(COMPILE_LIMIT);
    let run = source.beside.iter().fold(run, ToolRun::reads);
    match run.output() {
        Ok(_) => {}
        Err(DatasetError::ToolFailed { detail, .. }) if disk_error(&detail).is_none() => {
            return Err(rejected(source.uri, detail));
        }
        Err(error) => return Err(error),
    }
    let made = fs::read(&made).map_err(|error| scratch_error(&error))?;
    Ok((made, format!("{} {}", tool.name, shell_words(&arguments))))
}

/// Compiles with the usual run, changed by `prepare`.
fn compile_by<'a>(
    source: &SourceFile<'a>,
    prepare: impl FnOnce(ToolRun<'a>) -> ToolRun<'a>,
) -> Result<Compiled, DatasetError> {
    let tool = if source.language == Language::Cxx { CLANGXX } else { CLANG };
    let is_ir = source.language == Language::Ir;
    let language: &[&str] = if is_ir { &["-x", "ir"] } else { &[] };
    find(tool)?;
    // Without the headers, a file would not compile, which says nothing about the file.
    let headers = headers(source.language)?;
    let out = tempfile::tempdir().map_err(|error| scratch_error(&error))?;
    let (program, opened) = (out.path().join("program.bc"), out.path().join("opened"));
    let file = plain_name(source.file);
    let own = source.flags.iter().chain(language).copied();
    let arguments: Vec<&str> = FLAGS.split(' ').chain(own).chain([file.as_str()]).collect();
    let mut run = ToolRun::new(tool, source.uri).args(&arguments).arg("-o").arg(&program);
    if !is_ir {
        run = run.args(["-MD", "-MT", TARGET, "-MF"]).arg(&opened);
    }
    let run = run.folder(source.folder).writes(out.path()).limit(COMPILE_LIMIT);
    let run = source.beside.iter().fold(run, ToolRun::reads);
    match prepare(run).output() {
        Ok(_) => {}
        Err(DatasetError::ToolFailed { detail, .. }) if disk_error(&detail).is_none() => {
            return Err(rejected(source.uri, detail));
        }
        Err(error) => return Err(error),
    }
    let mut files = BTreeSet::new();
    if !is_ir {
        // clang 22 silently treats an `#embed` of a file that it cannot open as empty, but then it
        // writes no list either.
        let Ok(opened) = fs::read(&opened) else {
            return Err(refused_file(source.uri, "a file that cannot be opened"));
        };
        if let Some(file) = foreign(source.folder, source.beside, headers, &opened) {
            return Err(refused_file(source.uri, &format!("`{file}`")));
        }
        files = own_files(source.folder, &opened);
    }
    let text = ToolRun::new(DIS, source.uri).args(["-o", "-"]).arg(&program).reads(out.path());
    refuse_reading_assembly(source.uri, &text.output()?)?;
    let program = fs::read(&program).map_err(|error| scratch_error(&error))?;
    let command = format!("{} {}", tool.name, shell_words(&arguments));
    Ok(Compiled { program, command, files })
}

/// Returns words as a shell reads them: with quotes where a character means something to it.
pub(in crate::datasets) fn shell_words(words: &[impl AsRef<str>]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=+:,@%".contains(c);
    let quoted = words.iter().map(AsRef::as_ref).map(|word: &str| {
        if !word.is_empty() && word.chars().all(plain) {
            return word.to_owned();
        }
        format!("'{}'", word.replace('\'', "'\\''"))
    });
    quoted.collect::<Vec<_>>().join(" ")
}

/// Interprets the compiler's error: if the sandbox denied a file, the program is refused.
fn rejected(uri: &str, detail: String) -> DatasetError {
    let kept_from = detail.split_once("cannot open file '").and_then(|(_, rest)| {
        rest.strip_suffix("': Permission denied").map(|file| format!("`{file}`"))
    });
    if let Some(file) = kept_from {
        return refused_file(uri, &file);
    }
    // The compiler parses the module's assembler text for its symbols.
    for name in ["incbin", "include"] {
        if detail.contains(&format!("Could not find {name} file")) {
            return refused_assembly(uri, name);
        }
    }
    DatasetError::DoesNotCompile { uri: uri.to_owned(), detail }
}

pub(in crate::datasets) fn refused_file(uri: &str, file: &str) -> DatasetError {
    let detail = format!(
        "it takes in {file}, which is neither a header of the compiler or the system nor a file in \
         the program's own folder or below: copy it there, or name its folder by a flag -I"
    );
    DatasetError::Refused { uri: uri.to_owned(), detail }
}

/// Refuses a program, in LLVM's text form, whose assembler text reads files.
pub(in crate::datasets) fn refuse_reading_assembly(
    uri: &str,
    program: &[u8],
) -> Result<(), DatasetError> {
    reading_directive(program).map_or(Ok(()), |directive| Err(refused_assembly(uri, directive)))
}

pub(in crate::datasets) fn refused_assembly(uri: &str, directive: &str) -> DatasetError {
    let detail = format!(
        "its assembler text has `{directive}` in it, by which it could take in any file: write it \
         without"
    );
    DatasetError::Refused { uri: uri.to_owned(), detail }
}

pub(in crate::datasets) fn scratch_error(error: &std::io::Error) -> DatasetError {
    DatasetError::ToolFailed {
        tool: CLANG.name.to_owned(),
        what: "its output in the temporary folder".to_owned(),
        detail: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Makes a folder that holds a secret beside the folder of a program.
    fn place(program: &str) -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("own");
        fs::create_dir_all(own.join("sub")).unwrap();
        fs::write(place.path().join("secret"), "int secret = 1234567;\n").unwrap();
        fs::write(own.join("sub/n.h"), "#define N 7\n").unwrap();
        symlink(place.path().join("secret"), own.join("link.h")).unwrap();
        fs::write(own.join("a.c"), program.replace("SECRET", place.path().to_str().unwrap()))
            .unwrap();
        place
    }

    fn compiled(
        program: &str,
        language: Language,
        landlock: bool,
    ) -> Result<Compiled, DatasetError> {
        let place = place(program);
        let folder = place.path().join("own");
        let (uri, file) = ("file:///a.c", "a.c");
        let source = SourceFile { uri, language, folder: &folder, file, flags: &[], beside: &[] };
        compile_by(&source, |run| if landlock { run } else { run.unconfined() })
    }

    #[test]
    fn nothing_of_other_files_gets_into_a_program() {
        for program in [
            "#include \"SECRET/secret\"\n",
            "#include \"../secret\"\n",
            "#include \"sub/../../secret\"\n",
            "#include \"link.h\"\n",
            "#if __has_include(<../../etc/passwd>)\nint has;\n#endif\n",
            "const char s[] = {\n#embed \"/etc/passwd\"\n};\n",
            "const char s[] = {\n#embed \"SECRET/secret\"\n};\n",
            "const char s[] = {\n#embed \"../secret\"\n};\n",
            "const char s[] = {\n#embed \"link.h\"\n};\n",
            "#if __has_embed(\"SECRET/secret\")\nint has;\n#endif\n",
        ] {
            let error = compiled(program, Language::C, false).unwrap_err();
            assert!(matches!(error, DatasetError::Refused { .. }), "{program}: {error}");
            let error = compiled(program, Language::C, true).unwrap_err();
            let is_refused = matches!(error, DatasetError::Refused { .. });
            assert!(is_refused, "{program}: {error}");
            assert!(error.to_string().contains("it takes in "), "{error}");
        }
    }

    #[test]
    fn a_shell_reads_the_words_of_a_command() {
        let words = ["-O1", "-DV=\"1.2\"", "a b.c", "it's", "", "$x", "lib/a++.cc"];
        let text = shell_words(&words);
        assert_eq!(text, "-O1 '-DV=\"1.2\"' 'a b.c' 'it'\\''s' '' '$x' lib/a++.cc");
        let shell = ToolRun::new(ForeignTool { name: "sh", package: "dash" }, "a test");
        let printed = shell.arg("-c").arg(format!("printf '%s\\n' {text}")).output().unwrap();
        assert_eq!(String::from_utf8(printed).unwrap(), words.join("\n") + "\n");
    }

    /// `@a.c` on the command line would be the options in `a.c`.
    #[test]
    fn a_name_that_looks_like_an_option_is_that_of_a_file() {
        let place = place("--version\n");
        let folder = place.path().join("own");
        for file in ["@a.c", "-a.c"] {
            fs::write(folder.join(file), "int mine(void) { return 1; }\n").unwrap();
            let (uri, language) = ("file:///a.c", Language::C);
            let source =
                SourceFile { uri, language, folder: &folder, file, flags: &[], beside: &[] };
            let compiled = compile_by(&source, ToolRun::unconfined).unwrap();
            assert!(compiled.program.windows(4).any(|name| name == b"mine"), "{file}");
        }
    }

    #[test]
    fn assembler_text_that_would_read_a_file_is_refused() {
        for program in [
            "__asm__(\".globl s\\ns: .incbin \\\"/etc/hostname\\\"\");\n",
            "void f(void) { __asm__ volatile(\".Inc\" \"bin \\\"/etc/hostname\\\"\"); }\n",
        ] {
            for landlock in [false, true] {
                let error = compiled(program, Language::C, landlock).unwrap_err();
                assert_eq!(
                    error.to_string(),
                    "file:///a.c is refused: its assembler text has `incbin` in it, by which it could take in any \
                     file: write it without"
                );
            }
        }
    }

    #[test]
    fn own_files_and_headers_are_taken() {
        let c = "#include <stdio.h>\n#include <math.h>\n#include \"sub/n.h\"\n#include <stddef.h>\n\
                 const char s[] = {\n#embed \"sub/n.h\"\n};\nint f(void) { return N; }\n";
        let cxx = "#include <vector>\n#include <string>\n#include \"sub/n.h\"\n\
                   int f() { return std::vector<int>(N).size(); }\n";
        for (program, language) in [(c, Language::C), (cxx, Language::Cxx)] {
            let both = [true, false].map(|landlock| compiled(program, language, landlock).unwrap());
            assert_eq!(both[0].program, both[1].program);
            assert_eq!(both[0].command, both[1].command);
        }
    }
}
