//! Checks that a compiler opened only what it was allowed to.
//!
//! What a program includes or embeds becomes part of the lake, and of what is published. So a
//! program may only contain its own sources and the headers of the compiler and the system.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// The target name for the compiler's dependency file.
pub(in crate::datasets) const TARGET: &str = "program";

/// Returns the first file that a program may not contain, in a dependency file written by clang's
/// `-MD`, or a description of the part that cannot be read.
///
/// The compiler ran in `folder`. The program's own sources lie there and below, and in what is
/// `beside` it because its user says so, except hidden files and folders. `headers` are the folders
/// of headers.
pub(in crate::datasets) fn foreign(
    folder: &Path,
    beside: &[PathBuf],
    headers: &[PathBuf],
    dependencies: &[u8],
) -> Option<String> {
    let Some(names) = names(dependencies) else {
        return Some("a file whose name has a backslash in it".to_owned());
    };
    let foreign = names.iter().find(|name| !is_allowed(folder, beside, headers, name));
    foreign.map(|name| String::from_utf8_lossy(name).into_owned())
}

/// Returns the program's own files in a dependency file whose files are all allowed, relative to
/// `folder`.
pub(in crate::datasets) fn own_files(folder: &Path, dependencies: &[u8]) -> BTreeSet<PathBuf> {
    let Ok(root) = fs::canonicalize(folder) else { return BTreeSet::new() };
    let real = |name: &Vec<u8>| fs::canonicalize(folder.join(OsStr::from_bytes(name))).ok();
    let names = names(dependencies).unwrap_or_default();
    let files = names.iter().filter_map(real);
    files.filter_map(|file| Some(file.strip_prefix(&root).ok()?.to_owned())).collect()
}

fn is_allowed(folder: &Path, beside: &[PathBuf], headers: &[PathBuf], name: &[u8]) -> bool {
    let path = |name: &[u8]| folder.join(OsStr::from_bytes(name));
    let is_header = |path: &Path| headers.iter().any(|folder| path.starts_with(folder));
    // clang writes the two files `a\` and `b` like the one file `a b`.
    let spaces = name.iter().enumerate().filter(|(_, byte)| **byte == b' ');
    let is_there = |name: Vec<u8>| path(&name).symlink_metadata().is_ok();
    if spaces.map(|(at, _)| [&name[..at], b"\\"].concat()).any(is_there) {
        return false;
    }
    let path = path(name);
    let is_plain = !path.components().any(|part| part == Component::ParentDir);
    // The administrator is responsible for links among the system's headers.
    if is_plain && is_header(&path) {
        return true;
    }
    let (Ok(real), Ok(folder)) = (fs::canonicalize(&path), fs::canonicalize(folder)) else {
        return false;
    };
    let is_hidden = |part: Component<'_>| part.as_os_str().as_bytes().starts_with(b".");
    let is_seen = |inner: &Path| !inner.components().any(is_hidden);
    let mut own = std::iter::once(&folder).chain(beside);
    is_header(&real) || own.any(|place| real.strip_prefix(place).is_ok_and(is_seen))
}

/// Parses the names in a dependency file of Make. Returns `None` if a name could be read in several
/// ways: a backslash must precede a line end, a space or a number sign.
fn names(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let rest = text.strip_prefix(TARGET.as_bytes())?.strip_prefix(b":")?.strip_suffix(b"\n")?;
    let (mut names, mut name) = (Vec::new(), Vec::new());
    let mut bytes = rest.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next()? {
                b'\n' if name.is_empty() => {}
                escaped @ (b' ' | b'#') => name.push(escaped),
                _ => return None,
            },
            b'$' => name.push(bytes.next().filter(|next| *next == b'$')?),
            b' ' if name.is_empty() => {}
            b' ' => names.push(std::mem::take(&mut name)),
            b'\n' => return None,
            other => name.push(other),
        }
    }
    names.extend(Some(name).filter(|name| !name.is_empty()));
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_are_read_as_make_reads_them() {
        let text = b"program: a.c /usr/include/x.h \\\n  my\\ own/n.h \\\n  c\\#.h $$d.h\n";
        let expected: [&[u8]; 5] = [b"a.c", b"/usr/include/x.h", b"my own/n.h", b"c#.h", b"$d.h"];
        assert_eq!(names(text).unwrap(), expected);
        for bad in [
            &b"program: a.c"[..],
            b"program: a\\b.c\n",
            b"program: a\\\\ b.c\n",
            b"program: a\\\n",
            b"program: a\\ \\\n  b.c\n",
            b"program: $a\n",
            b"program: a\nb: c\n",
            b"other: a.c\n",
        ] {
            assert_eq!(names(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn only_own_files_and_headers_are_taken() {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().canonicalize().unwrap();
        let folder = root.join("own");
        for name in ["own/sub/.git", "headers", "own/a b", "beside/.git"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        let files =
            ["own/a.c", "own/sub/n.h", "own/.rc", "own/sub/.git/x", "own/odd\\", "own/odd b"];
        let others = ["secret", "headers/h.h", "own/a b/c.h", "config.h"];
        let named = ["beside/n.h", "beside/.rc", "beside/.git/x"];
        for name in files.iter().chain(&others).chain(&named) {
            fs::write(root.join(name), "").unwrap();
        }
        symlink(root.join("secret"), folder.join("link.h")).unwrap();
        symlink(folder.join("a.c"), folder.join("inner.h")).unwrap();
        symlink(root.join("secret"), root.join("headers/link.h")).unwrap();
        symlink(root.join("secret"), root.join("beside/link.h")).unwrap();
        let headers = [root.join("headers")];
        let beside = [root.join("beside"), root.join("config.h")];
        let foreign = |text: &str| foreign(&folder, &[], &headers, text.as_bytes());
        let place = |name: &str| root.join(name).to_str().unwrap().to_owned();
        let taken = ["a.c", "sub/n.h", "inner.h", "sub/../a.c", "a\\ b/c.h", "../headers/h.h"];
        let taken = taken.map(str::to_owned).into_iter();
        for name in taken.chain([place("headers/h.h"), place("headers/link.h")]) {
            let text = format!("{TARGET}: a.c {name}\n");
            assert_eq!(foreign(&text), None, "{name}");
        }
        let taken = format!("{TARGET}: a.c sub/../sub/n.h {}\n", place("headers/h.h"));
        let expected = ["a.c", "sub/n.h"].map(PathBuf::from);
        assert!(own_files(&folder, taken.as_bytes()).iter().eq(&expected));
        let refused = ["../secret", "link.h", ".rc", "sub/.git/x", "odd\\ b", "missing.h"];
        let refused = refused.map(str::to_owned).into_iter();
        let around = [place("secret"), place("headers/../secret"), place("own/../secret")];
        for name in refused.chain(around) {
            let text = format!("{TARGET}: a.c {name}\n");
            assert!(foreign(&text).is_some(), "{name}");
        }
        // What the user names is the program's own too.
        for name in ["../beside/n.h", "../config.h", "../beside/.rc", "../beside/link.h"] {
            let text = format!("{TARGET}: a.c {name}\n");
            assert!(foreign(&text).is_some(), "{name}");
            let named = super::foreign(&folder, &beside, &headers, text.as_bytes());
            let is_taken = ["../beside/n.h", "../config.h"].contains(&name);
            assert_eq!(named.is_none(), is_taken, "{name}");
        }
    }
}
