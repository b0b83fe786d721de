//! The dataset `file:///`: programs of the user's own.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Dataset, DatasetDescription, DatasetError, FrontEnd};
use crate::datasets::naming::pattern::{
    NAMED_MAX, decoded_glob, is_glob, matcher, split_at_wildcard,
};
use crate::datasets::tools::clang::{self, Language, SourceFile};
use crate::datasets::tools::command::{ForeignTool, ToolRun};
use crate::datasets::tools::source_flags::SourceFlags;
use steplake_model::suggestions::did_you_mean;
use steplake_model::{Benchmark, BenchmarkUri, Provenance, decoded, split_flags};

const URI: &str = "file://";
const OPT: ForeignTool = ForeignTool { name: "opt-22", package: "llvm-22" };
const AS: ForeignTool = ForeignTool { name: "llvm-as-22", package: "llvm-22" };

/// `file:///<path>`: a user's own programs, read in place. Nothing of them is cached, because what
/// they include may change at any time.
#[derive(Debug)]
pub(super) struct SourceFiles(pub(super) FrontEnd);

const ABOUT_OF_CLANG: DatasetDescription = DatasetDescription {
    name: "file",
    uri: URI,
    description: "Your own C, C++, LLVM IR and bitcode files, or a folder of them",
    licence: "",
    size: None,
    example: "file:///path/to/program.c",
};

static ABOUT: DatasetDescription = ABOUT_OF_CLANG;

static ABOUT_OF_GCC: DatasetDescription = DatasetDescription {
    description: "Your own C files, preprocessed or not, or a folder of them",
    ..ABOUT_OF_CLANG
};

/// The kind of a file, by its ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileKind {
    Source(Language),
    Text,
    Bitcode,
    /// Preprocessed C, or a state of a GCC.
    Preprocessed,
}

/// What a front end takes, by the ends of names.
#[derive(Debug, Clone, Copy)]
struct Kinds<'a>(&'a FrontEnd);

impl Kinds<'_> {
    fn of(self, path: &Path) -> Option<FileKind> {
        let is_clang = matches!(self.0, FrontEnd::Clang);
        let language = Language::of(path).filter(|&language| is_clang || language == Language::C);
        if let Some(language) = language {
            return Some(FileKind::Source(language));
        }
        match path.extension().and_then(OsStr::to_str)? {
            "ll" if is_clang => Some(FileKind::Text),
            "bc" if is_clang => Some(FileKind::Bitcode),
            "i" if !is_clang => Some(FileKind::Preprocessed),
            _ => None,
        }
    }

    fn endings(self) -> &'static str {
        match self.0 {
            FrontEnd::Clang => ".c, .cc, .cpp, .cxx, .ll or .bc",
            FrontEnd::Gcc(_) => ".c or .i",
        }
    }
}

fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> DatasetError {
    move |source| DatasetError::Unreadable { path: path.to_owned(), source }
}

fn uri_of(path: &Path, flags: &[String]) -> Result<BenchmarkUri, DatasetError> {
    let not_text = || {
        let uri = format!("{URI}{}", path.display());
        DatasetError::unknown(&uri, "its path is not UTF-8; rename it")
    };
    Ok(BenchmarkUri::of_file(path.to_str().ok_or_else(not_text)?, flags)?)
}

/// Returns the flags of a source, which are given in one of `places` or in its own folder.
fn flags_of(
    front_end: &FrontEnd,
    uri: &BenchmarkUri,
    (path, kind): (&Path, FileKind),
    words: &[String],
    places: &[&Path],
) -> Result<SourceFlags, DatasetError> {
    if !words.is_empty() && !matches!(kind, FileKind::Source(_)) {
        return Err(DatasetError::unknown(uri, "flags are for files of C or C++"));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let flags = SourceFlags::read(words, folder, &[places, &[folder]].concat())?;
    if matches!(front_end, FrontEnd::Gcc(_)) {
        flags.demand_of_preprocessor()?;
    }
    Ok(flags)
}

/// Resolves a URI to the one real path of a file: no links, no `..`.
fn real_file(kinds: Kinds<'_>, uri: &BenchmarkUri) -> Result<(PathBuf, FileKind), DatasetError> {
    let path = uri.file().unwrap_or_default();
    let Ok(real) = fs::canonicalize(&path) else {
        let siblings = path.parent().map(|folder| programs_in(kinds, folder)).unwrap_or_default();
        let names = siblings.iter().filter_map(|path| path.file_name()?.to_str());
        let wanted = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let hint = format!("there is no such file{}", did_you_mean(wanted, names));
        return Err(DatasetError::unknown(uri, hint));
    };
    if !real.is_file() {
        return Err(DatasetError::unknown(uri, "it is no file"));
    }
    let kind = kinds.of(&real);
    let hint = || format!("its name must end in {}", kinds.endings());
    Ok((real, kind.ok_or_else(|| DatasetError::unknown(uri, hint()))?))
}

/// Lists the programs directly in a folder, ordered by name.
fn programs_in(kinds: Kinds<'_>, folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| path.is_file());
    let mut programs: Vec<PathBuf> = files.filter(|path| kinds.of(path).is_some()).collect();
    programs.sort();
    programs
}

/// Collects every program below a folder, without following links to folders.
fn programs_below(kinds: Kinds<'_>, folder: &Path, depth_left: usize, found: &mut Vec<PathBuf>) {
    found.extend(programs_in(kinds, folder));
    if depth_left == 0 {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            programs_below(kinds, &entry.path(), depth_left - 1, found);
        }
    }
}

fn canonical(paths: &[PathBuf]) -> Result<Vec<BenchmarkUri>, DatasetError> {
    let mut uris = Vec::with_capacity(paths.len());
    for path in paths {
        uris.push(uri_of(&fs::canonicalize(path).map_err(unreadable(path))?, &[])?);
    }
    uris.sort();
    uris.dedup();
    Ok(uris)
}

fn matching(
    kinds: Kinds<'_>,
    pattern: &str,
    path: &str,
) -> Result<Vec<BenchmarkUri>, DatasetError> {
    let (folder, rest) = split_at_wildcard(path);
    let wanted = matcher(pattern, &decoded_glob(rest))?;
    let folder = Path::new("/").join(decoded(folder));
    if !folder.is_dir() {
        let hint = format!("there is no folder `{}`", folder.display());
        return Err(DatasetError::no_match(pattern, hint));
    }
    let depth = if rest.contains("**") { usize::MAX } else { rest.matches('/').count() };
    let mut paths = Vec::new();
    programs_below(kinds, &folder, depth, &mut paths);
    paths.retain(|path| path.strip_prefix(&folder).is_ok_and(|inner| wanted.is_match(inner)));
    canonical(&paths)
}

/// Checks for bitcode. LLVM's tools also accept text here, and treat an empty file as an empty
/// program.
fn is_bitcode(uri: &BenchmarkUri, path: &Path, content: &[u8]) -> Result<(), DatasetError> {
    const PLAIN: &[u8] = b"BC\xc0\xde";
    const WRAPPED: &[u8] = b"\xde\xc0\x17\x0b";
    if content.starts_with(PLAIN) || content.starts_with(WRAPPED) {
        return Ok(());
    }
    let name = path.file_name().unwrap_or_default().display();
    let detail = format!("{name} does not begin as bitcode does");
    Err(DatasetError::DoesNotCompile { uri: uri.to_string(), detail })
}

/// Returns the program in a file of bitcode or of LLVM's text, whatever its name, with the command
/// that made it.
///
/// # Errors
///
/// [`DatasetError::DoesNotCompile`] if it is neither, and [`DatasetError::Refused`].
pub(super) fn bitcode(
    uri: &BenchmarkUri,
    path: &Path,
    content: Vec<u8>,
) -> Result<(Vec<u8>, String), DatasetError> {
    let made = if is_bitcode(uri, path, &content).is_ok() {
        (content, String::new())
    } else {
        let run = ToolRun::new(AS, uri.as_str()).args(["-o", "-"]);
        (checked(uri, path, run)?, format!("{} -o -", AS.name))
    };
    refuse_reading_assembly(uri, path)?;
    Ok(made)
}

/// Has LLVM's own tool read and verify the file, and returns the tool's output.
fn checked(uri: &BenchmarkUri, path: &Path, run: ToolRun<'_>) -> Result<Vec<u8>, DatasetError> {
    run.arg(path).reads(path).output().map_err(|error| match error {
        DatasetError::ToolFailed { detail, .. } => {
            let folder = path.parent().map(|folder| format!("{}/", folder.display()));
            let detail = detail.replace(&folder.unwrap_or_default(), "");
            DatasetError::DoesNotCompile { uri: uri.to_string(), detail }
        }
        other => other,
    })
}

/// Looks at the program as LLVM prints it: in a text of somebody else's, comments could stand
/// where the check does not expect them.
fn refuse_reading_assembly(uri: &BenchmarkUri, path: &Path) -> Result<(), DatasetError> {
    let run = ToolRun::new(OPT, uri.as_str()).args(["-passes=verify", "-S", "-o", "-"]);
    clang::refuse_reading_assembly(uri.as_str(), &checked(uri, path, run)?)
}

/// Says what to do about a header that is not found.
pub(super) fn naming_a_folder(error: DatasetError) -> DatasetError {
    match error {
        DatasetError::DoesNotCompile { uri, detail }
            if detail.ends_with("file not found") || detail.contains("No such file") =>
        {
            let detail = format!("{detail}: name the folder where it is by a flag -I");
            DatasetError::DoesNotCompile { uri, detail }
        }
        other => other,
    }
}

/// Refuses an empty file, of which tools make a program of nothing.
pub(super) fn demand_content(uri: &str, content: &[u8]) -> Result<(), DatasetError> {
    let is_empty = content.trim_ascii().is_empty();
    if is_empty { Err(DatasetError::Empty(uri.to_owned())) } else { Ok(()) }
}

impl Dataset for SourceFiles {
    fn about(&self) -> &'static DatasetDescription {
        if matches!(self.0, FrontEnd::Gcc(_)) { &ABOUT_OF_GCC } else { &ABOUT }
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        let (path, kind) = real_file(Kinds(&self.0), uri)?;
        let flags = flags_of(&self.0, uri, (path.as_path(), kind), &uri.flags(), &[])?;
        uri_of(&path, &flags.words)
    }

    fn with_flags(
        &self,
        uri: &BenchmarkUri,
        words: &[String],
    ) -> Result<Option<BenchmarkUri>, DatasetError> {
        let (path, kind) = real_file(Kinds(&self.0), uri)?;
        if !matches!(kind, FileKind::Source(_)) {
            return Ok(None);
        }
        let here = std::env::current_dir().unwrap_or_default();
        let read = |words: &[String], places: &[&Path]| {
            flags_of(&self.0, uri, (path.as_path(), kind), words, places)
        };
        let own = read(&uri.flags(), &[])?.words;
        let words = [own, read(words, &[here.as_path()])?.words].concat();
        uri_of(&path, &words).map(Some)
    }

    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        let pattern = format!("{URI}/{path}");
        let (path, flags) = split_flags(path);
        if path.is_empty() {
            return Err(ABOUT.unbounded());
        }
        if flags.is_some() {
            return Ok(vec![self.resolve(&pattern.parse()?)?]);
        }
        let real = Path::new("/").join(decoded(path));
        let uris = if real.is_dir() {
            canonical(&programs_in(Kinds(&self.0), &real))?
        } else if is_glob(path) && !real.exists() {
            matching(Kinds(&self.0), &pattern, path)?
        } else {
            return Ok(vec![self.resolve(&pattern.parse()?)?]);
        };
        let count = u64::try_from(uris.len()).unwrap_or(u64::MAX);
        if count > NAMED_MAX {
            return Err(DatasetError::TooMany { pattern, count, most: NAMED_MAX });
        }
        if uris.is_empty() {
            let hint = format!("no file there ends in {}", Kinds(&self.0).endings());
            return Err(DatasetError::no_match(&pattern, hint));
        }
        Ok(uris)
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        let (path, kind) = real_file(Kinds(&self.0), uri)?;
        let flags = flags_of(&self.0, uri, (path.as_path(), kind), &uri.flags(), &[])?;
        let uri = uri_of(&path, &flags.words)?;
        let content = fs::read(&path).map_err(unreadable(&path))?;
        demand_content(uri.as_str(), &content)?;
        let (program, compile_command) = match kind {
            FileKind::Source(language) => {
                let folder = path.parent().unwrap_or(Path::new("/"));
                let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
                let SourceFlags { words, beside } = &flags;
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let (uri, flags) = (uri.as_str(), words.as_slice());
                let source = SourceFile { uri, language, folder, file, flags, beside };
                let compiled = self.0.compile(&source).map_err(naming_a_folder)?;
                (compiled.program, compiled.command)
            }
            FileKind::Text => {
                let run = ToolRun::new(AS, uri.as_str()).args(["-o", "-"]);
                let program = checked(&uri, &path, run)?;
                refuse_reading_assembly(&uri, &path)?;
                (program, format!("{} -o -", AS.name))
            }
            FileKind::Bitcode => {
                is_bitcode(&uri, &path, &content)?;
                refuse_reading_assembly(&uri, &path)?;
                (content.clone(), String::new())
            }
            FileKind::Preprocessed => {
                self.0.accept(uri.as_str(), &content)?;
                (content.clone(), String::new())
            }
        };
        let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
        let provenance = Provenance {
            family: format!("file/{}", parent.display()),
            licence: String::new(),
            origin: format!("{}, blake3 {}", path.display(), blake3::hash(&content).to_hex()),
            compile_command,
        };
        Ok(Benchmark { uri, program: program.into(), provenance, execution: None })
    }
}
