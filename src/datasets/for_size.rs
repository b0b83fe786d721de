//! Files of C and C++ as `clang -Oz` takes them.

use std::ffi::OsStr;
use std::path::Path;

use super::clang::{self, Language, Source};
use super::error::DatasetError;

/// `-Oz` marks every function as `minsize`, which tells passes what they are to aim at.
const FLAGS: &[&str] = &["-Oz"];

/// Compiles a file of C or C++ to bitcode whose functions are marked as those of `clang -Oz`, and
/// on which no pass has run. So LLVM's pipeline `default<Oz>` makes of it what `clang -Oz` makes of
/// the file. None for any other file.
///
/// # Errors
///
/// [`DatasetError::DoesNotCompile`]; [`DatasetError::Refused`] if the program takes in a file that
/// is neither its own nor a header.
pub fn compiled_for_size(path: &Path) -> Result<Option<Vec<u8>>, DatasetError> {
    let language = Language::of(path);
    let Some(language) = language.filter(|one| matches!(one, Language::C | Language::Cxx)) else {
        return Ok(None);
    };
    let uri = format!("file://{}", path.display());
    let file = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let folder = path.parent().unwrap_or(Path::new("/"));
    let source = Source { uri: &uri, language, folder, file, flags: FLAGS };
    Ok(Some(clang::compile(&source)?.program))
}
