//! What users name: URIs, patterns of them, and the paths of files, which are theirs.

use std::borrow::Cow;
use std::path::Path;

use super::pattern::{is_glob, split_at_wildcard};
use crate::datasets::DatasetError;
use steplake_model::{BenchmarkUri, encoded, file_uri, split_flags};

/// The characters of a glob that mean something in it, and those of a path.
const PLAIN_IN_GLOBS: &str = "*?[]{}!^-._~/$&'()+,;=:@";

/// Returns whether a text names files of this machine: by their path, or by their URI.
pub fn names_files(named: &str) -> bool {
    !named.contains("://") || named.starts_with("file:")
}

/// Returns what a text names as a URI or a [pattern](crate::datasets) of them, in one form: a path
/// of a file or a folder, or a glob over files, becomes that of the place where it lies. Relative
/// ones begin in the current folder.
///
/// # Errors
///
/// [`DatasetError::UnknownBenchmark`] if it is neither a URI nor a path, or the path is not UTF-8.
pub fn as_pattern(named: &str) -> Result<Cow<'_, str>, DatasetError> {
    if let Some(rest) = named.strip_prefix("file://")
        && !is_glob(split_flags(rest).0)
        && let Ok(uri) = named.parse::<BenchmarkUri>()
    {
        return Ok(Cow::Owned(uri.as_written().to_string()));
    }
    if named.contains("://") {
        return Ok(Cow::Borrowed(named));
    }
    let path = Path::new(named);
    let whole = |path: &Path| {
        let path = path.to_str().ok_or_else(|| {
            DatasetError::unknown(named, "the path to it is not UTF-8: rename its folder")
        });
        path.map(file_uri)
    };
    if let Ok(real) = std::fs::canonicalize(path) {
        return whole(&real).map(Cow::Owned);
    }
    let absolute = |path: &str| std::path::absolute(Path::new(".").join(path));
    if is_glob(named) {
        let (folder, glob) = split_at_wildcard(named);
        let folder = if folder.is_empty() && named.starts_with('/') { "/" } else { folder };
        let folder = absolute(folder).ok().filter(|folder| folder.is_dir());
        if let Some(folder) = folder {
            let folder = std::fs::canonicalize(&folder).unwrap_or(folder);
            let folder = whole(&folder)?;
            let glob = encoded(glob, PLAIN_IN_GLOBS);
            return Ok(Cow::Owned(format!("{}/{glob}", folder.trim_end_matches('/'))));
        }
    }
    // A file that is not there any more may still be known by its path.
    let could_be = named.contains('/') || path.extension().is_some();
    let place = absolute(named).ok().filter(|path| path.parent().is_some_and(Path::is_dir));
    match place.filter(|_| could_be) {
        Some(place) => whole(&place).map(Cow::Owned),
        None => Err(DatasetError::unknown(
            named,
            "there is no such file, and it is no URI: those are benchmark://<dataset>/<path>, \
             generator://<dataset>/<seed> and file:///<path>",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap().join("my progs");
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("a b.c"), "").unwrap();
        std::os::unix::fs::symlink(place.join("a b.c"), place.join("link.c")).unwrap();
        let root = place.to_str().unwrap();
        let uri = root.replace(' ', "%20");
        for (named, whole) in [
            ("", ""),
            ("/", ""),
            ("/a b.c", "/a%20b.c"),
            ("/../my progs/a b.c", "/a%20b.c"),
            ("/link.c", "/a%20b.c"),
            ("/* b.[ch]", "/*%20b.[ch]"),
            ("/**/100%*.c", "/**/100%25*.c"),
            ("/gone.c", "/gone.c"),
        ] {
            let named = format!("{root}{named}");
            assert_eq!(as_pattern(&named).unwrap(), format!("file://{uri}{whole}"), "{named}");
        }
        for uri in ["benchmark://a-v0/b c", "generator://csmith-v0/0..9", "file:///a b/*.c"] {
            assert_eq!(as_pattern(uri).unwrap(), uri);
        }
        assert_eq!(as_pattern("file:///a b.c?flags=-w").unwrap(), "file:///a%20b.c?flags=-w");
    }

    #[test]
    fn relative_paths_begin_here() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        let here = file_uri(here.to_str().unwrap());
        for (named, whole) in [
            (".", ""),
            ("Cargo.toml", "/Cargo.toml"),
            ("src/../Cargo.toml", "/Cargo.toml"),
            ("src/datasets/*.rs", "/src/datasets/*.rs"),
            ("*.c", "/*.c"),
            ("gone.c", "/gone.c"),
        ] {
            assert_eq!(as_pattern(named).unwrap(), format!("{here}{whole}"), "{named}");
        }
    }

    #[test]
    fn what_is_neither_is_said() {
        for named in ["", "huffman", "steplake-v0/huffman", "no/such/folder/*.c"] {
            let said = as_pattern(named).unwrap_err().to_string();
            let wanted = format!("there is no benchmark `{named}`: there is no such file, and");
            assert!(said.starts_with(&wanted), "{said}");
        }
        let files = ["a.c", "./a", "/etc/*", "file:///etc/passwd", "file:/etc/passwd", ""];
        assert!(files.into_iter().all(names_files));
        assert!(!["benchmark://a-v0/b", "grpc://a:1"].into_iter().any(names_files));
    }
}
