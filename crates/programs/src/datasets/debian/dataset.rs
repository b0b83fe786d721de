//! The dataset: finds packages, fetches and unpacks them, and compiles their files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::URI;
use super::apt::{self, Apt};
use super::control::SourceRecord;
use super::copyright::Copyright;
use super::includes::SourceTree;
use super::package::{FLAGS, PackageVersion, UnpackedPackage};
use crate::datasets::cache::stored::{StoredProgram, cached};
use crate::datasets::naming::pattern::{is_glob, matcher};
use crate::datasets::tools::clang::Language;
use crate::datasets::tools::command::{ForeignTool, ToolRun};
use crate::datasets::{
    Dataset, DatasetDescription, DatasetError, FrontEnd, ProgramCache, Unavailable,
};
use steplake_model::{Benchmark, BenchmarkUri};

const DPKG_SOURCE: ForeignTool = ForeignTool { name: "dpkg-source", package: "dpkg-dev" };
/// The cache's folder for fetched archives.
const ARCHIVES: &str = "debian-archives";
const UNPACK_LIMIT: Duration = Duration::from_mins(10);

static ABOUT: DatasetDescription = DatasetDescription {
    name: "debian-v0",
    uri: URI,
    description: "The C and C++ files of any Debian source package, each compiled by itself",
    licence: "",
    size: None,
    example: "benchmark://debian-v0/zlib/*",
};

/// The dataset.
#[derive(Debug)]
pub(in crate::datasets) struct Debian {
    cache: ProgramCache,
    front_end: FrontEnd,
    apt: Apt,
    /// The package unpacked last: consecutive requests usually concern the same package.
    unpacked: Mutex<Option<Arc<UnpackedPackage>>>,
}

/// The result for each file of a package: nothing, or the compiler's first error line.
type CompileResults = BTreeMap<String, Option<String>>;

/// A path in the dataset: `package[@version][/file]`.
struct DatasetPath<'a> {
    package: &'a str,
    version: Option<&'a str>,
    file: &'a str,
}

impl<'a> DatasetPath<'a> {
    fn of(path: &'a str) -> Result<Self, DatasetError> {
        let (head, file) = path.split_once('/').unwrap_or((path, ""));
        let (package, version) = match head.split_once('@') {
            Some((package, version)) => (package, Some(version)),
            None => (head, None),
        };
        // Only characters that Debian allows may reach apt's command line and the cache's file
        // names.
        let plain = |text: &str, extra: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || extra.contains(c);
            text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(allowed)
        };
        if !plain(package, "+-.") || !version.is_none_or(|version| plain(version, "+-.:~")) {
            let hint = format!("write {URI}/<package>/<file> or {URI}/<package>@<version>/<file>");
            return Err(DatasetError::unknown(&format!("{URI}/{path}"), hint));
        }
        Ok(Self { package, version, file })
    }
}

impl Debian {
    pub(in crate::datasets) fn new(
        cache: ProgramCache,
        front_end: FrontEnd,
        apt_sources: &Path,
    ) -> Self {
        let apt = Apt::new(cache.clone(), apt_sources);
        Self { cache, front_end, apt, unpacked: Mutex::default() }
    }

    /// Returns the package in the requested version, else in the newest that can be fetched.
    fn package(&self, place: &DatasetPath<'_>) -> Result<PackageVersion, DatasetError> {
        let name = place.package.to_owned();
        if let Some(version) = place.version {
            return Ok(PackageVersion { name, version: version.to_owned() });
        }
        // No archive is asked about a program that could not be compiled.
        self.front_end.version()?;
        let archives = self.cache.folder(ARCHIVES)?;
        let is_here = |version: &str| archives.join(folder_name(&name, version)).is_dir();
        let version = self.apt.newest(&name, &is_here)?;
        Ok(PackageVersion { name, version })
    }

    fn all_flags(&self) -> String {
        format!("{} {FLAGS}", self.front_end.flags())
    }

    /// Fetches, checks and unpacks a package.
    fn unpacked(&self, package: &PackageVersion) -> Result<Arc<UnpackedPackage>, DatasetError> {
        let mut last = self.unpacked.lock();
        if let Some(unpacked) = last.as_ref().filter(|unpacked| unpacked.package == *package) {
            return Ok(Arc::clone(unpacked));
        }
        let (record, archives) = self.archives(package)?;
        let what = format!("{} {}", package.name, package.version);
        let folder = self.cache.scratch()?;
        let root = folder.path().join("source");
        let description = record.description_file().unwrap_or_default();
        let run = ToolRun::new(DPKG_SOURCE, &what).folder(folder.path()).limit(UNPACK_LIMIT);
        let run = run.reads(&archives).writes(folder.path());
        let run = run.args(["--no-copy", "-x"]).arg(archives.join(description));
        run.arg("source").output()?;
        let unreadable = |source| DatasetError::Unreadable { path: root.clone(), source };
        let tree = SourceTree::read(&root).map_err(unreadable)?;
        // dpkg-source refuses packages with links that lead out of them.
        let copyright = fs::read(root.join("debian/copyright")).unwrap_or_default();
        let copyright = Copyright::parse(&String::from_utf8_lossy(&copyright));
        let package = package.clone();
        let unpacked =
            Arc::new(UnpackedPackage { package, record, tree, copyright, _folder: folder });
        *last = Some(Arc::clone(&unpacked));
        Ok(unpacked)
    }

    /// Returns the package's record and the folder of its files, checked against the record.
    fn archives(&self, package: &PackageVersion) -> Result<(SourceRecord, PathBuf), DatasetError> {
        let PackageVersion { name, version } = package;
        let record = cached(&self.cache, "debian-records", &[URI, name, version], || {
            self.apt.version(name, version)
        })?;
        let folder_name = folder_name(name, version);
        let _lock = self.cache.lock(&format!("debian-{folder_name}"))?;
        let folder = self.cache.folder(ARCHIVES)?.join(&folder_name);
        if folder.is_dir() {
            match apt::verify(&record, &folder) {
                Ok(()) => return Ok((record, folder)),
                Err(DatasetError::ChecksumMismatch { what, detail }) => {
                    tracing::warn!("the cached source of {what} is fetched again: {detail}");
                }
                Err(error) => return Err(error),
            }
        }
        let fetched = self.cache.scratch()?;
        self.apt.download(&record, fetched.path())?;
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(DatasetError::cache(&folder))?;
        }
        fs::rename(fetched.path(), &folder).map_err(DatasetError::cache(&folder))?;
        Ok((record, folder))
    }

    /// Makes one file's program or takes it from the cache.
    fn stored(&self, package: &PackageVersion, file: &str) -> Result<StoredProgram, DatasetError> {
        let (PackageVersion { name, version }, flags) = (package, self.all_flags());
        let key = [URI, name, version, self.front_end.version()?, &flags, file];
        StoredProgram::cached(&self.cache, &key, || {
            self.unpacked(package)?.compile(&self.front_end, file)
        })
    }

    /// Returns the result for every file of a package. A result with a stopped compiler is not
    /// cached, so the next call tries again.
    fn index(&self, package: &PackageVersion) -> Result<CompileResults, DatasetError> {
        let (PackageVersion { name, version }, flags) = (package, self.all_flags());
        let key = [URI, name, version, self.front_end.version()?, &flags, "C and C++"];
        let mut for_this_call = None;
        let lasting = cached(&self.cache, "debian-indexes", &key, || {
            let (index, stopped) = self.compile_all(package)?;
            let Some(error) = stopped else { return Ok(index) };
            for_this_call = Some(index);
            Err(error)
        });
        for_this_call.map_or(lasting, Ok)
    }

    /// Compiles every file of a package, on all cores. Also returns the last error that only says
    /// that the compiler was stopped.
    fn compile_all(
        &self,
        package: &PackageVersion,
    ) -> Result<(CompileResults, Option<DatasetError>), DatasetError> {
        let files = self.unpacked(package)?.tree.sources();
        let PackageVersion { name, version } = package;
        tracing::info!("compiling {} files of {name} {version}", files.len());
        let next = AtomicUsize::new(0);
        let all = Mutex::new((CompileResults::default(), None));
        let work = || -> Result<(), DatasetError> {
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = self.stored(package, file);
                let mut all = all.lock();
                let problem = match result {
                    Ok(_) => None,
                    Err(
                        DatasetError::DoesNotCompile { detail, .. }
                        | DatasetError::Refused { detail, .. },
                    ) => Some(detail),
                    // Without the headers of C++, the files of C are of use.
                    Err(error) if error.is_stopped() || is_without_library(&error, file) => {
                        tracing::warn!("left out this time: {error}");
                        Some(all.1.insert(error).to_string())
                    }
                    Err(error) => return Err(error),
                };
                all.0.insert(file.clone(), problem);
            }
            Ok(())
        };
        thread::scope(|scope| {
            let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| match worker.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        Ok(all.into_inner())
    }

    /// Returns the files that `path` names, with their results.
    fn select(&self, path: &str) -> Result<(PackageVersion, CompileResults), DatasetError> {
        let pattern = format!("{URI}/{path}");
        let head = path.split('/').next().unwrap_or_default();
        if head.is_empty() || is_glob(head) {
            return Err(ABOUT.unbounded());
        }
        let place = DatasetPath::of(path)?;
        let glob = match place.file.trim_end_matches('/') {
            "" => "**".to_owned(),
            glob if is_glob(glob) => glob.to_owned(),
            folder => format!("{folder}/**"),
        };
        let wanted = matcher(&pattern, &glob)?;
        let package = self.package(&place)?;
        let mut files = self.index(&package)?;
        files.retain(|file, _| wanted.is_match(file));
        Ok((package, files))
    }
}

/// Returns the name of the folder for a version's archives.
fn folder_name(package: &str, version: &str) -> String {
    format!("{package}_{version}")
}

impl Dataset for Debian {
    fn about(&self) -> &'static DatasetDescription {
        &ABOUT
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        let place = DatasetPath::of(uri.path())?;
        if !is_source(place.file) {
            let hint = "a benchmark is one C or C++ file";
            return Err(DatasetError::unknown(uri, hint).listed_by(uri));
        }
        self.package(&place)?.uri(place.file)
    }

    fn expand(&self, path: &str) -> Result<Vec<BenchmarkUri>, DatasetError> {
        if !is_glob(path) && is_source(path) {
            return Ok(vec![self.resolve(&format!("{URI}/{path}").parse()?)?]);
        }
        let (package, files) = self.select(path)?;
        let available = files.iter().filter(|(_, problem)| problem.is_none());
        let uris: Vec<_> =
            available.map(|(file, _)| package.uri(file)).collect::<Result<_, _>>()?;
        match files.first_key_value() {
            Some((_, Some(problem))) if uris.is_empty() => {
                let pattern = format!("{URI}/{path}");
                let hint = format!("of {} files none compiles by itself: {problem}", files.len());
                Err(DatasetError::no_match(&pattern, hint))
            }
            _ => Ok(uris),
        }
    }

    fn benchmark(&self, uri: &BenchmarkUri) -> Result<Benchmark, DatasetError> {
        let place = DatasetPath::of(uri.path())?;
        let canonical = self.resolve(uri)?;
        let stored = self.stored(&self.package(&place)?, place.file)?;
        Ok(stored.into_benchmark(canonical, None))
    }

    fn unavailable(&self, path: &str) -> Result<Vec<Unavailable>, DatasetError> {
        let (package, files) = self.select(path)?;
        let problems = files.into_iter().filter_map(|(file, problem)| Some((file, problem?)));
        problems
            .map(|(file, reason)| Ok(Unavailable { uri: package.uri(&file)?, reason }))
            .collect()
    }
}

/// Returns whether a file of C++ was not compiled because its language is not installed here.
fn is_without_library(error: &DatasetError, file: &str) -> bool {
    let missing = matches!(error, DatasetError::ToolMissing { .. });
    missing && Language::of(Path::new(file)) == Some(Language::Cxx)
}

fn is_source(file: &str) -> bool {
    Language::of(Path::new(file)).is_some()
}
