//! Files of C and C++ as `clang -Oz` and `clang -O3` take them, and what clang itself makes of
//! them.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::cache::Cache;
use super::clang::{self, Language, Source};
use super::error::DatasetError;
use super::file::{Files, demand_content};
use super::{About, Dataset, Unavailable};
use crate::model::{Benchmark, BenchmarkUri, Provenance};

/// How many digits of a program's digest are in its name.
const DIGITS: usize = 16;

/// The files of a program in the cache: bitcode, and the command that made it.
const BITCODE: &str = "program.bc";
const COMMAND: &str = "command";

/// What passes are to aim at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// Small programs: every function is marked as `minsize`.
    Size,
    /// Fast programs: no function is marked.
    Speed,
}

impl Aim {
    const ALL: [Self; 2] = [Self::Size, Self::Speed];

    /// Returns the level of `clang` with this aim.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Size => &["-Oz"],
            Self::Speed => &["-O3"],
        }
    }

    /// Returns the word for it in names, and the folder of such programs in the cache.
    fn word(self) -> &'static str {
        match self {
            Self::Size => "for-size",
            Self::Speed => "for-speed",
        }
    }
}

/// A file of C or C++, compiled with an [`Aim`]: `file:///<path>#for-size-<digits>`. The digits are
/// those of the bitcode's digest, so a file that has changed is another program.
#[derive(Debug, Clone, Copy)]
struct AimedName<'a> {
    path: &'a str,
    aim: Aim,
    digits: &'a str,
}

impl<'a> AimedName<'a> {
    fn of(uri: &'a BenchmarkUri) -> Option<Self> {
        if uri.scheme() != "file" {
            return None;
        }
        let (path, name) = uri.path().rsplit_once('#')?;
        let digits_of = |aim: Aim| name.strip_prefix(aim.word())?.strip_prefix('-');
        let (aim, digits) = Aim::ALL.into_iter().find_map(|aim| Some((aim, digits_of(aim)?)))?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_digest = digits.len() == DIGITS && digits.bytes().all(is_digit);
        is_digest.then_some(Self { path, aim, digits })
    }

    fn folder(self, cache: &Cache) -> Result<PathBuf, DatasetError> {
        Ok(cache.folder(self.aim.word())?.join(self.digits))
    }
}

/// Returns the path of the file that a URI names, also of what was [compiled](compiled_for) of it;
/// none if it names no file.
pub fn named_file(uri: &BenchmarkUri) -> Option<PathBuf> {
    let path = AimedName::of(uri).map_or(uri.path(), |name| name.path);
    (uri.scheme() == "file").then(|| Path::new("/").join(path))
}

/// Returns the source in a file of C or C++; none for any other file.
fn source<'a>(path: &'a Path, uri: &'a str, flags: &'a [&'a str]) -> Option<Source<'a>> {
    let language = Language::of(path);
    let language = language.filter(|one| matches!(one, Language::C | Language::Cxx))?;
    let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new("/"));
    Some(Source { uri, language, folder, file, flags })
}

/// Compiles a file of C or C++ to bitcode whose functions are marked as those of `clang -Oz` or
/// `-O3`, and on which no pass has run. So LLVM's pipeline of this level makes of it what `clang`
/// makes of the file, or nearly so. The bitcode is kept in the cache. Returns its name; none for
/// any other file.
///
/// # Errors
///
/// [`DatasetError::DoesNotCompile`]; [`DatasetError::Refused`] if the program takes in a file that
/// is neither its own nor a header; the errors of the cache.
pub fn compiled_for(
    aim: Aim,
    path: &Path,
    cache: &Cache,
) -> Result<Option<BenchmarkUri>, DatasetError> {
    let uri = format!("file://{}", path.display());
    let Some(source) = source(path, &uri, aim.flags()) else { return Ok(None) };
    let content = fs::read(path).map_err(|source| {
        let path = path.to_owned();
        DatasetError::Unreadable { path, source }
    })?;
    demand_content(&uri, &content)?;
    let compiled = clang::compile(&source)?;
    let digest = blake3::hash(&compiled.program).to_hex();
    let digits = &digest[..DIGITS];
    let folder = cache.folder(aim.word())?.join(digits);
    for (name, content) in
        [(BITCODE, compiled.program.as_slice()), (COMMAND, compiled.command.as_bytes())]
    {
        let kept = folder.join(name);
        // What a crash has left of it is written again.
        if !fs::read(&kept).is_ok_and(|there| there == content) {
            let written = || -> io::Result<()> {
                fs::create_dir_all(&folder)?;
                let mut file = tempfile::NamedTempFile::new_in(&folder)?;
                file.write_all(content)?;
                file.as_file().sync_all()?;
                file.persist(&kept)?;
                Ok(())
            };
            written().map_err(DatasetError::cache(&kept))?;
        }
    }
    Ok(Some(format!("{uri}#{}-{digits}", aim.word()).parse()?))
}

/// What clang itself makes of a file, with a command for the shell of each, which needs `-o` and
/// is given in the folder of the file.
#[derive(Debug, Clone)]
pub struct ByClang {
    /// Bitcode.
    pub bitcode: Vec<u8>,
    /// How that is made.
    pub bitcode_command: String,
    /// A relocatable object.
    pub object: Vec<u8>,
    /// How that is made.
    pub object_command: String,
}

/// Returns what clang makes of a file of C or C++ at a level, such as `-Oz`; none for any other
/// file.
///
/// # Errors
///
/// Those of [`compiled_for`], which looks at what the file takes in: call that first.
pub fn compiled_at(level: &str, path: &Path) -> Result<Option<ByClang>, DatasetError> {
    let uri = format!("file://{}", path.display());
    let levels = [level];
    let Some(source) = source(path, &uri, &levels) else { return Ok(None) };
    let (bitcode, bitcode_command) = clang::compile_whole(&source, &["-emit-llvm", "-c"])?;
    let (object, object_command) = clang::compile_whole(&source, &["-c"])?;
    Ok(Some(ByClang { bitcode, bitcode_command, object, object_command }))
}

/// The user's own files, and what was [compiled](compiled_for) of them.
#[derive(Debug)]
pub(super) struct OwnFiles {
    pub(super) files: Files,
    pub(super) cache: Cache,
}

impl Dataset for OwnFiles {
    fn about(&self) -> &'static About {
        self.files.about()
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        match AimedName::of(uri) {
            None => self.files.resolve(uri),
            Some(name) if name.folder(&self.cache)?.join(BITCODE).is_file() => Ok(uri.clone()),
            Some(name) => Err(gone(uri, name)),
        }
    }

    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        let uri = format!("{}/{path}", self.about().uri).parse();
        match uri {
            Ok(uri) if AimedName::of(&uri).is_some() => Ok(vec![self.resolve(&uri)?]),
            _ => self.files.expand(path),
        }
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        let Some(name) = AimedName::of(uri) else { return self.files.benchmark(uri) };
        let folder = name.folder(&self.cache)?;
        let bitcode = fs::read(folder.join(BITCODE)).ok();
        let is_whole =
            |bitcode: &Vec<u8>| blake3::hash(bitcode).to_hex().as_str().starts_with(name.digits);
        let program = bitcode.filter(is_whole).ok_or_else(|| gone(uri, name))?;
        let path = Path::new("/").join(name.path);
        let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
        let provenance = Provenance {
            family: format!("file/{}", parent.display()),
            licence: String::new(),
            origin: format!("{}, bitcode {}", path.display(), name.digits),
            compile_command: fs::read_to_string(folder.join(COMMAND)).unwrap_or_default(),
        };
        Ok(Benchmark { uri: uri.clone(), program: program.into(), provenance, execution: None })
    }

    fn source(&self, uri: &BenchmarkUri) -> Option<String> {
        self.files.source(uri)
    }

    fn unavailable(&self, path: &str) -> Result<Vec<Unavailable>, DatasetError> {
        self.files.unavailable(path)
    }
}

/// Says that bitcode is not in the cache any more.
fn gone(uri: &BenchmarkUri, name: AimedName<'_>) -> DatasetError {
    let hint = format!(
        "the bitcode that was compiled of /{} is not in the cache, or damaged: `steplake optimize` \
         compiles the file again",
        name.path
    );
    DatasetError::unknown(uri, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_file_and_the_aim_and_nothing_of_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.c");
        fs::write(&path, "int one(void) { return 1; }\n").unwrap();
        let cache = Cache::new(folder.path().join("cache"));
        let files = OwnFiles { files: Files(super::super::FrontEnd::Clang), cache: cache.clone() };
        let mut names = Vec::new();
        for (aim, word) in [(Aim::Size, "for-size"), (Aim::Speed, "for-speed")] {
            let uri = compiled_for(aim, &path, &cache).unwrap().unwrap();
            let (of, name) = uri.as_str().rsplit_once('#').unwrap();
            assert_eq!(of, format!("file://{}", path.display()));
            assert!(name.starts_with(word) && !uri.as_str().contains("cache"), "{uri}");
            assert_eq!(named_file(&uri).unwrap(), path);
            assert_eq!(files.resolve(&uri).unwrap(), uri);
            assert_eq!(files.expand(uri.path()).unwrap(), [uri.clone()]);
            let program = files.benchmark(&uri).unwrap();
            assert!(program.program.starts_with(b"BC"));
            assert!(program.provenance.compile_command.ends_with("one.c"), "{program:?}");
            names.push(uri);
        }
        // A file that changes is another program, and the cache can go.
        fs::write(&path, "int one(void) { return 2; }\n").unwrap();
        assert_ne!(compiled_for(Aim::Size, &path, &cache).unwrap().unwrap(), names[0]);
        fs::remove_dir_all(folder.path().join("cache")).unwrap();
        let error = files.benchmark(&names[0]).unwrap_err().to_string();
        assert!(error.contains("is not in the cache") && error.contains("optimize"), "{error}");
        assert!(files.resolve(&names[0]).is_err());
        let text = format!("file://{}", folder.path().join("a.ll").display());
        assert!(compiled_for(Aim::Size, Path::new(&text), &cache).unwrap().is_none());
    }
}
