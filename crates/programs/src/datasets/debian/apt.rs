//! Runs apt on Debian's sources in a root of its own: it reads the system's lists, cache and
//! configuration, and never writes them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;

use super::control::{SourceRecord, source_lines, source_paragraphs, version_key};
use crate::datasets::cache::stored::sha256_of;
use crate::datasets::tools::command::{ForeignTool, ToolRun, disk_error};
use crate::datasets::{DatasetError, ProgramCache};

const APT_GET: ForeignTool = ForeignTool { name: "apt-get", package: "apt" };
const APT_CACHE: ForeignTool = ForeignTool { name: "apt-cache", package: "apt" };

/// The age at which the lists are fetched again.
const LISTS_AGE_MAX: Duration = Duration::from_hours(24);
/// The age at which the lists are fetched again if the repository lacks what they name.
const LISTS_AGE_RECENT: Duration = Duration::from_hours(1);
/// The file whose age is that of the lists.
const STAMP: &str = "refreshed";
/// The cache's folder for archives of packages' authors.
const AUTHORS: &str = "debian-authors";
const UPDATE_LIMIT: Duration = Duration::from_mins(5);
const DOWNLOAD_LIMIT: Duration = Duration::from_mins(10);

/// A private apt.
#[derive(Debug)]
pub(in crate::datasets) struct Apt {
    cache: ProgramCache,
    /// The folder of the system's own list of repositories.
    system: PathBuf,
    root: Mutex<Option<PathBuf>>,
    records: Mutex<BTreeMap<String, Vec<SourceRecord>>>,
    /// For each package, the version chosen when none is named.
    chosen: Mutex<BTreeMap<String, String>>,
}

/// Returns the system's repositories, converted to repositories of sources: those in one-line
/// format and those in paragraph format.
fn repositories(system: &Path) -> (String, String) {
    let mut files = vec![system.join("sources.list")];
    let parts = fs::read_dir(system.join("sources.list.d")).into_iter().flatten().flatten();
    files.extend(parts.map(|entry| entry.path()));
    files.sort();
    let (mut lines, mut paragraphs) = (BTreeSet::new(), String::new());
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("list") => lines.append(&mut source_lines(&text)),
            Some("sources") => paragraphs += &(source_paragraphs(&text) + "\n"),
            _ => {}
        }
    }
    (lines.into_iter().map(|line| line + "\n").collect(), paragraphs)
}

impl Apt {
    pub(in crate::datasets) fn new(cache: ProgramCache, system: &Path) -> Self {
        let (root, records, chosen) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { cache, system: system.to_owned(), root, records, chosen }
    }

    /// Returns the newest version of a source package that can be fetched. An index and its
    /// repository are not always from the same moment, and the latest version in the index may be
    /// gone. `is_here` says which versions need not be fetched.
    pub(super) fn newest(
        &self,
        package: &str,
        is_here: &dyn Fn(&str) -> bool,
    ) -> Result<String, DatasetError> {
        let mut chosen = self.chosen.lock();
        if let Some(version) = chosen.get(package) {
            return Ok(version.clone());
        }
        let mut withdrawn = BTreeSet::new();
        loop {
            let mut records = self.versions(package)?;
            records.sort_by(|a, b| version_key(&b.version).cmp(&version_key(&a.version)));
            let newest = records.first().ok_or_else(|| self.unknown(package))?.version.clone();
            let left = records.iter().find(|record| !withdrawn.contains(&record.version));
            let Some(record) = left else {
                let (what, versions) = (package.to_owned(), "it has none of them".to_owned());
                return Err(DatasetError::Withdrawn { what, versions });
            };
            // The description alone shows whether a version can be fetched.
            let folder = self.cache.scratch()?;
            let can_be_fetched = || self.fetch(record, folder.path(), &["--dsc-only"]);
            match if is_here(&record.version) { Ok(true) } else { can_be_fetched() } {
                Ok(true) => {
                    if record.version != newest {
                        tracing::warn!(
                            "the repository does not have {package} {newest}, which its index names: \
                             {} is taken",
                            record.version
                        );
                    }
                    chosen.insert(package.to_owned(), record.version.clone());
                    return Ok(record.version.clone());
                }
                Ok(false) => {
                    withdrawn.insert(record.version.clone());
                    self.forget_old_lists()?;
                }
                // Without a network, use what is here.
                Err(error) if error.is_offline() => {
                    let here = records.iter().find(|record| is_here(&record.version));
                    return Ok(here.map_or(newest, |record| record.version.clone()));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Fetches a package's files into `folder`. Returns whether the repository has them.
    fn fetch(
        &self,
        record: &SourceRecord,
        folder: &Path,
        options: &[&str],
    ) -> Result<bool, DatasetError> {
        let what = format!("{}={}", record.package, record.version);
        let root = self.root()?;
        let run = run(APT_GET, &what, &root).folder(folder).limit(DOWNLOAD_LIMIT).arg("source");
        let run = run.args(["--download-only", "--only-source"]).args(options).arg(&what);
        match run.output() {
            Ok(_) => Ok(true),
            Err(DatasetError::ToolFailed { detail, .. }) if is_withdrawal(&detail) => Ok(false),
            Err(error) => Err(offline(&root, what, error)),
        }
    }

    /// Forgets the lists if they are old enough for the repository to have changed, so that they
    /// are fetched again.
    fn forget_old_lists(&self) -> Result<(), DatasetError> {
        let stamp = self.root()?.join(STAMP);
        if age(&stamp).is_some_and(|age| age < LISTS_AGE_RECENT) {
            return Ok(());
        }
        fs::remove_file(stamp).ok();
        *self.root.lock() = None;
        self.records.lock().clear();
        Ok(())
    }

    /// Returns one version of a source package.
    pub(super) fn version(
        &self,
        package: &str,
        version: &str,
    ) -> Result<SourceRecord, DatasetError> {
        let records = self.versions(package)?;
        if records.is_empty() {
            return Err(self.unknown(package));
        }
        let hint = format!("this machine's Debian has {package} {}", on_offer(&records));
        let uri = format!("benchmark://debian-v0/{package}@{version}");
        let found = records.into_iter().find(|record| record.version == version);
        found.ok_or_else(|| DatasetError::unknown(&uri, hint))
    }

    /// Fetches a package's files into `folder`.
    pub(super) fn download(
        &self,
        record: &SourceRecord,
        folder: &Path,
    ) -> Result<(), DatasetError> {
        if self.fetch(record, folder, &[])? {
            replace_links(record, folder)?;
            return verify(record, folder);
        }
        // The lists are older than the repository; the next caller fetches them again.
        fs::remove_file(self.root()?.join(STAMP)).ok();
        let what = format!("{}={}", record.package, record.version);
        let versions = on_offer(&self.versions(&record.package)?);
        Err(DatasetError::Withdrawn { what, versions })
    }

    /// Returns an archive of a package's authors, which every revision of that version has, with
    /// this name and digest. It is fetched once.
    pub(in crate::datasets) fn archive(
        &self,
        package: &str,
        name: &str,
        sha256: &str,
    ) -> Result<PathBuf, DatasetError> {
        let kept = format!("{}-{name}", &sha256[..16]);
        let _lock = self.cache.lock(&format!("debian-{kept}"))?;
        let path = self.cache.folder(AUTHORS)?.join(&kept);
        let is_intact = |path: &Path| sha256_of(path).is_ok_and(|digest| digest == sha256);
        if is_intact(&path) {
            return Ok(path);
        }
        let mut records = self.versions(package)?;
        let in_debian = on_offer(&records);
        records.retain(|record| record.files.iter().any(|(known, _)| known == sha256));
        for record in &records {
            let fetched = self.cache.scratch()?;
            if !self.fetch(record, fetched.path(), &["--tar-only"])? {
                continue;
            }
            replace_links(record, fetched.path())?;
            let file = fetched.path().join(name);
            if !is_intact(&file) {
                let (what, detail) = (record.package.clone(), format!("{name} differs"));
                return Err(DatasetError::ChecksumMismatch { what, detail });
            }
            fs::rename(&file, &path).map_err(DatasetError::cache(&path))?;
            return Ok(path);
        }
        let archive = name.to_owned();
        let has = match in_debian.as_str() {
            "" => format!("no package {package}"),
            versions => format!("{package} {versions}"),
        };
        Err(DatasetError::OtherDebian { archive, has })
    }

    fn versions(&self, package: &str) -> Result<Vec<SourceRecord>, DatasetError> {
        let mut known = self.records.lock();
        if let Some(records) = known.get(package) {
            return Ok(records.clone());
        }
        let root = self.root()?;
        let index = show(&root, &["--only-source", package])?;
        let mut records = SourceRecord::all(&index);
        records.retain(|record| record.package == package);
        known.insert(package.to_owned(), records.clone());
        Ok(records)
    }

    fn unknown(&self, package: &str) -> DatasetError {
        let made_from = self.root().and_then(|root| show(&root, &[package]));
        let sources = SourceRecord::all(&made_from.unwrap_or_default());
        let hint = match sources.iter().map(|record| &record.package).min() {
            Some(source) => format!("it is made from the source package `{source}`"),
            None => "no source package of that name is in this machine's Debian".to_owned(),
        };
        DatasetError::unknown(&format!("benchmark://debian-v0/{package}"), hint)
    }

    /// Returns the private root; its lists are at most a day old if the network is up.
    fn root(&self) -> Result<PathBuf, DatasetError> {
        let mut ready = self.root.lock();
        if let Some(root) = ready.as_ref() {
            return Ok(root.clone());
        }
        let (lines, paragraphs) = repositories(&self.system);
        let text = format!("{lines}{paragraphs}");
        if text.trim().is_empty() {
            return Err(DatasetError::NoPackageSources { folder: self.system.clone() });
        }
        // Other repositories have other lists, so each set gets its own folder.
        let name = format!("apt-{}", &blake3::hash(text.as_bytes()).to_hex()[..16]);
        let _lock = self.cache.lock(&name)?;
        let root = self.cache.folder(&name)?;
        lay_out(&root, &lines, &paragraphs).map_err(DatasetError::cache(&root))?;
        refresh(&root)?;
        *ready = Some(root.clone());
        Ok(root)
    }
}

fn run<'a>(tool: ForeignTool, what: &'a str, root: &Path) -> ToolRun<'a> {
    ToolRun::new(tool, what).with_network().arg("-q").arg("-c").arg(root.join("apt.conf"))
}

/// Returns what the index says of a package; nothing for an unknown package.
fn show(root: &Path, arguments: &[&str]) -> Result<String, DatasetError> {
    match run(APT_CACHE, "the package index", root).arg("showsrc").args(arguments).output() {
        Ok(output) => Ok(String::from_utf8_lossy(&output).into_owned()),
        Err(DatasetError::ToolFailed { detail, .. }) if detail.contains("Unable to locate") => {
            Ok(String::new())
        }
        Err(error) => Err(error),
    }
}

/// Returns the versions of a package's records, in words.
fn on_offer(records: &[SourceRecord]) -> String {
    let versions: Vec<&str> = records.iter().map(|record| record.version.as_str()).collect();
    versions.join(", ")
}

/// Fetches the lists if they are old.
fn refresh(root: &Path) -> Result<(), DatasetError> {
    let stamp = root.join(STAMP);
    if age(&stamp).is_some_and(|age| age < LISTS_AGE_MAX) && has_lists(root) {
        return Ok(());
    }
    tracing::info!("fetching the lists of Debian source packages");
    let run = run(APT_GET, "the package lists", root).limit(UPDATE_LIMIT);
    match run.args(["-o", "APT::Update::Error-Mode=any", "update"]).output() {
        Ok(_) => fs::write(&stamp, "").map_err(DatasetError::cache(&stamp)),
        // One repository of many failed, or older lists remain: what is here may suffice.
        Err(error) if has_lists(root) => {
            tracing::warn!("{error}");
            Ok(())
        }
        Err(error) => Err(offline(root, "any package".to_owned(), error)),
    }
}

/// Returns how long ago a file was written.
fn age(path: &Path) -> Option<Duration> {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    modified.ok().and_then(|time| time.elapsed().ok())
}

/// Returns whether apt reports that a repository lacks a file, for a repository on the network or
/// on this machine's disk.
fn is_withdrawal(detail: &str) -> bool {
    detail.contains(" 404 ") || detail.contains("File not found")
}

/// Blames a failure of apt on the disk or on the network.
fn offline(root: &Path, what: String, error: DatasetError) -> DatasetError {
    match error {
        DatasetError::ToolFailed { detail, .. } => match disk_error(&detail) {
            Some(source) => DatasetError::cache(root)(source),
            None => DatasetError::Offline { what, detail },
        },
        DatasetError::TimedOut { limit, .. } => {
            let detail = format!("no answer within {} s", limit.as_secs());
            DatasetError::Offline { what, detail }
        }
        other => other,
    }
}

fn has_lists(root: &Path) -> bool {
    let lists = fs::read_dir(root.join("state/lists")).into_iter().flatten().flatten();
    lists.into_iter().any(|entry| entry.file_name().to_string_lossy().contains("Sources"))
}

/// Writes the files of the root. Keys, proxies and everything else not named here remain the
/// system's. Hooks are cleared: they are made for the system's own lists.
fn lay_out(root: &Path, lines: &str, paragraphs: &str) -> io::Result<()> {
    for folder in ["state/lists/partial", "cache/archives/partial", "sources.list.d"] {
        fs::create_dir_all(root.join(folder))?;
    }
    let place = root.display();
    let configuration = format!(
        r#"Dir::State "{place}/state";
Dir::State::status "{place}/status";
Dir::Cache "{place}/cache";
Dir::Etc::sourcelist "{place}/sources.list";
Dir::Etc::sourceparts "{place}/sources.list.d";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Update::Post-Invoke-Stats;
"#
    );
    for (name, text) in [
        ("apt.conf", configuration.as_str()),
        ("status", ""),
        ("sources.list", lines),
        ("sources.list.d/system.sources", paragraphs),
    ] {
        fs::write(root.join(name), text)?;
    }
    Ok(())
}

/// Replaces links by files: apt links to the files of a repository on this machine's own disk.
fn replace_links(record: &SourceRecord, folder: &Path) -> Result<(), DatasetError> {
    for (_, name) in &record.files {
        let path = folder.join(name);
        if path.is_symlink() {
            let owned = fs::read(&path).and_then(|content| {
                fs::remove_file(&path)?;
                fs::write(&path, content)
            });
            owned.map_err(DatasetError::cache(&path))?;
        }
    }
    Ok(())
}

/// Checks every file of a package against the digests of the repository's signed index.
pub(super) fn verify(record: &SourceRecord, folder: &Path) -> Result<(), DatasetError> {
    let what = format!("{} {}", record.package, record.version);
    for (digest, name) in &record.files {
        let detail = match sha256_of(&folder.join(name)) {
            Ok(found) if found.eq_ignore_ascii_case(digest) => continue,
            Ok(_) => format!("{name} differs"),
            Err(error) => format!("{name}: {error}"),
        };
        return Err(DatasetError::ChecksumMismatch { what, detail });
    }
    Ok(())
}
