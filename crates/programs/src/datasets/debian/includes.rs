//! Finds the folders of a source tree that a C or C++ file needs on its include path, by reading
//! its includes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::datasets::tools::clang::Language;

/// The most files that are read for the includes of one.
const READ_MAX: usize = 2000;

/// System headers that a package's own file of the same name must not hide.
const SYSTEM_HEADERS: &str = "\
    alloca.h assert.h byteswap.h complex.h ctype.h dirent.h dlfcn.h endian.h errno.h error.h \
    fcntl.h features.h fenv.h float.h fnmatch.h getopt.h glob.h iconv.h inttypes.h iso646.h \
    langinfo.h libgen.h limits.h locale.h malloc.h math.h memory.h netdb.h poll.h pthread.h \
    regex.h sched.h semaphore.h setjmp.h signal.h stdarg.h stdbool.h stddef.h stdint.h stdio.h \
    stdlib.h string.h strings.h tgmath.h time.h unistd.h utime.h wchar.h wctype.h stdatomic.h";

/// Those of the C++ library, for C++ alone: a folder of C may have a file `list` or `version`.
const CXX_HEADERS: &str = "\
    algorithm any array atomic bit bitset cassert cctype cerrno cfloat chrono cinttypes climits \
    clocale cmath complex condition_variable csetjmp csignal cstdarg cstddef cstdint cstdio \
    cstdlib cstring ctime deque exception fstream functional future initializer_list iomanip ios \
    iosfwd iostream istream iterator limits list locale map memory mutex new numeric optional \
    ostream queue random ratio regex set sstream stack stdexcept streambuf string string_view \
    system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility \
    valarray variant vector version";

fn system_headers(language: Language) -> impl Iterator<Item = &'static str> {
    let of_cxx = if language == Language::Cxx { CXX_HEADERS } else { "" };
    SYSTEM_HEADERS.split(' ').chain(of_cxx.split(' ').filter(|name| !name.is_empty()))
}

/// The files of an unpacked source tree.
#[derive(Debug)]
pub(in crate::datasets) struct SourceTree {
    pub(super) root: PathBuf,
    /// Paths relative to the root, by file name.
    by_name: BTreeMap<String, Vec<PathBuf>>,
}

impl SourceTree {
    /// Lists the tree in `root` without hidden folders, such as `.pc`, where Debian keeps the files
    /// from before its patches.
    pub(in crate::datasets) fn read(root: &Path) -> io::Result<Self> {
        let mut by_name: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                if name.starts_with('.') || name.contains(char::is_control) {
                    continue;
                }
                let path = folder.join(&name);
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() {
                    by_name.entry(name).or_default().push(path);
                }
            }
        }
        for paths in by_name.values_mut() {
            paths.sort();
        }
        Ok(Self { root: root.to_owned(), by_name })
    }

    /// Lists every file, in order.
    pub(in crate::datasets) fn files(&self) -> Vec<String> {
        let all = self.by_name.values().flatten();
        let mut names: Vec<String> =
            all.filter_map(|path| Some(path.to_str()?.to_owned())).collect();
        names.sort();
        names
    }

    /// Lists every C and C++ file, in order.
    pub(super) fn sources(&self) -> Vec<String> {
        let mut files = self.files();
        files.retain(|file| Language::of(Path::new(file)).is_some());
        files
    }

    /// Returns the flags that put the folders of its own package that `file` needs on the include
    /// path, and no others.
    ///
    /// An include that does not lie beside the including file is searched for in the whole tree; of
    /// several matches the nearest is taken. A folder that would hide a system header goes last.
    pub(super) fn include_flags(&self, file: &str) -> Vec<String> {
        let start = PathBuf::from(file);
        let language = Language::of(&start).unwrap_or(Language::C);
        let home = start.parent().unwrap_or(Path::new("")).to_owned();
        let mut folders: Vec<PathBuf> = Vec::new();
        let mut seen = BTreeSet::from([start.clone()]);
        let mut queue = VecDeque::from([start]);
        while let Some(reader) = queue.pop_front() {
            let text = fs::read(self.root.join(&reader)).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            for include in includes(&text) {
                let system = || system_headers(language);
                if let Some(found) = self.find(include, &reader, &home, &mut folders, system)
                    && seen.len() < READ_MAX
                    && seen.insert(found.clone())
                {
                    queue.push_back(found);
                }
            }
        }
        let hides =
            |folder: &Path| system_headers(language).any(|name| self.has(&folder.join(name)));
        let flag = |folder: &PathBuf| {
            let name = if folder.as_os_str().is_empty() { "." } else { folder.to_str()? };
            Some(if hides(folder) { format!("-idirafter{name}") } else { format!("-I{name}") })
        };
        folders.iter().filter_map(flag).collect()
    }

    fn has(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| name.to_str());
        name.and_then(|name| self.by_name.get(name))
            .is_some_and(|all| all.iter().any(|p| p == path))
    }

    /// Returns the file that an include means; adds its folder to `folders` if necessary.
    fn find<I: Iterator<Item = &'static str>>(
        &self,
        (include, quoted): (&str, bool),
        reader: &Path,
        home: &Path,
        folders: &mut Vec<PathBuf>,
        system_headers: impl Fn() -> I,
    ) -> Option<PathBuf> {
        if quoted {
            let beside = normal(&reader.parent()?.join(include))?;
            if self.has(&beside) {
                return Some(beside);
            }
        }
        let mut known = folders.iter().filter_map(|folder| normal(&folder.join(include)));
        if let Some(known) = known.find(|path| self.has(path)) {
            return Some(known);
        }
        if system_headers().any(|name| name == include) || include.starts_with("sys/") {
            return None;
        }
        let wanted = Path::new(include);
        let candidates = self.by_name.get(wanted.file_name()?.to_str()?)?;
        let fits = candidates.iter().filter(|path| path.ends_with(wanted));
        let nearest = fits.min_by_key(|path| distance(path.parent().unwrap_or(path), home))?;
        let up = wanted.components().count();
        folders.push(nearest.ancestors().nth(up)?.to_owned());
        Some(nearest.clone())
    }
}

/// Returns the number of folders up and down between `a` and `b`.
fn distance(a: &Path, b: &Path) -> usize {
    let shared = a.components().zip(b.components()).take_while(|(a, b)| a == b).count();
    a.components().count() + b.components().count() - 2 * shared
}

/// Resolves `.` and `..` in a relative path; `None` if it leads out of the tree.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop().then_some(())?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts)
}

/// Returns the includes of a text, each with whether its path is quoted, also those excluded by
/// conditions.
fn includes(text: &str) -> impl Iterator<Item = (&str, bool)> {
    text.lines().filter_map(|line| {
        let rest =
            line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let (quoted, closing) = match rest.chars().next()? {
            '"' => (true, '"'),
            '<' => (false, '>'),
            _ => return None,
        };
        Some((rest[1..].split(closing).next()?, quoted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, SourceTree) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = SourceTree::read(folder.path()).unwrap();
        (folder, tree)
    }

    #[test]
    fn only_what_is_needed_is_on_the_path() {
        let (_folder, tree) = tree(&[
            ("lib/a.c", "#include \"a.h\"\n#include <stdio.h>\n"),
            ("lib/a.h", "# include \"conf/b.h\"\n"),
            ("include/conf/b.h", "#include <c.h>\n"),
            ("deep/er/c.h", ""),
            ("unused/d.h", ""),
            (".pc/lib/a.c", ""),
        ]);
        assert_eq!(tree.sources(), ["lib/a.c"]);
        assert_eq!(tree.include_flags("lib/a.c"), ["-Iinclude", "-Ideep/er"]);
    }

    #[test]
    fn the_nearest_of_several_is_taken() {
        let (_folder, tree) = tree(&[
            ("src/unix/a.c", "#include \"config.h\"\n#include \"../top.h\"\n"),
            ("src/include/config.h", ""),
            ("other/place/config.h", ""),
            ("src/top.h", ""),
        ]);
        assert_eq!(tree.include_flags("src/unix/a.c"), ["-Isrc/include"]);
    }

    #[test]
    fn system_headers_stay_visible() {
        let (_folder, tree) = tree(&[
            ("a.c", "#include <string.h>\n#include <compat.h>\n#include \"root.h\"\n"),
            ("compat/compat.h", ""),
            ("compat/string.h", ""),
            ("x/root.h", "#include \"../a.c\"\n#include \"../../out.h\""),
        ]);
        assert_eq!(
            tree.include_flags("a.c"),
            ["-idirafter".to_owned() + "compat", "-Ix".to_owned()]
        );
    }

    #[test]
    fn a_header_at_the_root() {
        let (_folder, tree) = tree(&[("lib/a.c", "#include <r.h>\n"), ("r.h", "")]);
        assert_eq!(tree.include_flags("lib/a.c"), ["-I."]);
    }

    #[test]
    fn a_file_of_cxx_finds_the_library_and_not_a_file_of_that_name() {
        let (_folder, tree) = tree(&[
            ("src/a.cc", "#include <version>\n#include <list>\n#include \"own.h\"\n"),
            ("src/b.c", "#include \"own.h\"\n"),
            ("include/own.h", ""),
            ("include/version", "1.0"),
        ]);
        assert_eq!(tree.sources(), ["src/a.cc", "src/b.c"]);
        assert_eq!(tree.include_flags("src/a.cc"), ["-idirafterinclude"]);
        assert_eq!(tree.include_flags("src/b.c"), ["-Iinclude"]);
    }
}
