//! Unpacks an archive that nobody here made: nothing of it lies outside its folder, and it is not
//! larger than a disk.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::datasets::cache::program_cache::Key;
use crate::datasets::tools::command::{TAR, ToolRun};
use crate::datasets::{DatasetError, ProgramCache};

const LIMIT: Duration = Duration::from_hours(2);

/// Changes with what of an archive is kept.
const FORMAT: &str = "2";
/// The most files and bytes that an archive may unpack to.
const FILES_MAX: u64 = 3_000_000;
const BYTES_MAX: u64 = 64 << 30;

/// The digests of the unpacked files, by their paths in the archive's folder.
pub(super) type FileDigests = BTreeMap<String, [u8; 32]>;

/// An unpacked archive.
#[derive(Debug)]
pub(super) struct UnpackedArchive {
    pub(super) root: PathBuf,
    pub(super) index: FileDigests,
}

impl UnpackedArchive {
    /// Returns the content of a file; `None` if it is damaged.
    pub(super) fn read(&self, file: &str) -> Option<Vec<u8>> {
        let digest = self.index.get(file)?;
        let content = fs::read(self.root.join(file)).ok()?;
        (blake3::hash(&content).as_bytes() == digest).then_some(content)
    }
}

/// Returns the unpacked archive with a digest; unpacks what `archive` returns if it is not there
/// yet, or if `again`.
pub(super) fn unpacked(
    cache: &ProgramCache,
    sha256: &str,
    what: &str,
    again: bool,
    archive: impl FnOnce() -> Result<PathBuf, DatasetError>,
) -> Result<UnpackedArchive, DatasetError> {
    let _lock = cache.lock(&format!("unpack-{}", &sha256[..16]))?;
    let root = cache.folder("unpacked")?.join(sha256);
    let key = Key::of("unpacked-index", &[FORMAT, sha256]);
    if root.is_dir()
        && !again
        && let Some(stored) = cache.get(key)?
        && let Ok(index) = postcard::from_bytes(&stored)
    {
        return Ok(UnpackedArchive { root, index });
    }
    let archive = archive()?;
    tracing::info!("unpacking {what}");
    let scratch = cache.scratch()?;
    let folder = scratch.path().join("contents");
    fs::create_dir(&folder).map_err(DatasetError::cache(&folder))?;
    let listing = run(what, &archive).args(["--list", "--verbose", "--numeric-owner"]);
    let listing = listing.args(["--quoting-style=escape"]).output()?;
    check(what, &String::from_utf8_lossy(&listing))?;
    let run = run(what, &archive).folder(&folder).writes(&folder);
    run.args(["--extract", "--no-same-owner", "--no-same-permissions"]).output()?;
    let mut index = FileDigests::new();
    add_files(&folder, Path::new(""), &mut index).map_err(DatasetError::cache(&folder))?;
    if root.exists() {
        fs::remove_dir_all(&root).map_err(DatasetError::cache(&root))?;
    }
    fs::rename(&folder, &root).map_err(DatasetError::cache(&root))?;
    let stored = postcard::to_stdvec(&index).map_err(io::Error::other);
    cache.put(key, &stored.map_err(DatasetError::cache(&root))?)?;
    Ok(UnpackedArchive { root, index })
}

fn run<'a>(what: &'a str, archive: &Path) -> ToolRun<'a> {
    ToolRun::new(TAR, what).limit(LIMIT).reads(archive).arg("--file").arg(archive)
}

/// Checks a verbose listing: it has files, folders and links, nothing outside, and not too much.
fn check(what: &str, listing: &str) -> Result<(), DatasetError> {
    let refused = |detail: String| DatasetError::BadArchive { what: what.to_owned(), detail };
    let (mut files, mut bytes) = (0_u64, 0_u64);
    for line in listing.lines() {
        // mode, owner, size, date, time, name
        let mut rest = line;
        let mut field = || {
            let (field, after) = rest.trim_start().split_once(' ')?;
            rest = after;
            Some(field)
        };
        let (mode, _owner, size) = (field(), field(), field());
        let (_date, _time) = (field(), field());
        let kind = mode.and_then(|mode| mode.chars().next());
        // Links are removed later: where their names end, a listing does not say.
        if let Some('l' | 'h') = kind {
            continue;
        }
        let Some(('-' | 'd', size)) = kind.zip(size.and_then(|size| size.parse::<u64>().ok()))
        else {
            return Err(refused(format!("it has something else than files: {line}")));
        };
        let name = rest.trim_start();
        if name.starts_with('/') || name.split('/').any(|part| part == "..") {
            return Err(refused(format!("`{name}` would lie outside of its folder")));
        }
        (files, bytes) = (files + 1, bytes.saturating_add(size));
        if files > FILES_MAX || bytes > BYTES_MAX {
            let detail = format!("it has more than {FILES_MAX} files or {BYTES_MAX} bytes");
            return Err(refused(detail));
        }
    }
    Ok(())
}

/// Adds the digests of all files in `folder` to the index, and removes what is neither a file nor
/// a folder, or has a name that is not UTF-8.
fn add_files(root: &Path, folder: &Path, index: &mut FileDigests) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add_files(root, &path, index)?;
        } else if let Some(name) = path.to_str().filter(|_| kind.is_file()) {
            let digest = blake3::hash(&fs::read(root.join(&path))?);
            index.insert(name.to_owned(), *digest.as_bytes());
        } else {
            fs::remove_file(root.join(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_or_is_too_much_is_refused() {
        let line = "-rw-r--r-- 0/0            1234 2020-01-01 00:00 ";
        check("x", &format!("{line}a/b c.bc\n{line}a/..b\n")).unwrap();
        for (listing, said) in [
            (format!("{line}/etc/passwd"), "`/etc/passwd` would lie outside"),
            (format!("{line}a/../../b"), "would lie outside"),
            ("crw-rw-rw- 0/0  1,3 2020-01-01 00:00 null".to_owned(), "something else than files"),
            (line.replace("1234", "99999999999") + "big", "more than 3000000 files or "),
            ("nonsense".to_owned(), "something else than files"),
        ] {
            let error = check("the archive", &listing).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let links = "lrwxrwxrwx 0/0 0 2020-01-01 00:00 a/l -> /etc/passwd\n\
                     hrw-r--r-- 0/0 0 2020-01-01 00:00 a/h link to a/b\n";
        check("x", links).unwrap();
    }

    #[test]
    fn links_are_left_out_and_files_of_odd_names_are_not() {
        let place = tempfile::tempdir().unwrap();
        let tree = place.path().join("tree");
        fs::create_dir_all(tree.join("set/a -> b")).unwrap();
        let names = ["set/tab\there", "set/back\\slash", "set/one -> two", "set/a -> b/[x]*?"];
        let links = ["set/l", "set/l -> m", "set/l\tm", "set/l\\m", "set/x link to y"];
        for name in names {
            fs::write(tree.join(name), name).unwrap();
        }
        for (name, to) in links.iter().zip(["/etc/passwd", "..", "one -> two", "a -> b", "none"]) {
            std::os::unix::fs::symlink(to, tree.join(name)).unwrap();
        }
        let archive = place.path().join("set.tar");
        let packed = ToolRun::new(TAR, "a test").folder(&tree).writes(place.path());
        packed.args(["--create", "--file"]).arg(&archive).arg("set").output().unwrap();
        let cache = ProgramCache::new(place.path().join("cache"));
        let unpacked = unpacked(&cache, &"0".repeat(64), "x", false, || Ok(archive)).unwrap();
        assert!(unpacked.index.keys().eq(std::collections::BTreeSet::from(names)));
        for name in names {
            assert_eq!(unpacked.read(name).unwrap(), name.as_bytes(), "{name}");
        }
        for link in links {
            assert!(unpacked.root.join(link).symlink_metadata().is_err(), "{link}");
        }
    }
}
