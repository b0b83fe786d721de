//! Tests against a server that the test starts: nothing here needs a network.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::dataset::PublishedDataset;
use super::definition::{PublishedDefinition, definitions, parsed};
use super::fetch::*;
use crate::datasets::cache::stored::hex;
use crate::datasets::tools::command::{ForeignTool, ToolRun};
use crate::datasets::{Dataset, DatasetError, ProgramCache};
use steplake_model::{BenchmarkUri, Classified as _, Remedy};

/// A server of files, which remembers what it was asked for. The first folder of a path says how
/// it behaves.
struct FileServer {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FileServer {
    fn of(folder: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::default();
        let log: Arc<Mutex<Vec<String>>> = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // A client that is gone is none of the server's business.
                answer(stream.unwrap(), &folder, &log).ok();
            }
        });
        Self { address, asked }
    }

    /// Returns what was asked for since the last call: the path, and the begin of the range.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }
}

fn answer(stream: TcpStream, folder: &Path, log: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let headers = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
    let ranges: Vec<String> = headers
        .filter_map(|line| {
            Some(line.strip_prefix("Range: bytes=")?.trim_end_matches('-').to_owned())
        })
        .collect();
    let start: usize = ranges.first().map_or(0, |start| start.parse().unwrap());
    let times = {
        let mut log = log.lock();
        log.push(if start == 0 { path.clone() } else { format!("{path} from {start}") });
        log.iter().filter(|asked| asked.starts_with(&path)).count()
    };
    let (behaviour, name) = path.trim_start_matches('/').split_once('/').unwrap_or(("", ""));
    let mut stream = stream;
    let content = fs::read(folder.join(name)).unwrap_or_default();
    let status = match behaviour {
        "busy" if times < 3 => "503 Service Unavailable",
        "full" if times < 2 => "429 Too Many Requests",
        "none" => "404 Not Found",
        _ if start >= content.len() => "416 Range Not Satisfiable",
        "whole" => "200 OK",
        _ if start > 0 => "206 Partial Content",
        _ => "200 OK",
    };
    let mut body = match status.as_bytes()[0] {
        b'2' if behaviour == "whole" => content.clone(),
        b'2' => content[start..].to_vec(),
        _ => Vec::new(),
    };
    if behaviour == "wrong" {
        for byte in &mut body {
            *byte ^= 1;
        }
    }
    let length = body.len();
    if behaviour == "cut" && start == 0 {
        body.truncate(length / 2);
    }
    let range = format!("{start}-{}/{}", content.len().saturating_sub(1), content.len());
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nContent-Range: bytes {range}\r\n\
         Connection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

/// A folder with a file `file`, a server of it, and an empty cache.
struct ServedFolder {
    folder: tempfile::TempDir,
    server: FileServer,
    cache: ProgramCache,
    remote: Download,
}

const CONTENT: &[u8] = &[7; 10_000];

impl ServedFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = folder.path().join("files");
        fs::create_dir(&files).unwrap();
        fs::write(files.join("file"), CONTENT).unwrap();
        let server = FileServer::of(files);
        let cache = ProgramCache::new(folder.path().join("cache"));
        Self { remote: remote(CONTENT, &[&server.address]), folder, server, cache }
    }

    fn fetch(&self, behaviours: &[&str]) -> Result<Vec<u8>, String> {
        let at = |behaviour: &&str| format!("{}/{behaviour}/file", self.server.address);
        let urls = behaviours.iter().map(at).collect();
        let remote = Download { urls, ..self.remote.clone() };
        let path = fetched(&self.cache, &[], &remote, "benchmark://set-v0");
        path.map(|path| fs::read(path).unwrap()).map_err(|error| error.to_string())
    }

    fn partial(&self) -> PathBuf {
        self.cache.folder("downloads").unwrap().join(format!("{}.partial", self.remote.sha256))
    }
}

fn remote(content: &[u8], urls: &[&str]) -> Download {
    let sha256 = hex(&Sha256::digest(content));
    Download { urls: urls.iter().map(|&url| url.to_owned()).collect(), sha256 }
}

#[test]
fn an_interrupted_download_goes_on_where_it_ended() {
    let place = ServedFolder::new();
    assert_eq!(place.fetch(&["cut"]).unwrap(), CONTENT);
    assert_eq!(place.server.asked(), ["/cut/file", "/cut/file from 5000"]);
    // Now it is here.
    assert_eq!(place.fetch(&["none"]).unwrap(), CONTENT);
    assert_eq!(place.server.asked(), [""; 0]);
    // A killed process leaves a part behind, which may be any length.
    for (length, asked) in [(3000, "/good/file from 3000"), (0, "/good/file")] {
        let place = ServedFolder::new();
        fs::write(place.partial(), &CONTENT[..length]).unwrap();
        assert_eq!(place.fetch(&["good"]).unwrap(), CONTENT);
        assert_eq!(place.server.asked(), [asked]);
        assert!(!place.partial().exists());
    }
}

#[test]
fn a_part_that_does_not_belong_to_the_file_is_thrown_away() {
    for part in [vec![8; 3000], vec![8; 10_000], vec![8; 20_000]] {
        let place = ServedFolder::new();
        fs::write(place.partial(), part).unwrap();
        assert_eq!(place.fetch(&["good"]).unwrap(), CONTENT);
        assert_eq!(place.server.asked().last().unwrap(), "/good/file");
    }
    // What was fetched from its begin is not fetched from there again.
    let place = ServedFolder::new();
    fs::write(place.partial(), vec![8; 20_000]).unwrap();
    place.fetch(&["wrong"]).unwrap_err();
    assert_eq!(place.server.asked().last().unwrap(), "/wrong/file");
    assert!(place.fetch(&["wrong"]).is_err() && place.server.asked() == ["/wrong/file"]);
    // What lacked nothing but its name is not asked for.
    let place = ServedFolder::new();
    fs::write(place.partial(), CONTENT).unwrap();
    assert_eq!(place.fetch(&["none"]).unwrap(), CONTENT);
    assert_eq!(place.server.asked(), [""; 0]);
    // A server without ranges sends the whole.
    let place = ServedFolder::new();
    fs::write(place.partial(), &CONTENT[..3000]).unwrap();
    assert_eq!(place.fetch(&["whole"]).unwrap(), CONTENT);
}

#[test]
fn a_busy_server_is_asked_again_and_others_are_left() {
    let place = ServedFolder::new();
    assert_eq!(place.fetch(&["busy"]).unwrap(), CONTENT);
    assert_eq!(place.server.asked(), ["/busy/file"; 3]);
    let place = ServedFolder::new();
    assert_eq!(place.fetch(&["full"]).unwrap(), CONTENT);
    assert_eq!(place.server.asked(), ["/full/file"; 2]);
    let place = ServedFolder::new();
    assert_eq!(place.fetch(&["none", "wrong", "good"]).unwrap(), CONTENT);
    assert_eq!(place.server.asked(), ["/none/file", "/wrong/file", "/good/file"]);
}

#[test]
fn wrong_content_is_refused_and_every_answer_is_said() {
    let place = ServedFolder::new();
    let error = place.fetch(&["none", "wrong"]).unwrap_err();
    for said in [
        "benchmark://set-v0 ",
        "/none/file: ",
        "error: 404; ",
        "/wrong/file: its SHA-256 is ",
        "was downloaded, but its content is not what was published: ",
        &format!(", not {}", place.remote.sha256),
    ] {
        assert!(error.contains(said), "{said}: {error}");
    }
    assert!(!error.contains('\n') && !place.partial().exists());
    assert_eq!(place.server.asked(), ["/none/file", "/wrong/file"]);
    // Only where no address has the file, the network may be to blame.
    let place = ServedFolder::new();
    let error = place.fetch(&["none", "none"]).unwrap_err();
    let begin = "benchmark://set-v0 cannot be downloaded (is there a network? STEPLAKE_MIRRORS can";
    assert!(error.starts_with(begin), "{error}");
}

#[test]
fn mirrors_are_asked_first() {
    let place = ServedFolder::new();
    let server = &place.server.address;
    let mirrors = [format!("{server}/none/"), format!("{server}/good")];
    let urls = vec![format!("{server}/far/away/file")];
    let remote = Download { urls, ..place.remote.clone() };
    fetched(&place.cache, &mirrors, &remote, "x").unwrap();
    assert_eq!(place.server.asked(), ["/none/file", "/good/file"]);
    // A folder is a mirror too.
    let other = ProgramCache::new(place.folder.path().join("other"));
    let mirrors = [format!("file://{}", place.folder.path().join("files").display())];
    let path = fetched(&other, &mirrors, &remote, "x").unwrap();
    assert_eq!(fs::read(path).unwrap(), CONTENT);
    assert_eq!(place.server.asked(), [""; 0]);
}

#[test]
fn one_downloads_and_the_others_wait() {
    let place = ServedFolder::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(place.fetch(&["cut"]).unwrap(), CONTENT));
        }
    });
    assert_eq!(place.server.asked().len(), 2);
    // So does whoever finds the lock held by another process.
    let lock = place.cache.lock(&format!("download-{}", &place.remote.sha256[..16])).unwrap();
    let (done, end) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let place = &place;
        scope.spawn(move || done.send(place.fetch(&["good"]).unwrap()));
        assert!(end.try_recv().is_err());
        drop(lock);
        assert_eq!(end.recv_timeout(std::time::Duration::from_mins(10)).unwrap(), CONTENT);
    });
}

#[test]
fn a_damaged_download_is_fetched_again() {
    let place = ServedFolder::new();
    place.fetch(&["good"]).unwrap();
    fs::write(place.partial().with_extension(""), "damaged").unwrap();
    assert_eq!(place.fetch(&["good"]).unwrap(), CONTENT);
    assert_eq!(place.server.asked(), ["/good/file"; 2]);
}

fn ran(tool: &'static str, folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let tool = ForeignTool { name: tool, package: tool };
    let run = ToolRun::new(tool, "a test").folder(folder).writes(folder).args(arguments);
    run.output().unwrap()
}

/// A dataset of one kind, published in a folder that is the mirror.
fn published(folder: &Path, kind: &str, suffix: &str, files: &[(&str, &str)]) -> PublishedDataset {
    let (tree, mirror) = (folder.join("tree"), folder.join("mirror"));
    fs::create_dir_all(tree.join("set/deep")).unwrap();
    fs::create_dir_all(&mirror).unwrap();
    for (name, text) in files {
        fs::write(tree.join("set").join(name), text).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", tree.join(format!("set/link{suffix}"))).unwrap();
    ran("llvm-as-22", &tree, &["-o", "set/deep/a.bc", "set/source.ll"]);
    let names: Vec<&str> = files.iter().filter_map(|(name, _)| name.strip_suffix(suffix)).collect();
    fs::write(tree.join("list"), format!("{}\ndeep/a\nlink\n", names.join("\n"))).unwrap();
    ran("bzip2", &tree, &["list"]);
    fs::rename(tree.join("list.bz2"), mirror.join("list.bz2")).unwrap();
    ran("tar", &tree, &["-cjf", "set.tar.bz2", "set"]);
    fs::rename(tree.join("set.tar.bz2"), mirror.join("set.tar.bz2")).unwrap();
    let digest = |name: &str| remote(&fs::read(mirror.join(name)).unwrap(), &[]).sha256;
    let (archive, list) = (digest("set.tar.bz2"), digest("list.bz2"));
    let text = format!(
        r#"[{{ "name": "set-v0", "uri": "benchmark://set-v0", "example": "benchmark://set-v0",
             "description": "A set", "licence": "MIT", "size": 2, "folder": "set",
             "archive": {{ "urls": ["http://127.0.0.1:1/set.tar.bz2"], "sha256": "{archive}" }},
             "manifest": {{ "urls": ["http://127.0.0.1:1/list.bz2"], "sha256": "{list}" }},
             "suffix": "{suffix}", "kind": "{kind}", "families": "programs" }}]"#
    );
    let definitions: &'static [_] = parsed(text.leak()).unwrap().leak();
    let cache = ProgramCache::new(folder.join("cache"));
    PublishedDataset::new(&cache, &[format!("file://{}", mirror.display())], &definitions[0])
}

const TEXT: &str = "define i32 @f(i32 %x) {\n  ret i32 %x\n}\n";

fn uri(name: &str) -> BenchmarkUri {
    format!("benchmark://set-v0/{name}").parse().unwrap()
}

#[test]
fn an_archive_of_bitcode_becomes_benchmarks() {
    let folder = tempfile::tempdir().unwrap();
    let files = [("source.ll", TEXT), ("text.bc", TEXT), ("bad.bc", "neither\n")];
    let set = published(folder.path(), "bitcode", ".bc", &files);
    let all = set.expand("").unwrap();
    assert_eq!(all, ["text", "bad", "deep/a", "link"].map(uri));
    assert_eq!(set.expand("deep").unwrap(), [uri("deep/a")]);
    assert_eq!(set.expand("*t").unwrap(), [uri("text")]);
    let bitcode = set.benchmark(&uri("deep/a")).unwrap();
    let file = folder.path().join("tree/set/deep/a.bc");
    assert_eq!(&bitcode.program[..], fs::read(&file).unwrap());
    assert_eq!(bitcode.provenance.family, "set/deep/a");
    assert!(bitcode.provenance.origin.ends_with(", set/deep/a.bc"));
    assert_eq!(&set.benchmark(&uri("text")).unwrap().program[..2], b"BC");
    let error = set.benchmark(&uri("bad")).unwrap_err();
    assert!(matches!(error, DatasetError::DoesNotCompile { .. }), "{error}");
    // Links are not followed, and nothing outside is read.
    for name in ["link", "nothing"] {
        let error = set.benchmark(&uri(name)).unwrap_err();
        let remedy = Some(Remedy::Benchmarks("benchmark://set-v0".to_owned()));
        assert_eq!(error.remedy(), remedy, "{error}");
    }
    assert!(set.resolve(&uri("../secret")).is_err() && set.resolve(&uri("a//b")).is_err());
}

#[test]
fn damage_in_the_cache_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let set = published(folder.path(), "bitcode", ".bc", &[("source.ll", TEXT)]);
    let (contents, path, content) = set.file(&uri("deep/a")).unwrap();
    let file = contents.root.join(path);
    fs::write(&file, "damaged").unwrap();
    assert_eq!(set.file(&uri("deep/a")).unwrap().2, content);
    // Even if the archive is damaged too.
    fs::write(&file, "damaged").unwrap();
    let downloads = folder.path().join("cache/downloads");
    for entry in fs::read_dir(downloads).unwrap() {
        fs::write(entry.unwrap().path(), "damaged").unwrap();
    }
    assert_eq!(set.file(&uri("deep/a")).unwrap().2, content);
    fs::remove_dir_all(&contents.root).unwrap();
    assert_eq!(set.file(&uri("deep/a")).unwrap().2, content);
}

#[test]
fn sources_are_compiled_on_demand() {
    for (kind, suffix, text, function) in [
        ("c", ".c", "int f(int x) { return x; }\n", "@f"),
        ("opencl", ".cl", "kernel void f(global int *x) { x[get_global_id(0)] = 1; }\n", "@f"),
        ("solution", ".txt", "main() { vector<int> v(LEN); cout << v.size(); }\n", "@main"),
        ("solution", ".txt", "int n;\nvoid main() { cin >> n; }\n", "@main"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("one{suffix}");
        let set = published(folder.path(), kind, suffix, &[("source.ll", TEXT), (&name, text)]);
        let benchmark = set.benchmark(&uri("one")).unwrap();
        fs::write(folder.path().join("one.bc"), &benchmark.program).unwrap();
        let text = ran("llvm-dis-22", folder.path(), &["-o", "-", "one.bc"]);
        assert!(String::from_utf8_lossy(&text).contains(function), "{kind}");
        assert!(benchmark.provenance.compile_command.starts_with("clang"), "{kind}");
    }
}

/// What is included is part of the program as much as the file itself.
#[test]
fn damage_in_an_included_file_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        ("source.ll", TEXT),
        ("n.h", "#define N one\n"),
        ("one.c", "#include \"deep/../n.h\"\nint N(void) { return 1; }\n"),
    ];
    let set = published(folder.path(), "c", ".c", &files);
    let header = set.file(&uri("one")).unwrap().0.root.join("set/n.h");
    fs::write(&header, "#define N two\n").unwrap();
    let benchmark = set.benchmark(&uri("one")).unwrap();
    fs::write(folder.path().join("one.bc"), &benchmark.program).unwrap();
    let text = ran("llvm-dis-22", folder.path(), &["-o", "-", "one.bc"]);
    assert!(String::from_utf8_lossy(&text).contains("@one"));
    assert_eq!(fs::read(&header).unwrap(), b"#define N one\n");
}

#[test]
fn what_is_one_work_is_one_family() {
    let family = |dataset: &str, program: &str| {
        let all = definitions().iter().map(|(definition, _)| definition);
        all.into_iter().find(|known| known.name == dataset).unwrap().family(program)
    };
    for (expected, members) in [
        ("mibench/jpeg", &["cbench-v1 jpeg-c", "cBench-v0 jpeg-d", "mibench-v1 jpeg-c"][..]),
        ("mibench/tiff", &["cbench-v1 tiff2bw", "cbench-v1 tiffdither", "mibench-v0 tiffmedian-4"]),
        ("mibench/stringsearch", &["cbench-v1 stringsearch", "cbench-v1 stringsearch2"]),
        ("mibench/qsort", &["cbench-v1 qsort", "mibench-v1 qsort1"]),
        ("mibench/lame", &["cbench-v1 lame", "mibench-v1 lame-newmdct-1"]),
        ("mibench/susan", &["cBench-v1 susan", "mibench-v1 susan-e-2"]),
        ("mibench/sha", &["cbench-v1 sha", "mibench-v1 sha", "chstone-v0 sha"]),
        ("chstone/mips", &["chstone-v0 mips"]),
        ("blas", &["blas-v0 1", "blas-v0 2"]),
        ("poj104", &["poj104-v1 1/2"]),
    ] {
        for member in members {
            let (dataset, program) = member.split_once(' ').unwrap();
            assert_eq!(family(dataset, program), expected, "{member}");
        }
    }
}

#[test]
fn the_definitions_are_whole() {
    let all = definitions();
    let current = all.iter().filter(|(definition, _)| definition.successor.is_none());
    let sizes: Vec<u64> = current.map(|(definition, _)| definition.size.unwrap()).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<u64>()), (13, 1_177_462));
    for (definition, _) in all {
        let PublishedDefinition { name, uri, manifest, programs, successor, .. } = definition;
        assert_eq!(*uri, format!("benchmark://{name}"));
        assert_eq!(manifest.is_some(), programs.is_empty(), "{name}");
        for remote in manifest.iter().chain([&definition.archive]) {
            assert!(remote.urls.iter().all(|url| url.starts_with("https://")), "{name}");
            let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            assert!(remote.sha256.len() == 64 && remote.sha256.bytes().all(is_digit), "{name}");
        }
        let is_there = |wanted: &String| all.iter().any(|(other, _)| other.name == wanted.as_str());
        assert!(successor.as_ref().is_none_or(is_there), "{name}");
    }
}
