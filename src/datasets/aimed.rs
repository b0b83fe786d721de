//! Files of C and C++ as `clang -Oz` and `clang -O3` take them.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::cache::Cache;
use super::clang::{self, Language, Source};
use super::error::DatasetError;
use super::source_flags::SourceFlags;
use crate::model::BenchmarkUri;

/// What passes are to aim at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// Small programs: every function is marked as `minsize`.
    Size,
    /// Fast programs: no function is marked.
    Speed,
}

impl Aim {
    /// Returns the level of `clang` with this aim.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Size => &["-Oz"],
            Self::Speed => &["-O3"],
        }
    }

    /// Returns the folder of such programs in the cache.
    fn folder(self) -> &'static str {
        match self {
            Self::Size => "for-size",
            Self::Speed => "for-speed",
        }
    }
}

/// Compiles a file of C or C++ to bitcode whose functions are marked as those of `clang -Oz` or
/// `-O3`, and on which no pass has run. So LLVM's pipeline of this level makes of it what `clang`
/// makes of the file, with the flags of its URI. Returns the path of the bitcode in the cache; none
/// for any other program.
///
/// # Errors
///
/// [`DatasetError::DoesNotCompile`]; [`DatasetError::Refused`] if the program takes in a file that
/// is neither its own nor a header; [`DatasetError::BadFlag`]; the errors of the cache.
pub fn compiled_for(
    aim: Aim,
    uri: &BenchmarkUri,
    cache: &Cache,
) -> Result<Option<PathBuf>, DatasetError> {
    let Some(path) = uri.file() else { return Ok(None) };
    let language = Language::of(&path);
    let Some(language) = language.filter(|one| matches!(one, Language::C | Language::Cxx)) else {
        return Ok(None);
    };
    let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new("/"));
    let own = SourceFlags::read(&uri.flags(), folder, &[folder])?;
    // The last level counts.
    let flags: Vec<&str> =
        own.words.iter().map(String::as_str).chain(aim.flags().iter().copied()).collect();
    let (uri, beside) = (uri.as_str(), &own.beside);
    let source = Source { uri, language, folder, file, flags: &flags, beside };
    let bitcode = clang::compile(&source)?.program;
    let digest = blake3::hash(&bitcode).to_hex();
    let folder = cache.folder(aim.folder())?.join(&digest[..32]);
    let kept = folder.join(Path::new(file).with_extension("bc"));
    // What a crash has left of it is written again.
    if !fs::read(&kept).is_ok_and(|there| there == bitcode) {
        let written = || -> io::Result<()> {
            fs::create_dir_all(&folder)?;
            let mut file = tempfile::NamedTempFile::new_in(&folder)?;
            file.write_all(&bitcode)?;
            file.as_file().sync_all()?;
            file.persist(&kept)?;
            Ok(())
        };
        written().map_err(DatasetError::cache(&kept))?;
    }
    Ok(Some(kept))
}
