//! Files of C and C++ as `clang -Oz` and `clang -O3` take them, and what clang itself makes of
//! them.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::error::DatasetError;
use super::file::{SourceFiles, demand_content, naming_a_folder};
use super::{Dataset, DatasetDescription, Unavailable};
use crate::datasets::cache::program_cache::ProgramCache;
use crate::datasets::tools::clang::{self, Language, SourceFile};
use crate::datasets::tools::source_flags::SourceFlags;
use steplake_model::{Benchmark, BenchmarkUri, Provenance};

/// How many digits of a program's digest are in its name.
const DIGITS: usize = 16;

/// The file of a program's bitcode in the cache.
const BITCODE: &str = "program.bc";

/// The file beside it with the command that made it of what a URI names: several may make the same.
fn command_file(named: &str) -> String {
    format!("command-{}", &blake3::hash(named.as_bytes()).to_hex()[..DIGITS])
}

steplake_model::named! {
    /// What passes are to aim at.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Aim {
        /// Small programs: every function is marked as `minsize`.
        Size = "for-size",
        /// Fast programs: no function is marked.
        Speed = "for-speed",
    }

    /// Returns the word for it in names, and the folder of such programs in the cache.
    fn word;
}

impl Aim {
    /// Returns the level of `clang` with this aim.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Size => &["-Oz"],
            Self::Speed => &["-O3"],
        }
    }
}

/// A file of C or C++, compiled with an [`Aim`]: `file:///<path>#for-size-<digits>`, with its flags
/// before the `#`. The digits are those of the bitcode's digest, so a file that has changed is
/// another program.
#[derive(Debug, Clone, Copy)]
struct AimedName<'a> {
    /// The URI of the file.
    named: &'a str,
    aim: Aim,
    digits: &'a str,
}

impl<'a> AimedName<'a> {
    fn of(uri: &'a BenchmarkUri) -> Option<Self> {
        if uri.scheme() != "file" {
            return None;
        }
        let (named, name) = uri.as_str().rsplit_once('#')?;
        let digits_of = |aim: Aim| name.strip_prefix(aim.word())?.strip_prefix('-');
        let (aim, digits) = Aim::ALL.into_iter().find_map(|aim| Some((aim, digits_of(aim)?)))?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_digest = digits.len() == DIGITS && digits.bytes().all(is_digit);
        is_digest.then_some(Self { named, aim, digits })
    }

    fn folder(self, cache: &ProgramCache) -> Result<PathBuf, DatasetError> {
        Ok(cache.folder(self.aim.word())?.join(self.digits))
    }
}

/// A file of C or C++, and the flags with which it is compiled.
struct OwnSource<'a> {
    uri: &'a BenchmarkUri,
    path: PathBuf,
    language: Language,
    flags: SourceFlags,
}

impl<'a> OwnSource<'a> {
    /// Returns the source that a URI names; none if it names no file of C or C++, or what was made
    /// of one.
    fn of(uri: &'a BenchmarkUri) -> Result<Option<Self>, DatasetError> {
        if AimedName::of(uri).is_some() {
            return Ok(None);
        }
        let Some(path) = uri.file() else { return Ok(None) };
        let language = Language::of(&path);
        let language = language.filter(|one| matches!(one, Language::C | Language::Cxx));
        let Some(language) = language else { return Ok(None) };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let flags = SourceFlags::read(&uri.flags(), folder, &[folder])?;
        Ok(Some(Self { uri, path, language, flags }))
    }

    /// Hands over the source with its flags and those of a level. The last level counts.
    fn at<T>(
        &self,
        level: &[&str],
        compiled: impl FnOnce(&SourceFile<'_>) -> Result<T, DatasetError>,
    ) -> Result<T, DatasetError> {
        let own = self.flags.words.iter().map(String::as_str);
        let flags: Vec<&str> = own.chain(level.iter().copied()).collect();
        compiled(&SourceFile {
            uri: self.uri.as_str(),
            language: self.language,
            folder: self.path.parent().unwrap_or(Path::new("/")),
            file: self.path.file_name().and_then(OsStr::to_str).unwrap_or_default(),
            flags: &flags,
            beside: &self.flags.beside,
        })
    }
}

/// Compiles a file of C or C++ to bitcode whose functions are marked as those of `clang -Oz` or
/// `-O3`, and on which no pass has run. So LLVM's pipeline of this level makes of it what `clang`
/// makes of the file with the flags of its URI, or nearly so. The bitcode is kept in the cache.
/// Returns its name; none for any other program.
///
/// # Errors
///
/// [`DatasetError::DoesNotCompile`]; [`DatasetError::Refused`] if the program takes in a file that
/// is neither its own nor a header; [`DatasetError::BadFlag`]; the errors of the cache.
pub fn compiled_for(
    aim: Aim,
    uri: &BenchmarkUri,
    cache: &ProgramCache,
) -> Result<Option<BenchmarkUri>, DatasetError> {
    let Some(source) = OwnSource::of(uri)? else { return Ok(None) };
    let content = fs::read(&source.path).map_err(|error| {
        let path = source.path.clone();
        DatasetError::Unreadable { path, source: error }
    })?;
    demand_content(uri.as_str(), &content)?;
    let compiled = source.at(aim.flags(), clang::compile).map_err(naming_a_folder)?;
    let digest = blake3::hash(&compiled.program).to_hex();
    let digits = &digest[..DIGITS];
    let folder = cache.folder(aim.word())?.join(digits);
    let command = command_file(uri.as_str());
    for (name, content) in
        [(BITCODE, compiled.program.as_slice()), (&*command, compiled.command.as_bytes())]
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

/// Returns what clang makes of a file of C or C++ at a level, such as `-Oz`, with the flags of its
/// URI; none for any other program.
///
/// # Errors
///
/// Those of [`compiled_for`], which looks at what the file takes in: call that first.
pub fn compiled_at(level: &str, uri: &BenchmarkUri) -> Result<Option<ByClang>, DatasetError> {
    let Some(source) = OwnSource::of(uri)? else { return Ok(None) };
    let made = |kinds: &[&str]| source.at(&[level], |source| clang::compile_whole(source, kinds));
    let (bitcode, bitcode_command) = made(&["-emit-llvm", "-c"])?;
    let (object, object_command) = made(&["-c"])?;
    Ok(Some(ByClang { bitcode, bitcode_command, object, object_command }))
}

/// The user's own files, and what was [compiled](compiled_for) of them.
#[derive(Debug)]
pub(super) struct OwnFiles {
    pub(super) files: SourceFiles,
    pub(super) cache: ProgramCache,
}

impl Dataset for OwnFiles {
    fn about(&self) -> &'static DatasetDescription {
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
        let path = uri.file().unwrap_or_default();
        let parent = path.parent().and_then(Path::file_name).unwrap_or_default();
        let provenance = Provenance {
            family: format!("file/{}", parent.display()),
            licence: String::new(),
            origin: format!("{}, bitcode {}", path.display(), name.digits),
            compile_command: fs::read_to_string(folder.join(command_file(name.named)))
                .unwrap_or_default(),
        };
        Ok(Benchmark { uri: uri.clone(), program: program.into(), provenance, execution: None })
    }

    fn with_flags(
        &self,
        uri: &BenchmarkUri,
        words: &[String],
    ) -> Result<Option<BenchmarkUri>, DatasetError> {
        match AimedName::of(uri) {
            Some(_) => Ok(None),
            None => self.files.with_flags(uri, words),
        }
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
        "the bitcode that was compiled of {} is not in the cache, or damaged: optimize the file \
         again, which compiles it",
        name.named
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
        let named = BenchmarkUri::of_file(path.to_str().unwrap(), &["-DN=1".to_owned()]).unwrap();
        let cache = ProgramCache::new(folder.path().join("cache"));
        let files =
            OwnFiles { files: SourceFiles(super::super::FrontEnd::Clang), cache: cache.clone() };
        let mut names = Vec::new();
        for (aim, word) in [(Aim::Size, "for-size"), (Aim::Speed, "for-speed")] {
            let uri = compiled_for(aim, &named, &cache).unwrap().unwrap();
            let (of, name) = uri.as_str().rsplit_once('#').unwrap();
            assert_eq!(of, named.as_str());
            assert!(name.starts_with(word) && !uri.as_str().contains("cache"), "{uri}");
            assert_eq!(uri.file().unwrap(), path);
            assert_eq!(files.resolve(&uri).unwrap(), uri);
            assert_eq!(files.expand(uri.path()).unwrap(), std::slice::from_ref(&uri));
            let program = files.benchmark(&uri).unwrap();
            assert!(program.program.starts_with(b"BC"));
            assert!(program.provenance.compile_command.ends_with("one.c"), "{program:?}");
            // It is compiled already.
            assert_eq!(compiled_for(aim, &uri, &cache).unwrap(), None);
            names.push(uri);
        }
        // A file that changes is another program, and the cache can go.
        fs::write(&path, "int one(void) { return 2; }\n").unwrap();
        assert_ne!(compiled_for(Aim::Size, &named, &cache).unwrap().unwrap(), names[0]);
        fs::remove_dir_all(folder.path().join("cache")).unwrap();
        let error = files.benchmark(&names[0]).unwrap_err().to_string();
        assert!(error.contains("is not in the cache") && error.contains("optimize"), "{error}");
        assert!(files.resolve(&names[0]).is_err());
        let text = format!("file://{}", folder.path().join("a.ll").display()).parse().unwrap();
        assert!(compiled_for(Aim::Size, &text, &cache).unwrap().is_none());
    }
}
