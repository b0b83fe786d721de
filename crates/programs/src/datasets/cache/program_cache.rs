//! The cache folder of the datasets, which processes share.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;

use crate::datasets::{DatasetError, INPUTS};

/// The age at which files left behind by killed processes are removed.
const LEFTOVER_AGE_MAX: Duration = Duration::from_hours(24);

/// A folder of things that can be made again: compiled programs, fetched sources.
///
/// Processes share it. An entry is written under another name and then renamed, so a reader sees
/// all of it or nothing. It carries the digest of its content, so damage is detected, and the entry
/// is made again. Whoever makes an entry holds a file lock, so it is made only once.
///
/// Only its user may write to the folder: what another user put there would become part of lakes.
#[derive(Debug, Clone)]
pub struct ProgramCache {
    pub(in crate::datasets) root: PathBuf,
}

/// The name of an entry: its kind, and a digest of everything that its content depends on.
///
/// Making an entry may request entries of other kinds, never of its own: each kind has its own
/// locks, so nobody waits in a circle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::datasets) struct Key {
    kind: &'static str,
    digest: blake3::Hash,
}

impl Key {
    /// Returns the key of an entry that depends on exactly these texts.
    pub(in crate::datasets) fn of(kind: &'static str, parts: &[&str]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            // The lengths distinguish ["a", "bc"] from ["ab", "c"].
            hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self { kind, digest: hasher.finalize() }
    }
}

impl ProgramCache {
    /// Uses the cache in `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the default folder of this process: see [`default_root`](Self::default_root). Where
    /// `HOME` is not set, it is the one that the system has for the user.
    ///
    /// # Errors
    ///
    /// [`DatasetError::NoCachePlace`] if the user has no folder.
    pub fn users_root() -> Result<PathBuf, DatasetError> {
        Self::default_root(|name| match name {
            "HOME" => std::env::home_dir().map(OsString::from),
            _ => std::env::var_os(name),
        })
    }

    /// Returns the default folder: `$STEPLAKE_CACHE`, else `$XDG_CACHE_HOME/steplake`, else
    /// `~/.cache/steplake`. Never a folder that others could create as well.
    ///
    /// # Errors
    ///
    /// [`DatasetError::NoCachePlace`] if none of these variables is set.
    pub fn default_root(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<PathBuf, DatasetError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let own = set("STEPLAKE_CACHE");
        let user = || set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        own.or_else(|| Some(user()?.join("steplake"))).ok_or(DatasetError::NoCachePlace)
    }

    /// Creates the folder, or checks that only this user may write to it.
    fn open(&self) -> Result<(), DatasetError> {
        let opened = || -> io::Result<bool> {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
            let folder = fs::metadata(&self.root)?;
            let is_open_to_others = folder.mode() & 0o022 != 0;
            Ok(folder.uid() == geteuid().as_raw() && !is_open_to_others)
        };
        if opened().map_err(DatasetError::cache(&self.root))? {
            return Ok(());
        }
        Err(DatasetError::ForeignCache { path: self.root.clone() })
    }

    /// Returns the content of the entry called `key`; `make` makes it if it is missing or damaged.
    pub(in crate::datasets) fn entry(
        &self,
        key: Key,
        make: impl FnOnce() -> Result<Vec<u8>, DatasetError>,
    ) -> Result<Vec<u8>, DatasetError> {
        if let Some(content) = self.get(key)? {
            return Ok(content);
        }
        let _lock = self.lock(&format!("{}-{}", key.kind, &key.digest.to_hex()[..2]))?;
        // Another process may have made it while this one waited.
        if let Some(content) = self.get(key)? {
            return Ok(content);
        }
        let content = make()?;
        self.put(key, &content)?;
        Ok(content)
    }

    /// Returns the content of the entry called `key`, if it exists and is intact.
    pub(in crate::datasets) fn get(&self, key: Key) -> Result<Option<Vec<u8>>, DatasetError> {
        self.open()?;
        let path = self.path_of(key);
        let Ok(mut stored) = fs::read(&path) else { return Ok(None) };
        let content = stored.split_off(stored.len().min(blake3::OUT_LEN));
        if blake3::hash(&content).as_bytes().as_slice() != stored {
            tracing::warn!("the damaged cache entry {} is made again", path.display());
            return Ok(None);
        }
        Ok(Some(content))
    }

    /// Writes an entry, replacing any earlier one.
    pub(in crate::datasets) fn put(&self, key: Key, content: &[u8]) -> Result<(), DatasetError> {
        self.open()?;
        let path = self.path_of(key);
        let folder = path.parent().unwrap_or(&self.root);
        let written = || -> io::Result<()> {
            fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(self.scratch_root()?)?;
            file.write_all(blake3::hash(content).as_bytes())?;
            file.write_all(content)?;
            file.persist(&path)?;
            Ok(())
        };
        written().map_err(DatasetError::cache(&path))
    }

    /// Waits for the lock called `name`, which is held until the file is dropped.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn lock(&self, name: &str) -> Result<File, DatasetError> {
        self.open()?;
        let folder = self.root.join("locks");
        let path = folder.join(name);
        let locked = || -> io::Result<File> {
            fs::create_dir_all(&folder)?;
            let file = File::options().create(true).append(true).open(&path)?;
            file.lock()?;
            Ok(file)
        };
        locked().map_err(DatasetError::cache(&path))
    }

    /// Returns the folder called `name` in the cache; creates it if it is missing.
    ///
    /// # Errors
    ///
    /// [`DatasetError::ForeignCache`] if others may write to the cache.
    pub fn folder(&self, name: &str) -> Result<PathBuf, DatasetError> {
        self.open()?;
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(DatasetError::cache(&path))?;
        Ok(path)
    }

    /// Puts an input of a program under its digest, and returns the digest. Writes what is damaged
    /// there again.
    ///
    /// # Errors
    ///
    /// The errors of the cache.
    pub fn keep_input(&self, content: &[u8]) -> Result<String, DatasetError> {
        let digest = blake3::hash(content).to_hex().to_string();
        let path = self.folder(INPUTS)?.join(&digest);
        if !fs::read(&path).is_ok_and(|there| there == content) {
            let scratch = self.scratch()?;
            let written = scratch.path().join("input");
            let put = fs::write(&written, content).and_then(|()| fs::rename(&written, &path));
            put.map_err(DatasetError::cache(&path))?;
        }
        Ok(digest)
    }

    /// Returns a folder on the cache's disk that is deleted on drop.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn scratch(&self) -> Result<tempfile::TempDir, DatasetError> {
        self.open()?;
        let made = self.scratch_root().and_then(tempfile::TempDir::new_in);
        made.map_err(DatasetError::cache(&self.root))
    }

    fn scratch_root(&self) -> io::Result<PathBuf> {
        let root = self.root.join("scratch");
        if fs::create_dir(&root).is_err() {
            fs::create_dir_all(&root)?;
            remove_leftovers(&root);
        }
        Ok(root)
    }

    fn path_of(&self, key: Key) -> PathBuf {
        let name = key.digest.to_hex();
        self.root.join(key.kind).join(&name[..2]).join(&name[2..])
    }
}

/// Removes what nobody has touched for long. This only tidies up: what cannot be removed stays.
fn remove_leftovers(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > LEFTOVER_AGE_MAX) {
            let path = entry.path();
            fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn made(text: &str) -> impl FnOnce() -> Result<Vec<u8>, DatasetError> {
        let content = text.as_bytes().to_vec();
        move || Ok(content)
    }

    fn unwanted() -> Result<Vec<u8>, DatasetError> {
        panic!("the entry is there already")
    }

    #[test]
    fn an_entry_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ProgramCache::new(folder.path().join("deep/down"));
        let (a, b) = (Key::of("test", &["a", "bc"]), Key::of("test", &["ab", "c"]));
        assert_eq!(cache.entry(a, made("one")).unwrap(), b"one");
        assert_eq!(cache.entry(b, made("two")).unwrap(), b"two");
        assert_eq!(cache.entry(a, unwanted).unwrap(), b"one");
    }

    #[test]
    fn damage_is_seen_and_mended() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ProgramCache::new(folder.path());
        let key = Key::of("test", &["a"]);
        cache.entry(key, made("content")).unwrap();
        let path = cache.path_of(key);
        let whole = fs::read(&path).unwrap();
        let mut flipped = whole.clone();
        flipped[40 - 8 + 1] ^= 1;
        for damaged in [&whole[..0], &whole[..20], &whole[..whole.len() - 1], &flipped] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(cache.entry(key, made("content")).unwrap(), b"content");
            assert_eq!(fs::read(&path).unwrap(), whole);
        }
    }

    #[test]
    fn one_of_many_makers_makes_it() {
        let folder = tempfile::tempdir().unwrap();
        let makers = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let make = || {
                        makers.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        Ok(vec![1, 2, 3])
                    };
                    let cache = ProgramCache::new(folder.path());
                    assert_eq!(cache.entry(Key::of("test", &["shared"]), make).unwrap(), [1, 2, 3]);
                });
            }
        });
        assert_eq!(makers.into_inner(), 1);
    }

    #[test]
    fn a_failure_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ProgramCache::new(folder.path());
        let fail = || Err(DatasetError::NoPackageSources { folder: PathBuf::new() });
        assert!(cache.entry(Key::of("test", &["a"]), fail).is_err());
        assert_eq!(cache.entry(Key::of("test", &["a"]), made("now")).unwrap(), b"now");
    }

    #[test]
    fn a_cache_that_cannot_be_is_one_clear_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "in the way").unwrap();
        let error = ProgramCache::new(&file).entry(Key::of("test", &["a"]), made("x")).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("STEPLAKE_CACHE") && message.contains("file"), "{message}");
        assert!(!message.contains('\n'));
    }

    #[test]
    fn the_default_place() {
        let with = |set: &'static [(&str, &str)]| {
            ProgramCache::default_root(move |name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            })
        };
        let lies = |set, place: &str| assert_eq!(with(set).unwrap(), Path::new(place));
        lies(&[("HOME", "/h"), ("STEPLAKE_CACHE", "/c")], "/c");
        lies(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/x/steplake");
        lies(&[("HOME", "/h"), ("XDG_CACHE_HOME", "")], "/h/.cache/steplake");
        for nowhere in [&[][..], &[("HOME", "")], &[("TMPDIR", "/t")]] {
            let message = with(nowhere).unwrap_err().to_string();
            assert!(message.contains("set STEPLAKE_CACHE to a folder of your own"), "{message}");
        }
    }

    #[test]
    fn the_folder_is_its_users_alone() {
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("deep/cache");
        let key = Key::of("test", &["a"]);
        ProgramCache::new(&root).entry(key, made("content")).unwrap();
        assert_eq!((mode(&root), mode(root.parent().unwrap())), (0o700, 0o700));
        fs::set_permissions(&root, fs::Permissions::from_mode(0o770)).unwrap();
        let refused = |root: &Path| {
            let cache = ProgramCache::new(root);
            for error in [
                cache.entry(key, unwanted).unwrap_err(),
                cache.scratch().map(drop).unwrap_err(),
                cache.folder("x").map(drop).unwrap_err(),
                cache.lock("x").map(drop).unwrap_err(),
            ] {
                assert!(matches!(error, DatasetError::ForeignCache { .. }), "{error}");
            }
        };
        refused(&root);
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(ProgramCache::new(&root).entry(key, unwanted).unwrap(), b"content");
        // A process that may change the owner of files can test the other half.
        if std::os::unix::fs::chown(&root, Some(12345), None).is_ok() {
            refused(&root);
        }
    }
}
