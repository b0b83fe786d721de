//! Programs from every dataset, with real tools; nothing here needs a network.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test ends it")]

mod debian;
mod files;
mod generators;
mod own_programs;

use std::path::Path;
use std::process::Command;

use steplake::datasets::{DatasetFolders, Datasets};
use steplake::model::{Benchmark, BenchmarkUri};
use tempfile::TempDir;

use crate::fixtures::programs::{InTime as _, program};

/// Datasets over an empty cache; no Debian repositories.
struct Fixture {
    folder: TempDir,
    datasets: Datasets,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let datasets = datasets_in(folder.path());
        Self { folder, datasets }
    }

    /// The message of what goes wrong with a pattern.
    fn complaint(&self, pattern: &str) -> String {
        let message = self.datasets.expand(pattern).unwrap_err().to_string();
        assert!(!message.contains('\n'), "{message}");
        message
    }
}

fn datasets_in(folder: &Path) -> Datasets {
    let (cache, apt_sources) = (folder.join("cache"), folder.join("apt"));
    Datasets::new(&DatasetFolders { cache, apt_sources, mirrors: Vec::new() })
}

fn uri(text: &str) -> BenchmarkUri {
    text.parse().unwrap()
}

fn command(name: &str) -> Command {
    program(name)
}

/// What a program prints; it must succeed.
fn output(command: &mut Command) -> String {
    let output = command.output_in_time();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A program as LLVM's text: bitcode packs its strings.
fn text_of(benchmark: &Benchmark) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &benchmark.program).unwrap();
    output(command("llvm-dis-22").args(["-o", "-"]).arg(file.path()))
}

#[test]
fn an_unknown_dataset_is_answered_with_those_that_there_are() {
    let fixture = Fixture::new();
    let known = "known are benchmark://steplake-v0, benchmark://steplake-bench-v0, \
                 benchmark://debian-v0, generator://csmith-v0, generator://llvm-stress-v0, file://, \
                 benchmark://anghabench-v1, benchmark://blas-v0, benchmark://cbench-v1, \
                 benchmark://chstone-v0, benchmark://clgen-v0, benchmark://github-v0, \
                 benchmark://jotaibench-v0, benchmark://linux-v0, benchmark://mibench-v1, \
                 benchmark://npb-v0, benchmark://opencv-v0, benchmark://poj104-v1, \
                 benchmark://tensorflow-v0; other environments have others";
    for (pattern, hint) in [
        ("generator://csmith-v1/3", " (did you mean `generator://csmith-v0`?)"),
        ("benchmark://csmith-v0/3", " (did you mean `generator://csmith-v0`?)"),
        ("benchmark://quite-another/x", ""),
    ] {
        let dataset = pattern.rsplit_once('/').unwrap().0;
        let expected = format!("there is no dataset `{dataset}`{hint}: {known}");
        assert_eq!(fixture.complaint(pattern), expected);
    }
}

/// Others must not give a program of theirs such a name.
#[test]
fn every_dataset_is_known_by_its_uri() {
    let fixture = Fixture::new();
    let known = ["benchmark://cbench-v1", "benchmark://cBench-v0", "benchmark://poj104-v1"];
    for uri in known.iter().chain(&["benchmark://steplake-v0", "generator://csmith-v0"]) {
        assert!(fixture.datasets.has(uri), "{uri}");
    }
    assert!(!fixture.datasets.has("benchmark://compiler_gym-cbench-v1"));
}

#[test]
fn what_is_neither_a_uri_nor_a_file_is_said_to_be_none() {
    let fixture = Fixture::new();
    for named in ["zlib", ""] {
        let said = fixture.complaint(named);
        let wanted =
            format!("there is no benchmark `{named}`: there is no such file, and it is no");
        assert!(said.starts_with(&wanted), "{said}");
    }
    let file = fixture.folder.path().join("a.c");
    std::fs::write(&file, "").unwrap();
    let file = file.canonicalize().unwrap();
    let named = fixture.datasets.expand(file.to_str().unwrap()).unwrap();
    assert_eq!(named, [uri(&format!("file://{}", file.display()))]);
}

#[test]
fn several_patterns_give_each_benchmark_once() {
    let fixture = Fixture::new();
    let patterns =
        ["generator://csmith-v0/2..4", "generator://csmith-v0/0..3", "generator://csmith-v0/03"];
    let uris = fixture.datasets.expand_all(patterns).unwrap();
    let seeds: Vec<&str> = uris.iter().map(BenchmarkUri::path).collect();
    assert_eq!(seeds, ["2", "3", "4", "0", "1"]);
}

#[test]
fn a_cache_that_cannot_be_written_is_one_clear_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("cache"), "a file where the folder should be").unwrap();
    let datasets = datasets_in(folder.path());
    let error =
        datasets.benchmark(&uri("benchmark://steplake-v0/huffman")).unwrap_err().to_string();
    assert!(error.starts_with("the cache at `") && error.contains("set STEPLAKE_CACHE"), "{error}");
}
