//! Matches a pattern against known benchmarks, without looking anything up or fetching anything.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::named::as_pattern;
use super::pattern::{decoded_glob, is_glob, matcher, range};
use crate::datasets::DatasetError;
use steplake_model::{BenchmarkUri, BenchmarkUriError, decoded, split_flags};

/// Returns whether `path` is the benchmark called `name`, or lies in the folder of that name.
fn is_at(path: &str, name: &str) -> bool {
    let rest = path.strip_prefix(name.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns a path without the version of its package: `zlib/adler32.c` for `zlib@1.3/adler32.c`.
fn short(path: &str) -> Option<String> {
    let (package, file) = path.split_once('/')?;
    let (name, _version) = package.split_once('@')?;
    Some(format!("{name}/{file}"))
}

/// Returns the path of a benchmark, and that of a file without its flags, as its folder has it.
fn plain_path(uri: &BenchmarkUri) -> Cow<'_, str> {
    if uri.scheme() != "file" {
        return Cow::Borrowed(uri.path());
    }
    let is_whole = uri.base() == uri.as_str();
    let file = is_whole.then(|| uri.file()).flatten();
    let path = file.map_or_else(|| decoded(uri.path()), |file| file.display().to_string());
    Cow::Owned(path.trim_start_matches('/').to_owned())
}

/// Returns the `known` benchmarks that a [pattern](crate::datasets) names, in their order. The
/// pattern is a URI, a folder, a package, a whole dataset, a range or a glob, or the path of files.
/// It may leave out the version of a package if only one version is known, and the flags of a file.
///
/// # Errors
///
/// [`DatasetError::BadPattern`], also if the pattern leaves out a version and several are known;
/// [`DatasetError::NoMatch`].
pub fn among(
    pattern: &str,
    known: &BTreeSet<BenchmarkUri>,
) -> Result<Vec<BenchmarkUri>, DatasetError> {
    if let Some(uri) = known.iter().find(|uri| uri.as_str() == pattern) {
        return Ok(vec![uri.clone()]);
    }
    let pattern = &*as_pattern(pattern)?;
    let not_a_uri = || BenchmarkUriError(pattern.to_owned());
    let (scheme, rest) = pattern.split_once("://").ok_or_else(not_a_uri)?;
    let (dataset, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_file = scheme == "file";
    if is_file && split_flags(path).1.is_some() {
        let wanted = pattern.parse::<BenchmarkUri>()?.as_written();
        let found = known.iter().find(|uri| uri.as_written() == wanted).cloned();
        return found.map(|uri| vec![uri]).ok_or_else(|| nothing(pattern));
    }
    let is_named: Box<dyn Fn(&str) -> bool> = match (range(pattern, path, u64::MAX), path) {
        (_, "") => Box::new(|_| true),
        (Ok(Some((first, last))), _) => {
            Box::new(move |path| path.parse().is_ok_and(|number| (first..=last).contains(&number)))
        }
        (Err(error), _) if scheme == "generator" => return Err(error),
        _ if is_glob(path) => {
            let glob = if is_file { decoded_glob(path) } else { path.to_owned() };
            let glob = matcher(pattern, &glob)?;
            Box::new(move |path| glob.is_match(path))
        }
        _ => {
            let path = if is_file { decoded(path) } else { path.to_owned() };
            Box::new(move |known| is_at(known, &path))
        }
    };
    let of_dataset = known.iter().filter(|uri| uri.scheme() == scheme && uri.dataset() == dataset);
    let (mut found, mut versions) = (Vec::new(), BTreeSet::new());
    for uri in of_dataset {
        let path = plain_path(uri);
        let is_whole = is_named(&path);
        let is_short = !is_whole && short(&path).is_some_and(|path| is_named(&path));
        if is_short {
            versions.extend(uri.path().split_once('/').map(|(package, _)| package));
        }
        if is_whole || is_short {
            found.push(uri.clone());
        }
    }
    let name = |package: &&'_ str| package.split_once('@').map(|(name, _)| name.to_owned());
    let names = versions.iter().filter_map(name).collect::<BTreeSet<_>>();
    if names.len() < versions.len() {
        let all = versions.into_iter().collect::<Vec<_>>().join(" and ");
        let detail = format!("it leaves the version out, and there are {all}: write which");
        return Err(DatasetError::bad_pattern(pattern, detail));
    }
    if found.is_empty() {
        return Err(nothing(pattern));
    }
    Ok(found)
}

fn nothing(pattern: &str) -> DatasetError {
    let hint = "`SELECT DISTINCT benchmark_uri FROM episodes` lists those of the lake";
    DatasetError::no_match(pattern, hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(pattern: &str) -> Result<Vec<String>, String> {
        let known = [
            "benchmark://debian-v0/bzip2@1.0/blocksort.c",
            "benchmark://debian-v0/zlib@1.2/adler32.c",
            "benchmark://debian-v0/zlib@1.3/adler32.c",
            "benchmark://debian-v0/zlib@1.3/contrib/blast.c",
            "benchmark://steplake-v0/crc32",
            "file:///srv/a/a*.c",
            "file:///srv/a/lib/b.c",
            "generator://csmith-v0/2",
            "generator://csmith-v0/10",
            "generator://csmith-v01/3",
        ];
        let known = known.iter().map(|uri| uri.parse().unwrap()).collect();
        let found = among(pattern, &known).map_err(|error| error.to_string())?;
        Ok(found.iter().map(|uri| uri.path().to_owned()).collect())
    }

    #[test]
    fn patterns_name_what_is_known() {
        let names: [(&str, &[&str]); 12] = [
            ("benchmark://steplake-v0/crc32", &["crc32"]),
            ("benchmark://steplake-v0", &["crc32"]),
            ("benchmark://steplake-v0/*", &["crc32"]),
            ("generator://csmith-v0/0..5", &["2"]),
            ("generator://csmith-v0/*", &["10", "2"]),
            ("generator://csmith-v0/2", &["2"]),
            ("file:///srv/a/a*.c", &["srv/a/a*.c"]),
            ("file:///srv/a/", &["srv/a/a*.c", "srv/a/lib/b.c"]),
            ("benchmark://debian-v0/bzip2", &["bzip2@1.0/blocksort.c"]),
            ("benchmark://debian-v0/bzip2/*", &["bzip2@1.0/blocksort.c"]),
            ("benchmark://debian-v0/zlib@1.3/*", &["zlib@1.3/adler32.c"]),
            ("benchmark://debian-v0/zlib@1.3", &["zlib@1.3/adler32.c", "zlib@1.3/contrib/blast.c"]),
        ];
        for (pattern, paths) in names {
            assert_eq!(named(pattern).unwrap(), paths, "{pattern}");
        }
    }

    #[test]
    fn files_are_known_by_their_paths_with_any_flags() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let root = root.to_str().unwrap();
        // Lakes of earlier versions have spaces as they are.
        let known = ["a b.c", "a%20b.c?flags=-w", "100%.c", "a%20bc.c"];
        let known = known.map(|name| format!("file://{root}/{name}").parse().unwrap());
        let known = BTreeSet::from(known);
        let named = |pattern: &str| {
            let found = among(pattern, &known).unwrap();
            let length = "file://".len() + root.len() + 1;
            found.iter().map(|uri| uri.as_str()[length..].to_owned()).collect::<Vec<_>>()
        };
        let path = |name: &str| format!("{root}/{name}");
        assert_eq!(named(&path("a b.c")), ["a b.c", "a%20b.c?flags=-w"]);
        assert_eq!(named(&format!("file://{root}/a%20b.c")), ["a b.c", "a%20b.c?flags=-w"]);
        assert_eq!(named(&format!("file://{root}/a b.c?flags=-w")), ["a%20b.c?flags=-w"]);
        assert_eq!(named(&path("a b*.c")), ["a b.c", "a%20b.c?flags=-w", "a%20bc.c"]);
        assert_eq!(named(&format!("file://{root}/100%25.c")), ["100%.c"]);
        assert_eq!(named(root).len(), 4);
    }

    #[test]
    fn what_names_nothing_or_too_much_says_so() {
        for (pattern, said) in [
            (
                "benchmark://debian-v0/zlib/adler32.c",
                "there are zlib@1.2 and zlib@1.3: write which",
            ),
            ("benchmark://debian-v0/zlib/**", "it leaves the version out"),
            ("generator://csmith-v0/3..9", "matches no benchmark: `SELECT DISTINCT"),
            ("generator://csmith-v0/9..3", "the range runs backwards"),
            ("zlib", "there is no benchmark `zlib`: there is no such file, and it is no URI"),
            ("file:///srv/a/lib/b.c?flags=-w", "matches no benchmark"),
            ("benchmark://steplake-v0/crc", "matches no benchmark"),
        ] {
            let error = named(pattern).unwrap_err();
            assert!(error.contains(said), "{pattern}: {error}");
        }
    }
}
