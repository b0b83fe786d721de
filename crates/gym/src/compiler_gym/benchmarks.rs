//! The programs that clients sent, by the URIs under which they ask for them again.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};

use steplake::model::{Benchmark, BenchmarkUri, Build, Provenance};
use tonic::Status;

use super::execution::{self, RequestedExecution};
use crate::proto;

/// The usual size of the cache.
const BYTES_MAX: u64 = 256 << 20;

/// A cache of programs. If it grows too large, those go that nobody has asked for in the longest
/// time. A client that asks for one of them sends it again.
#[derive(Debug)]
pub(super) struct Benchmarks {
    cache: Mutex<BenchmarkCache>,
    reads_files: bool,
}

#[derive(Debug)]
struct BenchmarkCache {
    known: HashMap<String, CachedProgram>,
    bytes: u64,
    bytes_max: u64,
    /// The number of requests so far.
    requests: u64,
}

#[derive(Debug)]
struct CachedProgram {
    program: ClientProgram,
    /// The number of the last request for it.
    asked: u64,
}

/// A program that a client sent.
#[derive(Debug, Clone)]
pub(super) struct ClientProgram {
    pub(super) benchmark: Benchmark,
    /// Where its build command makes the executable, if that is not the scratch folder.
    pub(super) made_at: Option<PathBuf>,
    /// Whether its build command has made an executable of it as it came.
    is_built: Arc<AtomicBool>,
}

impl ClientProgram {
    /// Whether it has a command that builds it and has not built it yet.
    pub(super) fn is_unbuilt(&self) -> bool {
        let execution = self.benchmark.execution.as_ref();
        execution.is_some_and(|execution| matches!(execution.build, Build::Command(_)))
            && !self.is_built.load(Ordering::Relaxed)
    }

    /// Its command has built it.
    pub(super) fn set_built(&self) {
        self.is_built.store(true, Ordering::Relaxed);
    }

    fn bytes(&self) -> u64 {
        self.benchmark.program.len() as u64
    }
}

impl Benchmarks {
    /// An empty cache. `reads_files` says that a client may name programs by their paths, which
    /// nobody on another machine should.
    pub(super) fn new(reads_files: bool) -> Self {
        let known = HashMap::new();
        let cache =
            Mutex::new(BenchmarkCache { known, bytes: 0, bytes_max: BYTES_MAX, requests: 0 });
        Self { cache, reads_files }
    }

    fn cache(&self) -> MutexGuard<'_, BenchmarkCache> {
        self.cache.lock()
    }

    /// Returns the benchmark of a request: the program that comes with it, which is kept, or the
    /// one that is known by its URI.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND` if the client has to send the program; `INVALID_ARGUMENT` if it cannot be used.
    pub(super) fn of_request(&self, sent: proto::Benchmark) -> Result<ClientProgram, Status> {
        if sent.uri.is_empty() {
            return Err(Status::invalid_argument(
                "No benchmark URI set for StartSession(): name the benchmark",
            ));
        }
        if sent.program.is_some() {
            return self.add(sent);
        }
        let mut cache = self.cache();
        cache.requests += 1;
        let asked = cache.requests;
        let known = cache.known.get_mut(&sent.uri).map(|known| {
            known.asked = asked;
            known.program.clone()
        });
        known.ok_or_else(|| {
            Status::not_found(format!("Benchmark not found: {}: send its program", sent.uri))
        })
    }

    /// Keeps a program. It takes the place of an earlier one of the same URI. An empty one is kept
    /// too: its environment says what it lacks.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT` if there is no program, and those of its file.
    pub(super) fn add(&self, sent: proto::Benchmark) -> Result<ClientProgram, Status> {
        let data = sent.program.and_then(|program| program.data);
        let program = match data {
            Some(proto::file::Data::Contents(contents)) => contents,
            Some(proto::file::Data::Uri(uri)) if self.reads_files => read(&uri)?,
            Some(proto::file::Data::Uri(uri)) => {
                return Err(Status::invalid_argument(format!(
                    "a program is at {uri}: this service reads no files, since other machines reach it or \
                     tokens have rights; send the program"
                )));
            }
            None => {
                return Err(Status::invalid_argument(format!(
                    "No program set in Benchmark {}: send its contents, or the URI of its file",
                    sent.uri
                )));
            }
        };
        let program: Arc<[u8]> = program.into();
        let uri = named(&sent.uri, &program);
        let wanted = execution::execution_of(sent.dynamic_config);
        let RequestedExecution { execution, made_at } = wanted.unwrap_or_default();
        let execution = execution.or_else(|| execution::own_execution(uri.dataset(), uri.path()));
        let benchmark = Benchmark { uri, program, provenance: Provenance::default(), execution };
        let program = ClientProgram { benchmark, made_at, is_built: Arc::default() };
        Ok(self.cache().insert(&sent.uri, program))
    }

    /// The bytes of all programs.
    pub(super) fn bytes(&self) -> u64 {
        self.cache().bytes
    }

    /// The most bytes of all programs.
    pub(super) fn bytes_max(&self) -> u64 {
        self.cache().bytes_max
    }

    /// Sets the most bytes of all programs, and forgets what is too much.
    pub(super) fn set_bytes_max(&self, bytes_max: u64) {
        let mut cache = self.cache();
        cache.bytes_max = bytes_max;
        cache.shrink(None);
    }
}

impl BenchmarkCache {
    /// Keeps a program, and returns it. The same one once more is built as far as it was.
    fn insert(&mut self, uri: &str, mut program: ClientProgram) -> ClientProgram {
        self.requests += 1;
        if let Some(before) = self.known.remove(uri) {
            self.bytes -= before.program.bytes();
            let is_same = before.program.benchmark == program.benchmark
                && before.program.made_at == program.made_at;
            if is_same {
                program = before.program;
            }
        }
        self.bytes += program.bytes();
        let known = CachedProgram { program: program.clone(), asked: self.requests };
        self.known.insert(uri.to_owned(), known);
        self.shrink(Some(uri));
        program
    }

    /// Forgets programs until the others fit, but never `kept`, which a client is about to start.
    fn shrink(&mut self, kept: Option<&str>) {
        while self.bytes > self.bytes_max {
            let others = self.known.iter().filter(|(uri, _)| Some(uri.as_str()) != kept);
            let oldest = others.min_by_key(|(_, known)| known.asked).map(|(uri, _)| uri.clone());
            let Some(oldest) = oldest else { break };
            if let Some(known) = self.known.remove(&oldest) {
                self.bytes -= known.program.bytes();
            }
        }
    }
}

/// Reads the file of a program on this machine. Clients know the first words of the errors.
fn read(uri: &str) -> Result<Vec<u8>, Status> {
    let Some(path) = uri.strip_prefix("file:///") else {
        return Err(Status::invalid_argument(format!(
            "Invalid benchmark data URI. Only the file:/// scheme is supported: \"{uri}\""
        )));
    };
    let path = &format!("/{}", path.trim_start_matches('/'));
    if !Path::new(path).is_file() {
        return Err(Status::not_found(format!("File not found: \"{path}\"")));
    }
    let program = fs::read(path)
        .map_err(|error| Status::not_found(format!("Error reading file: \"{path}\": {error}")))?;
    if program.is_empty() {
        return Err(Status::invalid_argument(format!("File is empty: \"{path}\"")));
    }
    Ok(program)
}

/// Returns the name of a client's program in steplake. Any text is a name to a client; one that is
/// no URI of a benchmark is replaced by a digest of the program.
fn named(uri: &str, program: &[u8]) -> BenchmarkUri {
    uri.parse().unwrap_or_else(|_no_uri| {
        let digest = blake3::hash(program).to_hex();
        let uri = format!("benchmark://compiler_gym-client-v0/{}", &digest[..40]);
        uri.parse().expect("it has a scheme, a dataset and a path")
    })
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    fn sent(uri: &str, program: Option<&[u8]>) -> proto::Benchmark {
        let data = program.map(|bytes| proto::file::Data::Contents(bytes.to_vec()));
        let program = data.map(|data| proto::File { data: Some(data) });
        proto::Benchmark { uri: uri.to_owned(), program, dynamic_config: None }
    }

    #[test]
    fn a_program_is_sent_once() {
        let known = Benchmarks::new(true);
        let ask = || known.of_request(sent("benchmark://user-v0/a", None));
        assert_eq!(ask().unwrap_err().code(), Code::NotFound);
        known.add(sent("benchmark://user-v0/a", Some(b"one"))).unwrap();
        assert_eq!(&*ask().unwrap().benchmark.program, b"one");
        known.of_request(sent("benchmark://user-v0/a", Some(b"other"))).unwrap();
        assert_eq!(&*ask().unwrap().benchmark.program, b"other");
        assert_eq!(known.bytes(), 5);
    }

    #[test]
    fn a_program_is_built_once_however_often_it_is_sent() {
        let known = Benchmarks::new(true);
        let build = |line: &str| {
            let argument = line.split(' ').map(str::to_owned).collect();
            let build_cmd = Some(proto::Command { argument, ..proto::Command::default() });
            let dynamic_config =
                Some(proto::BenchmarkDynamicConfig { build_cmd, ..Default::default() });
            let program = sent("benchmark://user-v0/a", Some(b"one"));
            known.add(proto::Benchmark { dynamic_config, ..program }).unwrap()
        };
        let first = build("$CC $IN");
        assert!(first.is_unbuilt());
        first.set_built();
        assert!(!build("$CC $IN").is_unbuilt());
        assert!(build("$CC $IN -O1").is_unbuilt());
        assert_eq!(known.bytes(), 3);
        let unbuildable = known.add(sent("benchmark://user-v0/b", Some(b"two"))).unwrap();
        assert!(!unbuildable.is_unbuilt());
    }

    #[test]
    fn what_was_not_asked_for_in_the_longest_time_goes_first() {
        let known = Benchmarks::new(true);
        for uri in ["benchmark://b/1", "benchmark://b/2", "benchmark://b/3"] {
            known.add(sent(uri, Some(&[0; 10]))).unwrap();
        }
        known.of_request(sent("benchmark://b/1", None)).unwrap();
        known.set_bytes_max(20);
        assert_eq!(known.bytes(), 20);
        let has = |uri| known.of_request(sent(uri, None)).is_ok();
        assert_eq!([has("benchmark://b/1"), has("benchmark://b/2")], [true, false]);
        // The last one is there, however large.
        known.add(sent("benchmark://b/4", Some(&[0; 100]))).unwrap();
        assert!(has("benchmark://b/4") && known.bytes() == 100);
    }

    #[test]
    fn what_is_no_program_is_refused_in_the_words_of_the_original() {
        let known = Benchmarks::new(true);
        let file_of = |known: &Benchmarks, uri: &str| {
            let data = Some(proto::file::Data::Uri(uri.to_owned()));
            let program = Some(proto::File { data });
            known.add(proto::Benchmark { program, ..sent("benchmark://b/1", None) }).unwrap_err()
        };
        let file = |uri| file_of(&known, uri);
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.bc");
        fs::write(&empty, "").unwrap();
        let (wrong, missing) = (Code::InvalidArgument, Code::NotFound);
        let no_scheme = "Invalid benchmark data URI. Only the file:/// scheme is supported: ";
        let [http, relative] =
            ["http://a/b.bc", "file://b.bc"].map(|uri| format!("{no_scheme}\"{uri}\""));
        let other = file_of(&Benchmarks::new(false), "file:///etc/passwd");
        let refusals = [
            (known.add(sent("benchmark://b/1", None)).unwrap_err(), wrong, "No program set"),
            (known.of_request(sent("", None)).unwrap_err(), wrong, "No benchmark URI set"),
            (file("file:///no/such.bc"), missing, "File not found: \"/no/such.bc\""),
            (file("file:////no/such.bc"), missing, "File not found: \"/no/such.bc\""),
            (file(&format!("file://{}", folder.path().display())), missing, "File not found: "),
            (file(&format!("file://{}", empty.display())), wrong, "File is empty: \"/"),
            (file("http://a/b.bc"), wrong, http.as_str()),
            (file("file://b.bc"), wrong, relative.as_str()),
            (other, wrong, "a program is at file:///etc/passwd: "),
        ];
        for (refused, code, text) in refusals {
            assert_eq!(refused.code(), code, "{refused:?}");
            assert!(refused.message().starts_with(text), "{}", refused.message());
        }
    }

    #[test]
    fn every_name_of_a_client_is_a_name_here() {
        assert_eq!(named("benchmark://a/b?x=1", b"p").as_str(), "benchmark://a/b?x=1");
        let other = named("proto:///a.pb", b"p");
        assert_eq!(other.dataset(), "compiler_gym-client-v0");
        assert_ne!(other, named("proto:///a.pb", b"q"));
    }
}
