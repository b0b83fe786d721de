//! `benchmark://steplake-v0`, and the programs themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use steplake::model::BenchmarkUri;

use super::{Fixture, command, datasets_in, output, text_of, uri};

const DATASET: &str = "benchmark://steplake-v0";

fn sources() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/programs");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "c")).collect();
    sources.sort();
    sources
}

/// The ways in which a program is compiled. The C standard leaves the order in which a call's
/// arguments are evaluated to the compiler: clang goes from left to right, GCC from right to left,
/// and other places of GCC's change with the sanitizers.
const WAYS: [(&str, &[&str]); 11] = [
    ("clang-22", &["-O0"]),
    ("clang-22", &["-O2"]),
    ("clang-22", &SANITIZED),
    ("gcc", &["-O0"]),
    ("gcc", &["-O1"]),
    ("gcc", &["-O2"]),
    ("gcc", &["-O3"]),
    ("gcc", &["-Os"]),
    ("gcc", &["-Oz"]),
    ("gcc", &["-Og"]),
    ("gcc", &SANITIZED),
];

const SANITIZED: [&str; 3] =
    ["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"];

/// Compiles and runs a program and compares what it prints.
fn runs_as_expected(source: &Path, (tool, flags): (&str, &[&str]), folder: &Path) {
    let name = source.file_stem().unwrap().to_str().unwrap();
    let program = folder.join(name);
    let mut compiler = command(tool);
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror"]).args(flags).arg(source);
    output(compiler.arg("-o").arg(&program));
    let expected = fs::read_to_string(source.with_extension("expected")).unwrap();
    let printed = output(&mut command(program.to_str().unwrap()));
    assert_eq!(printed, expected, "{name} by {tool} {}", flags.join(" "));
}

#[test]
fn every_program_prints_what_it_should_whatever_compiles_it() {
    let folder = tempfile::tempdir().unwrap();
    let sources = sources();
    assert!(sources.len() >= 25, "{}", sources.len());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(source) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for way in WAYS {
                        runs_as_expected(source, way, folder.path());
                    }
                }
            });
        }
    });
}

#[test]
fn the_dataset_is_the_folder() {
    let fixture = Fixture::new();
    let expected: Vec<String> = sources()
        .iter()
        .map(|path| format!("{DATASET}/{}", path.file_stem().unwrap().to_str().unwrap()))
        .collect();
    for pattern in [DATASET.to_owned(), format!("{DATASET}/"), format!("{DATASET}/*")] {
        let uris = fixture.datasets.expand(&pattern).unwrap();
        assert!(uris.iter().map(BenchmarkUri::as_str).eq(&expected), "{pattern}");
    }
    let about = fixture.datasets.about().find(|about| about.uri == DATASET).unwrap();
    assert_eq!(about.size, Some(expected.len() as u64));
}

#[test]
fn globs_and_names() {
    let fixture = Fixture::new();
    let expand = |pattern: &str| -> Vec<String> {
        let uris = fixture.datasets.expand(&format!("{DATASET}/{pattern}")).unwrap();
        uris.iter().map(|uri| uri.path().to_owned()).collect()
    };
    assert_eq!(expand("huffman"), ["huffman"]);
    assert_eq!(expand("b*"), ["big_integers", "bit_tricks", "block_sorter", "blocked_matmul"]);
    assert_eq!(expand("{orbits,fourier}"), ["fourier", "orbits"]);
    assert_eq!(
        fixture.complaint(&format!("{DATASET}/hufman")),
        format!(
            "there is no benchmark `{DATASET}/hufman`: the dataset has {} programs (did you mean `huffman`?)",
            sources().len()
        )
    );
    let complaint = fixture.complaint(&format!("{DATASET}/zz*"));
    assert!(
        complaint.starts_with("`benchmark://steplake-v0/zz*` matches no benchmark: "),
        "{complaint}"
    );
    let complaint = fixture.complaint(&format!("{DATASET}/["));
    assert!(complaint.contains("cannot be read as a pattern"), "{complaint}");
}

#[test]
fn a_program_is_the_same_bytes_everywhere_and_says_where_it_is_from() {
    let (one, other) = (Fixture::new(), Fixture::new());
    let uri = uri("benchmark://steplake-v0/fourier");
    let benchmark = one.datasets.benchmark(&uri).unwrap();
    assert_eq!(benchmark, other.datasets.benchmark(&uri).unwrap());
    assert_eq!(benchmark.uri, uri);
    assert_eq!(&benchmark.program[..2], b"BC");
    let text = text_of(&benchmark);
    assert!(text.contains("source_filename = \"fourier.c\""));
    // Every pass must have work: no function and no loop is marked as not to be touched.
    assert!(!text.contains(" noinline") && !text.contains(" optnone"));
    assert!(!text.contains("llvm.loop.unroll.disable") && text.contains("llvm.loop.mustprogress"));
    assert_eq!(benchmark.provenance.family, "steplake/fourier");
    assert_eq!(benchmark.provenance.licence, "MIT");
    let command = &benchmark.provenance.compile_command;
    assert!(command.starts_with("clang-22 ") && command.ends_with(" fourier.c"), "{command}");
}

#[test]
fn a_damaged_cache_mends_itself() {
    let fixture = Fixture::new();
    let uri = uri("benchmark://steplake-v0/orbits");
    let whole = fixture.datasets.benchmark(&uri).unwrap();
    let shards = fixture.folder.path().join("cache/programs");
    let shard = fs::read_dir(shards).unwrap().next().unwrap().unwrap().path();
    let entry = fs::read_dir(shard).unwrap().next().unwrap().unwrap().path();
    let stored = fs::read(&entry).unwrap();
    let mut flipped = stored.clone();
    flipped[stored.len() / 2] ^= 0x20;
    for damaged in [&[][..], &stored[..stored.len() / 2], &flipped] {
        fs::write(&entry, damaged).unwrap();
        assert_eq!(datasets_in(fixture.folder.path()).benchmark(&uri).unwrap(), whole);
        assert_eq!(fs::read(&entry).unwrap(), stored);
    }
}

#[test]
fn installing_makes_everything_once() {
    let fixture = Fixture::new();
    let mut made = Vec::new();
    let pattern = format!("{DATASET}/l*");
    let count =
        fixture.datasets.install(&pattern, &mut |uri, all| made.push((uri.path().to_owned(), all)));
    assert_eq!(count.unwrap(), 2);
    assert_eq!(made, [("list_merge_sort".to_owned(), 2), ("lu_solver".to_owned(), 2)]);
}
