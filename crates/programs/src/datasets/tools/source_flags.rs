//! The flags with which a user's own source is compiled.
//!
//! They are part of its URI, so they have one form: a folder is written relative to that of the
//! source, where the compiler runs. So neither the bytes of a program nor its URI depend on the
//! folder in which a project lies.

use std::path::{Component, Path, PathBuf};

use crate::datasets::DatasetError;

/// Flags with a folder whose headers are taken, as one word or two. Of two where one begins like
/// the other, the longer one comes first.
const FOLDERS: [&str; 4] = ["-isystem", "-iquote", "-idirafter", "-I"];

/// Flags with a file that is taken in, as two words.
const FILES: [&str; 2] = ["-include", "-imacros"];

/// Flags with a text, as one word or two.
const TEXTS: [&str; 2] = ["-D", "-U"];

/// The beginnings of flags that say how a source is read and code is made.
const FAMILIES: [&str; 7] = ["-std=", "-f", "-m", "-W", "-O", "-g", "-pedantic"];

/// Whole flags of that kind.
const SINGLE: [&str; 3] = ["-w", "-ansi", "-pthread"];

/// The beginnings of those among them that hand something to another tool, have code loaded, have
/// something else made, or take in a file that no list of a compiler's inputs names.
const REFUSED: [&str; 18] = [
    "-Wa,",
    "-Wl,",
    "-Wp,",
    "-fauto-profile",
    "-fbasic-block-sections=list",
    "-fcs-profile",
    "-fembed",
    "-flto",
    "-fmodule",
    "-fpass-plugin",
    "-fplugin",
    "-fprebuilt-module",
    "-fprofile",
    "-fsanitize-coverage-",
    "-fsanitize-ignorelist",
    "-fsyntax-only",
    "-fxray-",
    "-mllvm",
];

/// What an option is set to that takes the machine's own processor.
const NATIVE: &str = "=native";

/// The flags of a source.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::datasets) struct SourceFlags {
    /// Each is one word, but for the flags with a file.
    pub(in crate::datasets) words: Vec<String>,
    /// The folders and files that they name, which a program may have besides its own.
    pub(in crate::datasets) beside: Vec<PathBuf>,
}

fn refused(flag: &str, why: impl Into<String>) -> DatasetError {
    DatasetError::BadFlag { flag: flag.to_owned(), why: why.into() }
}

impl SourceFlags {
    /// Reads the flags of a source in `folder`, which has no links in it. Names of folders and
    /// files begin in the first of `places` where they exist.
    ///
    /// # Errors
    ///
    /// [`DatasetError::BadFlag`].
    pub(in crate::datasets) fn read(
        words: &[String],
        folder: &Path,
        places: &[&Path],
    ) -> Result<Self, DatasetError> {
        let mut flags = Self::default();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            let mut value = |name: &str| -> Result<String, DatasetError> {
                let value = Some(&word[name.len()..]).filter(|rest| !rest.is_empty());
                let value = value.or_else(|| words.next());
                value.map(str::to_owned).ok_or_else(|| refused(word, "something has to follow it"))
            };
            if let Some(name) = FILES.into_iter().find(|name| *name == word) {
                let named = flags.place(word, &value(name)?, folder, places, Path::is_file)?;
                flags.words.extend([name.to_owned(), named]);
            } else if let Some(name) = FOLDERS.into_iter().find(|name| word.starts_with(name)) {
                let named = flags.place(word, &value(name)?, folder, places, Path::is_dir)?;
                flags.words.push(format!("{name}{named}"));
            } else if let Some(name) = TEXTS.into_iter().find(|name| word.starts_with(name)) {
                let text = value(name)?;
                flags.words.push(format!("{name}{text}"));
            } else {
                demand_known(word)?;
                flags.words.push(word.to_owned());
            }
        }
        Ok(flags)
    }

    /// Refuses what only a compiler heeds, of the flags for a preprocessor.
    ///
    /// # Errors
    ///
    /// [`DatasetError::BadFlag`].
    pub(in crate::datasets) fn demand_of_preprocessor(&self) -> Result<(), DatasetError> {
        let compiles = |word: &&String| demand_known(word).is_ok();
        self.words.iter().find(compiles).map_or(Ok(()), |word| {
            Err(refused(
                word,
                "the options of gcc-v0 say how a program is compiled, so it takes the flags of \
                 the preprocessor: -I, -isystem, -iquote, -idirafter, -include, -imacros, -D, -U",
            ))
        })
    }

    /// Returns a folder or file as the compiler finds it, and keeps where it is.
    fn place(
        &mut self,
        word: &str,
        named: &str,
        folder: &Path,
        places: &[&Path],
        is_one: fn(&Path) -> bool,
    ) -> Result<String, DatasetError> {
        let mut there = places.iter().map(|place| place.join(named));
        let real = there.find_map(|path| path.canonicalize().ok().filter(|path| is_one(path)));
        let real = real.ok_or_else(|| refused(word, format!("there is no `{named}`")))?;
        let written = relative(folder, &real);
        self.beside.push(real);
        let text = written.to_str().map(str::to_owned);
        text.ok_or_else(|| refused(word, "the path is not UTF-8: rename it"))
    }
}

/// Refuses flags that say something else than how a source is read and code is made.
fn demand_known(word: &str) -> Result<(), DatasetError> {
    let begins = |with: &[&str]| with.iter().any(|begin| word.starts_with(begin));
    if word == "-O0" {
        return Err(refused(word, "it marks all functions so that no pass changes them"));
    }
    if word.ends_with(NATIVE) {
        return Err(refused(
            word,
            "it makes another program on another machine: name the processor, as in \
             -march=x86-64-v3",
        ));
    }
    let is_known = begins(&FAMILIES) || SINGLE.contains(&word);
    if is_known && !begins(&REFUSED) && !word.contains('/') {
        return Ok(());
    }
    Err(refused(
        word,
        "there are -I, -isystem, -iquote, -idirafter, -include, -imacros, -D, -U, and flags that \
         begin with -std=, -f, -m, -W, -O or -g and name no file; what is made, and of what, is \
         known already",
    ))
}

/// Returns the path from `folder` to another place, or that of the place itself if the two have
/// nothing in common but the root. Neither has links in it.
fn relative(folder: &Path, place: &Path) -> PathBuf {
    let common = folder.components().zip(place.components()).take_while(|(one, two)| one == two);
    let common: PathBuf = common.map(|(one, _)| one).collect();
    if common == Path::new("/") && folder != common {
        return place.to_owned();
    }
    let rest = |path: &Path| path.strip_prefix(&common).map(Path::to_owned).unwrap_or_default();
    let up = rest(folder).components().map(|_| Component::ParentDir).collect::<PathBuf>();
    let path = up.join(rest(place));
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A project with folders of headers inside and outside of that of its sources.
    fn project() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().canonicalize().unwrap();
        for folder in ["src/own", "include", "my inc"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("include/config.h"), "").unwrap();
        (place, root)
    }

    /// Reads the flags of a source in `src`, given in another folder.
    fn read(folder: &Path, words: &[&str], given_in: &Path) -> Result<SourceFlags, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let flags = SourceFlags::read(&words, folder, &[given_in, folder]);
        flags.map_err(|error| error.to_string())
    }

    #[test]
    fn flags_have_one_form() {
        let (_place, root) = project();
        let source = root.join("src");
        for (given, read_as) in [
            (&["-Iinclude"][..], &["-I../include"][..]),
            (&["-I", "include/"], &["-I../include"]),
            (&["-I", "src/own"], &["-Iown"]),
            (&["-Iown"], &["-Iown"]),
            (&["-Isrc"], &["-I."]),
            (&["-I../include"], &["-I../include"]),
            (
                &["-isystem", "my inc", "-iquoteinclude"],
                &["-isystem../my inc", "-iquote../include"],
            ),
            (&["-I/usr/include"], &["-I/usr/include"]),
            (&["-include", "include/config.h"], &["-include", "../include/config.h"]),
            (&["-D", "X=1", "-DY", "-U", "Z"], &["-DX=1", "-DY", "-UZ"]),
            (&["-DPATH=\"/etc\""], &["-DPATH=\"/etc\""]),
            (&["-std=c11", "-O2", "-Wall", "-w"], &["-std=c11", "-O2", "-Wall", "-w"]),
        ] {
            let flags = read(&source, given, &root).unwrap();
            assert_eq!(flags.words, read_as);
            // The form of a flag is read as itself.
            let words: Vec<&str> = flags.words.iter().map(String::as_str).collect();
            assert_eq!(read(&source, &words, &source).unwrap(), flags);
        }
        let beside = read(&source, &["-Iinclude", "-Iown"], &root).unwrap().beside;
        assert_eq!(beside, [root.join("include"), root.join("src/own")]);
    }

    #[test]
    fn a_preprocessor_takes_its_own_flags() {
        let (_place, root) = project();
        let demand = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let flags = SourceFlags::read(&words, &root, &[root.as_path()]).unwrap();
            flags.demand_of_preprocessor().map_err(|error| error.to_string())
        };
        demand(&["-Iinclude", "-include", "include/config.h", "-DX=1", "-UY"]).unwrap();
        for flag in ["-std=c99", "-fwrapv", "-m32", "-O2", "-pthread"] {
            let said = demand(&["-Iinclude", flag]).unwrap_err();
            assert!(said.contains(&format!("`{flag}` is not taken: the options of gcc-v0")));
        }
    }

    #[test]
    fn other_flags_are_refused() {
        let (_place, root) = project();
        for (given, said) in [
            (&["-o"][..], "the flag `-o` is not taken: there are -I, "),
            (&["a.c"], "the flag `a.c` is not taken"),
            (&["@a"], "the flag `@a` is not taken"),
            (&["-c"], "the flag `-c` is not taken"),
            (&["-fplugin=x.so"], "the flag `-fplugin=x.so` is not taken"),
            (&["-fprofile-use=/tmp/p"], "name no file"),
            (&["-fprofile-use=p"], "name no file"),
            (&["-fmodule-file=m.pcm"], "name no file"),
            (&["-march=native"], "it makes another program on another machine"),
            (&["-Wp,-MD,x"], "the flag `-Wp,-MD,x` is not taken"),
            (&["-Xclang", "-w"], "the flag `-Xclang` is not taken"),
            (&["-Inowhere"], "the flag `-Inowhere` is not taken: there is no `nowhere`"),
            (&["-Iinclude/config.h"], "there is no `include/config.h`"),
            (&["-include", "include"], "there is no `include`"),
            (&["-D"], "the flag `-D` is not taken: something has to follow it"),
            (&["-O0"], "no pass changes them"),
        ] {
            let error = read(&root.join("src"), given, &root).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
