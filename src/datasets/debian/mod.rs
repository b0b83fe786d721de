//! `benchmark://debian-v0/<package>@<version>/<file>`: the C and C++ files of Debian's source
//! packages.
//!
//! A package is fetched with its checksums and unpacked with Debian's patches; each of its files is
//! compiled by itself, in the language that its ending says. No program of the package is run, so
//! there is no `configure`: the flags
//! state what is true of every Debian system, the include path is found by reading the includes,
//! and a file that needs more is listed as unavailable, with the compiler's message.

mod apt;
mod control;
mod copyright;
mod includes;

pub(super) use self::apt::Apt;
pub(super) use self::includes::SourceTree;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use self::control::SourceRecord;
use self::copyright::Copyright;
use super::clang::{Language, Source};
use super::command::{Run, Tool};
use super::nearest::did_you_mean;
use super::pattern::{is_glob, matcher};
use super::stored::{Stored, cached};
use super::{About, Cache, Dataset, DatasetError, FrontEnd, Unavailable};
use crate::model::{Benchmark, BenchmarkUri, Provenance};

const URI: &str = "benchmark://debian-v0";
const DPKG_SOURCE: Tool = Tool { name: "dpkg-source", package: "dpkg-dev" };
/// The cache's folder for fetched archives.
const ARCHIVES: &str = "debian-archives";
const UNPACK_LIMIT: Duration = Duration::from_mins(10);

/// What `configure` would find on every Debian system, and what makes the compiler accept old C:
/// calls without a declaration, declarations without a type, and careless pointers.
const FLAGS: &str = "-D_GNU_SOURCE -DSTDC_HEADERS=1 -DHAVE_FCNTL_H=1 -DHAVE_INTTYPES_H=1 \
    -DHAVE_LIMITS_H=1 -DHAVE_MEMORY_H=1 -DHAVE_STDARG_H=1 -DHAVE_STDBOOL_H=1 -DHAVE_STDINT_H=1 \
    -DHAVE_STDLIB_H=1 -DHAVE_STRING_H=1 -DHAVE_SYS_STAT_H=1 -DHAVE_SYS_TYPES_H=1 \
    -DHAVE_UNISTD_H=1 -DHAVE__BOOL=1 -Wno-error=implicit-function-declaration \
    -Wno-error=implicit-int -Wno-error=int-conversion \
    -Wno-error=incompatible-function-pointer-types";

static ABOUT: About = About {
    name: "debian-v0",
    uri: URI,
    description: "The C and C++ files of any Debian source package, each compiled by itself",
    licence: "",
    size: None,
    example: "benchmark://debian-v0/zlib/*",
};

/// The dataset.
#[derive(Debug)]
pub(super) struct Debian {
    cache: Cache,
    front_end: FrontEnd,
    apt: Apt,
    /// The package unpacked last: consecutive requests usually concern the same package.
    unpacked: Mutex<Option<Arc<Unpacked>>>,
}

/// A package with a definite version.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
}

/// A source package on disk; deleted on drop.
#[derive(Debug)]
struct Unpacked {
    package: Package,
    record: SourceRecord,
    tree: SourceTree,
    copyright: Copyright,
    _folder: tempfile::TempDir,
}

/// The result for each file of a package: nothing, or the compiler's first error line.
type Index = BTreeMap<String, Option<String>>;

/// A path in the dataset: `package[@version][/file]`.
struct Place<'a> {
    package: &'a str,
    version: Option<&'a str>,
    file: &'a str,
}

impl<'a> Place<'a> {
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

impl Package {
    fn uri(&self, file: &str) -> Result<BenchmarkUri, DatasetError> {
        Ok(format!("{URI}/{}@{}/{file}", self.name, self.version).parse()?)
    }
}

impl Debian {
    pub(super) fn new(cache: Cache, front_end: FrontEnd, apt_sources: &Path) -> Self {
        let apt = Apt::new(cache.clone(), apt_sources);
        Self { cache, front_end, apt, unpacked: Mutex::default() }
    }

    /// Returns the package in the requested version, else in the newest that can be fetched.
    fn package(&self, place: &Place<'_>) -> Result<Package, DatasetError> {
        let name = place.package.to_owned();
        if let Some(version) = place.version {
            return Ok(Package { name, version: version.to_owned() });
        }
        // No archive is asked about a program that could not be compiled.
        self.front_end.version()?;
        let archives = self.cache.folder(ARCHIVES)?;
        let is_here = |version: &str| archives.join(folder_name(&name, version)).is_dir();
        let version = self.apt.newest(&name, &is_here)?;
        Ok(Package { name, version })
    }

    fn all_flags(&self) -> String {
        format!("{} {FLAGS}", self.front_end.flags())
    }

    /// Fetches, checks and unpacks a package.
    fn unpacked(&self, package: &Package) -> Result<Arc<Unpacked>, DatasetError> {
        let mut last = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(unpacked) = last.as_ref().filter(|unpacked| unpacked.package == *package) {
            return Ok(Arc::clone(unpacked));
        }
        let (record, archives) = self.archives(package)?;
        let what = format!("{} {}", package.name, package.version);
        let folder = self.cache.scratch()?;
        let root = folder.path().join("source");
        let description = record.description_file().unwrap_or_default();
        let run = Run::new(DPKG_SOURCE, &what).folder(folder.path()).limit(UNPACK_LIMIT);
        let run = run.reads(&archives).writes(folder.path());
        let run = run.args(["--no-copy", "-x"]).arg(archives.join(description));
        run.arg("source").output()?;
        let unreadable = |source| DatasetError::Unreadable { path: root.clone(), source };
        let tree = SourceTree::read(&root).map_err(unreadable)?;
        // dpkg-source refuses packages with links that lead out of them.
        let copyright = fs::read(root.join("debian/copyright")).unwrap_or_default();
        let copyright = Copyright::parse(&String::from_utf8_lossy(&copyright));
        let package = package.clone();
        let unpacked = Arc::new(Unpacked { package, record, tree, copyright, _folder: folder });
        *last = Some(Arc::clone(&unpacked));
        Ok(unpacked)
    }

    /// Returns the package's record and the folder of its files, checked against the record.
    fn archives(&self, package: &Package) -> Result<(SourceRecord, PathBuf), DatasetError> {
        let Package { name, version } = package;
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
    fn stored(&self, package: &Package, file: &str) -> Result<Stored, DatasetError> {
        let (Package { name, version }, flags) = (package, self.all_flags());
        let key = [URI, name, version, self.front_end.version()?, &flags, file];
        Stored::cached(&self.cache, &key, || self.unpacked(package)?.compile(&self.front_end, file))
    }

    /// Returns the result for every file of a package. A result with a stopped compiler is not
    /// cached, so the next call tries again.
    fn index(&self, package: &Package) -> Result<Index, DatasetError> {
        let (Package { name, version }, flags) = (package, self.all_flags());
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
        package: &Package,
    ) -> Result<(Index, Option<DatasetError>), DatasetError> {
        let files = self.unpacked(package)?.tree.sources();
        let Package { name, version } = package;
        tracing::info!("compiling {} files of {name} {version}", files.len());
        let next = AtomicUsize::new(0);
        let all = Mutex::new((Index::default(), None));
        let work = || -> Result<(), DatasetError> {
            while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = self.stored(package, file);
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
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
        Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the files that `path` names, with their results.
    fn select(&self, path: &str) -> Result<(Package, Index), DatasetError> {
        let pattern = format!("{URI}/{path}");
        let head = path.split('/').next().unwrap_or_default();
        if head.is_empty() || is_glob(head) {
            return Err(ABOUT.unbounded());
        }
        let place = Place::of(path)?;
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

impl Unpacked {
    fn compile(&self, front_end: &FrontEnd, file: &str) -> Result<Stored, DatasetError> {
        let uri = self.package.uri(file)?;
        let files = self.tree.sources();
        if !files.iter().any(|known| known == file) {
            let near = did_you_mean(file, files.iter().map(String::as_str));
            let package = format!("{URI}/{}", self.package.name);
            let hint = format!("{package} has {} files{near}", files.len());
            return Err(DatasetError::unknown(&uri, hint));
        }
        let language = Language::of(Path::new(file)).unwrap_or(Language::C);
        let include_flags = self.tree.include_flags(file);
        let flags = FLAGS.split(' ').chain(include_flags.iter().map(String::as_str));
        let flags: Vec<&str> = flags.collect();
        let compiled = front_end.compile(&Source {
            uri: uri.as_str(),
            language,
            folder: &self.tree.root,
            file,
            flags: &flags,
            beside: &[],
        })?;
        let Package { name, version } = &self.package;
        let description = self.record.description_file();
        let digest = self.record.files.iter().find(|(_, name)| Some(name.as_str()) == description);
        let digest = digest.map_or("", |(digest, _)| digest);
        let provenance = Provenance {
            family: format!("debian/{name}"),
            licence: self.copyright.licence(file).to_owned(),
            origin: format!("Debian source package {name} {version}, sha256 {digest}, {file}"),
            compile_command: compiled.command,
        };
        Ok(Stored { provenance, program: compiled.program })
    }
}

impl Dataset for Debian {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn resolve(&self, uri: &BenchmarkUri) -> Result<BenchmarkUri, DatasetError> {
        let place = Place::of(uri.path())?;
        if !is_source(place.file) {
            let hint = format!(
                "a benchmark is one C or C++ file; `steplake datasets benchmarks {uri}` lists them"
            );
            return Err(DatasetError::unknown(uri, hint));
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
        let place = Place::of(uri.path())?;
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
