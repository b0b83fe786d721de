//! Makes the one module of a program, and its inputs, from the archive of a package.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::definition::{BenchPackage, BenchProgram, StoredBenchProgram, own};
use super::inputs;
use crate::datasets::cache::stored::StoredProgram;
use crate::datasets::debian::{Apt, SourceTree};
use crate::datasets::naming::pattern::matcher;
use crate::datasets::tools::clang::{self, Language, SourceFile};
use crate::datasets::tools::command::{ForeignTool, TAR, ToolRun};
use crate::datasets::{DatasetError, ProgramCache};
use steplake_model::{BenchmarkUri, Provenance};

const LINK: ForeignTool = ForeignTool { name: "llvm-link-22", package: "llvm-22" };
const UNPACK_LIMIT: Duration = Duration::from_mins(5);

/// Fetches, unpacks, compiles and links a program, and collects its inputs.
///
/// # Errors
///
/// Those of [`Apt::archive`] and of the compiler.
pub(super) fn make(
    cache: &ProgramCache,
    apt: &Apt,
    uri: &BenchmarkUri,
    package: &BenchPackage,
    program: &BenchProgram,
) -> Result<StoredBenchProgram, DatasetError> {
    // No archive is asked about a program that could not be compiled.
    clang::version()?;
    let archive = apt.archive(&program.package, &package.archive, &package.sha256)?;
    let scratch = cache.scratch()?;
    let root = scratch.path().join("source");
    fs::create_dir(&root).map_err(DatasetError::cache(&root))?;
    let run = ToolRun::new(TAR, &package.archive).folder(&root).limit(UNPACK_LIMIT);
    let run = run.reads(&archive).writes(&root).arg("-xf").arg(&archive);
    run.args(["--strip-components=1", "--no-same-owner"]).output()?;
    complete(&root, package, program).map_err(DatasetError::cache(&root))?;
    let sources = sources(uri, &root, program)?;
    let modules = scratch.path().join("modules");
    fs::create_dir(&modules).map_err(DatasetError::cache(&modules))?;
    let (bitcode, compile_command) = linked(uri, &root, &modules, program, &sources)?;
    let inputs = program.files.iter().map(|(name, from)| {
        let content = input(&root, from).map_err(|source| {
            let path = root.join(from);
            DatasetError::Unreadable { path, source }
        })?;
        Ok((name.clone(), content))
    });
    let BenchPackage { version, archive, sha256, .. } = package;
    let provenance = Provenance {
        family: format!("debian/{}", program.package),
        licence: program.licence.clone(),
        origin: format!(
            "{}: {} {version} in Debian, {archive}, sha256 {sha256}",
            program.about, program.package
        ),
        compile_command,
    };
    let inputs = inputs.collect::<Result<_, DatasetError>>()?;
    let is_cxx = sources.iter().any(|file| language(file) == Language::Cxx);
    Ok(StoredBenchProgram {
        stored: StoredProgram { provenance, program: bitcode },
        is_cxx,
        inputs,
    })
}

fn language(file: &str) -> Language {
    Language::of(Path::new(file)).unwrap_or(Language::C)
}

/// Writes what the archive lacks: the files that `configure` would make, and the driver.
fn complete(root: &Path, package: &BenchPackage, program: &BenchProgram) -> io::Result<()> {
    for (name, lines) in &package.added {
        let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        fs::write(root.join(name), text)?;
    }
    for (to, from) in &package.copied {
        fs::copy(root.join(from), root.join(to))?;
    }
    match &program.driver {
        Some(driver) => fs::write(root.join(driver_file(driver)), own(driver)),
        None => Ok(()),
    }
}

/// Returns the driver's name among the files of the package, which may have one of the same name.
fn driver_file(driver: &str) -> String {
    format!("own_{driver}")
}

/// Lists the files to compile, in the order of the globs.
fn sources(
    uri: &BenchmarkUri,
    root: &Path,
    program: &BenchProgram,
) -> Result<Vec<String>, DatasetError> {
    let unreadable = |source| DatasetError::Unreadable { path: root.to_owned(), source };
    let all = SourceTree::read(root).map_err(unreadable)?.files();
    let mut sources: Vec<String> = Vec::new();
    for glob in &program.sources {
        if let Some(glob) = glob.strip_prefix('!') {
            let unwanted = matcher(uri.as_str(), glob)?;
            sources.retain(|file| !unwanted.is_match(file));
            continue;
        }
        let wanted = matcher(uri.as_str(), glob)?;
        let before = sources.len();
        for file in all.iter().filter(|file| wanted.is_match(file)) {
            if !sources.contains(file) {
                sources.push(file.clone());
            }
        }
        if sources.len() == before {
            let detail = format!("the package has no file `{glob}`");
            return Err(DatasetError::DoesNotCompile { uri: uri.to_string(), detail });
        }
    }
    sources.extend(program.driver.as_deref().map(driver_file));
    Ok(sources)
}

/// Compiles every file and links the modules to one. Also returns the commands.
fn linked(
    uri: &BenchmarkUri,
    root: &Path,
    modules: &Path,
    program: &BenchProgram,
    sources: &[String],
) -> Result<(Vec<u8>, String), DatasetError> {
    let flags: Vec<&str> = program.flags.iter().map(String::as_str).collect();
    let mut files: Vec<PathBuf> = Vec::new();
    let mut commands: Vec<String> = Vec::new();
    for (number, file) in sources.iter().enumerate() {
        let compiled = clang::compile(&SourceFile {
            uri: uri.as_str(),
            language: language(file),
            folder: root,
            file,
            flags: &flags,
            beside: &[],
        })?;
        let path = modules.join(format!("{number}.bc"));
        fs::write(&path, compiled.program).map_err(DatasetError::cache(&path))?;
        files.push(path);
        commands.push(compiled.command);
    }
    let run = ToolRun::new(LINK, uri.as_str()).folder(modules).writes(modules);
    run.args(["-o", "program.bc"]).args(&files).output()?;
    let path = modules.join("program.bc");
    let bitcode = fs::read(&path).map_err(DatasetError::cache(&path))?;
    Ok((bitcode, one_command(sources, &commands)))
}

/// Returns the commands of all files as one: files that differ in nothing but their names share a
/// loop.
fn one_command(sources: &[String], commands: &[String]) -> String {
    let mut loops: Vec<(&str, Vec<String>)> = Vec::new();
    for (file, command) in sources.iter().zip(commands) {
        let file = clang::shell_words(&[file]);
        let head = command.strip_suffix(&file).unwrap_or(command);
        match loops.iter_mut().find(|(known, _)| *known == head) {
            Some((_, files)) => files.push(file),
            None => loops.push((head, vec![file])),
        }
    }
    let written = loops
        .iter()
        .map(|(head, files)| format!("for file in {}; do {head}$file; done && ", files.join(" ")));
    written.collect::<String>() + LINK.name + " *.bc"
}

/// Returns the content of an input.
fn input(root: &Path, from: &str) -> io::Result<Vec<u8>> {
    match from.split_once(' ') {
        Some(("package", path)) => fs::read(root.join(path)),
        Some(("own", name)) => Ok(own(name).as_bytes().to_vec()),
        Some(("made", specification)) => {
            inputs::made(specification).ok_or_else(|| io::Error::other("no such specification"))
        }
        _ => Err(io::Error::other("no such kind of input")),
    }
}
